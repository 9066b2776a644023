// SPDX-License-Identifier: Apache-2.0
#include "report/write.h"

#include <stdio.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/core/status.h"
#include "report/drawing.h"
#include "report/parts.h"

static const char *const words[PLB_FORMATS] = {"html", "md", "csv", "png", "pdf", "svg"};

const char *plb_format_word(plb_format format) {
    return words[format];
}

plb_status plb_format_parse(const char *word, plb_format *out) {
    for (int i = 0; i < PLB_FORMATS; i++) {
        *out = (plb_format)i;
        if (strcmp(word, words[i]) == 0) return PLB_OK;
    }
    return plb_fail(PLB_EINVAL, "format %s: expected " PLB_FORMAT_WORDS, word);
}

plb_status plb_format_of_path(const char *path, plb_format *out) {
    const char *dot = strrchr(path, '.');
    *out = PLB_FORMAT_HTML;
    if (!dot || strchr(dot, '/') || strcmp(dot, ".htm") == 0) return PLB_OK;
    return plb_format_parse(dot + 1, out);
}

plb_status plb_document_no_part(const plb_document *document, const char *name) {
    plb_strbuf list = {0};
    for (const plb_section *s = document->first; s; s = s->next) {
        for (const plb_part *p = s->first; p; p = p->next) {
            if (p->kind == PLB_PART_FIGURE) plb_strbuf_printf(&list, " %s", p->figure->name);
            if (p->kind == PLB_PART_TABLE) plb_strbuf_printf(&list, " %s", p->table->name);
        }
    }
    const char *known = list.text && !list.failed ? list.text : " none";
    plb_status status =
        name ? plb_fail(PLB_EINVAL, "the report has no figure or table %s; it has:%s", name, known)
             : plb_fail(PLB_EINVAL, "the report has no table");
    plb_strbuf_free(&list);
    return status;
}

// One writing: where to, and what of the document.
typedef struct job {
    const plb_document *document;
    plb_format format;
    const char *path;
    plb_written tell;
    void *context;
} job;

static plb_status write_file(const job *j, const char *path, const plb_strbuf *text) {
    PLB_TRY(plb_atomic_write_all(path, text->text, text->length));
    if (j->tell) j->tell(j->context, path);
    return PLB_OK;
}

static plb_status write_text(const job *j, const char *part) {
    plb_strbuf text = {0};
    plb_status status;
    switch (j->format) {
    case PLB_FORMAT_HTML: status = plb_document_html(j->document, &text); break;
    case PLB_FORMAT_MARKDOWN: status = plb_document_markdown(j->document, &text); break;
    default: status = plb_document_csv(j->document, part, &text); break;
    }
    if (!status) status = write_file(j, j->path, &text);
    plb_strbuf_free(&text);
    return status;
}

// ---------------------------------------------------------------------------- pictures
static plb_status draw_alone(const plb_figure *figure, plb_arena *arena, plb_drawing *out) {
    return plb_draw(figure, &(plb_draw_options){.titled = true}, arena, out);
}

plb_status plb_figure_svg(const plb_figure *figure, plb_strbuf *out) {
    plb_drawing drawing;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a figure");
    plb_status status = draw_alone(figure, arena, &drawing);
    if (!status) plb_drawing_svg(&drawing, false, "", out);
    plb_arena_free(arena);
    if (!status && out->failed) status = plb_fail(PLB_ENOMEM, "out of memory for a figure");
    return status;
}

plb_status plb_figure_png(const plb_figure *figure, double scale, plb_strbuf *out) {
    plb_drawing drawing;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a figure");
    plb_status status = draw_alone(figure, arena, &drawing);
    if (!status) status = plb_drawing_png(&drawing, scale, out);
    plb_arena_free(arena);
    return status;
}

// "F.png" and "levels" to "F-levels.png".
static plb_status name_picture(const char *path, const char *name, plb_strbuf *out) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    const size_t stem =
        dot && dot > (slash ? slash + 1 : path) ? (size_t)(dot - path) : strlen(path);
    plb_strbuf_append(out, path, stem);
    plb_strbuf_printf(out, "-%s%s", name, path + stem);
    return out->failed ? plb_fail(PLB_ENOMEM, "out of memory for a path") : PLB_OK;
}

