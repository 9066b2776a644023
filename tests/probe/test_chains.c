// SPDX-License-Identifier: Apache-2.0
// Chains of calls as text: functions of this very program, modules that have no symbols, names that
// would break a line apart, and more chains than there is room for.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "check.h"
#include "faults.h"
#include "probe/chains.h"

enum { PID = 7, FAR = 9, HERE = 0x10000000 };

static plb_places *places;
static plb_chains *chains;

static void begin(const char *name) {
    places = plb_places_new(), chains = plb_chains_new(places);
    plb_places_rename(places, PID, name);
    plb_places_map(places, PID, 0x1000, 0x1000, 0, "/no/such/library.so");
    plb_places_map(places, PID, 0x2000, 0x1000, 0, "//anon");
}

// From the innermost on; 0 ends them.
static void note(uint32_t pid, const uint64_t *address) {
    plb_place place[PLB_CHAIN_DEPTH + 1];
    int depth = 0;
    while (address[depth]) {
        place[depth] = plb_places_at(places, pid, address[depth]);
        depth++;
    }
    place[depth++] = plb_places_program(places, pid);
    plb_chains_note(chains, place, depth);
}

static char *folded(void) {
    plb_strbuf text = {0};
    CHECK(!plb_chains_fold(chains, &text));
    plb_chains_free(chains);
    plb_places_free(places);
    return text.text;
}

static void check_text(char *found, const char *expected) {
    CHECK_SAY(found && strcmp(found, expected) == 0, "%s", found ? found : "nothing");
    free(found);
}

static void test_modules(void) {
    begin("pro;gram");
    note(PID, (uint64_t[]){0x1004, 0x2008, 0});
    note(PID, (uint64_t[]){0x1010, 0x2008, 0}); // another place of the same
    note(PID, (uint64_t[]){0x9000, 0});
    note(FAR, (uint64_t[]){0x1004, 0});
    plb_place kernel[] = {plb_places_in_kernel(), plb_places_program(places, PID)};
    plb_chains_note(chains, kernel, 2);
    check_text(folded(), "[unknown];[unknown] 1\n"
                         "pro:gram;[kernel] 1\n"
                         "pro:gram;[made at run time];[library.so] 2\n"
                         "pro:gram;[unknown] 1\n");
}

// A child is called as its parent until it is another program.
static void test_programs(void) {
    begin("parent");
    plb_places_fork(places, FAR, PID);
    note(FAR, (uint64_t[]){0x1004, 0});
    plb_places_exec(places, FAR);
    plb_places_rename(places, FAR, "child");
    note(FAR, (uint64_t[]){0x1004, 0});
    check_text(folded(), "child;[unknown] 1\nparent;[library.so] 1\n");
}

// More names than there is room for files; only of those that were met any is kept.
static void test_many_names(void) {
    enum { MANY = 5000 };
    char name[16];
    begin("first");
    note(PID, (uint64_t[]){0x1004, 0});
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "n%d", i);
        plb_places_rename(places, PID, name);
        if (i % 2) note(PID, (uint64_t[]){0x1004, 0});
    }
    plb_places_map(places, PID, 0x3000, 0x1000, 0, "/no/such/later.so");
    note(PID, (uint64_t[]){0x3004, 0});
    char *text = folded();
    CHECK(text && strstr(text, "\nn4999;[later.so] 1\n") && strncmp(text, "first;[", 7) == 0);
    CHECK(text && strstr(text, "\nn4997;[library.so] 1\n") && !strstr(text, "unknown"));
    free(text);
}

static plb_status note_and_fold(void *text) {
    plb_strbuf_free(text);
    chains = plb_chains_new(places);
    if (!chains) return PLB_ENOMEM;
    note(PID, (uint64_t[]){0x1004, HERE, 0});
    note(PID, (uint64_t[]){0x2008, HERE, 0});
    const plb_status status = plb_chains_fold(chains, text);
    plb_chains_free(chains);
    return status;
}

// Where this program's file holds the place of `address`.
static uint64_t offset_of(uintptr_t address) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    uint64_t begin, end, offset, found = 0;
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &begin, &end, &offset) == 3 &&
            address >= begin && address < end)
            found = address - begin + offset;
    if (maps) fclose(maps);
    return found;
}

