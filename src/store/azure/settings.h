/* Settings of an Azure store, from its URL, the environment and files.
 *
 *   azure://ACCOUNT/CONTAINER         one blob per election
 *   azure://ACCOUNT/CONTAINER/BLOB    this blob, for one election
 *
 *   ?endpoint=URL  ?key-file=  ?sas-file=  ?auth=identity  ?identity-endpoint=URL  ?client-id=
 *   ?ca-file=
 *
 * Credentials, the first that exists: key-file or sas-file; AZURE_STORAGE_KEY;
 * AZURE_STORAGE_SAS_TOKEN; AZURE_STORAGE_CONNECTION_STRING; for the development account its
 * published key; the machine's managed identity. */
#ifndef BW_STORE_AZURE_SETTINGS_H
#define BW_STORE_AZURE_SETTINGS_H

#include "store/store.h"

#define AZURE_SECRET_MAX 2047u

struct azure_settings {
    char account[64], container[64];
    char blob[512];     /* "": named after the election */
    char endpoint[512]; /* without trailing '/' */
    unsigned char key[128];
    size_t key_length; /* 0: no shared key */
    char sas[AZURE_SECRET_MAX + 1];
    bool identity;
    char identity_url[1024]; /* where a token is requested */
    char ca_file[512];
};

/* Returns 0, or BW_EINVAL with a line that contains no secret. */
int bw_azure_settings(struct azure_settings *settings, const char *text, char *why);

#endif
