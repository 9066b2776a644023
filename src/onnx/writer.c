// SPDX-License-Identifier: Apache-2.0
#include "onnx/writer.h"

#include <string.h>

#include "base/core/status.h"
#include "onnx/dtype.h"

void plb_onnx_writer_fail(plb_onnx_writer *w, plb_status status) {
    if (!w->status) w->status = status;
}

static void *make(plb_onnx_writer *w, size_t size_bytes) {
    void *made = w->status ? NULL : plb_arena_alloc(w->arena, size_bytes);
    if (!made && !w->status) {
        plb_onnx_writer_fail(w, plb_fail(PLB_ENOMEM, "out of memory for a message"));
    }
    return made;
}

static char *text(plb_onnx_writer *w, const char *from) {
    char *made = make(w, strlen(from) + 1);
    return made ? strcpy(made, from) : NULL;
}

static int64_t *numbers(plb_onnx_writer *w, const int64_t *values, int n) {
    int64_t *made = make(w, (size_t)n * sizeof *made + 1);
    if (made && n) memcpy(made, values, (size_t)n * sizeof *made);
    return made;
}

// Room for 4, 8, 16, … items, so that the count tells when an array is full.
void plb_onnx_append(plb_onnx_writer *w, void *array_pointer, size_t *n, void *item) {
    void **array;
    memcpy(&array, array_pointer, sizeof array);
    if (!item) return;
    if (*n == 0 || (*n >= 4 && (*n & (*n - 1)) == 0)) {
        void **wider = make(w, (*n ? 2 * *n : 4) * sizeof *wider);
        if (!wider) return;
        if (*n) memcpy(wider, array, *n * sizeof *wider);
        array = wider;
        memcpy(array_pointer, &array, sizeof array);
    }
    array[(*n)++] = item;
}

const char *plb_onnx_fresh_name(plb_onnx_writer *w, const char *base) {
    const char *name = base;
    for (int i = 2; name && plb_map_get(w->taken, name, -1) >= 0; i++) {
        name = plb_arena_printf(w->arena, "%s_%d", base, i);
    }
    plb_status status =
        name ? plb_map_set(w->taken, name, 0) : plb_fail(PLB_ENOMEM, "out of memory for a name");
    if (status) plb_onnx_writer_fail(w, status);
    return name ? name : "";
}

// ---------------------------------------------------------------------------- nodes
static Onnx__NodeProto *empty_node(plb_onnx_writer *w, const char *op) {
    Onnx__NodeProto *made = make(w, sizeof *made);
    if (!made) return NULL;
    onnx__node_proto__init(made);
    made->op_type = text(w, op);
    return made;
}

Onnx__NodeProto *plb_onnx_put(plb_onnx_writer *w, const plb_node *node, const char *op, int n_out) {
    Onnx__NodeProto *made = empty_node(w, op);
    const char *base = *node->scope ? node->scope : op;
    for (int k = 0; made && k < n_out; k++) {
        const char **name = &w->name[node->out + k];
        if (!*name) *name = plb_onnx_fresh_name(w, base);
        plb_onnx_append(w, &made->output, &made->n_output, text(w, *name));
    }
    if (!made || w->status) return NULL;
    made->name = text(w, w->name[node->out]);
    plb_onnx_append(w, &w->proto->node, &w->proto->n_node, made);
    return w->status ? NULL : made;
}

void plb_onnx_put_name(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name) {
    if (to) plb_onnx_append(w, &to->input, &to->n_input, text(w, name));
}

void plb_onnx_put_in(plb_onnx_writer *w, Onnx__NodeProto *to, plb_value value) {
    plb_onnx_put_name(w, to, value < 0 ? "" : w->name[value]);
}

static void put_numbers(plb_onnx_writer *w, Onnx__NodeProto *to, const char *what, plb_dtype dtype,
                        const plb_shape *shape, const void *bytes) {
    if (!to || w->status) return;
    const char *base = plb_arena_printf(w->arena, "%s.%s", to->name, what);
    const char *name = plb_onnx_fresh_name(w, base ? base : what);
    Onnx__TensorProto *t = plb_onnx_put_tensor(w, name, dtype, shape, bytes);
    plb_onnx_append(w, &w->proto->initializer, &w->proto->n_initializer, t);
    plb_onnx_put_name(w, to, name);
}

