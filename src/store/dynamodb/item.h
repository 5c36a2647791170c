/* The items of an election, as DynamoDB's JSON has them. No I/O.
 *
 *   key NAME             the AWS lock client's item: ownerName, leaseDuration (ms),
 * recordVersionNumber (a UUID, new with each renewal), data, isReleased; and beside them bellwether
 * (the record as JSON) and bellwetherSession (whose process') key NAME/bellwether  token (the
 * counter), record (as the last Bellwether left it) key NAME/note        serial, note
 *
 * A lock client that takes over writes a whole new item: what is ours is then gone from it, and the
 * lasting record tells what stood there. '/' is in no election's name. */
#ifndef BW_STORE_DYNAMODB_ITEM_H
#define BW_STORE_DYNAMODB_ITEM_H

#include "store/store.h"

#include <jansson.h>

#define DYNAMODB_RVN_MAX 63u

#define DYNAMODB_KEY_MAX (BW_ELECTION_NAME_MAX + 16u)

struct dynamodb_seen {
    bool lock, lasting, noted; /* the items that are there */
    bool released;
    bool foreign; /* the lock is not ours to read: no record in it */
    bool pending; /* held, and its token is not written yet: nobody leads by it */
    bw_token counter;
    char rvn[DYNAMODB_RVN_MAX + 1];
    char session[33];
    struct bw_store_record kept;  /* who holds or held it, for the rules of record.h */
    struct bw_store_record shown; /* as readers see it */
    char odd[DYNAMODB_KEY_MAX];   /* the key of an item that cannot be understood */
};

/* What BatchGetItem answers. 0, or BW_EMALFORMED. */
/* BW_EDAMAGED: an item is there and is not an election's; its key is in `odd`. */
int bw_dynamodb_parse(struct dynamodb_seen *seen, const char *table, const char *election,
                      const char *body, size_t length);
/* `shown` anew, from what else is there. */
void bw_dynamodb_show(struct dynamodb_seen *seen);

/* Requests; NULL: no memory, or what does not fit. The caller frees the text. */
char *bw_dynamodb_get(const char *table, const char *election);
/* The lock as `kept` has it, where `before` was seen. */
char *bw_dynamodb_put_lock(const char *table, const char *election,
                           const struct dynamodb_seen *before, const struct bw_store_record *kept,
                           const char *rvn, const char *session);
/* Changes our lock: the version it has becomes `rvn`. */
char *bw_dynamodb_change_lock(const char *table, const char *election,
                              const struct dynamodb_seen *before,
                              const struct bw_store_record *kept, const char *rvn,
                              const char *session);
char *bw_dynamodb_count(const char *table, const char *election);
/* The lasting record, unless a newer token was given. */
char *bw_dynamodb_put_lasting(const char *table, const char *election,
                              const struct bw_store_record *kept);
char *bw_dynamodb_put_note(const char *table, const char *election, const struct bw_note *note);
char *bw_dynamodb_create(const char *table);

/* Answers: the number of UPDATED_NEW; 0 if there is none. The type of an error, "" if none. */
uint64_t bw_dynamodb_number(const char *body, size_t length, const char *name);
void bw_dynamodb_type(const char *body, size_t length, char *out, size_t size);

#endif
