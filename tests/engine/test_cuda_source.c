// SPDX-License-Identifier: Apache-2.0
// The text of pointwise kernels, without a device: for every pointwise op's samples and dtypes the
// form is what the operands ask for, and NVRTC, where it is installed, compiles the text for each
// architecture's generation.
#include <dlfcn.h>
#include <glob.h>

#include "base/core/alloc.h"
#include "base/file.h"
#include "check.h"
#include "engine/device/cuda/pointwise.h"
#include "op_case.h"

typedef struct nvrtc {
    int (*create)(void **out, const char *source, const char *name, int n,
                  const char *const *headers, const char *const *names);
    int (*compile)(void *program, int n, const char *const *options);
    int (*log_size)(void *program, size_t *out);
    int (*log)(void *program, char *out);
    int (*destroy)(void **program);
} nvrtc;

static bool find(void *library, const char *name, void *function) {
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool open_nvrtc(nvrtc *n) {
    static const char *const places[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                         "/usr/local/cuda/lib64/libnvrtc.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++) {
        library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
    }
    return find(library, "nvrtcCreateProgram", &n->create) &&
           find(library, "nvrtcCompileProgram", &n->compile) &&
           find(library, "nvrtcGetProgramLogSize", &n->log_size) &&
           find(library, "nvrtcGetProgramLog", &n->log) &&
           find(library, "nvrtcDestroyProgram", &n->destroy);
}

static char *language(void) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    CHECK_OK(plb_file_read("src/engine/device/cuda/kernels/pointwise.cuh", 1 << 20, &bytes, &size));
    char *text = bytes ? plb_realloc_array(bytes, size + 1, 1) : NULL;
    if (text) text[size] = '\0';
    return text;
}

static void check_compiles(const nvrtc *n, const char *source, const char *arch, const char *what) {
    const char *const options[] = {arch, "--std=c++17"};
    void *program = NULL;
    char log[4096] = "";
    size_t size = 0;
    int code = n->create(&program, source, "test.cu", 0, NULL, NULL);
    if (!code) code = n->compile(program, 2, options);
    if (code && program && n->log_size(program, &size) == 0 && size < sizeof log) {
        n->log(program, log);
    }
    CHECK_SAY(code == 0, "%s: %s", what, log);
    if (program) n->destroy(&program);
}

// The operands of a case as a query, in one layout.
static plb_query query_of(op_case *c) {
    return (plb_query){.op = c->id,
                       .attrs = c->sample->attrs,
                       .n_in = c->n_in,
                       .n_out = c->n_out,
                       .in = c->in,
                       .out = c->out,
                       .threads = 1};
}

static void every_op_has_a_form_and_a_text(void) {
    static const plb_dtype floats[] = {PLB_F32, PLB_BF16, PLB_F16, PLB_F64};
    char *words = language();
    int texts = 0;
    for (int op = 0; op < PLB_OP_COUNT; op++) {
        const plb_op *table = plb_op_of((plb_op_id)op);
        if (!table || !(table->flags & PLB_OP_POINTWISE)) continue;
        for (int i = 0; i < table->n_samples * 4; i++) {
            op_case c;
            plb_pointwise_form form;
            plb_strbuf text = {0};
            if (!op_case_exists(&table->samples[i / 4], floats[i % 4])) continue;
            if (op_case_open(&c, (plb_op_id)op, &table->samples[i / 4], floats[i % 4], 0) ==
                PLB_OK) {
                plb_query q = query_of(&c);
                CHECK_SAY(!plb_pointwise_form_of(&q, &form), "%s: no form", table->name);
                CHECK(form.nest.n == c.n_in + c.n_out);
                int64_t inner = form.nest.dim[form.nest.rank - 1];
                CHECK_SAY(inner % form.vector == 0, "%s: vectors do not fit", table->name);
                plb_pointwise_source(&form, words, &text);
                CHECK(!text.failed && strstr(text.text, "plb_pointwise_1"));
                texts++;
            }
            plb_strbuf_free(&text);
            op_case_close(&c);
        }
    }
    CHECK(texts > 200);
    plb_free(words);
}

