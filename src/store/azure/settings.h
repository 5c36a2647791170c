/* Where an Azure store lies and how it is opened, from its URL, the environment and files.
 *
 *   azure://ACCOUNT/CONTAINER         a blob per election
 *   azure://ACCOUNT/CONTAINER/BLOB    that blob, for one election
 *
 * ?endpoint=URL  ?key-file=  ?sas-file=  ?auth=identity  ?identity-endpoint=URL  ?client-id=
 * ?ca-file=. Without a file: AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN,
 * AZURE_STORAGE_CONNECTION_STRING, in this order; then the published key of the development
 * storage, for its account; then the machine's managed identity. */
#ifndef BW_STORE_AZURE_SETTINGS_H
#define BW_STORE_AZURE_SETTINGS_H

#include "store/store.h"

#define AZURE_SECRET_MAX 2047u

struct azure_settings {
    char account[64], container[64];
    char blob[512];     /* "": by the election's name */
    char endpoint[512]; /* without a '/' at its end */
    unsigned char key[128];
    size_t key_length; /* 0: no shared key */
    char sas[AZURE_SECRET_MAX + 1];
    bool identity;
    char identity_url[1024]; /* asked for a token */
    char ca_file[512];
};

/* Returns 0, or BW_EINVAL with a line that shows no secret. */
int bw_azure_settings(struct azure_settings *settings, const char *text, char *why);

#endif
