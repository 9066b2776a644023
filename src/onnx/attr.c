// SPDX-License-Identifier: Apache-2.0
// Attributes of a node. Inside a function an attribute may stand for one of the node that calls it,
// or for the function's default.
#include <string.h>

#include "base/core/status.h"
#include "onnx/build.h"

static const Onnx__AttributeProto *find(Onnx__AttributeProto *const *list, size_t n,
                                        const char *name) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(plb_onnx_string(list[i]->name), name) == 0) return list[i];
    }
    return NULL;
}

// A function's defaults: a field that older schemas lack, so it is looked up by name.
static const Onnx__AttributeProto *default_of(const Onnx__FunctionProto *function,
                                              const char *name) {
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(
        &onnx__function_proto__descriptor, "attribute_proto");
    if (!field) return NULL;
    const char *base = (const char *)function;
    Onnx__AttributeProto *const *list;
    memcpy(&list, base + field->offset, sizeof list);
    return find(list, *(const size_t *)(base + field->quantifier_offset), name);
}

const Onnx__AttributeProto *plb_onnx_attr(const plb_onnx_node *n, const char *name) {
    const Onnx__AttributeProto *a = find(n->proto->attribute, n->proto->n_attribute, name);
    const plb_onnx_scope *scope = n->scope;
    while (a && a->ref_attr_name && *a->ref_attr_name) {
        const char *outer = a->ref_attr_name;
        while (scope && !scope->caller) scope = scope->outer ? scope->outer : scope->around;
        if (!scope) return NULL;
        const Onnx__NodeProto *caller = scope->caller->proto;
        a = find(caller->attribute, caller->n_attribute, outer);
        if (!a) a = default_of(scope->function, outer);
        scope = scope->caller->scope;
    }
    return a;
}

// What an older schema drops (a function's defaults) would change results: refused.
static plb_status check_reference(const plb_onnx_node *n, const Onnx__AttributeProto *a) {
    if (!a->ref_attr_name || !*a->ref_attr_name || plb_onnx_attr(n, plb_onnx_string(a->name)))
        return PLB_OK;
    const plb_onnx_scope *scope = n->scope;
    while (scope && !scope->caller) scope = scope->outer ? scope->outer : scope->around;
    for (size_t i = 0; scope && i < scope->function->n_attribute; i++) {
        const char *declared = plb_onnx_string(scope->function->attribute[i]);
        if (strcmp(declared, a->ref_attr_name) == 0) return PLB_OK;
    }
    return plb_fail(PLB_EINVAL, "attribute %s stands for %s, which the function does not have",
                    plb_onnx_string(a->name), a->ref_attr_name);
}

plb_status plb_onnx_check_attrs(const plb_onnx_node *n) {
    for (size_t i = 0; i < n->proto->n_attribute; i++) {
        const Onnx__AttributeProto *a = n->proto->attribute[i];
        PLB_TRY(check_reference(n, a));
        if (a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR && !a->t &&
            !a->ref_attr_name) {
            return plb_fail(PLB_EINVAL, "attribute %s: expected a tensor",
                            plb_onnx_string(a->name));
        }
        if (a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH && !a->g && !a->ref_attr_name) {
            return plb_fail(PLB_EINVAL, "attribute %s: expected a graph", plb_onnx_string(a->name));
        }
    }
    return PLB_OK;
}

bool plb_onnx_has(const plb_onnx_node *n, const char *name) {
    return plb_onnx_attr(n, name) != NULL;
}

static const char *type_name(int type) {
    static const char *const names[] = {
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT] = "a float",
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT] = "an int",
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING] = "a string",
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR] = "a tensor",
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH] = "a graph",
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS] = "floats",
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS] = "ints",
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS] = "strings"};
    const int n = sizeof names / sizeof *names;
    return type >= 0 && type < n && names[type] ? names[type] : "another type";
}

// Files of the first IR version do not say which type an attribute has.
static plb_status check_type(const Onnx__AttributeProto *a, const char *name, int type) {
    if (!a || !a->type || (int)a->type == type) return PLB_OK;
    return plb_fail(PLB_EINVAL, "attribute %s: expected %s, found %s", name, type_name(type),
                    type_name((int)a->type));
}

const Onnx__AttributeProto *plb_onnx_typed(const plb_onnx_node *n, const char *name, int type) {
    const Onnx__AttributeProto *a = plb_onnx_attr(n, name);
    plb_status status = check_type(a, name, type);
    if (!status) return a;
    plb_graph_fail(n->graph, status);
    return NULL;
}

// A number that is 0 may be left out where the type says that there is one.
int64_t plb_onnx_int(const plb_onnx_node *n, const char *name, int64_t missing) {
    const Onnx__AttributeProto *a =
        plb_onnx_typed(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);
    return a && (a->has_i || a->type) ? a->i : missing;
}

double plb_onnx_float(const plb_onnx_node *n, const char *name, double missing) {
    const Onnx__AttributeProto *a =
        plb_onnx_typed(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    return a && (a->has_f || a->type) ? (double)a->f : missing;
}

bool plb_onnx_is(const plb_onnx_node *n, const char *name, const char *missing, const char *word) {
    const Onnx__AttributeProto *a =
        plb_onnx_typed(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING);
    if (!a || !a->has_s) return strcmp(missing, word) == 0;
    return a->s.len == strlen(word) && memcmp(a->s.data, word, a->s.len) == 0;
}

plb_status plb_onnx_ints(const plb_onnx_node *n, const char *name, int64_t *out, int max,
                         int *count) {
    const Onnx__AttributeProto *a = plb_onnx_attr(n, name);
    *count = 0;
    if (!a) return PLB_OK;
    PLB_TRY(check_type(a, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS));
    if (a->n_ints > (size_t)max) {
        return plb_fail(PLB_EINVAL, "attribute %s: expected at most %d numbers, found %zu", name,
                        max, a->n_ints);
    }
    for (size_t i = 0; i < a->n_ints; i++) out[i] = a->ints[i];
    *count = (int)a->n_ints;
    return PLB_OK;
}
