/* Prints a change of leadership, as a line of text or of JSON: `observe` and `history`. */
#ifndef BW_CLI_ELECTION_CHANGE_PRINT_H
#define BW_CLI_ELECTION_CHANGE_PRINT_H

#include "store/store.h"

/* How long the leadership that ended lasted, or how long there was no leader before this one. */
struct bw_change_span {
    enum { BW_SPAN_NONE, BW_SPAN_LED, BW_SPAN_GAP } kind;
    bool at_least; /* it began before the first observation */
    bw_time length;
};

struct bw_change_line {
    bw_time at; /* wall clock */
    const char *event, *election, *why;
    bool shows_election; /* in text; JSON always names it */
    const char *store;   /* NULL: unknown, or the only one */
    bool shows_store;    /* in text */
    const char *leader;  /* "": none */
    bw_token token;
    const char *value;          /* NULL: none */
    const struct bw_note *note; /* event "note"; otherwise NULL */
    struct bw_change_span span;
};

void bw_change_print(const struct bw_change_line *line, bool json);

#endif
