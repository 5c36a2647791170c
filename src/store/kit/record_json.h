/* Records, notes and candidates as JSON text, for stores whose server keeps opaque bytes.
 *
 * - One object; fields that are not set are omitted.
 * - Unknown fields are ignored, so that newer versions may add some.
 * - Version, remaining lease time and proof of death are not included: the server knows them.
 * - The note is a separate object. */
#ifndef BW_STORE_KIT_RECORD_JSON_H
#define BW_STORE_KIT_RECORD_JSON_H

#include "store/store.h"

/* Longest text that the functions below write, with every byte escaped. */
#define BW_RECORD_JSON_MAX 20480u

/* Returns the length (the text is NUL-terminated), or BW_ENOMEM / BW_ELIMIT. */
int bw_record_pack(const struct bw_store_record *record, char *text, size_t size);
/* Sets the fields that the text contains and leaves the others unchanged. Returns BW_EMALFORMED,
 * and leaves the record unchanged, if the text is not an object or a field has a wrong type or
 * length; BW_ENOMEM if memory is exhausted. */
int bw_record_unpack(const char *text, size_t length, struct bw_store_record *record);

int bw_note_pack(const struct bw_note *note, char *text, size_t size);
int bw_note_unpack(const char *text, size_t length, struct bw_note *note);

/* A candidate, as registered by ENTER. */
int bw_candidate_pack(const struct bw_candidate *candidate, char *text, size_t size);
int bw_candidate_unpack(const char *text, size_t length, struct bw_candidate *candidate);

#endif
