/* Settings in a Redis URL:
 *
 *   redis://[USER@]HOST[:PORT][/DATABASE]          one server
 *   redis://HOST,HOST,HOST...[/DATABASE]           three to nine servers: Redlock
 *   rediss://...                                   the same with TLS
 *   redis+sentinel://HOST,.../MASTER[/DATABASE]    the master that the sentinels name
 *
 * Query parameters:
 *
 *   prefix                   prefix of all keys
 *   password-file            file with the password (or environment REDIS_PASSWORD)
 *   sentinel-password-file   the same for the sentinels (or REDIS_SENTINEL_PASSWORD)
 *   ca-file, cert-file, key-file
 *   tls=yes                  TLS (sentinel URLs only)
 *   wait                     number of replicas that must confirm an acquire or a renewal
 *   restarts=durable         Redlock: a restarted instance still has every lock */
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
    char master[256]; /* "": no sentinels; otherwise `host` lists the sentinels */
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
