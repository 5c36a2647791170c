/* Parts of a store's URL.
 *
 *   SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]...][/PATH][?KEY=VALUE&...]
 *
 * - Percent-encoding is decoded. IPv6 addresses are in brackets.
 * - A part that does not fit is an error; nothing is truncated.
 * - A password never appears in a message: `why` lines name the key, not the value. */
#ifndef BW_STORE_KIT_URL_H
#define BW_STORE_KIT_URL_H

#include "store/store.h"

#define BW_URL_HOSTS_MAX 9u /* more than nine voters bring no benefit */
#define BW_URL_QUERY_MAX 32u
#define BW_URL_TEXT_MAX  2047u

struct bw_url_host {
    char name[256];
    uint16_t port; /* 0: default port of the store */
};

struct bw_url {
    char scheme[33];
    char user[128], password[512];
    struct bw_url_host host[BW_URL_HOSTS_MAX];
    uint32_t hosts;
    char path[512]; /* without the leading '/' */
    struct {
        char key[64], value[512];
    } query[BW_URL_QUERY_MAX];
    uint32_t queries;
};

/* Returns 0, or BW_EINVAL and a line in why[BW_WHY_MAX + 1]. */
int bw_url_parse(struct bw_url *url, const char *text, char *why);

/* Returns the value of ?key=, or NULL. */
const char *bw_url_query(const struct bw_url *url, const char *key);

/* Checks that every key of the query is in `keys` (NULL-terminated). Returns 0, or BW_EINVAL and a
 * line that names the unknown key. */
int bw_url_check_keys(const struct bw_url *url, const char *const *keys, char *why);

/* Reads a secret from the first of these that is given: the file named by ?KEY-file= (without its
 * last newline), the environment variable, or, for the key "password", the password of the URL.
 * `out` is empty if none is given. Returns 0, or BW_EINVAL and a line if the file is unreadable or
 * too long. */
int bw_url_secret(const struct bw_url *url, const char *key, const char *environment, char *out,
                  size_t size, char *why);

/* Returns the host of an endpoint to which secrets are sent: https://HOST[:PORT], plus a path if
 * allowed. http:// is accepted only for this machine. NULL: see the line in why[BW_WHY_MAX + 1]. */
const char *bw_url_endpoint(const char *text, bool may_have_path, char *why);

#endif
