// SPDX-License-Identifier: Apache-2.0
// What a document holds, for the files that write it.
#ifndef PLB_REPORT_PARTS_H
#define PLB_REPORT_PARTS_H

#include "report/document.h"

typedef struct plb_part_cell {
    const char *text;    // NULL: a number
    double number;       // NaN: none
    const char *address; // of a link, or NULL
    plb_tone tone;
    bool badge;
} plb_part_cell;

typedef struct plb_part_column {
    const char *title;
    plb_column_kind kind;
    plb_unit unit;
} plb_part_column;

enum { PLB_MOST_COLUMNS = 40 };

struct plb_table {
    plb_document *document;
    const char *name, *caption;
    plb_part_column column[PLB_MOST_COLUMNS];
    size_t columns;
    plb_part_cell *cell; // [cells]: whole rows of `columns`
    size_t cells, capacity;
};

typedef enum plb_part_kind {
    PLB_PART_SAY,
    PLB_PART_ITEM,
    PLB_PART_CODE,
    PLB_PART_TEXT,
    PLB_PART_FIGURE,
    PLB_PART_TABLE,
} plb_part_kind;

typedef struct plb_part {
    plb_part_kind kind;
    const char *title, *text;
    const plb_figure *figure;
    plb_table *table;
    struct plb_part *next;
} plb_part;

struct plb_section {
    plb_document *document;
    const char *title;
    plb_part *first, *last;
    plb_section *next;
};

typedef struct plb_part_verdict {
    plb_tone tone;
    const char *word, *text;
    struct plb_part_verdict *next;
} plb_part_verdict;

struct plb_document {
    plb_arena *arena;
    plb_status status;
    char *problem; // the text of that status
    const char *title, *subtitle, *command;
    plb_part_verdict *verdict, *last_verdict;
    plb_section *first, *last;
    plb_section spare_section; // what calls after a failure work on
    plb_table spare_table;
};

// The numbers of a figure as a table of the arena; NULL when out of memory.
plb_table *plb_figure_table(const plb_figure *figure, plb_arena *arena);

// The command that makes a figure again: its own, or the document's; NULL: none is known.
const char *plb_figure_command(const plb_document *document, const plb_figure *figure);

// PLB_EINVAL: the document has no figure or table of this name; says which there are.
plb_status plb_document_no_part(const plb_document *document, const char *name);

#endif
