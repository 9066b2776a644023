// SPDX-License-Identifier: Apache-2.0
// From a pointwise program to the text of its kernel. Every value of the program is a variable
// v0, v1, …; inputs are loaded, instructions become calls of the functions in
// kernels/pointwise.cuh, outputs are stored. A thread reads all that it needs before it writes, so
// an output may lie where an input does.
#include <string.h>

#include "engine/device/cuda/pointwise.h"

enum { VECTOR_BYTES = 16 };

// ---------------------------------------------------------------------------- the form
static void single(const plb_query *q, plb_fused_attrs *a) {
    *a = (plb_fused_attrs){.n_in = q->n_in, .n_instr = 1, .n_out = 1, .out = {q->n_in}};
    a->instr[0] = (plb_fused_instr){.op = (int32_t)q->op};
    for (int k = 0; k < q->n_in; k++) a->instr[0].operand[k] = k;
    if (q->op == PLB_OP_cast) {
        a->instr[0].dtype = (int32_t)((const plb_cast_attrs *)q->attrs)->dtype;
    } else if (plb_op_of(q->op)->attrs_bytes) {
        const plb_pointwise_attrs *attrs = q->attrs;
        a->instr[0].alpha = attrs->alpha;
        a->instr[0].beta = attrs->beta;
    }
}

// Vectors of the widest element fill 16 bytes, when every operand allows it.
static int vector_of(const plb_pointwise_form *form, const plb_query *q) {
    const plb_nest *nest = &form->nest;
    const int last = nest->rank - 1;
    size_t widest = 1;
    for (int k = 0; k < nest->n; k++) {
        const plb_tensor *t = k < q->n_out ? &q->out[k] : &q->in[k - q->n_out];
        size_t size = plb_dtype_size(t->dtype);
        if (form->step[k] == PLB_STEP_ONE && size > widest) widest = size;
    }
    int vector = (int)(VECTOR_BYTES / widest);
    if (vector > 8) vector = 8;
    for (; vector > 1; vector /= 2) {
        bool fits = nest->dim[last] % vector == 0;
        for (int k = 0; k < nest->n && fits; k++) {
            for (int i = 0; i < last && form->step[k] == PLB_STEP_ONE; i++) {
                fits &= nest->stride[k][i] % vector == 0;
            }
        }
        if (fits) break;
    }
    return vector;
}

static bool is_blocked(const plb_tensor *t) {
    return t->layout.kind == PLB_LAYOUT_BLOCKED;
}

const char *plb_pointwise_form_of(const plb_query *q, plb_pointwise_form *out) {
    plb_dtype in[PLB_FUSED_MAX_IN];
    memset(out, 0, sizeof *out);
    if (q->op == PLB_OP_fused) {
        out->program = *(const plb_fused_attrs *)q->attrs;
    } else {
        single(q, &out->program);
    }
    for (int k = 0; k < q->n_in; k++) {
        if (is_blocked(&q->in[k])) return "no blocked layouts";
        in[k] = q->in[k].dtype;
    }
    for (int k = 0; k < q->n_out; k++) {
        if (is_blocked(&q->out[k])) return "no blocked layouts";
    }
    if (plb_fused_dtypes(&out->program, in, out->dtype)) return "the program does not fit";
    for (int v = 0; v < out->program.n_in + out->program.n_instr; v++) {
        out->wide |= out->dtype[v] == PLB_F64;
    }
    out->nest = plb_nest_of(&q->out[0].shape);
    for (int k = 0; k < q->n_out; k++) plb_nest_add(&out->nest, &q->out[k]);
    for (int k = 0; k < q->n_in; k++) plb_nest_add(&out->nest, &q->in[k]);
    plb_nest_simplify(&out->nest, 1);
    const int last = out->nest.rank - 1;
    for (int k = 0; k < out->nest.n; k++) {
        int64_t stride = out->nest.stride[k][last];
        out->step[k] = stride == 1 ? PLB_STEP_ONE : stride == 0 ? PLB_STEP_SAME : PLB_STEP_STRIDE;
    }
    out->vector = vector_of(out, q);
    out->large = plb_nest_count(&out->nest) >= (int64_t)1 << 31;
    return NULL;
}

