/* Watches the files by their stamps and replaces their contents as a whole; see credentials.h. */
#include "net/tls/credentials.h"

#include "core/base/error.h"
#include "net/stamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REPORT_EVERY_MS 10000u
#define CHECK_EVERY_MS  2000u
#define DAY_S           86400
#define LINE_BYTES      1024u
#define FILES           4u

struct set { /* files that were loaded together */
    struct bw_tls_config *server, *client;
};

struct bw_credentials {
    struct bw_credentials_options options;
    uv_timer_t timer;
    struct set now;
    struct bw_stamp loaded[FILES], refused[FILES];
    uint64_t refusals;    /* number of connections that were refused */
    uint64_t reported_ms; /* time of the last report of a refusal */
    int64_t warned_s;     /* time of the last expiry warning */
};

static void set_free(struct set *set)
{
    bw_tls_config_free(set->server);
    bw_tls_config_free(set->client);
    *set = (struct set){0};
}

static int load(const struct bw_credentials *c, struct set *set, char *why)
{
    *set = (struct set){0};
    int error = bw_tls_config_new_server(&set->server, &c->options.files, why);
    if (!error && c->options.dials)
        error = bw_tls_config_new(&set->client, &c->options.files, why);
    if (error)
        set_free(set);
    return error;
}

static void take_stamps(const struct bw_credentials *c, struct bw_stamp *stamps)
{
    const struct bw_tls_files *files = &c->options.files;
    const char *names[FILES] = {files->cert_file, files->key_file, files->ca_file, files->crl_file};
    for (unsigned i = 0; i < FILES; i++)
        stamps[i] = bw_stamp_of(names[i]);
}

static bool same(const struct bw_stamp *a, const struct bw_stamp *b)
{
    for (unsigned i = 0; i < FILES; i++)
        if (!bw_stamp_same(a[i], b[i]))
            return false;
    return true;
}

static void warn(struct bw_credentials *c)
{
    int64_t now = (int64_t)time(NULL), ends = bw_tls_config_ends(c->now.server);
    int64_t left = ends - now;
    char line[LINE_BYTES];
    if (ends == 0 || left > (int64_t)BW_CREDENTIALS_WARN_DAYS * DAY_S)
        return;
    if (c->warned_s && now - c->warned_s < DAY_S)
        return;
    c->warned_s = now;
    if (left <= 0)
        snprintf(line, sizeof line,
                 "the certificate %s has expired and is no longer accepted; renew it",
                 c->options.files.cert_file);
    else
        snprintf(line, sizeof line, "the certificate %s expires in %lld days; renew it",
                 c->options.files.cert_file, (long long)(left / DAY_S));
    c->options.say(c->options.context, left <= 0 ? BW_PRIORITY_ERROR : BW_PRIORITY_WARNING, line);
}

void bw_credentials_check(struct bw_credentials *c)
{
    struct bw_stamp found[FILES];
    struct set set;
    char why[BW_TLS_WHY_MAX + 1] = "", line[LINE_BYTES];
    take_stamps(c, found);
    if (same(found, c->loaded)) {
        warn(c);
        return;
    }
    if (load(c, &set, why) != 0) {
        if (same(found, c->refused))
            return; /* already reported; a renewal may still be incomplete */
        snprintf(line, sizeof line, "%s; the previous certificate stays in use", why);
        for (unsigned i = 0; i < FILES; i++)
            c->refused[i] = found[i];
        c->options.say(c->options.context, BW_PRIORITY_ERROR, line);
        return;
    }
    set_free(&c->now);
    c->now = set;
    for (unsigned i = 0; i < FILES; i++)
        c->loaded[i] = found[i];
    c->warned_s = 0;
    snprintf(line, sizeof line, "new connections use the new certificate from %s",
             c->options.files.cert_file);
    c->options.say(c->options.context, BW_PRIORITY_INFO, line);
    warn(c);
}

void bw_credentials_refused(struct bw_credentials *c, const char *why)
{
    uint64_t now = uv_now(c->options.loop);
    char line[LINE_BYTES];
    c->refusals++;
    if (c->reported_ms && now - c->reported_ms < REPORT_EVERY_MS)
        return;
    c->reported_ms = now ? now : 1;
    snprintf(line, sizeof line, "refused a %s's connection: %s (%llu so far)", c->options.whose,
             why, (unsigned long long)c->refusals);
    c->options.say(c->options.context, BW_PRIORITY_WARNING, line);
}

static void on_timer(uv_timer_t *timer)
{
    bw_credentials_check(timer->data);
}

int bw_credentials_open(struct bw_credentials **out, const struct bw_credentials_options *options,
                        char *why)
{
    struct bw_credentials *c = calloc(1, sizeof *c);
    if (!c) {
        snprintf(why, BW_TLS_WHY_MAX + 1, "out of memory for TLS");
        return BW_ENOMEM;
    }
    c->options = *options;
    take_stamps(c, c->loaded); /* before loading: a later change is noticed */
    int error = load(c, &c->now, why);
    if (error) {
        free(c);
        return error;
    }
    uv_timer_init(options->loop, &c->timer);
    c->timer.data = c;
    uv_timer_start(&c->timer, on_timer, CHECK_EVERY_MS, CHECK_EVERY_MS);
    warn(c);
    *out = c;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_credentials *c = handle->data;
    set_free(&c->now);
    free(c);
}

void bw_credentials_close(struct bw_credentials *c)
{
    uv_close((uv_handle_t *)&c->timer, on_closed);
}

struct bw_tls_config *bw_credentials_server(const struct bw_credentials *c)
{
    return c->now.server;
}

struct bw_tls_config *bw_credentials_client(const struct bw_credentials *c)
{
    return c->now.client;
}
