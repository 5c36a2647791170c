/* What a Redis URL says:
 *
 *   redis://[USER@]HOST[:PORT][/DATABASE]          one server
 *   redis://HOST,HOST,HOST...[/DATABASE]           three to nine: Redlock
 *   rediss://...                                   the same by TLS
 *   redis+sentinel://HOST,.../MASTER[/DATABASE]    the master that the sentinels name
 *
 * and its settings: prefix, password-file (or REDIS_PASSWORD), sentinel-password-file (or
 * REDIS_SENTINEL_PASSWORD), ca-file, cert-file, key-file, tls (sentinel only), wait (replicas that
 * must confirm), restarts=durable (Redlock: restarted instances keep every lock). */
#ifndef BW_STORE_REDIS_SETTINGS_H
#define BW_STORE_REDIS_SETTINGS_H

#include "store/kit/url.h"

#define REDIS_PREFIX_MAX 255u
#define REDIS_PORT       6379u

struct redis_login {
    char user[128], password[512];
    unsigned database;
};

struct redis_settings {
    struct bw_url_host host[BW_URL_HOSTS_MAX];
    uint32_t hosts;
    bool tls;
    char master[256]; /* "": no sentinels; else `host` are they */
    struct redis_login login;
    char sentinel_password[512];
    char prefix[REDIS_PREFIX_MAX + 1];
    char ca_file[512], cert_file[512], key_file[512];
    unsigned wait;
    bool restarts_durable;
};

/* Returns 0, or BW_EINVAL with a line in why[BW_WHY_MAX + 1]. */
int redis_settings_read(struct redis_settings *settings, const char *text, char *why);

#endif
