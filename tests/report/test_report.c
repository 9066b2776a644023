// SPDX-License-Identifier: Apache-2.0
// Units, escaping, axes, colours and documents of src/report.
#include "check.h"

#include <stdint.h>

#include "faults.h"
#include "report/document.h"
#include "report/escape.h"
#include "report/html.h"
#include "report/json_read.h"
#include "report/palette.h"
#include "report/scale.h"
#include "report/terminal.h"
#include "report/units.h"
#include "report/write.h"

// ---------------------------------------------------------------------------- units
static void check_unit(plb_unit unit, double value, const char *expected) {
    char shown[PLB_UNIT_BYTES_SHOWN];
    plb_unit_show(unit, value, shown);
    CHECK_SAY(strcmp(shown, expected) == 0, "%.9g is \"%s\", expected \"%s\"", value, shown,
              expected);
}

static void test_units(void) {
    check_unit(PLB_UNIT_NS, 37123456, "37.1 ms");
    check_unit(PLB_UNIT_NS, 999, "999 ns");
    check_unit(PLB_UNIT_NS, 1.5e11, "2.50 min");
    check_unit(PLB_UNIT_SECONDS, 0.00037, "370 µs");
    check_unit(PLB_UNIT_SECONDS, 12600, "3.50 h");
    check_unit(PLB_UNIT_BYTES, 25165824, "24.0 MiB");
    check_unit(PLB_UNIT_BYTES, 12, "12 B");
    check_unit(PLB_UNIT_COUNT, 1024, "1024");
    check_unit(PLB_UNIT_COUNT, 131072, "131 k");
    check_unit(PLB_UNIT_RATIO, 1, "1.000×");
    check_unit(PLB_UNIT_RATIO, 0.00043, "0.00043×");
    check_unit(PLB_UNIT_RATIO, 0.0123, "0.012×");
    check_unit(PLB_UNIT_RATIO, 12.345, "12.35×");
    check_unit(PLB_UNIT_RATIO, 123.45, "123×");
    check_unit(PLB_UNIT_SHARE, 0.371, "37.1 %");
    check_unit(PLB_UNIT_SHARE, 0, "0 %");
    check_unit(PLB_UNIT_SHARE, 0x1p-52, "0 %");
    check_unit(PLB_UNIT_FLOPS, 1.82e12, "1.82 TFLOP/s");
    check_unit(PLB_UNIT_NONE, 0.0371, "0.0371");
    check_unit(PLB_UNIT_NONE, 1.3e-7, "1.3e-07");
    check_unit(PLB_UNIT_NS, (double)NAN, "-");
}

// ---------------------------------------------------------------------------- escaping
static void check_escape(void (*escape)(plb_strbuf *, const char *), const char *text,
                         const char *expected) {
    plb_strbuf out = {0};
    escape(&out, text);
    const char *found = out.text ? out.text : "";
    CHECK_SAY(strcmp(found, expected) == 0, "\"%s\" became \"%s\", expected \"%s\"", text, found,
              expected);
    plb_strbuf_free(&out);
}

