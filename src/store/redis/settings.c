/* Settings in a Redis URL; see settings.h. */
#include "store/redis/settings.h"

#include "core/base/parse_values.h"

#include <stdio.h>
#include <string.h>

#define DATABASE_MAX  65535u
#define SENTINEL      "redis+sentinel"
#define SENTINEL_PORT 26379u

static const char *const keys[] = {"prefix",  "password-file", "sentinel-password-file",
                                   "ca-file", "cert-file",     "key-file",
                                   "tls",     "wait",          "restarts",
                                   NULL};

static int read_database(struct redis_settings *settings, const char *text, char *why)
{
    uint64_t number = 0;
    if (text[0] && bw_text_number(text, strlen(text), DATABASE_MAX, &number) != 0)
        return bw_store_explain(why, BW_EINVAL,
                                "invalid Redis database '%.60s': expected a number from 0 to 65535",
                                text);
    settings->login.database = (unsigned)number;
    return 0;
}

static int read_path(struct redis_settings *settings, const struct bw_url *url, char *why)
{
    if (strcmp(url->scheme, SENTINEL) != 0)
        return read_database(settings, url->path, why);
    size_t length = strcspn(url->path, "/");
    if (length == 0)
        return bw_store_explain(why, BW_EINVAL,
                                "missing master name: write " SENTINEL "://HOST,HOST,HOST/MASTER");
    if (length >= sizeof settings->master)
        return bw_store_explain(why, BW_EINVAL,
                                "master name is too long: expected at most 255 bytes");
    memcpy(settings->master, url->path, length);
    return read_database(settings, url->path + length + (url->path[length] == '/'), why);
}

static int read_hosts(struct redis_settings *settings, const struct bw_url *url, char *why)
{
    bool sentinels = strcmp(url->scheme, SENTINEL) == 0;
    if (url->hosts == 0)
        return bw_store_explain(why, BW_EINVAL, "no host in the %s: URL", url->scheme);
    if (url->hosts == 2 && !sentinels)
        return bw_store_explain(
            why, BW_EINVAL,
            "two instances have no majority when one fails: use one instance, or three "
            "or more for Redlock");
    settings->hosts = url->hosts;
    memcpy(settings->host, url->host, sizeof settings->host);
    for (uint32_t i = 0; i < url->hosts; i++) {
        if (settings->host[i].port == 0)
            settings->host[i].port = sentinels ? SENTINEL_PORT : REDIS_PORT;
        for (uint32_t j = 0; j < i; j++)
            if (settings->host[i].port == settings->host[j].port &&
                strcmp(settings->host[i].name, settings->host[j].name) == 0)
                return bw_store_explain(why, BW_EINVAL, "duplicate host %s:%u in the store URL",
                                        settings->host[i].name, (unsigned)settings->host[i].port);
    }
    return 0;
}

static int copy_text(char *out, size_t size, const struct bw_url *url, const char *key, char *why)
{
    const char *value = bw_url_query(url, key);
    int length = snprintf(out, size, "%s", value ? value : "");
    if (length < 0 || (size_t)length >= size)
        return bw_store_explain(why, BW_EINVAL, "%s is too long in the store URL", key);
    return 0;
}

static int read_word(const struct bw_url *url, const char *key, const char *word, bool *out,
                     char *why)
{
    const char *value = bw_url_query(url, key);
    *out = value != NULL;
    if (value && strcmp(value, word) != 0)
        return bw_store_explain(why, BW_EINVAL, "invalid %s= in the store URL: expected '%s'", key,
                                word);
    return 0;
}

static int read_numbers(struct redis_settings *settings, const struct bw_url *url, char *why)
{
    const char *wait = bw_url_query(url, "wait");
    uint64_t number = 0;
    bool tls = false, redlock = settings->hosts > 1 && !settings->master[0];
    if (wait && (bw_text_number(wait, strlen(wait), 100, &number) != 0 || redlock))
        return bw_store_explain(
            why, BW_EINVAL,
            "invalid wait= in the store URL: expected a number of replicas from 0 "
            "to 100, and a single master");
    settings->wait = (unsigned)number;
    int error = read_word(url, "tls", "yes", &tls, why);
    if (error == 0)
        error = read_word(url, "restarts", "durable", &settings->restarts_durable, why);
    settings->tls = tls || strcmp(url->scheme, "rediss") == 0;
    return error;
}

static int read_files(struct redis_settings *settings, const struct bw_url *url, char *why)
{
    int error = copy_text(settings->ca_file, sizeof settings->ca_file, url, "ca-file", why);
    if (error == 0)
        error = copy_text(settings->cert_file, sizeof settings->cert_file, url, "cert-file", why);
    if (error == 0)
        error = copy_text(settings->key_file, sizeof settings->key_file, url, "key-file", why);
    bool files = settings->ca_file[0] || settings->cert_file[0] || settings->key_file[0];
    if (error == 0 && files && !settings->tls)
        return bw_store_explain(why, BW_EINVAL,
                                "certificates need TLS: write rediss:// (or tls=yes "
                                "with sentinels)");
    return error;
}

static int read_secrets(struct redis_settings *settings, const struct bw_url *url, char *why)
{
    struct redis_login *login = &settings->login;
    snprintf(login->user, sizeof login->user, "%s", url->user);
    int error = bw_url_secret(url, "password", "REDIS_PASSWORD", login->password,
                              sizeof login->password, why);
    if (error == 0)
        error = bw_url_secret(url, "sentinel-password", "REDIS_SENTINEL_PASSWORD",
                              settings->sentinel_password, sizeof settings->sentinel_password, why);
    if (error == 0 && login->user[0] && !login->password[0])
        return bw_store_explain(why, BW_EINVAL,
                                "user '%.60s' has no password: write password-file=FILE, or set "
                                "REDIS_PASSWORD",
                                login->user);
    return error;
}

int redis_settings_read(struct redis_settings *settings, const char *text, char *why)
{
    struct bw_url url;
    memset(settings, 0, sizeof *settings);
    int error = bw_url_parse(&url, text, why);
    if (error == 0)
        error = bw_url_check_keys(&url, keys, why);
    if (error == 0)
        error = read_hosts(settings, &url, why);
    if (error == 0)
        error = read_path(settings, &url, why);
    if (error == 0)
        error = copy_text(settings->prefix, sizeof settings->prefix, &url, "prefix", why);
    if (error == 0)
        error = read_numbers(settings, &url, why);
    if (error == 0)
        error = read_files(settings, &url, why);
    if (error == 0)
        error = read_secrets(settings, &url, why);
    explicit_bzero(url.password, sizeof url.password);
    return error;
}
