/* The items of an election in DynamoDB's JSON. No I/O.
 *
 *   key NAME             the item of AWS's lock client: ownerName, leaseDuration (ms),
 *                        recordVersionNumber (a UUID, new with each renewal), data, isReleased;
 *                        our bellwether (the record as JSON) and bellwetherSession (the process)
 *   key NAME/bellwether  token (the counter), record (as the last Bellwether holder wrote it)
 *   key NAME/note        serial, note
 *
 * A lock client that takes over writes a whole new item without our attributes. The record in
 * NAME/bellwether, the lasting record, then still shows the last Bellwether holder. Election names
 * do not contain '/'. */
#ifndef BW_STORE_DYNAMODB_ITEM_H
#define BW_STORE_DYNAMODB_ITEM_H

#include "store/store.h"

#include <jansson.h>

#define DYNAMODB_RVN_MAX 63u

#define DYNAMODB_KEY_MAX (BW_ELECTION_NAME_MAX + 16u)

struct dynamodb_seen {
    bool lock, lasting, noted; /* which items exist */
    bool released;
    bool foreign; /* the lock has no record of ours */
    bool pending; /* held, but without a token yet: not a leadership */
    bw_token counter;
    char rvn[DYNAMODB_RVN_MAX + 1];
    char session[33];
    struct bw_store_record kept;  /* the holder or last holder, for the rules of record.h */
    struct bw_store_record shown; /* as readers see it */
    char unexpected_key[DYNAMODB_KEY_MAX]; /* the key of an item with an unexpected form */
};

/* Parses the answer of BatchGetItem. Returns 0; BW_EMALFORMED; or BW_EDAMAGED if an item exists
 * that is not an election's, with its key in `unexpected_key`. */
int bw_dynamodb_parse(struct dynamodb_seen *seen, const char *table, const char *election,
                      const char *body, size_t length);
/* Computes `shown` from the other fields. */
void bw_dynamodb_show(struct dynamodb_seen *seen);

/* Request bodies; the caller frees the text. NULL: out of memory, or a text does not fit. */
char *bw_dynamodb_get(const char *table, const char *election);
/* Writes the lock with record `kept`, if the item is still as in `before`. */
char *bw_dynamodb_put_lock(const char *table, const char *election,
                           const struct dynamodb_seen *before, const struct bw_store_record *kept,
                           const char *rvn, const char *session);
/* Changes our lock from the version in `before` to `rvn`. */
char *bw_dynamodb_change_lock(const char *table, const char *election,
                              const struct dynamodb_seen *before,
                              const struct bw_store_record *kept, const char *rvn,
                              const char *session);
char *bw_dynamodb_count(const char *table, const char *election);
/* Writes the lasting record, unless a newer token was issued. */
char *bw_dynamodb_put_lasting(const char *table, const char *election,
                              const struct bw_store_record *kept);
char *bw_dynamodb_put_note(const char *table, const char *election, const struct bw_note *note);
/* A page of the keys of all elections, after the key `after` of the last page; NULL: the first. */
char *bw_dynamodb_scan(const char *table, json_t *after);
char *bw_dynamodb_create(const char *table);

/* Length of the election's name in the key of its lock or its counter. */
size_t bw_dynamodb_name_length(const char *key);

/* Answers: the number of UPDATED_NEW, 0 if there is none; the type of an error, "" if there is
 * none. */
uint64_t bw_dynamodb_number(const char *body, size_t length, const char *name);
void bw_dynamodb_type(const char *body, size_t length, char *out, size_t size);

#endif
