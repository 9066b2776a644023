// SPDX-License-Identifier: Apache-2.0
// Against a small HTTP server on this machine, whose manners each test chooses.
#include "data/download.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"
#include "check.h"
#include "faults.h"

#ifdef PLB_HAVE_CURL
enum { BODY_BYTES = 300000 };

static struct {
    int listener, port;
    pthread_t thread;
    atomic_int requests, ranges; // seen
    atomic_int cut_after;        // bytes of body, then the line is cut; 0: never
    atomic_bool ignores_ranges, not_found;
    char body[BODY_BYTES];
} server;

// The MD5 of server.body, from `md5sum`.
static char body_md5[33];

static void send_all(int line, const char *bytes, size_t size_bytes) {
    while (size_bytes) {
        ssize_t sent = send(line, bytes, size_bytes, MSG_NOSIGNAL);
        if (sent <= 0) return;
        bytes += sent, size_bytes -= (size_t)sent;
    }
}

static void answer(int line) {
    char request[4096], header[256];
    size_t got = 0, from = 0;
    while (got < sizeof request - 1) {
        ssize_t n = recv(line, request + got, sizeof request - 1 - got, 0);
        if (n <= 0) return;
        got += (size_t)n, request[got] = '\0';
        if (strstr(request, "\r\n\r\n")) break;
    }
    atomic_fetch_add(&server.requests, 1);
    const char *range = strstr(request, "Range: bytes=");
    if (range) atomic_fetch_add(&server.ranges, 1);
    if (range && !server.ignores_ranges) from = strtoul(range + 13, NULL, 10);
    if (server.not_found || from >= BODY_BYTES) {
        snprintf(header, sizeof header,
                 "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                 server.not_found ? "404 Not Found" : "416 Range Not Satisfiable");
        send_all(line, header, strlen(header));
        return;
    }
    char place[96] = "";
    if (from)
        snprintf(place, sizeof place, "Content-Range: bytes %zu-%d/%d\r\n", from, BODY_BYTES - 1,
                 BODY_BYTES);
    snprintf(header, sizeof header,
             "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n",
             from ? "206 Partial Content" : "200 OK", BODY_BYTES - from, place);
    send_all(line, header, strlen(header));
    size_t size = BODY_BYTES - from, cut = (size_t)server.cut_after;
    send_all(line, server.body + from, cut && cut < size ? cut : size);
}

static void *serve(void *context) {
    (void)context;
    int line;
    while ((line = accept(server.listener, NULL, NULL)) >= 0) {
        answer(line);
        shutdown(line, SHUT_RDWR);
        close(line);
    }
    return NULL;
}

static char folder[128], path[160], part[176], url[64];

// A fresh folder, the server polite, the file and its part absent.
static void begin(void) {
    if (!server.port) {
        struct sockaddr_in place = {.sin_family = AF_INET,
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t length = sizeof place;
        server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(!bind(server.listener, (struct sockaddr *)&place, sizeof place));
        CHECK(!listen(server.listener, 8));
        CHECK(!getsockname(server.listener, (struct sockaddr *)&place, &length));
        server.port = ntohs(place.sin_port);
        for (int i = 0; i < BODY_BYTES; i++)
            server.body[i] = (char)((unsigned)i * 2654435761u >> 24);
        pthread_create(&server.thread, NULL, serve, NULL);
        unsetenv("http_proxy"), unsetenv("all_proxy"), unsetenv("ALL_PROXY");
    }
    server.requests = server.ranges = server.cut_after = 0;
    server.ignores_ranges = server.not_found = false;
    snprintf(folder, sizeof folder, "%s", fault_folder());
    snprintf(path, sizeof path, "%s/file.bin", folder);
    snprintf(part, sizeof part, "%s.part", path);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/file.bin", server.port);
}

static void write_file(const char *name, const void *bytes, size_t size_bytes) {
    FILE *file = fopen(name, "wb");
    CHECK(file && fwrite(bytes, 1, size_bytes, file) == size_bytes);
    if (file) fclose(file);
}

static bool file_is_body(const char *name) {
    uint8_t *bytes;
    size_t size;
    if (plb_file_read(name, BODY_BYTES + 1, &bytes, &size)) return false;
    bool equal = size == BODY_BYTES && !memcmp(bytes, server.body, size);
    plb_free(bytes);
    return equal;
}

static plb_status get_from(const char *const *urls, size_t count, plb_progress *progress) {
    if (!body_md5[0]) {
        char command[256];
        write_file(part, server.body, BODY_BYTES);
        snprintf(command, sizeof command, "md5sum '%s'", part);
        FILE *pipe = popen(command, "r");
        CHECK(pipe && fread(body_md5, 1, 32, pipe) == 32);
        if (pipe) pclose(pipe);
        unlink(part);
    }
    plb_download download = {.urls = urls,
                             .url_count = count,
                             .path = path,
                             .digest_kind = PLB_MD5,
                             .digest = body_md5,
                             .progress = progress};
    return plb_download_file(&download);
}

static plb_status get(void) {
    const char *urls[] = {url};
    return get_from(urls, 1, NULL);
}

static bool note_event(void *context, const plb_progress_event *event) {
    *(plb_progress_event *)context = *event;
    return true;
}

static void a_file_is_fetched_and_told_of(void) {
    begin();
    plb_progress_event last = {0};
    plb_progress progress = {.callback = note_event, .context = &last};
    const char *urls[] = {url};
    CHECK_OK(get_from(urls, 1, &progress));
    CHECK(file_is_body(path) && !plb_file_exists(part));
    CHECK(last.last && last.done == BODY_BYTES && last.total == BODY_BYTES);
    CHECK(!strcmp(last.unit, "bytes"));
    fault_folder_remove(folder);
}

static void a_cut_line_is_resumed_where_it_ended(void) {
    begin();
    server.cut_after = 100000;
    CHECK_FAILS(PLB_EIO, url, get());
    CHECK(!plb_file_exists(path) && plb_file_exists(part));
    CHECK_FAILS(PLB_EIO, url, get()); // gets 100,000 more
    CHECK(server.ranges == 1);
    server.cut_after = 0;
    CHECK_OK(get());
    CHECK(server.ranges == 2 && server.requests == 3 && file_is_body(path));
    fault_folder_remove(folder);
}

static void a_mirror_goes_on_where_another_stopped(void) {
    begin();
    const char *urls[] = {"http://127.0.0.1:1/refused", url};
    write_file(part, server.body, 1234);
    CHECK_OK(get_from(urls, 2, NULL));
    CHECK(server.ranges == 1 && file_is_body(path));
    fault_folder_remove(folder);
}

static void a_server_without_ranges_begins_anew(void) {
    begin();
    server.ignores_ranges = true;
    write_file(part, server.body, 5000);
    CHECK_OK(get());
    CHECK(file_is_body(path));
    fault_folder_remove(folder);
}

static void a_bad_part_is_not_built_upon(void) {
    begin();
    static char junk[BODY_BYTES + 10];
    write_file(part, junk, 5000); // of the right kind, but not the same bytes
    CHECK_OK(get());
    CHECK(file_is_body(path));
    unlink(path);
    write_file(part, junk, sizeof junk); // longer than the file
    CHECK_OK(get());
    CHECK(file_is_body(path));
    unlink(path);
    server.requests = 0;
    write_file(part, server.body, BODY_BYTES); // whole, only its name is missing
    CHECK_OK(get());
    CHECK(server.requests == 0 && file_is_body(path));
    fault_folder_remove(folder);
}

static void a_wrong_checksum_keeps_nothing_new(void) {
    begin();
    write_file(path, "old", 3);
    const char *urls[] = {url};
    plb_download download = {.urls = urls,
                             .url_count = 1,
                             .path = path,
                             .digest_kind = PLB_MD5,
                             .digest = "00000000000000000000000000000000"};
    CHECK_FAILS(PLB_EINVAL, "checksum: expected 00000000", plb_download_file(&download));
    CHECK(!plb_file_exists(part));
    uint8_t *bytes;
    size_t size;
    CHECK_OK(plb_file_read(path, 100, &bytes, &size));
    CHECK(size == 3 && !memcmp(bytes, "old", 3));
    plb_free(bytes);
    fault_folder_remove(folder);
}

static void failures_say_what_and_where(void) {
    begin();
    server.not_found = true;
    CHECK_FAILS(PLB_EIO, "404", get());
    const char *ftp[] = {"ftp://127.0.0.1/x"};
    CHECK_FAILS(PLB_EIO, "ftp", get_from(ftp, 1, NULL));
    CHECK_FAILS(PLB_EINVAL, "nowhere", get_from(NULL, 0, NULL));
    snprintf(path, sizeof path, "%s/none/file", folder);
    CHECK_FAILS(PLB_EIO, "none/file.part: cannot write", get());
    unlink(part);
    fault_folder_remove(folder);
}

static bool refuse_second(void *context, const plb_progress_event *event) {
    (void)event;
    return ++*(int *)context < 2;
}

static void the_user_may_stop_it(void) {
    begin();
    int events = 0;
    plb_progress progress = {.callback = refuse_second, .context = &events};
    const char *urls[] = {url, url};
    CHECK_FAILS(PLB_ECANCELLED, "stopped on request", get_from(urls, 2, &progress));
    CHECK(!plb_file_exists(path) && server.requests <= 1);
    fault_folder_remove(folder);
}

static void file_urls_work(void) {
    begin();
    char source[160], file_url[200];
    snprintf(source, sizeof source, "%s/source", folder);
    snprintf(file_url, sizeof file_url, "file://%s", source);
    write_file(source, server.body, BODY_BYTES);
    write_file(part, server.body, 777);
    const char *urls[] = {file_url};
    CHECK_OK(get_from(urls, 1, NULL));
    CHECK(file_is_body(path));
    fault_folder_remove(folder);
}

static void a_full_disk_is_said_to_be_full(void) {
    begin();
    if (!fault_small_disk(folder, "64k")) {
        fault_folder_remove(folder);
        SKIP("mounting is not permitted here");
    }
    const char *urls[] = {url, url};
    CHECK_FAILS(PLB_EFULL, "file.bin.part", get_from(urls, 2, NULL));
    CHECK(!plb_file_exists(path) && server.requests == 1);
}

// Known answers: RFC 1321 A.5 and FIPS 180-4's example "abc".
static void digests_give_the_known_answers(void) {
    begin();
    char text[PLB_DIGEST_TEXT_BYTES];
    write_file(path, "abc", 3);
    CHECK_OK(plb_digest_file(PLB_MD5, path, false, text));
    CHECK(!strcmp(text, "900150983cd24fb0d6963f7d28e17f72"));
    CHECK_OK(plb_digest_file(PLB_SHA256, path, false, text));
    CHECK(!strcmp(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    CHECK_OK(plb_digest_file(PLB_MD5, path, true, text)); // not packed: the same
    CHECK(!strcmp(text, "900150983cd24fb0d6963f7d28e17f72"));
    CHECK_FAILS(PLB_EIO, "/no/such", plb_digest_file(PLB_MD5, "/no/such", false, text));
    fault_folder_remove(folder);
}

static const check_test tests[] = {
    {"a file is fetched and told of", a_file_is_fetched_and_told_of},
    {"a cut line is resumed where it ended", a_cut_line_is_resumed_where_it_ended},
    {"a mirror goes on where another stopped", a_mirror_goes_on_where_another_stopped},
    {"a server without ranges begins anew", a_server_without_ranges_begins_anew},
    {"a bad part is not built upon", a_bad_part_is_not_built_upon},
    {"a wrong checksum keeps nothing new", a_wrong_checksum_keeps_nothing_new},
    {"failures say what and where", failures_say_what_and_where},
    {"the user may stop it", the_user_may_stop_it},
    {"file URLs work", file_urls_work},
    {"digests give the known answers", digests_give_the_known_answers},
    {"a full disk is said to be full", a_full_disk_is_said_to_be_full}, // last: it mounts
};
#else
static void a_build_without_libcurl_says_so(void) {
    plb_download download = {.path = "x"};
    char text[PLB_DIGEST_TEXT_BYTES];
    CHECK_FAILS(PLB_EMISSING, "no libcurl", plb_download_file(&download));
    CHECK_FAILS(PLB_EMISSING, "no libcrypto", plb_digest_file(PLB_MD5, "x", false, text));
}

static const check_test tests[] = {
    {"a build without libcurl says so", a_build_without_libcurl_says_so},
};
#endif
CHECK_MAIN(tests)