// ---------------------------------------------------------------------------- the text
static const char *element_name(plb_dtype dtype) {
    static const char *const names[PLB_DTYPE_COUNT] = {
        [PLB_F64] = "double",        [PLB_F32] = "float",
        [PLB_F16] = "f16",           [PLB_BF16] = "bf16",
        [PLB_I8] = "signed char",    [PLB_I16] = "short",
        [PLB_I32] = "int",           [PLB_I64] = "i64",
        [PLB_U8] = "unsigned char",  [PLB_U16] = "unsigned short",
        [PLB_U32] = "unsigned int",  [PLB_U64] = "u64",
        [PLB_BOOL] = "unsigned char"};
    return names[dtype];
}

static bool is_real(const plb_pointwise_form *f, int value) {
    return plb_dtype_is_float(f->dtype[value]);
}

static void number(plb_strbuf *text, double value) { // its very bits
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    plb_strbuf_printf(text, "__longlong_as_double(0x%llxll)", (unsigned long long)bits);
}

// "(R)number", or just the number for integers.
static void attribute(plb_strbuf *text, double value, bool real) {
    plb_strbuf_printf(text, real ? ", (R)" : ", ");
    number(text, value);
}

static void cast(const plb_pointwise_form *f, int from, int to, plb_strbuf *text) {
    static const char *const ranges[PLB_DTYPE_COUNT] = {
        [PLB_I8] = "-128, 127",
        [PLB_I16] = "-32768, 32767",
        [PLB_I32] = "-2147483648ll, 2147483647ll",
        [PLB_I64] = "(i64)0x8000000000000000ull, 0x7fffffffffffffffll",
        [PLB_U8] = "0, 255",
        [PLB_U16] = "0, 65535",
        [PLB_U32] = "0, 4294967295ll"};
    plb_dtype target = f->dtype[to];
    if (is_real(f, to)) {
        const char *as = is_real(f, from) ? "" : f->dtype[from] == PLB_U64 ? "(R)(u64)" : "(R)";
        plb_strbuf_printf(text, "%sv%d", as, from);
        return;
    }
    if (target == PLB_BOOL) {
        plb_strbuf_printf(text, "(i64)(v%d != 0)", from);
    } else if (!is_real(f, from)) {
        plb_strbuf_printf(text, "(i64)(%s)v%d", element_name(target), from);
    } else if (target == PLB_U64) {
        plb_strbuf_printf(text, "whole_u64(v%d)", from);
    } else {
        plb_strbuf_printf(text, "whole(v%d, %s)", from, ranges[target]);
    }
}

// The call of an op's function, without what turns its result into the dtype.
static void call(const plb_pointwise_form *f, const plb_fused_instr *instr, plb_strbuf *text) {
    plb_op_id op = (plb_op_id)instr->op;
    const char *name = plb_op_of(op)->name;
    int a = instr->operand[0], b = plb_pointwise_arity(op) > 1 ? instr->operand[1] : -1;
    bool real = is_real(f, a);
    // `not`, `and`, `or` and `xor` are words of C++.
    bool word = op == PLB_OP_not || (op >= PLB_OP_and && op <= PLB_OP_xor);
    plb_strbuf_printf(text, "%c_%s%s%s(v%d", real ? 'f' : 'i', name, word ? "_" : "",
                      real ? "<R>" : "", a);
    if (b >= 0) {
        plb_strbuf_printf(text, ", v%d", b);
    } else {
        plb_strbuf_printf(text, ", 0");
    }
    attribute(text, instr->alpha, real);
    attribute(text, instr->beta, real);
    if (!real) plb_strbuf_printf(text, ", %s", f->dtype[a] == PLB_U64 ? "true" : "false");
    plb_strbuf_printf(text, ")");
}

