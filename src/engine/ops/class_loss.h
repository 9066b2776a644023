// SPDX-License-Identifier: Apache-2.0
// Losses whose target is a class: cross entropy and the negative log-likelihood. With scores
// x[N,C,…], targets t[N,…] and class weights w[C] (1 where there are none), each position that is
// not ignored contributes with weight w[t]; MEAN divides by the sum of these weights, so that it
// is 0/0 where everything is ignored, as in PyTorch.
#ifndef PLB_ENGINE_OPS_CLASS_LOSS_H
#define PLB_ENGINE_OPS_CLASS_LOSS_H

#include "engine/ops/op.h"
#include "plumb/ops.h"

// What infer knows: scores, targets and, when not absent, weights fit each other.
plb_status plb_class_check(const char *op, const plb_loss_attrs *attrs, const plb_type *scores,
                           const plb_type *target, const plb_type *weight);
// Type of the loss: a scalar, or like the target.
plb_type plb_class_loss_type(const plb_loss_attrs *attrs, plb_dtype dtype, const plb_type *target);
// The whole `infer` of a loss of scores, targets and perhaps weights.
plb_status plb_class_infer(plb_signature *s, const char *op);

typedef struct plb_class_loss {
    const plb_loss_attrs *attrs;
    const plb_tensor *target, *weight; // weight NULL: ones
    int64_t classes;
    double total; // sum of the weights of all positions that are not ignored
} plb_class_loss;

// Refuses a target that is no class and not ignored (PLB_EINVAL with its place), adds up `total`.
plb_status plb_class_begin(const char *op, plb_class_loss *loss);
// The class at this position; false: ignored.
bool plb_class_at(const plb_class_loss *loss, const int64_t *position, int64_t *out_class);
double plb_class_weight(const plb_class_loss *loss, int64_t of_class);
// d loss / d (contribution of this position), from dy.
double plb_class_scale(const plb_class_loss *loss, const plb_tensor *dy, const int64_t *position);
// The whole `ref` of a loss: `at` gives what one position that is not ignored contributes.
typedef double (*plb_class_loss_at)(const plb_class_loss *loss, const plb_tensor *scores,
                                    const int64_t *position, int64_t target);
plb_status plb_class_ref(const plb_call *call, const char *op, plb_class_loss_at at);
// Offset of score [n, c, …] for position [n, …].
int64_t plb_class_offset(const plb_tensor *scores, const int64_t *position, int64_t c);

void plb_class_describe(const void *attrs, plb_strbuf *text);
// Fails the graph where somebody wants the gradient of class weights, which PyTorch lacks too.
bool plb_class_weight_refused(plb_graph *graph, const char *op, bool needed);

#endif
