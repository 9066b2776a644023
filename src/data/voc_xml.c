// SPDX-License-Identifier: Apache-2.0
// VOC's annotations: <annotation> with <size> and <object>s. Elements may come in any order, so
// that boxes are checked against the size at the end.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "data/voc.h"

const char *const plb_voc_names[PLB_VOC_CLASSES] = {
    "aeroplane", "bicycle",     "bird",  "boat",        "bottle", "bus",      "car",
    "cat",       "chair",       "cow",   "diningtable", "dog",    "horse",    "motorbike",
    "person",    "pottedplant", "sheep", "sofa",        "train",  "tvmonitor"};

#ifdef PLB_HAVE_XML
#include <libxml/parser.h>
#include <libxml/tree.h>

static const xmlNode *child(const xmlNode *parent, const char *name) {
    for (const xmlNode *at = parent ? parent->children : NULL; at; at = at->next)
        if (at->type == XML_ELEMENT_NODE && !strcmp((const char *)at->name, name)) return at;
    return NULL;
}

// The text of an element that holds text alone; "" where there is none.
static const char *text_of(const xmlNode *element) {
    const xmlNode *inner = element ? element->children : NULL;
    return inner && inner->type == XML_TEXT_NODE && inner->content ? (const char *)inner->content
                                                                   : "";
}

static plb_status read_number(const xmlNode *parent, const char *name, const char *label,
                              double *out) {
    const xmlNode *element = child(parent, name);
    const char *text = text_of(element);
    char *end;
    *out = strtod(text, &end);
    while (*end == ' ' || *end == '\n' || *end == '\r' || *end == '\t') end++;
    if (end != text && !*end && isfinite(*out) && fabs(*out) < 1e9) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s, line %ld: <%s>: expected a number, found %.40s", label,
                    xmlGetLineNo(element ? element : parent), name, *text ? text : "none");
}

static plb_status read_size(const xmlNode *root, const char *label, plb_voc_annotation *out) {
    const xmlNode *size = child(root, "size");
    double width, height;
    if (!size) return plb_fail(PLB_EINVAL, "%s: expected a <size>, found none", label);
    PLB_TRY(read_number(size, "width", label, &width));
    PLB_TRY(read_number(size, "height", label, &height));
    out->width = (int64_t)width, out->height = (int64_t)height;
    if (out->width > 0 && out->height > 0) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s, line %ld: <size>: expected pixels, found %lld x %lld", label,
                    xmlGetLineNo(size), (long long)out->width, (long long)out->height);
}

static plb_status read_class(const xmlNode *object, const char *label, int *out) {
    const xmlNode *element = child(object, "name");
    const char *name = text_of(element);
    for (*out = 0; *out < PLB_VOC_CLASSES; ++*out)
        if (!strcmp(plb_voc_names[*out], name)) return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "%s, line %ld: <name>: expected one of VOC's 20 classes, found %.40s", label,
                    xmlGetLineNo(element ? element : object), *name ? name : "none");
}

// Boxes count pixels from 1 and include their last ones; some have fractions.
static plb_status read_box(const xmlNode *object, const char *label,
                           const plb_voc_annotation *picture, plb_voc_object *out) {
    const xmlNode *box = child(object, "bndbox");
    double left, top, right, bottom;
    if (!box)
        return plb_fail(PLB_EINVAL, "%s, line %ld: <object>: expected a <bndbox>, found none",
                        label, xmlGetLineNo(object));
    PLB_TRY(read_number(box, "xmin", label, &left));
    PLB_TRY(read_number(box, "ymin", label, &top));
    PLB_TRY(read_number(box, "xmax", label, &right));
    PLB_TRY(read_number(box, "ymax", label, &bottom));
    out->left = (int64_t)round(left) - 1, out->top = (int64_t)round(top) - 1;
    out->right = (int64_t)round(right), out->bottom = (int64_t)round(bottom);
    if (out->left < 0) out->left = 0; // a few annotations begin at 0
    if (out->top < 0) out->top = 0;
    if (out->left < out->right && out->top < out->bottom && out->right <= picture->width &&
        out->bottom <= picture->height)
        return PLB_OK;
    return plb_fail(
        PLB_EINVAL,
        "%s, line %ld: <bndbox>: expected a box within %lld x %lld pixels, found %g, %g "
        "to %g, %g",
        label, xmlGetLineNo(box), (long long)picture->width, (long long)picture->height, left, top,
        right, bottom);
}

static plb_status read_objects(const xmlNode *root, const char *label, plb_arena *arena,
                               plb_voc_annotation *out) {
    size_t count = 0;
    for (const xmlNode *at = root->children; at; at = at->next)
        count += at->type == XML_ELEMENT_NODE && !strcmp((const char *)at->name, "object");
    out->objects = plb_arena_alloc(arena, (count + 1) * sizeof *out->objects);
    if (!out->objects) return plb_fail(PLB_ENOMEM, "%s: no memory for its objects", label);
    for (const xmlNode *at = root->children; at; at = at->next) {
        if (at->type != XML_ELEMENT_NODE || strcmp((const char *)at->name, "object") != 0) continue;
        plb_voc_object *object = &out->objects[out->count];
        PLB_TRY(read_class(at, label, &object->class));
        PLB_TRY(read_box(at, label, out, object));
        object->difficult = atoi(text_of(child(at, "difficult"))) != 0;
        out->count++;
    }
    return PLB_OK;
}

static plb_status fail_xml(const char *label) {
    const xmlError *error = xmlGetLastError();
    if (!error) return plb_fail(PLB_ENOMEM, "%s: no memory to read it", label);
    const char *text = error->message ? error->message : "not XML";
    return plb_fail(PLB_EINVAL, "%s, line %d: XML: %.*s", label, error->line,
                    (int)strcspn(text, "\n"), text);
}

plb_status plb_voc_annotation_parse(const void *bytes, size_t size_bytes, const char *label,
                                    plb_arena *arena, plb_voc_annotation *out) {
    *out = (plb_voc_annotation){0};
    if (size_bytes > 1 << 24)
        return plb_fail(PLB_EINVAL, "%s: expected at most 16 MiB of XML, found %zu bytes", label,
                        size_bytes);
    xmlDoc *document = xmlReadMemory(bytes, (int)size_bytes, NULL, NULL,
                                     XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    if (!document) return fail_xml(label);
    plb_status status;
    const xmlNode *root = xmlDocGetRootElement(document);
    if (!root || strcmp((const char *)root->name, "annotation") != 0)
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "%s: expected an <annotation>, found <%s>", label,
                             root ? (const char *)root->name : ""));
    PLB_TRY_OUT(read_size(root, label, out));
    PLB_TRY_OUT(read_objects(root, label, arena, out));
out:
    xmlFreeDoc(document);
    return status;
}

#else

plb_status plb_voc_annotation_parse(const void *bytes, size_t size_bytes, const char *label,
                                    plb_arena *arena, plb_voc_annotation *out) {
    (void)bytes, (void)size_bytes, (void)arena, (void)out;
    return plb_fail(PLB_EMISSING,
                    "%s: cannot be read: this build has no libxml2 (Debian: libxml2-dev)", label);
}

#endif