// A file of chains is whole, with every name, or it is not written.
static void test_out_of_memory(void) {
    plb_strbuf text = {0};
    begin("pro");
    plb_chains_free(chains);
    plb_places_map(places, PID, HERE, 0x1000, offset_of((uintptr_t)test_out_of_memory),
                   "/proc/self/exe");
    plb_places_program(places, PID); // has its number
    CHECK(fault_every_allocation(note_and_fold, &text) > 20);
    CHECK_SAY(text.text && strcmp(text.text, "pro;test_out_of_memory;[library.so] 1\n"
                                             "pro;test_out_of_memory;[made at run time] 1\n") == 0,
              "%s", text.text ? text.text : "nothing");
    plb_strbuf_free(&text);
    plb_places_free(places);
}

// Many times what is noted before places become functions; they are the same two.
static void test_many_places(void) {
    enum { MANY = 1000000 };
    begin("many");
    for (uint64_t i = 0; i < MANY; i++)
        note(PID, (uint64_t[]){0x1000 + i % 1000, 0x1000 + i / 1000, 0x2000, 0});
    note(PID, (uint64_t[]){0x2000, 0});
    check_text(folded(), "many;[made at run time] 1\n"
                         "many;[made at run time];[library.so];[library.so] 1000000\n");
}

static int64_t samples_in(const char *text) {
    int64_t samples = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') + 1) {
        const char *end = strchr(line, '\n');
        while (end > line && end[-1] != ' ') end--;
        samples += atoll(end);
    }
    return samples;
}

static void test_more_than_fit(void) {
    enum { FILES = 600, MANY = FILES * FILES };
    static plb_place in[FILES];
    char path[32], last[64];
    begin("many");
    for (uint64_t i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "/no/such/%d.so", (int)i);
        plb_places_map(places, FAR, 0x1000 * (i + 1), 0x1000, 0, path);
        in[i] = plb_places_at(places, FAR, 0x1000 * (i + 1));
    }
    const plb_place program = plb_places_program(places, PID);
    for (int i = 0; i < MANY; i++)
        plb_chains_note(chains, (plb_place[]){in[i % FILES], in[i / FILES], program}, 3);
    plb_chains_note(chains, (plb_place[]){in[7], in[0], program}, 3); // one that has room
    plb_strbuf text = {0};
    CHECK(!plb_chains_fold(chains, &text) && plb_chains_beyond(chains) == MANY - PLB_CHAINS);
    snprintf(last, sizeof last, "\n[other chains] %d\n", MANY - PLB_CHAINS);
    const char *end = text.text ? strstr(text.text, last) : NULL;
    CHECK(end && !end[strlen(last)] && samples_in(text.text) == MANY + 1);
    CHECK(text.text && strstr(text.text, "\nmany;[0.so];[7.so] 2\n"));
    plb_strbuf_free(&text);
    free(folded());
}

// That of whole lines, where what ends a word is a ';'.
static void test_order(void) {
    static const char *const names[] = {"a<", "a", "a!"};
    begin("b");
    for (int i = 0; i < 3; i++) {
        plb_places_rename(places, PID, names[i]);
        note(PID, (uint64_t[]){0x2000, 0x1000, 0});
        note(PID, (uint64_t[]){0x1000, 0});
        note(PID, (uint64_t[]){0});
    }
    check_text(folded(), "a 1\n"
                         "a! 1\n"
                         "a!;[library.so] 1\n"
                         "a!;[library.so];[made at run time] 1\n"
                         "a;[library.so] 1\n"
                         "a;[library.so];[made at run time] 1\n"
                         "a< 1\n"
                         "a<;[library.so] 1\n"
                         "a<;[library.so];[made at run time] 1\n");
}

static const check_test tests[] = {
    {"functions without names are their modules", test_modules},
    {"chains end with the program", test_programs},
    {"names of programs take no file's room", test_many_names},
    {"without memory there is no text", test_out_of_memory},
    {"however many places, functions are what counts", test_many_places},
    {"chains beyond the room are counted", test_more_than_fit},
    {"lines are in the alphabet's order", test_order},
};
CHECK_MAIN(tests)
