/* A store's URL in parts:
 * SCHEME://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]...][/PATH][?KEY=VALUE&...] Percent-encoding
 * is undone; IPv6 addresses stand in brackets. What does not fit is an error, never cut. A password
 * in a URL never reaches a message: `why` lines name the key, not the value. */
#ifndef BW_STORE_URL_H
#define BW_STORE_URL_H

#include "store/store.h"

#define BW_URL_HOSTS_MAX 9u /* more voters than nine serve nobody */
#define BW_URL_QUERY_MAX 32u
#define BW_URL_TEXT_MAX  2047u

struct bw_url_host {
    char name[256];
    uint16_t port; /* 0: the store's default */
};

struct bw_url {
    char scheme[33];
    char user[128], password[512];
    struct bw_url_host host[BW_URL_HOSTS_MAX];
    uint32_t hosts;
    char path[512]; /* without the first '/' */
    struct {
        char key[64], value[512];
    } query[BW_URL_QUERY_MAX];
    uint32_t queries;
};

/* Returns 0, or BW_EINVAL with a line in why[BW_WHY_MAX + 1]. */
int bw_url_parse(struct bw_url *url, const char *text, char *why);

/* The value of ?key=, or NULL. */
const char *bw_url_query(const struct bw_url *url, const char *key);

/* BW_EINVAL with a line that names the stranger, unless every key is one of these (NULL-ended). */
int bw_url_only(const struct bw_url *url, const char *const *keys, char *why);

/* A secret: the content of the file that ?KEY-file= names (without its last newline), else of the
 * environment variable, else what stood in the URL's password for the key "password". Leaves `out`
 * empty if there is none. BW_EINVAL with a line if a named file cannot be read or is too long. */
int bw_url_secret(const struct bw_url *url, const char *key, const char *environment, char *out,
                  size_t size, char *why);

/* The host in an endpoint that secrets are sent to, https://HOST[:PORT] and, if it may have one, a
 * path; http:// only to this machine. NULL with a line in why[BW_WHY_MAX + 1]. */
const char *bw_url_endpoint(const char *text, bool may_have_path, char *why);

#endif