static void instruction(const plb_pointwise_form *f, int j, plb_strbuf *text) {
    const plb_fused_instr *instr = &f->program.instr[j];
    int result = f->program.n_in + j, a = instr->operand[0];
    plb_strbuf_printf(text, "        %s v%d = ", is_real(f, result) ? "R" : "i64", result);
    if (instr->op == PLB_OP_cast) {
        cast(f, a, result, text);
    } else if (instr->op == PLB_OP_where) {
        plb_strbuf_printf(text, "v%d ? v%d : v%d", a, instr->operand[1], instr->operand[2]);
    } else if (is_real(f, result)) {
        call(f, instr, text);
    } else if (f->dtype[result] == PLB_BOOL) {
        plb_strbuf_printf(text, "(i64)(");
        call(f, instr, text);
        plb_strbuf_printf(text, " != 0)");
    } else { // wraps at its own width
        plb_strbuf_printf(text, "(i64)(%s)", element_name(f->dtype[result]));
        call(f, instr, text);
    }
    plb_strbuf_printf(text, ";\n");
}

// Element `e` of operand k, which was loaded as x<k>.
static void load_value(const plb_pointwise_form *f, int k, plb_strbuf *text) {
    int value = k - f->program.n_out;
    const char *at = f->step[k] == PLB_STEP_SAME ? "" : ".e[e]";
    if (is_real(f, value)) {
        plb_strbuf_printf(text, "        R v%d = (R)real_of(x%d%s);\n", value, k, at);
    } else {
        plb_strbuf_printf(text, "        i64 v%d = (i64)x%d%s;\n", value, k, at);
    }
}

static void load_operand(const plb_pointwise_form *f, int k, plb_strbuf *text) {
    const char *element = element_name(f->dtype[k - f->program.n_out]);
    switch (f->step[k]) {
    case PLB_STEP_ONE:
        plb_strbuf_printf(text, "    pack<%s, V> x%d = *(const pack<%s, V> *)(d%d + o%d);\n",
                          element, k, element, k, k);
        return;
    case PLB_STEP_SAME:
        plb_strbuf_printf(text, "    %s x%d = d%d[o%d];\n", element, k, k, k);
        return;
    case PLB_STEP_STRIDE:
        plb_strbuf_printf(text,
                          "    pack<%s, V> x%d;\n"
                          "    for (int e = 0; e < V; e++) x%d.e[e] = d%d[o%d + e * s%d];\n",
                          element, k, k, k, k, k);
        return;
    }
}

static void store_operand(const plb_pointwise_form *f, int k, plb_strbuf *text) {
    const char *element = element_name(f->dtype[f->program.out[k]]);
    if (f->step[k] == PLB_STEP_ONE) {
        plb_strbuf_printf(text, "    *(pack<%s, V> *)(d%d + o%d) = y%d;\n", element, k, k, k);
    } else {
        plb_strbuf_printf(text, "    for (int e = 0; e < V; e++) d%d[o%d + e * s%d] = y%d.e[e];\n",
                          k, k, k, k);
    }
}

// Offsets o0, o1, … of the group's first element: the group's number taken apart.
static void offsets(const plb_pointwise_form *f, plb_strbuf *text) {
    const int rank = f->nest.rank;
    plb_strbuf_printf(text, "    I rest = i;\n");
    for (int axis = rank - 1; axis >= 0; axis--) {
        if (axis) {
            plb_strbuf_printf(text,
                              "    I q%d = rest / (I)p.dim[%d], i%d = rest - q%d * (I)p.dim[%d];\n"
                              "    rest = q%d;\n",
                              axis, axis, axis, axis, axis, axis);
        } else {
            plb_strbuf_printf(text, "    I i0 = rest;\n");
        }
    }
    for (int k = 0; k < f->nest.n; k++) {
        plb_strbuf_printf(text, "    i64 o%d = 0", k);
        for (int axis = 0; axis < rank; axis++) {
            if (f->nest.stride[k][axis] == 0) continue;
            bool inner = axis == rank - 1;
            if (inner && f->step[k] == PLB_STEP_ONE) {
                plb_strbuf_printf(text, " + (i64)i%d * V", axis);
            } else {
                plb_strbuf_printf(text, " + (i64)i%d%s * p.stride[%d][%d]", axis,
                                  inner ? " * V" : "", k, axis);
            }
        }
        plb_strbuf_printf(text, ";\n");
        if (f->step[k] == PLB_STEP_STRIDE || (k < f->program.n_out && f->step[k] != PLB_STEP_ONE)) {
            plb_strbuf_printf(text, "    i64 s%d = p.stride[%d][%d];\n", k, k, rank - 1);
        }
    }
}

