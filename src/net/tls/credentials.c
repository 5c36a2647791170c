/* Files watched by their stamps, contents swapped whole; see credentials.h. */
#include "net/tls/credentials.h"

#include "core/base/error.h"
#include "net/stamp.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TELL_MS  10000u
#define LOOK_MS  2000u
#define DAY_S    86400
#define SAID_MAX 1024u
#define FILES    3u

struct set { /* what was loaded together */
    struct bw_tls_config *server, *client;
};

struct bw_credentials {
    struct bw_credentials_options options;
    uv_timer_t timer;
    struct set now;
    struct bw_stamp loaded[FILES], refused[FILES];
    uint64_t refusals, told_ms; /* how many, and when the last was told of */
    int64_t warned_s;           /* when its end was last told */
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
    const char *names[FILES] = {files->cert_file, files->key_file, files->ca_file};
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
    char line[SAID_MAX];
    if (ends == 0 || left > (int64_t)BW_CREDENTIALS_WARN_DAYS * DAY_S)
        return;
    if (c->warned_s && now - c->warned_s < DAY_S)
        return;
    c->warned_s = now;
    if (left <= 0)
        snprintf(line, sizeof line, "the certificate of %s has ended: nobody will accept it",
                 c->options.files.cert_file);
    else
        snprintf(line, sizeof line, "the certificate of %s ends in %lld days: renew it",
                 c->options.files.cert_file, (long long)(left / DAY_S));
    c->options.say(c->options.context, line);
}

void bw_credentials_look(struct bw_credentials *c)
{
    struct bw_stamp found[FILES];
    struct set set;
    char why[BW_TLS_WHY_MAX + 1] = "", line[SAID_MAX];
    take_stamps(c, found);
    if (same(found, c->loaded)) {
        warn(c);
        return;
    }
    if (load(c, &set, why) != 0) {
        if (same(found, c->refused))
            return; /* was told; half of a renewal may be missing still */
        snprintf(line, sizeof line, "%s; the certificate from before stays in use", why);
        for (unsigned i = 0; i < FILES; i++)
            c->refused[i] = found[i];
        c->options.say(c->options.context, line);
        return;
    }
    set_free(&c->now);
    c->now = set;
    for (unsigned i = 0; i < FILES; i++)
        c->loaded[i] = found[i];
    c->warned_s = 0;
    snprintf(line, sizeof line, "new connections use the new certificate of %s",
             c->options.files.cert_file);
    c->options.say(c->options.context, line);
    warn(c);
}

void bw_credentials_refused(struct bw_credentials *c, const char *why)
{
    uint64_t now = uv_now(c->options.loop);
    char line[SAID_MAX];
    c->refusals++;
    if (c->told_ms && now - c->told_ms < TELL_MS)
        return;
    c->told_ms = now ? now : 1;
    snprintf(line, sizeof line, "refused a %s's connection: %s (%llu until now)", c->options.whose,
             why, (unsigned long long)c->refusals);
    c->options.say(c->options.context, line);
}

static void on_timer(uv_timer_t *timer)
{
    bw_credentials_look(timer->data);
}

int bw_credentials_open(struct bw_credentials **out, const struct bw_credentials_options *options,
                        char *why)
{
    struct bw_credentials *c = calloc(1, sizeof *c);
    if (!c) {
        snprintf(why, BW_TLS_WHY_MAX + 1, "no memory for TLS");
        return BW_ENOMEM;
    }
    c->options = *options;
    take_stamps(c, c->loaded); /* before: a change in between is seen later */
    int error = load(c, &c->now, why);
    if (error) {
        free(c);
        return error;
    }
    uv_timer_init(options->loop, &c->timer);
    c->timer.data = c;
    uv_timer_start(&c->timer, on_timer, LOOK_MS, LOOK_MS);
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
