/* Settings of a DynamoDB store, from its URL: dynamodb://REGION/TABLE, with ?endpoint=URL
 * ?create=yes ?profile=NAME ?metadata-endpoint=URL ?ca-file=FILE.
 *
 * Keys come from the environment or the shared credentials file; otherwise they are requested
 * (credentials.h). */
#ifndef BW_STORE_DYNAMODB_SETTINGS_H
#define BW_STORE_DYNAMODB_SETTINGS_H

#include "store/store.h"

#define DYNAMODB_TOKEN_MAX 4095u

struct dynamodb_keys {
    char user[512]; /* "ID:SECRET"; "": none */
    char token[DYNAMODB_TOKEN_MAX + 1];
};

struct dynamodb_settings {
    char region[64], table[256], endpoint[512], ca_file[512];
    char signing[128]; /* for CURLOPT_AWS_SIGV4 */
    bool create;
    struct dynamodb_keys keys;
    char container_url[512]; /* where keys are requested; "": from the machine's metadata */
    char metadata[512];      /* the machine's metadata endpoint */
};

/* Returns 0, or BW_EINVAL with a line that contains no secret. */
int bw_dynamodb_settings(struct dynamodb_settings *settings, const char *text, char *why);
/* Returns false if the keys do not fit or contain invalid characters. */
bool bw_dynamodb_set_keys(struct dynamodb_keys *keys, const char *id, const char *secret,
                          const char *token);

#endif