static void test_escapes(void) {
    check_escape(plb_escape_html, "<a href='x'>\"&", "&lt;a href=&#39;x&#39;&gt;&quot;&amp;");
    check_escape(plb_escape_html, "a\nb\x01\xff€", "a\nb\xef\xbf\xbd\xef\xbf\xbd€");
    // Overlong forms, surrogates and what is beyond Unicode are no characters.
    check_escape(plb_escape_html, "\xc0\xbc", "\xef\xbf\xbd\xef\xbf\xbd");
    check_escape(plb_escape_html, "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    check_escape(plb_escape_html, "\xf4\x90\x80\x80",
                 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    check_escape(plb_escape_html, "\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"); // cut off
    check_escape(plb_escape_markdown, "a|b\n`c` <i>", "a\\|b \\`c\\` &lt;i&gt;");
    check_escape(plb_escape_markdown, "- 1", "- 1"); // inside a line it is no list
    check_escape(plb_escape_markdown_line, "- a - b", "\\- a - b");
    check_escape(plb_escape_markdown_line, " \n\t+\ta", "\\+ a");
    check_escape(plb_escape_markdown_line, "    code", "code");
    check_escape(plb_escape_markdown_line, "12. a", "12\\. a");
    check_escape(plb_escape_markdown_line, "1)", "1\\)");
    check_escape(plb_escape_markdown_line, "---", "\\---");
    check_escape(plb_escape_markdown_line, "-", "\\-");
    check_escape(plb_escape_markdown_line, "-1.5 ms", "-1.5 ms");
    check_escape(plb_escape_markdown_line, "1.5 ms", "1.5 ms");
    check_escape(plb_escape_markdown_line, "# a", "\\# a");
    check_escape(plb_escape_markdown_line, "", "");
    check_escape(plb_escape_csv, "plain text", "plain text");
    check_escape(plb_escape_csv, "a,b\"c\"\n", "\"a,b\"\"c\"\"\n\"");
    check_escape(plb_escape_csv, "=1+1", "\"'=1+1\"");
    check_escape(plb_escape_csv, "-1.5", "-1.5");
    check_escape(plb_escape_csv, "-1.5e-07", "-1.5e-07");
    check_escape(plb_escape_csv, "-", "-");
    check_escape(plb_escape_csv, "-1.5e", "\"'-1.5e\"");
    check_escape(plb_escape_csv, "-2+3+cmd|' /C calc'!A0", "\"'-2+3+cmd|' /C calc'!A0\"");
    check_escape(plb_escape_terminal, "a\033[31m\nb", "a\xef\xbf\xbd[31m b");
    check_escape(plb_escape_terminal,
                 "\xc2\x9b"
                 "31m",
                 "\xef\xbf\xbd"
                 "31m"); // CSI in one letter
}

// ---------------------------------------------------------------------------- axes
static void test_linear_axis(void) {
    plb_scale s = {.from = 100, .to = 200};
    const plb_figure_axis axis = {.unit = PLB_UNIT_NS};
    plb_scale_fit(&s, &axis, 0.3e6, 9.3e6, 5);
    CHECK_NEAR(s.low, 0, 0);
    CHECK_NEAR(s.high, 10e6, 1);
    CHECK(s.ticks == 6);
    CHECK_NEAR(s.tick[1], 2e6, 1);
    CHECK_NEAR(plb_scale_at(&s, 5e6), 150, 1e-9);
    CHECK_NEAR(plb_scale_at(&s, 50e6), 200, 1e-9); // beyond the end: the end
    // Ticks of bytes are round numbers of MiB.
    const plb_figure_axis bytes = {.unit = PLB_UNIT_BYTES};
    plb_scale_fit(&s, &bytes, 0, 170 * 0x1p20, 5);
    CHECK_NEAR(s.tick[1], 50 * 0x1p20, 1);
    // So are those of an axis that ends where a larger unit begins: half minutes, not thirds.
    const plb_figure_axis seconds = {.unit = PLB_UNIT_SECONDS, .zero = true};
    plb_scale_fit(&s, &seconds, 1, 115, 6);
    CHECK_NEAR(s.high, 120, 1e-9);
    CHECK_NEAR(s.tick[1], 30, 1e-9);
    // Values far from 0 do not drag it in.
    plb_scale_fit(&s, &axis, 9.0e6, 9.3e6, 5);
    CHECK(s.low >= 8.9e6 && s.low <= 9.0e6 && s.high >= 9.3e6);
    // One value, and none.
    plb_scale_fit(&s, &axis, 5, 5, 5);
    CHECK(s.high > s.low && s.ticks > 1);
    plb_scale_fit(&s, &axis, (double)NAN, (double)NAN, 5);
    CHECK(s.high > s.low && s.ticks > 1);
}

static void check_labels(const plb_scale *s, const char *first, const char *second) {
    char text[2][PLB_UNIT_BYTES_SHOWN] = {""};
    for (int i = 0; i < s->ticks; i++) {
        plb_scale_tick_text(s, i, text[i % 2]);
        CHECK_SAY(strcmp(text[0], text[1]) != 0, "two neighbours are \"%s\"", text[0]);
        if (i == 1) {
            CHECK_SAY(!strcmp(text[0], first) && !strcmp(text[1], second), "%s, %s", text[0],
                      text[1]);
        }
    }
}

// Each tick has a text of its own, and no digits beyond.
static void test_tick_labels(void) {
    plb_scale s = {.from = 0, .to = 300};
    plb_scale_fit(&s, &(plb_figure_axis){.unit = PLB_UNIT_NS}, 0, 10e6, 5);
    check_labels(&s, "0", "2 ms");
    plb_scale_fit(&s, &(plb_figure_axis){.unit = PLB_UNIT_NS}, 12.3452e6, 12.3488e6, 5);
    check_labels(&s, "12.345 ms", "12.346 ms");
    plb_scale_fit(&s, &(plb_figure_axis){.unit = PLB_UNIT_SHARE}, 0.999991, 0.999993, 5);
    check_labels(&s, "99.9991 %", "99.99915 %");
    plb_scale_fit(&s, &(plb_figure_axis){.unit = PLB_UNIT_COUNT}, 100000, 100002, 5);
    check_labels(&s, "100 k", "100.001 k");
    plb_scale_fit(&s, &(plb_figure_axis){.unit = PLB_UNIT_COUNT, .log = true}, 100000, 100002, 5);
    plb_scale_ticks_at(&s, (const double[]){100001, 100000, 100002}, 3, 12);
    check_labels(&s, "100 k", "100.001 k");
    plb_scale_fit(&s, &(plb_figure_axis){.log = true}, 1, 1e7, 5);
    check_labels(&s, "1", "100");
}

static void test_logarithmic_axis(void) {
    plb_scale s = {.from = 0, .to = 300};
    const plb_figure_axis axis = {.unit = PLB_UNIT_NS, .log = true};
    plb_scale_fit(&s, &axis, 1.2e3, 0.9e6, 5);
    CHECK_NEAR(s.low, 1e3, 1e-6);
    CHECK_NEAR(s.high, 1e6, 1e-3);
    CHECK(s.ticks == 4);
    CHECK_NEAR(plb_scale_at(&s, 1e4), 100, 1e-9);
    const plb_figure_axis batches = {.unit = PLB_UNIT_COUNT, .log = true};
    const double values[] = {8, 32, 16, 8, 1024};
    plb_scale_fit(&s, &batches, 8, 1024, 6);
    plb_scale_ticks_at(&s, values, 5, 12);
    CHECK(s.ticks == 4 && s.tick[0] == 8 && s.tick[1] == 16 && s.tick[3] == 1024);
    plb_scale_fit(&s, &axis, 5, 5, 5);
    CHECK(s.high > s.low);
}

// Ends whose ratio or difference no number holds.
static void test_far_ends(void) {
    static const double ends[][2] = {{1e-200, 1e200}, {1e-320, 1},      {1e-320, 1e-320},
                                     {1, 1.7e308},    {1e308, 1.7e308}, {-1.7e308, 1.7e308}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        for (int log = 0; log < 2; log++) {
            const plb_figure_axis axis = {.log = log};
            const double least = ends[i][0], most = ends[i][1], middle = log ? 1 : most / 2;
            plb_scale s = {.from = 0, .to = 300};
            if (log && !(least > 0)) continue;
            plb_scale_fit(&s, &axis, least, most, 5);
            CHECK(isfinite(s.low) && isfinite(s.high) && s.high > s.low && s.ticks > 0);
            const double a = plb_scale_at(&s, least), b = plb_scale_at(&s, middle);
            const double c = plb_scale_at(&s, most);
            CHECK_SAY(a >= 0 && a <= 300 && b >= 0 && b <= 300 && c >= 0 && c <= 300,
                      "%g to %g: places %g, %g, %g", least, most, a, b, c);
        }
    }
    plb_scale s = {.from = 0, .to = 300};
    plb_scale_fit(&s, &(plb_figure_axis){.log = true}, 1e-200, 1e200, 5);
    CHECK_NEAR(plb_scale_at(&s, 1), 150, 1e-9);
}

// Points of all sizes are drawn inside of the plot.
static void test_far_points(void) {
    const double x[] = {0, 5, 10}, y[] = {1e-200, 2, 1e200};
    const plb_figure_series series = {.name = "a", .count = 3, .x = x, .y = y};
    const plb_figure figure = {.kind = PLB_FIGURE_LINES,
                               .name = "f",
                               .title = "t",
                               .y = {.log = true},
                               .series = &series,
                               .series_count = 1};
    const plb_terminal terminal = {.columns = 80};
    plb_strbuf out = {0};
    CHECK_OK(plb_figure_terminal(&figure, &terminal, &out));
    CHECK(strstr(out.text, "●"));
    plb_strbuf_free(&out);
    CHECK_OK(plb_figure_svg(&figure, &out));
    CHECK(!strstr(out.text, "nan") && !strstr(out.text, "inf"));
    plb_strbuf_free(&out);
}

// ---------------------------------------------------------------------------- colours
static double linear(double v) {
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

static double channel(uint32_t rgb, int i) {
    return linear((double)(rgb >> (16 - 8 * i) & 255) / 255);
}

static double luminance(uint32_t rgb) {
    return 0.2126 * channel(rgb, 0) + 0.7152 * channel(rgb, 1) + 0.0722 * channel(rgb, 2);
}

static double contrast(uint32_t a, uint32_t b) {
    double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
    return x > y ? x / y : y / x;
}

// WCAG 2: texts 4.5, what is drawn 3.
static void test_contrast(void) {
    for (int dark = 0; dark < 2; dark++) {
        const uint32_t paper = plb_ink_rgb(PLB_INK_PAPER, dark);
        CHECK(contrast(plb_ink_rgb(PLB_INK_TEXT, dark), paper) > 7);
        CHECK(contrast(plb_ink_rgb(PLB_INK_FAINT, dark), paper) > 4.5);
        for (int i = 1; i <= PLB_PALETTE; i++) {
            const uint32_t ink = plb_ink_rgb((plb_ink)(PLB_INK_SERIES + i), dark);
            CHECK_SAY(contrast(ink, paper) >= 3, "colour %d (dark: %d): %.2f", i, dark,
                      contrast(ink, paper));
        }
    }
    for (int i = 0; i <= 20; i++) {
        const uint32_t cell = plb_ramp(i / 20.0);
        CHECK(contrast(plb_ink_rgb(plb_ink_over(cell), 0), cell) > 4.5);
    }
}

// What is seen without red cones (protanopia), from Vienot, Brettel and Mollon: Digital video
// colourmaps for checking the legibility of displays by dichromats (1999): long waves are replaced
// by what middle and short ones say, in LMS.
static void without_red(uint32_t rgb, double out[3]) {
    const double r = channel(rgb, 0), g = channel(rgb, 1), b = channel(rgb, 2);
    out[0] = 0.11238 * r + 0.88762 * g;
    out[1] = 0.11238 * r + 0.88762 * g;
    out[2] = 0.00401 * r - 0.00401 * g + b;
}

static void without_green(uint32_t rgb, double out[3]) {
    const double r = channel(rgb, 0), g = channel(rgb, 1), b = channel(rgb, 2);
    out[0] = 0.29275 * r + 0.70725 * g;
    out[1] = 0.29275 * r + 0.70725 * g;
    out[2] = -0.02234 * r + 0.02234 * g + b;
}

// Distance in CIELAB (1976), D65.
static void lab(const double rgb[3], double out[3]) {
    const double xyz[3] = {
        (0.4124 * rgb[0] + 0.3576 * rgb[1] + 0.1805 * rgb[2]) / 0.9505,
        0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2],
        (0.0193 * rgb[0] + 0.1192 * rgb[1] + 0.9505 * rgb[2]) / 1.089,
    };
    double f[3];
    for (int i = 0; i < 3; i++)
        f[i] = xyz[i] > 0.008856 ? cbrt(xyz[i]) : 7.787 * xyz[i] + 16.0 / 116;
    out[0] = 116 * f[1] - 16, out[1] = 500 * (f[0] - f[1]), out[2] = 200 * (f[1] - f[2]);
}

static double distance(const double a[3], const double b[3]) {
    double x[3], y[3], sum = 0;
    lab(a, x), lab(b, y);
    for (int i = 0; i < 3; i++) sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sqrt(sum);
}

// The six stacks that most figures hold (the palette's first ones) keep apart for everybody.
static void test_colour_blind(void) {
    enum { FIRST = 6 };
    for (int dark = 0; dark < 2; dark++) {
        for (int i = 1; i <= FIRST; i++) {
            for (int k = 1; k < i; k++) {
                const uint32_t a = plb_ink_rgb((plb_ink)(PLB_INK_SERIES + i), dark);
                const uint32_t b = plb_ink_rgb((plb_ink)(PLB_INK_SERIES + k), dark);
                double x[3], y[3];
                without_red(a, x), without_red(b, y);
                CHECK_SAY(distance(x, y) > 8, "%d and %d without red: %.1f", k, i, distance(x, y));
                without_green(a, x), without_green(b, y);
                CHECK_SAY(distance(x, y) > 8, "%d and %d without green: %.1f", k, i,
                          distance(x, y));
            }
        }
    }
}

static void test_ramps(void) {
    for (int i = 1; i <= 40; i++) { // darker all the way, so that grey prints can be read
        CHECK(luminance(plb_ramp(i / 40.0)) < luminance(plb_ramp((i - 1) / 40.0)));
        CHECK(luminance(plb_ramp_ratio(i / 40.0)) < luminance(plb_ramp_ratio((i - 1) / 40.0)));
        CHECK(luminance(plb_ramp_ratio(-i / 40.0)) < luminance(plb_ramp_ratio((1 - i) / 40.0)));
    }
    CHECK(plb_ramp(-3) == plb_ramp(0) && plb_ramp(7) == plb_ramp(1));
}

// ---------------------------------------------------------------------------- documents
static plb_status build(plb_document *d) {
    const double y[] = {1e6, 2e6}, low[] = {0.9e6, (double)NAN}, high[] = {1.1e6, (double)NAN};
    const char *const category[] = {"a", "b"};
    const plb_figure_series series = {.name = "x", .count = 2, .y = y, .low = low, .high = high};
    const plb_figure figure = {.kind = PLB_FIGURE_BARS,
                               .name = "a figure/..",
                               .title = "T",
                               .y = {.unit = PLB_UNIT_NS},
                               .category = category,
                               .categories = 2,
                               .series = &series,
                               .series_count = 1};
    plb_document_verdict(d, PLB_TONE_GOOD, "SAME", "%d of %d", 1, 2);
    plb_section *s = plb_document_section(d, "One");
    plb_section_say(s, "Text %s.", "here");
    plb_section_figure(s, &figure);
    plb_section_figure(s, &figure);
    plb_table *t = plb_section_table(s, "t", "Caption");
    plb_table_column(t, "n", PLB_COLUMN_NUMBER, PLB_UNIT_BYTES);
    for (int i = 0; i < 100; i++) plb_table_number(t, i);
    return plb_document_status(d);
}

static plb_status write_all(void *context) {
    plb_strbuf *out = context;
    const plb_terminal terminal = {.columns = 80, .plots = true};
    plb_document *d = plb_document_new("title");
    if (!d) return PLB_ENOMEM;
    plb_status status = build(d);
    plb_strbuf_free(out);
    if (!status) status = plb_document_html(d, out);
    if (!status) status = plb_document_markdown(d, out);
    if (!status) status = plb_document_terminal(d, &terminal, out);
    plb_document_free(d);
    return status;
}

static void test_document(void) {
    plb_strbuf out = {0};
    CHECK_OK(write_all(&out));
    CHECK(strstr(out.text, "<figure id=\"f-a-figure-..\">"));
    CHECK(strstr(out.text, "<figure id=\"f-a-figure-..-2\">")); // a name stands for one figure
    CHECK(strstr(out.text, "<td class=\"n\" data-v=\"99\">99 B</td>"));
    CHECK(strstr(out.text, "1 of 2"));
    CHECK(fault_every_allocation(write_all, &out) > 10);
    plb_strbuf_free(&out);
}

static void test_misuse(void) {
    plb_document *d = plb_document_new("t");
    plb_section *s = plb_document_section(d, "s");
    const double y[] = {1};
    const plb_figure_series series = {.name = "x", .count = 1, .y = y};
    plb_table *t = plb_section_table(s, "half", NULL);
    plb_table_column(t, "a", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "b", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_text(t, "only one");
    CHECK_FAILS(PLB_EINVAL, "table half: expected rows of 2", plb_document_status(d));
    plb_table_text(t, "the other");
    CHECK_OK(plb_document_status(d));
    plb_section_figure(
        s,
        &(plb_figure){.kind = PLB_FIGURE_LINES, .name = "f", .series = &series, .series_count = 1});
    CHECK_FAILS(PLB_EINVAL, "figure f (lines), series x: expected x", plb_document_status(d));
    plb_section_say(plb_document_section(d, "after"), "nothing happens");
    CHECK_FAILS(PLB_EINVAL, "figure f", plb_document_status(d)); // the first failure stays
    plb_document_free(d);
}

static plb_status read_small(void *context) {
    static const char text[] =
        "{\"document\":\"report\",\"version\":1,\"title\":\"t\",\"sections\":[{\"title\":\"s\","
        "\"blocks\":[{\"kind\":\"figure\",\"type\":\"lines\",\"title\":\"f\",\"y\":{\"unit\":"
        "\"furlong\"},\"series\":[{\"name\":\"a\",\"x\":[1,2],\"y\":[3,null]}]}]}]}";
    plb_document *d;
    plb_status status = plb_document_read_json(text, sizeof text - 1, "small", &d);
    *(bool *)context = d != NULL;
    plb_document_free(d);
    return status;
}

static void test_json_memory(void) {
    bool read = false;
    CHECK(fault_every_allocation(read_small, &read) > 3);
    CHECK(read);
}

static const check_test tests[] = {
    {"units", test_units},
    {"escapes", test_escapes},
    {"linear_axis", test_linear_axis},
    {"tick_labels", test_tick_labels},
    {"logarithmic_axis", test_logarithmic_axis},
    {"far_ends", test_far_ends},
    {"far_points", test_far_points},
    {"contrast", test_contrast},
    {"colour_blind", test_colour_blind},
    {"ramps", test_ramps},
    {"document", test_document},
    {"misuse", test_misuse},
    {"json_memory", test_json_memory},
};
CHECK_MAIN(tests)
