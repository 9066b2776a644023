// SPDX-License-Identifier: Apache-2.0
#include "data/download.h"

#include "base/core/status.h"

#ifdef PLB_HAVE_CURL
#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONNECT_TIMEOUT_S = 20, STALL_BYTES_PER_S = 100, STALL_S = 30 };

typedef struct transfer {
    const plb_download *download;
    FILE *file;
    const char *part, *what; // path of the part; base name of the file
    int64_t had_bytes;       // of the part, before this transfer
    int write_errno;
    plb_status stopped; // by progress
} transfer;

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_started;

static void start_curl(void) {
    curl_started = curl_global_init(CURL_GLOBAL_DEFAULT); // not safe from two threads at once
}

static size_t write_piece(char *bytes, size_t one, size_t count, void *context) {
    transfer *self = context;
    size_t written = fwrite(bytes, one, count, self->file);
    if (written < count) self->write_errno = errno;
    return written * one;
}

static int tell_progress(void *context, curl_off_t total, curl_off_t done, curl_off_t up_total,
                         curl_off_t up_done) {
    (void)up_total, (void)up_done;
    transfer *self = context;
    plb_progress_event event = {.what = self->what,
                                .unit = "bytes",
                                .done = self->had_bytes + done,
                                .total = total > 0 ? self->had_bytes + total : -1};
    self->stopped = plb_progress_tell(self->download->progress, &event);
    return self->stopped != PLB_OK;
}

static int64_t file_bytes(const char *path) {
    struct stat info;
    return stat(path, &info) ? 0 : (int64_t)info.st_size;
}

static void set_options(CURL *curl, transfer *self, const char *url, char *error) {
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https,file");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "plumb");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_BYTES_PER_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)self->had_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, write_piece);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, self);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, tell_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, self);
}

// *out_refused: the server does not serve the rest (no ranges, or the part is as long as the file
// or longer), so that only a new beginning helps.
static plb_status explain(const transfer *self, CURLcode code, long answer, const char *url,
                          const char *error, bool *out_refused) {
    *out_refused = self->had_bytes > 0 &&
                   (code == CURLE_RANGE_ERROR || answer == 416 ||
                    code == CURLE_BAD_DOWNLOAD_RESUME || code == CURLE_FILE_COULDNT_READ_FILE);
    if (code == CURLE_OK) return PLB_OK;
    if (self->stopped) return self->stopped; // its text is the progress function's
    if (code == CURLE_WRITE_ERROR && self->write_errno) {
        errno = self->write_errno;
        return plb_fail_errno("%s: cannot write", self->part);
    }
    plb_status status = code == CURLE_OUT_OF_MEMORY ? PLB_ENOMEM : PLB_EIO;
    return plb_fail(status, "%s: %s", url, error[0] ? error : curl_easy_strerror(code));
}

// Appends what is left of `url` to the part.
static plb_status append_rest(transfer *self, const char *url, bool *out_refused) {
    char error[CURL_ERROR_SIZE] = "";
    long answer = 0;
    self->had_bytes = file_bytes(self->part);
    self->write_errno = 0;
    self->file = fopen(self->part, "ab");
    if (!self->file) return plb_fail_errno("%s: cannot write", self->part);
    CURL *curl = curl_easy_init();
    CURLcode code = CURLE_OUT_OF_MEMORY;
    if (curl) {
        set_options(curl, self, url, error);
        code = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer);
        curl_easy_cleanup(curl);
    }
    bool flushed = !fflush(self->file) && !fsync(fileno(self->file));
    int flush_errno = errno;
    fclose(self->file);
    PLB_TRY(explain(self, code, answer, url, error, out_refused));
    errno = flush_errno;
    return flushed ? PLB_OK : plb_fail_errno("%s: cannot write", self->part);
}

// Removes a part that is not what was published.
static plb_status check_part(const transfer *self, const char *url) {
    const plb_download *download = self->download;
    char found[PLB_DIGEST_TEXT_BYTES];
    int64_t had_bytes = file_bytes(self->part);
    if (download->size_bytes > 0 && had_bytes != download->size_bytes) {
        if (had_bytes > download->size_bytes) unlink(self->part);
        return plb_fail(PLB_EINVAL, "%s: expected %lld bytes, found %lld", url,
                        (long long)download->size_bytes, (long long)had_bytes);
    }
    if (!download->digest) return PLB_OK;
    PLB_TRY(plb_digest_file(download->digest_kind, self->part, false, found));
    if (!strcmp(found, download->digest)) return PLB_OK;
    int64_t size_bytes = file_bytes(self->part);
    unlink(self->part);
    return plb_fail(PLB_EINVAL, "%s: checksum: expected %s, found %s (%lld bytes); not kept", url,
                    download->digest, found, (long long)size_bytes);
}

// A part that proves bad may have come from another mirror or an older file: once more, from zero.
static plb_status try_mirror(transfer *self, const char *url) {
    bool refused = false, resumed = file_bytes(self->part) > 0;
    plb_status status = append_rest(self, url, &refused);
    if (!status) status = check_part(self, url);
    bool again = resumed && (refused || status == PLB_EINVAL);
    if (!again) return status;
    unlink(self->part);
    PLB_TRY(append_rest(self, url, &refused));
    return check_part(self, url);
}

// The part may be whole already: the last run ended between the last byte and the new name.
static bool part_is_whole(const transfer *self) {
    char found[PLB_DIGEST_TEXT_BYTES];
    const plb_download *download = self->download;
    return download->digest && file_bytes(self->part) > 0 &&
           !plb_digest_file(download->digest_kind, self->part, false, found) &&
           !strcmp(found, download->digest);
}

static plb_status try_all(transfer *self) {
    const plb_download *download = self->download;
    if (part_is_whole(self)) return PLB_OK;
    plb_status status = plb_fail(PLB_EINVAL, "%s: nowhere to get it from", download->path);
    for (size_t i = 0; i < download->url_count && status; i++) {
        status = try_mirror(self, download->urls[i]);
        // Another mirror helps neither a user who wants to stop nor a full disk.
        if (status == PLB_ECANCELLED || status == PLB_EFULL || status == PLB_ENOMEM) break;
    }
    return status;
}

plb_status plb_download_file(const plb_download *download) {
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s.part", download->path) >= PATH_MAX)
        return plb_fail(PLB_EINVAL, "%s: the path is too long", download->path);
    pthread_once(&curl_once, start_curl);
    if (curl_started) return plb_fail(PLB_ENOMEM, "%s", curl_easy_strerror(curl_started));
    const char *slash = strrchr(download->path, '/');
    transfer self = {.download = download, .part = part};
    self.what = slash ? slash + 1 : download->path;
    PLB_TRY(try_all(&self));
    int64_t size_bytes = file_bytes(part);
    if (rename(part, download->path)) return plb_fail_errno("%s: cannot rename", part);
    plb_progress_event event = {self.what, "bytes", size_bytes, size_bytes, true};
    return plb_progress_tell(download->progress, &event);
}

#else

plb_status plb_download_file(const plb_download *download) {
    return plb_fail(PLB_EMISSING,
                    "%s: cannot be downloaded: this build has no libcurl (Debian: "
                    "libcurl4-openssl-dev libssl-dev)",
                    download->path);
}

#endif
