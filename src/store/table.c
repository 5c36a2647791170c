/* Which stores there are, found by the scheme of a URL. SQLite is always part of the program; each
 * other store is a module, built when its client library was there. */
#include "base/text.h"
#include "store/module.h"
#include "store/parent.h"
#include "store/sqlite.h"
#include "store/store.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* As src/store/meson.build has it. */
#define NEEDS_AZURE      "libcurl4-openssl-dev libssl-dev"
#define NEEDS_DYNAMODB   "libcurl4-openssl-dev"
#define NEEDS_ETCD       "libnghttp2-dev libprotobuf-c-dev libssl-dev"
#define NEEDS_KUBERNETES "libcurl4-openssl-dev libssl-dev"
#define NEEDS_PEER       "libssl-dev"
#define NEEDS_POSTGRES   "libpq-dev"
#define NEEDS_REDIS      "libhiredis-dev libssl-dev"
#define NEEDS_ZOOKEEPER  "libzookeeper-st-dev"

static const struct bw_store_about stores[] = {
    {"sqlite", NULL, "sqlite:PATH", NULL},
    {"etcd", "etcd", "etcd://HOST,.../PREFIX", NEEDS_ETCD},
    {"etcds", "etcd", "etcds://HOST,.../PREFIX (TLS)", NEEDS_ETCD},
    {"bellwether", "etcd", "bellwether://HOST,...; bellwether serve", NEEDS_ETCD},
    {"bellwethers", "etcd", "bellwethers://HOST,... (TLS)", NEEDS_ETCD},
    {"zookeeper", "zookeeper", "zookeeper://HOST,.../PATH", NEEDS_ZOOKEEPER},
    {"redis", "redis", "redis://HOST, or several for Redlock", NEEDS_REDIS},
    {"rediss", "redis", "rediss://HOST (TLS)", NEEDS_REDIS},
    {"redis+sentinel", "redis", "redis+sentinel://HOST,.../MASTER", NEEDS_REDIS},
    {"postgres", "postgres", "postgres://HOST/DATABASE", NEEDS_POSTGRES},
    {"postgresql", "postgres", "postgresql://HOST/DATABASE", NEEDS_POSTGRES},
    {"kubernetes", "kubernetes", "kubernetes://NAMESPACE", NEEDS_KUBERNETES},
    {"azure", "azure", "azure://ACCOUNT/CONTAINER", NEEDS_AZURE},
    {"dynamodb", "dynamodb", "dynamodb://REGION/TABLE", NEEDS_DYNAMODB},
    {"peer", "peer", "peer:///ELECTION?id=N&...; bellwether peer", NEEDS_PEER},
    {NULL, NULL, NULL, NULL}};

const struct bw_store_about *bw_store_known(void)
{
    return stores;
}

bool bw_store_is_there(const struct bw_store_about *about, char *why)
{
    why[0] = '\0';
    return !about->module || bw_store_module_load(about->module, why);
}

/* Length of the scheme, 0 when there is none: letters, digits, '+', '-', '.' up to the first ':'. A
 * path may hold a ':' behind a '/'. */
static size_t scheme_length(const char *url)
{
    if (!isalpha((unsigned char)url[0]))
        return 0;
    size_t length = 1;
    while (isalnum((unsigned char)url[length]) || (url[length] && strchr("+-.", url[length])))
        length++;
    return url[length] == ':' ? length : 0;
}

static void say_known(char *why, const char *scheme)
{
    const char *meant = NULL;
    int used = snprintf(why, BW_WHY_MAX + 1, "unknown store scheme '%s:'; known:", scheme);
    for (size_t i = 0; stores[i].scheme; i++) {
        if (used > 0 && used < (int)BW_WHY_MAX)
            used += snprintf(why + used, BW_WHY_MAX + 1 - (size_t)used, " %s:", stores[i].scheme);
        if (bw_text_similar(scheme, stores[i].scheme))
            meant = stores[i].scheme;
    }
    if (meant && used > 0 && used < (int)BW_WHY_MAX)
        snprintf(why + used, BW_WHY_MAX + 1 - (size_t)used, "; did you mean '%s:'?", meant);
}

/* A path is known by its '/': a bare word is more likely the name of a server, and a file made of
 * it would be an election that the others know nothing of. */
static const struct bw_store_ops *find_path(const char *url, char *why)
{
    if (strchr(url, '/'))
        return &bw_store_sqlite;
    if (url[0])
        snprintf(why, BW_WHY_MAX + 1,
                 "'%.60s' names no scheme; write sqlite:PATH for a file, or a URL of one of the "
                 "stores that bellwether --version lists",
                 url);
    else
        snprintf(why, BW_WHY_MAX + 1, "empty store URL");
    return NULL;
}

static const struct bw_store_ops *find_module(const struct bw_store_about *about, const char *url,
                                              char *why)
{
    if (strncmp(url + strlen(about->scheme), "://", 3) == 0)
        return bw_store_module_find(about->module, url, why);
    snprintf(why, BW_WHY_MAX + 1, "'%.60s' is not the whole of it; write %s", url, about->form);
    return NULL;
}

const struct bw_store_ops *bw_store_find(const char *url, char *why)
{
    why[0] = '\0';
    size_t length = scheme_length(url);
    if (length == 0)
        return find_path(url, why);
    char scheme[33] = "";
    if (strncmp(url, BW_PARENT_SCHEME, sizeof BW_PARENT_SCHEME - 1) == 0)
        return bw_store_parent_find(url); /* nobody's to write */
    snprintf(scheme, sizeof scheme, "%.*s", length < 32 ? (int)length : 32, url);
    for (size_t i = 0; stores[i].scheme; i++)
        if (strcmp(scheme, stores[i].scheme) == 0)
            return stores[i].module ? find_module(&stores[i], url, why) : &bw_store_sqlite;
    say_known(why, scheme);
    return NULL;
}
