/* A store module for tests: the embedded store without features that many other stores lack: a list
 * of candidates and proofs of death. It replaces the module "kubernetes" (BELLWETHER_MODULES=DIR)
 * for URLs "kubernetes://PATH". */
#include "store/module.h"
#include "store/sqlite/sqlite.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct bw_store_options outer; /* one store per process */

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    static struct bw_store_reply changed;
    (void)context;
    changed = *reply;
    changed.record.proved_dead = false;
    outer.reply(outer.context, &changed);
}

static int open_unlisted(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                         const struct bw_store_options *options, char *why)
{
    struct bw_store_options inner = {.reply = on_reply};
    char path[PATH_MAX];
    snprintf(path, sizeof path, "sqlite:%s", strchr(url, ':') + 1);
    outer = *options;
    return bw_store_sqlite.open(out, path, loop, &inner, why);
}

static const struct bw_store_ops *find(const char *url, char *why)
{
    static struct bw_store_ops ops;
    (void)url;
    why[0] = '\0';
    ops = bw_store_sqlite;
    ops.scheme = "kubernetes";
    ops.traits &= ~(unsigned)(BW_STORE_LISTS | BW_STORE_PROVES_DEATH);
    ops.open = open_unlisted;
    return &ops;
}

BW_STORE_MODULE(find);
