/* The known stores, found by the scheme of a URL. SQLite is always part of the program. Every other
 * store is a module, which is built if its client library is installed. */
#include "core/base/parse_values.h"
#include "store/module.h"
#include "store/parent/parent.h"
#include "store/sqlite/sqlite.h"
#include "store/store.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Client libraries, as in src/store/meson.build: the Debian 12 packages to build with and to run
 * with. */
#define AZURE    "azure", "libcurl4-openssl-dev libssl-dev", "libcurl4 libssl3"
#define DYNAMODB "dynamodb", "libcurl4-openssl-dev libssl-dev", "libcurl4 libssl3"
#define KUBERNETES                                                                                 \
    "kubernetes", "libcurl4-openssl-dev libssl-dev libyaml-dev", "libcurl4 libssl3 libyaml-0-2"
#define ETCD                                                                                       \
    "etcd", "libnghttp2-dev libprotobuf-c-dev protobuf-c-compiler libssl-dev",                     \
        "libnghttp2-14 libprotobuf-c1 libssl3"
#define PEER      "peer", "libssl-dev libxxhash-dev", "libssl3 libxxhash0"
#define POSTGRES  "postgres", "libpq-dev", "libpq5"
#define REDIS     "redis", "libhiredis-dev libssl-dev", "libhiredis0.14 libssl3"
#define ZOOKEEPER "zookeeper", "libzookeeper-st-dev", "libzookeeper-st2"

#define STORE(scheme, form, ...) ABOUT(scheme, form, __VA_ARGS__)
#define ABOUT(scheme, form, module, build, run)                                                    \
    {                                                                                              \
        scheme, module, form, build, run                                                           \
    }

static const struct bw_store_about stores[] = {
    {"sqlite", NULL, "sqlite:PATH", NULL, NULL},
    STORE("etcd", "etcd://HOST,.../PREFIX", ETCD),
    STORE("etcds", "etcds://HOST,.../PREFIX (TLS)", ETCD),
    STORE("bellwether", "bellwether://HOST,...; bellwether serve", ETCD),
    STORE("bellwethers", "bellwethers://HOST,... (TLS)", ETCD),
    STORE("zookeeper", "zookeeper://HOST,.../PATH", ZOOKEEPER),
    STORE("redis", "redis://HOST, or several for Redlock", REDIS),
    STORE("rediss", "rediss://HOST (TLS)", REDIS),
    STORE("redis+sentinel", "redis+sentinel://HOST,.../MASTER", REDIS),
    STORE("postgres", "postgres://HOST/DATABASE", POSTGRES),
    STORE("postgresql", "postgresql://HOST/DATABASE", POSTGRES),
    STORE("kubernetes", "kubernetes://NAMESPACE", KUBERNETES),
    STORE("azure", "azure://ACCOUNT/CONTAINER", AZURE),
    STORE("dynamodb", "dynamodb://REGION/TABLE", DYNAMODB),
    STORE("peer", "peer:///ELECTION?id=N&...; bellwether peer", PEER),
    {NULL, NULL, NULL, NULL, NULL}};

const struct bw_store_about *bw_store_known(void)
{
    return stores;
}

enum bw_store_presence bw_store_presence(const struct bw_store_about *about, char *why)
{
    const struct bw_store_module *module;
    why[0] = '\0';
    return about->module ? bw_store_module_load(about->module, &module, why) : BW_STORE_HERE;
}

/* Returns the length of the scheme: letters, digits, '+', '-' and '.' up to the first ':'. 0: there
 * is none; a path may contain a ':' after a '/'. */
static size_t scheme_length(const char *url)
{
    if (!isalpha((unsigned char)url[0]))
        return 0;
    size_t length = 1;
    while (isalnum((unsigned char)url[length]) || (url[length] && strchr("+-.", url[length])))
        length++;
    return url[length] == ':' ? length : 0;
}

static void list_known(char *why, const char *scheme)
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

/* A text without a scheme is a path only if it contains a '/'. A bare word is more likely the name
 * of a server. Creating a file of that name would make an election that no other candidate sees. */
static const struct bw_store_ops *find_path(const char *url, char *why)
{
    if (strchr(url, '/'))
        return &bw_store_sqlite;
    if (url[0])
        snprintf(
            why, BW_WHY_MAX + 1,
            "invalid store URL '%.60s': no scheme; use sqlite:PATH for a file, or the URL of a "
            "store, for example etcd://HOST",
            url);
    else
        snprintf(why, BW_WHY_MAX + 1, "empty store URL");
    return NULL;
}

static const struct bw_store_ops *find_module(const struct bw_store_about *about, const char *url,
                                              char *why)
{
    const struct bw_store_module *module;
    if (strncmp(url + strlen(about->scheme), "://", 3) != 0) {
        snprintf(why, BW_WHY_MAX + 1, "invalid store URL '%.60s': expected %s", url, about->form);
        return NULL;
    }
    enum bw_store_presence presence = bw_store_module_load(about->module, &module, why);
    size_t used = strlen(why);
    if (presence == BW_STORE_NOT_LOADABLE)
        snprintf(why + used, BW_WHY_MAX + 1 - used, "; install %s", about->runs_with);
    return module ? module->find(url, why) : NULL;
}

/* sqlite has no settings. A file of the name "x.db?ttl=3" would be another database, so that two
 * candidates lead. */
static const struct bw_store_ops *find_sqlite(const char *url, char *why)
{
    const char *mark = strchr(url, '?');
    if (!mark)
        return &bw_store_sqlite;
    int length = (int)strcspn(mark + 1, "=&");
    snprintf(
        why, BW_WHY_MAX + 1,
        "unknown setting '%.*s' in the sqlite: URL, which has none; to name a file with a '?', "
        "write its path with a '/' and without sqlite:",
        length < 60 ? length : 60, mark + 1);
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
        return bw_store_parent_find(url); /* internal: set by a launcher, never by a user */
    snprintf(scheme, sizeof scheme, "%.*s", length < 32 ? (int)length : 32, url);
    for (size_t i = 0; stores[i].scheme; i++)
        if (strcmp(scheme, stores[i].scheme) == 0)
            return stores[i].module ? find_module(&stores[i], url, why) : find_sqlite(url, why);
    list_known(why, scheme);
    return NULL;
}
