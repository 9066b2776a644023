// SPDX-License-Identifier: Apache-2.0
// Student's t and Fisher's F through the regularised incomplete beta function I_x(a, b), which is
// summed as the continued fraction of DLMF 8.17.22 by Lentz's method.
#include <math.h>

#include "bench/stats.h"

static double log_beta(double a, double b) {
    return lgamma(a) + lgamma(b) - lgamma(a + b);
}

// Converges fast for x < (a + 1) / (a + b + 2).
static double beta_fraction(double x, double a, double b) {
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double f = d;
    for (int m = 1; m < 2000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double step = 1;
        for (int half = 0; half < 2; half++) {
            double term = half ? odd : even;
            d = 1 + term * d, c = 1 + term / c;
            d = 1 / (fabs(d) < tiny ? tiny : d), c = fabs(c) < tiny ? tiny : c;
            step = c * d;
            f *= step;
        }
        if (fabs(step - 1) < 1e-14) break;
    }
    return f;
}

// I_x(a, b); `rest` is 1 − x, given apart so that it keeps its digits.
static double beta_regularised(double x, double rest, double a, double b) {
    if (x <= 0) return 0;
    if (rest <= 0) return 1;
    double front = exp(a * log(x) + b * log(rest) - log_beta(a, b));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(rest, b, a) / b;
}

// For many degrees of freedom the normal distribution serves, and lgamma's cancellation would not.
static const double dof_normal = 1e7;

double plb_student_tail(double t, double dof) {
    if (isnan(t) || isnan(dof) || dof <= 0) return NAN;
    if (dof > dof_normal) return 0.5 * erfc(t * M_SQRT1_2);
    double x = dof / (dof + t * t), rest = t * t / (dof + t * t);
    double half = 0.5 * beta_regularised(x, rest, dof / 2, 0.5);
    return t >= 0 ? half : 1 - half;
}

double plb_student_cdf(double t, double dof) {
    return plb_student_tail(-t, dof);
}

double plb_fisher_tail(double f, double dof1, double dof2) {
    if (isnan(f) || !(dof1 > 0) || !(dof2 > 0)) return NAN;
    if (f <= 0) return 1;
    double sum = dof2 + dof1 * f;
    return beta_regularised(dof2 / sum, dof1 * f / sum, dof2 / 2, dof1 / 2);
}

static double student_density(double t, double dof) {
    if (dof > dof_normal) return exp(-t * t / 2) * M_SQRT1_2 / sqrt(M_PI);
    return exp(-(dof + 1) / 2 * log1p(t * t / dof) - log_beta(dof / 2, 0.5)) / sqrt(dof);
}

// The normal quantile, good to about 0.0005 (Abramowitz and Stegun 26.2.23), for p < 1/2.
static double normal_start(double p) {
    double t = sqrt(-2 * log(p));
    return -(t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
}

// The first terms of Hill's and Cornish and Fisher's series (Abramowitz and Stegun 26.7.5), then
// Newton's steps, guarded by an interval that always holds the answer.
double plb_student_quantile(double p, double dof) {
    if (!(p > 0) || !(p < 1) || !(dof > 0)) return NAN;
    if (p > 0.5) return -plb_student_quantile(1 - p, dof);
    double z = normal_start(p), z2 = z * z;
    double t = z + z * (z2 + 1) / (4 * dof) + z * (5 * z2 * z2 + 16 * z2 + 3) / (96 * dof * dof);
    double low = -INFINITY, high = 0;
    if (dof < 2) t = z; // the series diverges; Newton's steps and the interval do it
    for (int i = 0; i < 200; i++) {
        double error = plb_student_cdf(t, dof) - p;
        if (error > 0)
            high = t;
        else
            low = t;
        double next = t - error / student_density(t, dof);
        if (!(next > low) || !(next < high)) {
            next = isinf(low) ? 2 * t - 1 : (low + high) / 2;
        }
        if (fabs(next - t) <= 1e-12 * fabs(next) + 1e-300) return next;
        t = next;
    }
    return t;
}