static plb_status write_picture(const job *j, const plb_figure *figure, bool alone) {
    plb_strbuf picture = {0}, path = {0};
    plb_status status;
    if (!alone) PLB_TRY_OUT(name_picture(j->path, figure->name, &path));
    PLB_TRY_OUT(j->format == PLB_FORMAT_SVG ? plb_figure_svg(figure, &picture)
                                            : plb_figure_png(figure, 2, &picture));
    status = write_file(j, alone ? j->path : path.text, &picture);
out:
    plb_strbuf_free(&picture);
    plb_strbuf_free(&path);
    return status;
}

static plb_status write_pdf(const job *j, const plb_figure *const *figure, size_t count) {
    plb_strbuf text = {0};
    plb_status status;
    plb_arena *arena = plb_arena_new();
    plb_drawing *drawings = arena ? plb_arena_alloc(arena, count * sizeof *drawings) : NULL;
    const plb_drawing **list = arena ? plb_arena_alloc(arena, count * sizeof *list) : NULL;
    if (!drawings || !list) {
        status = plb_fail(PLB_ENOMEM, "out of memory for figures");
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        list[i] = &drawings[i];
        PLB_TRY_OUT(draw_alone(figure[i], arena, &drawings[i]));
    }
    PLB_TRY_OUT(plb_drawings_pdf(list, count, &text));
    status = write_file(j, j->path, &text);
out:
    plb_strbuf_free(&text);
    plb_arena_free(arena);
    return status;
}

// The figures, or the one that is called `part`.
static size_t list_figures(const plb_document *d, const char *part, const plb_figure **out) {
    size_t count = 0;
    for (const plb_section *s = d->first; s; s = s->next) {
        for (const plb_part *p = s->first; p; p = p->next) {
            if (p->kind != PLB_PART_FIGURE || (part && strcmp(part, p->figure->name) != 0))
                continue;
            if (out) out[count] = p->figure;
            count++;
        }
    }
    return count;
}

// Why there is none to draw.
static plb_status fail_no_figure(const job *j, const char *part) {
    if (!part) return plb_fail(PLB_EINVAL, "the report has no figure to draw");
    for (const plb_section *s = j->document->first; s; s = s->next)
        for (const plb_part *p = s->first; p; p = p->next)
            if (p->kind == PLB_PART_TABLE && strcmp(part, p->table->name) == 0)
                return plb_fail(PLB_EINVAL, "%s is a table; %s takes figures", part,
                                plb_format_word(j->format));
    return plb_document_no_part(j->document, part);
}

static plb_status write_pictures(const job *j, const char *part) {
    const size_t count = list_figures(j->document, part, NULL);
    if (!count) return fail_no_figure(j, part);
    plb_arena *arena = plb_arena_new();
    const plb_figure **figures = arena ? plb_arena_alloc(arena, count * sizeof *figures) : NULL;
    plb_status status = PLB_OK;
    if (!figures) {
        status = plb_fail(PLB_ENOMEM, "out of memory for figures");
        goto out;
    }
    (void)list_figures(j->document, part, figures);
    if (j->format == PLB_FORMAT_PDF) {
        status = write_pdf(j, figures, count);
        goto out;
    }
    for (size_t i = 0; i < count; i++) PLB_TRY_OUT(write_picture(j, figures[i], count == 1));
out:
    plb_arena_free(arena);
    return status;
}

plb_status plb_document_write(const plb_document *document, plb_format format, const char *part,
                              const char *path, plb_written tell, void *context) {
    const job j = {document, format, path, tell, context};
    PLB_TRY(plb_document_status(document));
    switch (format) {
    case PLB_FORMAT_PNG:
    case PLB_FORMAT_SVG:
    case PLB_FORMAT_PDF: return write_pictures(&j, part);
    default: return write_text(&j, part);
    }
}
