/* A record as JSON text, for stores whose server keeps opaque bytes: one object, known fields only
 * where they are set; unknown fields are ignored, so that newer versions may add some. Version,
 * left and proof of death are not part of it: the server knows them. A note is packed apart. */
#ifndef BW_STORE_RECORD_JSON_H
#define BW_STORE_RECORD_JSON_H

#include "store/store.h"

/* Longest text that either writes: every byte escaped. */
#define BW_RECORD_JSON_MAX 20480u

/* Returns the length (the text ends in NUL), or BW_ENOMEM / BW_ELIMIT. */
int bw_record_pack(const struct bw_store_record *record, char *text, size_t size);
/* Fills in what the text holds and leaves the rest; BW_EMALFORMED if it is not such an object or a
 * field has the wrong type or is too long (the record is then as it was). */
int bw_record_unpack(const char *text, size_t length, struct bw_store_record *record);

int bw_note_pack(const struct bw_note *note, char *text, size_t size);
int bw_note_unpack(const char *text, size_t length, struct bw_note *note);

/* What ENTER registers. */
int bw_candidate_pack(const struct bw_candidate *candidate, char *text, size_t size);
int bw_candidate_unpack(const char *text, size_t length, struct bw_candidate *candidate);

#endif
