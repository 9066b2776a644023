// SPDX-License-Identifier: Apache-2.0
#include "base/libraries.h"

#include <stdio.h>
#include <string.h>

#include <dlfcn.h>
#include <jansson.h>
#include <jpeglib.h>
#include <omp.h>
#include <png.h>
#include <sqlite3.h>
#include <zlib.h>
#ifdef PLB_HAVE_CURL
#include <curl/curl.h>
#endif
#ifdef PLB_HAVE_DNNL
#include <dnnl.h>
#endif
#ifdef PLB_HAVE_CAIRO
#include <cairo.h>
#endif
#ifdef PLB_HAVE_HTTP
#include <microhttpd.h>
#endif

static void dnnl_text(plb_library *library) {
#ifdef PLB_HAVE_DNNL
    const dnnl_version_t *v = dnnl_version();
    library->found = true;
    snprintf(library->version, sizeof library->version, "%d.%d.%d", v->major, v->minor, v->patch);
#else
    (void)library;
#endif
}

static void curl_text(plb_library *library) {
#ifdef PLB_HAVE_CURL
    library->found = true;
    snprintf(library->version, sizeof library->version, "%s",
             curl_version_info(CURLVERSION_NOW)->version);
#else
    (void)library;
#endif
}

// As it was built with: the library itself is opened only when a picture is drawn.
static void cairo_text(plb_library *library) {
#ifdef PLB_HAVE_CAIRO
    library->found = true;
    snprintf(library->version, sizeof library->version, "%s", CAIRO_VERSION_STRING);
#else
    (void)library;
#endif
}

static void http_text(plb_library *library) {
#ifdef PLB_HAVE_HTTP
    library->found = true;
    snprintf(library->version, sizeof library->version, "%s", MHD_get_version());
#else
    (void)library;
#endif
}

// OpenMP's run time does not tell its version; its file says at least whose it is.
static void openmp_text(plb_library *library) {
    Dl_info info;
    void *symbol;
    int (*function)(void) = omp_get_max_threads;
    memcpy(&symbol, &function, sizeof symbol);
    const char *file = dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "";
    const char *slash = strrchr(file, '/');
    snprintf(library->version, sizeof library->version, "%d (%.30s)", _OPENMP,
             slash ? slash + 1 : file);
}

static void jpeg_text(plb_library *library) {
#ifdef LIBJPEG_TURBO_VERSION
#define PLB_TEXT_OF(x)  #x
#define PLB_VALUE_OF(x) PLB_TEXT_OF(x)
    snprintf(library->version, sizeof library->version, "turbo %s",
             PLB_VALUE_OF(LIBJPEG_TURBO_VERSION));
#else
    snprintf(library->version, sizeof library->version, "%d", JPEG_LIB_VERSION);
#endif
}

size_t plb_libraries(plb_library *out) {
    static const plb_library known[] = {
        {"oneDNN", "fast convolutions and matrix products", "libdnnl-dev", false, ""},
        {"OpenMP", "several threads within one op", "gcc", true, ""},
        {"jansson", "reading JSON", "libjansson-dev", true, ""},
        {"SQLite", "the store of measurements", "libsqlite3-dev", true, ""},
        {"libjpeg", "JPEG images", "libjpeg-dev", true, ""},
        {"libpng", "PNG images", "libpng-dev", true, ""},
        {"zlib", "compressed data sets", "zlib1g-dev", true, ""},
        {"libcurl", "downloading data sets", "libcurl4-openssl-dev", false, ""},
        {"cairo", "figures as PNG and PDF", "libcairo2-dev", false, ""},
        {"libmicrohttpd", "plumb serve", "libmicrohttpd-dev", false, ""},
    };
    memcpy(out, known, sizeof known);
    dnnl_text(&out[0]);
    openmp_text(&out[1]);
    snprintf(out[2].version, sizeof out[2].version, "%s", jansson_version_str());
    snprintf(out[3].version, sizeof out[3].version, "%s", sqlite3_libversion());
    jpeg_text(&out[4]);
    snprintf(out[5].version, sizeof out[5].version, "%s", png_get_libpng_ver(NULL));
    snprintf(out[6].version, sizeof out[6].version, "%s", zlibVersion());
    curl_text(&out[7]);
    cairo_text(&out[8]);
    http_text(&out[9]);
    return sizeof known / sizeof *known;
}
