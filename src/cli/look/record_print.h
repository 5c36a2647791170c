/* Records, notes and candidates as text and as JSON. */
#ifndef BW_CLI_RECORD_PRINT_H
#define BW_CLI_RECORD_PRINT_H

#include "store/store.h"

#include <jansson.h>

/* Text from a store may hold anything but is shown on a terminal: control bytes become '?'. Returns
 * a pointer to one of a few static buffers. */
const char *bw_shown(const char *text);
/* " with token 7"; "" where there is none. Lasts as long as that of bw_shown. */
const char *bw_with_token(bw_token token);

/* Text that is no UTF-8 becomes null. */
json_t *bw_json_text(const char *text);
json_t *bw_json_note(const struct bw_note *note); /* null: none */
json_t *bw_json_record(const char *election, const struct bw_store_record *record);
json_t *bw_json_candidates(const struct bw_candidate *at, uint32_t count);

/* One line to stdout, flushed; frees it. */
void bw_json_line(json_t *value);

#endif
