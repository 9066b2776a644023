// SPDX-License-Identifier: Apache-2.0
#include "data/draw.h"

#include <math.h>
#include <stdbool.h>

float plb_segment_distance2(plb_point p, plb_point a, plb_point b) {
    float dx = b.x - a.x, dy = b.y - a.y, px = p.x - a.x, py = p.y - a.y;
    float length2 = dx * dx + dy * dy;
    float along = length2 > 0 ? (px * dx + py * dy) / length2 : 0; // of the foot of p, 0 to 1
    along = along < 0 ? 0 : along > 1 ? 1 : along;
    float ox = px - along * dx, oy = py - along * dy;
    return ox * ox + oy * oy;
}

// The distance is that of the nearest edge; p is inside if a ray from it to the right crosses an
// odd number of edges.
float plb_polygon_distance(plb_point p, const plb_point *corner, int count) {
    float nearest = INFINITY;
    bool inside = false;
    for (int i = 0; i < count; i++) {
        plb_point a = corner[i], b = corner[(i + 1) % count];
        float distance2 = plb_segment_distance2(p, a, b);
        if (distance2 < nearest) nearest = distance2;
        bool spans = (a.y > p.y) != (b.y > p.y);
        if (spans && p.x < a.x + (p.y - a.y) / (b.y - a.y) * (b.x - a.x)) inside = !inside;
    }
    return inside ? -sqrtf(nearest) : sqrtf(nearest);
}

float plb_circle_distance(plb_point p, plb_point centre, float radius) {
    float dx = p.x - centre.x, dy = p.y - centre.y;
    return sqrtf(dx * dx + dy * dy) - radius;
}

float plb_box_distance(plb_point p, float half_width, float half_height) {
    float x = fabsf(p.x) - half_width, y = fabsf(p.y) - half_height;
    if (x <= 0 || y <= 0) return x > y ? x : y;
    return sqrtf(x * x + y * y);
}