// All instructions of all pointwise ops of one class in few texts, since a compilation takes a
// tenth of a second.
static void chains_compile(void) {
    nvrtc n;
    if (!open_nvrtc(&n)) SKIP("NVRTC is not installed");
    static const plb_dtype types[] = {PLB_F32, PLB_BF16, PLB_F16, PLB_F64,
                                      PLB_I32, PLB_U64,  PLB_I8,  PLB_BOOL};
    char *words = language(), what[128];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        plb_shape shape = plb_shape_of(2, 24, 8);
        plb_tensor a = plb_tensor_dense(NULL, types[t], &shape, (plb_layout){0});
        plb_tensor in[2] = {a, a}, out[1];
        in[1].stride[0] = in[1].stride[2] = 0; // a number for each channel
        plb_fused_attrs program = {.n_in = 2, .n_out = 1};
        plb_dtype dtype[PLB_FUSED_MAX_VALUES];
        for (int op = 0; op < PLB_OP_COUNT; op++) {
            plb_dtype given[3] = {types[t], types[t], types[t]}, made;
            int arity = plb_pointwise_arity((plb_op_id)op), n_instr = program.n_instr;
            if (!arity || op == PLB_OP_cast || op == PLB_OP_where) continue;
            if (plb_pointwise_dtype((plb_op_id)op, given, 1, 2, types[t], &made)) continue;
            program.instr[n_instr] =
                (plb_fused_instr){.op = op, .operand = {0, 1}, .alpha = 1, .beta = 2};
            program.instr[n_instr + 1] =
                (plb_fused_instr){.op = PLB_OP_cast, .operand = {2 + n_instr}, .dtype = PLB_F32};
            program.n_instr += 2;
            bool full = program.n_instr >= PLB_FUSED_MAX_INSTR - 1;
            if (!full && op < PLB_OP_xor) continue;
            program.out[0] = 2 + program.n_instr - 1;
            CHECK_OK(plb_fused_dtypes(&program, given, dtype));
            out[0] = plb_tensor_dense(NULL, PLB_F32, &shape, (plb_layout){0});
            plb_query q = {
                .op = PLB_OP_fused, .attrs = &program, .n_in = 2, .n_out = 1, .in = in, .out = out};
            plb_pointwise_form form;
            plb_strbuf text = {0};
            CHECK(!plb_pointwise_form_of(&q, &form));
            plb_pointwise_source(&form, words, &text);
            snprintf(what, sizeof what, "%s up to %s", plb_dtype_name(types[t]),
                     plb_op_of((plb_op_id)op)->name);
            check_compiles(&n, text.text, "--gpu-architecture=sm_90", what);
            plb_strbuf_free(&text);
            program.n_instr = 0;
        }
    }
    plb_free(words);
}

static void samples_of_fused_compile(void) {
    nvrtc n;
    if (!open_nvrtc(&n)) SKIP("NVRTC is not installed");
    static const char *const archs[] = {"--gpu-architecture=sm_80", "--gpu-architecture=sm_100",
                                        "--gpu-architecture=sm_120"};
    char *words = language();
    const plb_op *table = plb_op_of(PLB_OP_fused);
    for (int i = 0; i < table->n_samples; i++) {
        op_case c;
        plb_pointwise_form form;
        plb_strbuf text = {0};
        CHECK_OK(op_case_open(&c, PLB_OP_fused, &table->samples[i], PLB_F32, 0));
        plb_query q = query_of(&c);
        CHECK(!plb_pointwise_form_of(&q, &form));
        plb_pointwise_source(&form, words, &text);
        check_compiles(&n, text.text, archs[i % 3], table->samples[i].name);
        plb_strbuf_free(&text);
        op_case_close(&c);
    }
    plb_free(words);
}

static void vectors_fit_the_operands(void) {
    static const struct {
        plb_shape shape;
        plb_dtype dtype;
        int vector, rank;
    } cases[] = {
        {{.rank = 1, .dim = {1024}}, PLB_F32, 4, 1},
        {{.rank = 1, .dim = {1024}}, PLB_BF16, 8, 1},
        {{.rank = 1, .dim = {1022}}, PLB_F32, 2, 1},
        {{.rank = 1, .dim = {7}}, PLB_F32, 1, 1},
        {{.rank = 2, .dim = {32, 64}}, PLB_F64, 2, 1},
        {{.rank = 0}, PLB_F32, 1, 1},
        {{.rank = 4, .dim = {2, 3, 4, 5}}, PLB_U8, 8, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plb_tensor t = plb_tensor_dense(NULL, cases[i].dtype, &cases[i].shape, (plb_layout){0});
        plb_query q = {.op = PLB_OP_relu, .n_in = 1, .n_out = 1, .in = &t, .out = &t};
        plb_pointwise_form form;
        CHECK(!plb_pointwise_form_of(&q, &form));
        CHECK_SAY(form.vector == cases[i].vector, "case %zu: vectors of %d", i, form.vector);
        CHECK_SAY(form.nest.rank == cases[i].rank, "case %zu: rank %d", i, form.nest.rank);
    }
}

static const check_test tests[] = {
    {"every op has a form and a text", every_op_has_a_form_and_a_text},
    {"vectors fit the operands", vectors_fit_the_operands},
    {"samples of fused compile", samples_of_fused_compile},
    {"chains compile", chains_compile},
};
CHECK_MAIN(tests)
