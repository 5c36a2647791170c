/* Formats records, notes and candidates as text and as JSON. */
#ifndef BW_CLI_ELECTION_RECORD_PRINT_H
#define BW_CLI_ELECTION_RECORD_PRINT_H

#include "store/store.h"

#include <jansson.h>

/* Makes text from a store safe for a terminal: replaces control bytes by '?'. Returns a pointer to
 * one of a few static buffers, which later calls reuse. */
const char *bw_shown(const char *text);
/* Returns " with token 7", or "" without a token. The text is in one of a few static buffers, which
 * later calls reuse. */
const char *bw_with_token(bw_token token);

/* Returns null for text that is not valid UTF-8. */
json_t *bw_json_text(const char *text);
json_t *bw_json_note(const struct bw_note *note); /* null: no note */
json_t *bw_json_record(const char *election, const struct bw_store_record *record);
json_t *bw_json_candidates(const struct bw_candidate *at, uint32_t count);

/* Prints the value as one line to stdout, flushes stdout and frees the value. */
void bw_json_line(json_t *value);

#endif
