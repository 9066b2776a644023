// SPDX-License-Identifier: Apache-2.0
// Cases: one canonical text each, read back as the same case; differences by name.
#include "check.h"

#include "bench/case.h"

static plb_case sample_case(void) {
    plb_case c;
    plb_case_init(&c);
    snprintf(c.model, sizeof c.model, "resnet18");
    snprintf(c.stack, sizeof c.stack, "torch-eager");
    c.batch = 16, c.size = 224, c.threads = 2;
    CHECK_OK(plb_case_set(&c, "channels_last", "true"));
    CHECK_OK(plb_case_set(&c, "benchmark", "false"));
    CHECK_OK(plb_case_set(&c, "precision", "highest"));
    return c;
}

// The text is what stores and other programs rely on: it may only change with a new version.
static void test_text(void) {
    plb_case c = sample_case();
    char text[PLB_CASE_TEXT_BYTES];
    CHECK_OK(plb_case_text(&c, text));
    CHECK_SAY(strcmp(text,
                     "{\"autocast\":\"none\",\"batch\":16,\"cache\":\"hot\",\"classes\":0,"
                     "\"device\":\"cpu\",\"dtype\":\"f32\",\"in_flight\":1,\"input\":\"normal\","
                     "\"input_digest\":\"none\",\"layout\":\"default\",\"math\":\"f32\","
                     "\"model\":\"resnet18\",\"region\":\"latency\",\"set.benchmark\":\"false\","
                     "\"set.channels_last\":\"true\",\"set.precision\":\"highest\",\"size\":224,"
                     "\"stack\":\"torch-eager\",\"task\":\"infer\",\"threads\":2}") == 0,
              "%s", text);
    // FNV-1a of those bytes, computed in Python.
    plb_case_hash hash;
    CHECK_OK(plb_case_hash_of(&c, &hash));
    CHECK_SAY(strcmp(hash.text, "b093c0aeb64d76c1") == 0, "%s", hash.text);
    char title[256];
    plb_case_title(&c, title, sizeof title);
    CHECK_SAY(strcmp(title, "resnet18 infer torch-eager cpu b16 size 224 threads 2 "
                            "benchmark=false channels_last=true precision=highest") == 0,
              "%s", title);
    plb_case_title(&c, title, 12); // cut, not overrun
    CHECK(strcmp(title, "resnet18 in") == 0);
}

static void test_order_does_not_matter(void) {
    plb_case a = sample_case(), b;
    plb_case_init(&b);
    snprintf(b.model, sizeof b.model, "resnet18");
    snprintf(b.stack, sizeof b.stack, "torch-eager");
    b.batch = 16, b.size = 224, b.threads = 2;
    CHECK_OK(plb_case_set(&b, "precision", "high"));
    CHECK_OK(plb_case_set(&b, "precision", "highest"));
    CHECK_OK(plb_case_set(&b, "benchmark", "false"));
    CHECK_OK(plb_case_set(&b, "channels_last", "true"));
    plb_case_hash x, y;
    CHECK_OK(plb_case_hash_of(&a, &x));
    CHECK_OK(plb_case_hash_of(&b, &y));
    CHECK(strcmp(x.text, y.text) == 0 && b.setting_count == 3);
}

static void test_parse(void) {
    plb_case c = sample_case(), back;
    char text[PLB_CASE_TEXT_BYTES], again[PLB_CASE_TEXT_BYTES];
    CHECK_OK(plb_case_text(&c, text));
    CHECK_OK(plb_case_parse(text, &back));
    CHECK_OK(plb_case_text(&back, again));
    CHECK(strcmp(text, again) == 0);
    CHECK_OK(plb_case_parse("{\"threads\": 4, \"set.x\":\"y\", \"model\":\"lenet\"}", &back));
    CHECK(back.threads == 4 && back.batch == 1 && back.setting_count == 1);
    CHECK_FAILS(PLB_EINVAL, "did you mean batch", plb_case_parse("{\"bacth\":1}", &back));
    CHECK_FAILS(PLB_EINVAL, "expected an integer", plb_case_parse("{\"batch\":\"1\"}", &back));
    CHECK_FAILS(PLB_EINVAL, "word of 1 to 7", plb_case_parse("{\"task\":\"\"}", &back));
    CHECK_FAILS(PLB_EINVAL, "word of 1 to 7", plb_case_parse("{\"task\":\"inferring\"}", &back));
    CHECK_FAILS(PLB_EINVAL, "object", plb_case_parse("[]", &back));
    CHECK_FAILS(PLB_EINVAL, "byte", plb_case_parse("{", &back));
    CHECK_FAILS(PLB_EINVAL, "duplicate", plb_case_parse("{\"batch\":1,\"batch\":2}", &back));
}

static void test_limits(void) {
    plb_case c;
    plb_case_init(&c);
    char name[16], text[PLB_CASE_TEXT_BYTES], longer[200];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    CHECK_FAILS(PLB_EINVAL, "at most 79 bytes", plb_case_set(&c, "key", longer));
    CHECK_FAILS(PLB_EINVAL, "1 to 47 bytes", plb_case_set(&c, longer, "value"));
    for (int i = 0; i < PLB_CASE_MAX_SETTINGS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        CHECK_OK(plb_case_set(&c, name, "v"));
    }
    CHECK_FAILS(PLB_EINVAL, "at most 16", plb_case_set(&c, "one_more", "v"));
    CHECK_OK(plb_case_text(&c, text));
    CHECK_OK(plb_case_set(&c, "s3", "a\"b"));
    CHECK_FAILS(PLB_EINVAL, "no quotes", plb_case_text(&c, text));
}

static void test_differences(void) {
    plb_case a = sample_case(), b = sample_case();
    plb_case_difference d[PLB_CASE_MAX_DIFFERENCES];
    CHECK(plb_case_differences(&a, &b, d) == 0);
    b.batch = 8;
    snprintf(b.stack, sizeof b.stack, "plumb-plan");
    b.setting_count = 1; // benchmark
    CHECK_OK(plb_case_set(&b, "aaa", "1"));
    CHECK(plb_case_differences(&a, &b, d) == 5);
    CHECK(strcmp(d[0].key, "batch") == 0 && strcmp(d[0].a, "16") == 0 && strcmp(d[0].b, "8") == 0);
    CHECK(strcmp(d[1].key, "set.aaa") == 0 && !*d[1].a && strcmp(d[1].b, "1") == 0);
    CHECK(strcmp(d[2].key, "set.channels_last") == 0 && strcmp(d[2].a, "true") == 0 && !*d[2].b);
    CHECK(strcmp(d[3].key, "set.precision") == 0);
    CHECK(strcmp(d[4].key, "stack") == 0 && strcmp(d[4].b, "plumb-plan") == 0);
}

static const check_test tests[] = {
    {"text", test_text},     {"order", test_order_does_not_matter}, {"parse", test_parse},
    {"limits", test_limits}, {"differences", test_differences},
};
CHECK_MAIN(tests)