void plb_onnx_put_ints(plb_onnx_writer *w, Onnx__NodeProto *to, const char *what,
                       const int64_t *values, int n) {
    put_numbers(w, to, what, PLB_I64, &plb_shape_of(n), numbers(w, values, n));
}

void plb_onnx_put_scalar(plb_onnx_writer *w, Onnx__NodeProto *to, const char *what, plb_dtype dtype,
                         double value) {
    void *bytes = make(w, 8);
    if (bytes) plb_store_f64(bytes, dtype, 0, value);
    put_numbers(w, to, what, dtype, &plb_scalar_shape, bytes);
}

// ---------------------------------------------------------------------------- attributes
static Onnx__AttributeProto *attribute(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name,
                                       Onnx__AttributeProto__AttributeType type) {
    Onnx__AttributeProto *made = to ? make(w, sizeof *made) : NULL;
    if (!made) return NULL;
    onnx__attribute_proto__init(made);
    made->name = text(w, name);
    made->has_type = 1, made->type = type;
    plb_onnx_append(w, &to->attribute, &to->n_attribute, made);
    return made;
}

void plb_onnx_set_int(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name, int64_t value) {
    Onnx__AttributeProto *a = attribute(w, to, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    if (a) a->has_i = 1, a->i = value;
}

void plb_onnx_set_ints(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name,
                       const int64_t *values, int n) {
    Onnx__AttributeProto *a = attribute(w, to, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    if (a) a->ints = numbers(w, values, n), a->n_ints = (size_t)n;
}

void plb_onnx_set_float(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name, double value) {
    Onnx__AttributeProto *a = attribute(w, to, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    if (a) a->has_f = 1, a->f = (float)value;
}

void plb_onnx_set_text(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name,
                       const char *value) {
    Onnx__AttributeProto *a = attribute(w, to, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    char *copy = text(w, value);
    if (a && copy) a->has_s = 1, a->s = (ProtobufCBinaryData){strlen(copy), (uint8_t *)copy};
}

void plb_onnx_set_tensor(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name,
                         Onnx__TensorProto *tensor) {
    Onnx__AttributeProto *a = attribute(w, to, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
    if (a) a->t = tensor;
}

// ---------------------------------------------------------------------------- tensors, types
Onnx__TensorProto *plb_onnx_put_tensor(plb_onnx_writer *w, const char *name, plb_dtype dtype,
                                       const plb_shape *shape, const void *bytes) {
    Onnx__TensorProto *made = make(w, sizeof *made);
    if (!made || !bytes) return NULL;
    onnx__tensor_proto__init(made);
    made->name = text(w, name);
    made->has_data_type = 1, made->data_type = plb_onnx_dtype_number(dtype);
    made->dims = numbers(w, shape->dim, shape->rank), made->n_dims = (size_t)shape->rank;
    made->has_raw_data = 1;
    made->raw_data = (ProtobufCBinaryData){plb_layout_bytes(shape, dtype, (plb_layout){0}),
                                           (uint8_t *)(uintptr_t)bytes};
    return w->status ? NULL : made;
}

static Onnx__TensorShapeProto *put_shape(plb_onnx_writer *w, const plb_shape *shape) {
    Onnx__TensorShapeProto *made = make(w, sizeof *made);
    if (!made) return NULL;
    onnx__tensor_shape_proto__init(made);
    for (int i = 0; i < shape->rank; i++) {
        Onnx__TensorShapeProto__Dimension *d = make(w, sizeof *d);
        if (!d) return NULL;
        onnx__tensor_shape_proto__dimension__init(d);
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        d->dim_value = shape->dim[i];
        plb_onnx_append(w, &made->dim, &made->n_dim, d);
    }
    return made;
}

Onnx__ValueInfoProto *plb_onnx_put_info(plb_onnx_writer *w, const char *name, plb_type type) {
    Onnx__ValueInfoProto *made = make(w, sizeof *made);
    Onnx__TypeProto *outer = make(w, sizeof *outer);
    Onnx__TypeProto__Tensor *inner = make(w, sizeof *inner);
    if (!made || !outer || !inner) return NULL;
    onnx__value_info_proto__init(made);
    onnx__type_proto__init(outer);
    onnx__type_proto__tensor__init(inner);
    made->name = text(w, name), made->type = outer;
    outer->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE, outer->tensor_type = inner;
    inner->has_elem_type = 1, inner->elem_type = plb_onnx_dtype_number(type.dtype);
    inner->shape = put_shape(w, &type.shape);
    return w->status ? NULL : made;
}