static void body(const plb_pointwise_form *f, plb_strbuf *text) {
    const int n_out = f->program.n_out, n = f->nest.n;
    plb_strbuf_printf(text,
                      "template <int V, class I> __device__ inline void group(const params &p, "
                      "I i) {\n");
    for (int k = 0; k < n; k++) {
        int value = k < n_out ? f->program.out[k] : k - n_out;
        plb_strbuf_printf(text, "    %s *d%d = (%s *)p.data[%d];\n", element_name(f->dtype[value]),
                          k, element_name(f->dtype[value]), k);
    }
    offsets(f, text);
    for (int k = n_out; k < n; k++) load_operand(f, k, text);
    for (int k = 0; k < n_out; k++) {
        plb_strbuf_printf(text, "    pack<%s, V> y%d;\n", element_name(f->dtype[f->program.out[k]]),
                          k);
    }
    plb_strbuf_printf(text, "#pragma unroll\n    for (int e = 0; e < V; e++) {\n");
    for (int k = n_out; k < n; k++) load_value(f, k, text);
    for (int j = 0; j < f->program.n_instr; j++) instruction(f, j, text);
    for (int k = 0; k < n_out; k++) {
        int value = f->program.out[k];
        plb_strbuf_printf(text, "        %s(y%d.e[e], v%d);\n", is_real(f, value) ? "put" : "put_i",
                          k, value);
    }
    plb_strbuf_printf(text, "    }\n");
    for (int k = 0; k < n_out; k++) store_operand(f, k, text);
    plb_strbuf_printf(text, "}\n");
}

static void entry(const char *name, int vector, const char *index, plb_strbuf *text) {
    plb_strbuf_printf(text,
                      "extern \"C\" __global__ void __launch_bounds__(256) %s(const params p) {\n"
                      "    i64 step = (i64)gridDim.x * blockDim.x;\n"
                      "    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.groups;\n"
                      "         i += step) {\n"
                      "        group<%d, %s>(p, (%s)i);\n"
                      "    }\n"
                      "}\n",
                      name, vector, index, index);
}

void plb_pointwise_source(const plb_pointwise_form *form, const char *language, plb_strbuf *text) {
    const char *index = form->large ? "u64" : "unsigned";
    plb_strbuf_printf(text, "%s\ntypedef %s R;\n", language, form->wide ? "double" : "float");
    plb_strbuf_printf(text,
                      "struct params {\n    i64 groups, dim[%d], stride[%d][%d];\n"
                      "    void *data[%d];\n};\n",
                      PLB_NEST_RANK, PLB_POINTWISE_OPERANDS, PLB_NEST_RANK, PLB_POINTWISE_OPERANDS);
    body(form, text);
    entry("plb_pointwise", form->vector, index, text);
    entry("plb_pointwise_1", 1, index, text);
    plb_strbuf_printf(text,
                      "extern \"C\" __global__ void __launch_bounds__(256) plb_pointwise_many("
                      "const params *all) {\n"
                      "    const params &p = all[blockIdx.y];\n"
                      "    i64 step = (i64)gridDim.x * blockDim.x;\n"
                      "    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.groups;\n"
                      "         i += step) {\n"
                      "        group<1, %s>(p, (%s)i);\n"
                      "    }\n"
                      "}\n",
                      index, index);
}
