/* Settings in a postgres:// URL. libpq's settings are passed on unchanged; Bellwether's own are
 * schema, table, poll and password-file. */
#include "store/postgres/state.h"

#include "core/base/parse_values.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define SCHEMA  "bellwether"
#define TABLE   "election"
#define POLL_NS (500 * BW_MS)

const char *const bw_pg_libpq_keys[] = {"sslmode",
                                        "sslcert",
                                        "sslkey",
                                        "sslrootcert",
                                        "sslcrl",
                                        "sslcrldir",
                                        "sslsni",
                                        "ssl_min_protocol_version",
                                        "channel_binding",
                                        "application_name",
                                        "krbsrvname",
                                        "gssencmode",
                                        "passfile",
                                        "target_session_attrs",
                                        "options",
                                        "user",
                                        "dbname",
                                        "requirepeer",
                                        NULL};

static const char *const own[] = {"schema", "table", "poll", "password-file", "host", "port"};

static int check_keys(const struct bw_url *url, char *why)
{
    const char *keys[32];
    size_t count = 0;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        keys[count++] = own[i];
    for (size_t i = 0; bw_pg_libpq_keys[i]; i++)
        keys[count++] = bw_pg_libpq_keys[i];
    keys[count] = NULL;
    if (bw_url_query(url, "password"))
        return bw_store_explain(
            why, BW_EINVAL,
            "?password= would be visible to other users: write ?password-file=FILE, or "
            "use PGPASSFILE");
    return bw_url_check_keys(url, keys, why);
}

static int read_name(const struct bw_url *url, const char *key, const char *fallback, char *out,
                     char *why)
{
    const char *name = bw_url_query(url, key);
    size_t length = strlen(name ? name : fallback);
    for (size_t i = 0; name && i < length; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_' && name[i] != '-')
            return bw_store_explain(why, BW_EINVAL,
                                    "invalid ?%s=: expected letters, digits, _ and -", key);
    if (length == 0 || length > BW_PG_NAME_MAX)
        return bw_store_explain(why, BW_EINVAL, "invalid ?%s=: expected 1 to %u characters", key,
                                BW_PG_NAME_MAX);
    snprintf(out, BW_PG_NAME_MAX + 1, "%s", name ? name : fallback);
    return 0;
}

static int read_poll(const struct bw_url *url, bw_time *out, char *why)
{
    const char *text = bw_url_query(url, "poll");
    *out = POLL_NS;
    if (text &&
        (bw_text_duration(text, strlen(text), out) != 0 || *out < 10 * BW_MS || *out > 60 * BW_SEC))
        return bw_store_explain(
            why, BW_EINVAL,
            "invalid ?poll=: expected a duration from 10ms to 60s, for example 500ms");
    return 0;
}

/* postgres:///db?host=/run/postgresql, as in libpq. */
static int read_host(struct bw_url *url, char *why)
{
    const char *host = bw_url_query(url, "host"), *port = bw_url_query(url, "port");
    uint64_t number = 0;
    if (port && (bw_text_number(port, strlen(port), 65535, &number) != 0 || number == 0))
        return bw_store_explain(why, BW_EINVAL,
                                "invalid ?port= '%.20s': expected a number from 1 to 65535", port);
    if (host && (url->hosts || strlen(host) >= sizeof url->host[0].name || strchr(host, ',')))
        return bw_store_explain(why, BW_EINVAL,
                                "invalid ?host=: expected one host, and no host before the path");
    if (host)
        snprintf(url->host[url->hosts++].name, sizeof url->host[0].name, "%.255s", host);
    for (uint32_t i = 0; port && i < url->hosts; i++)
        if (url->host[i].port == 0)
            url->host[i].port = (uint16_t)number;
    return 0;
}

int bw_pg_settings_read(struct bw_pg_settings *settings, const char *text, char *why)
{
    memset(settings, 0, sizeof *settings);
    struct bw_url *url = &settings->url;
    int error = bw_url_parse(url, text, why);
    if (error == 0)
        error = check_keys(url, why);
    if (error == 0)
        error = read_host(url, why);
    if (error == 0)
        error = read_name(url, "schema", SCHEMA, settings->schema, why);
    if (error == 0)
        error = read_name(url, "table", TABLE, settings->table, why);
    if (error == 0)
        error = read_poll(url, &settings->poll_ns, why);
    if (error == 0)
        error = bw_url_secret(url, "password", NULL, settings->password, sizeof settings->password,
                              why);
    return error;
}
