/* Who this node is; see who.h. */
#include "cli/serve/who.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "serve/replica/introduce.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOIN_WITHIN_MS 10000u

int bw_address_take(const char *text, size_t length, char *host, size_t size, uint16_t *port)
{
    uint64_t number;
    const char *colon = NULL;
    for (size_t i = 0; i < length; i++)
        if (text[i] == ':')
            colon = text + i;
    if (!colon || colon == text || (size_t)(colon - text) >= size ||
        bw_text_number(colon + 1, length - (size_t)(colon + 1 - text), 65535, &number) != 0)
        return -1;
    size_t name = (size_t)(colon - text);
    bool brackets = text[0] == '[' && text[name - 1] == ']';
    snprintf(host, size, "%.*s", (int)(brackets ? name - 2 : name), brackets ? text + 1 : text);
    *port = (uint16_t)number;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct bw_replica_member *)a)->name,
                  ((const struct bw_replica_member *)b)->name);
}

static int take_member(struct bw_roster *roster, const char *text, size_t length)
{
    const char *equals = memchr(text, '=', length);
    if (!equals || equals == text || (size_t)(equals - text) > BW_REPLICA_NAME_MAX ||
        roster->count == BW_REPLICA_NODES)
        return -1;
    struct bw_replica_member *member = &roster->at[roster->count++];
    snprintf(member->name, sizeof member->name, "%.*s", (int)(equals - text), text);
    return bw_address_take(equals + 1, length - (size_t)(equals + 1 - text), member->host,
                           sizeof member->host, &member->port);
}

int bw_cluster_take(const struct bw_cli_command *command, const char *list,
                    struct bw_roster *roster)
{
    *roster = (struct bw_roster){0};
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        if (take_member(roster, at, length) != 0)
            return bw_usage_error(command, "--cluster: '%.*s' is not NAME=HOST:PORT",
                                  length < 60 ? (int)length : 60, at);
        at += length + (at[length] == ',');
    }
    if (roster->count == 0)
        return bw_usage_error(command, "--cluster names nobody");
    qsort(roster->at, roster->count, sizeof roster->at[0], compare_names);
    for (uint32_t i = 0; i < roster->count; i++) {
        roster->at[i].id = i + 1;
        if (i && strcmp(roster->at[i].name, roster->at[i - 1].name) == 0)
            return bw_usage_error(command, "--cluster: '%s' stands there twice",
                                  roster->at[i].name);
    }
    roster->highest = roster->count;
    return BW_GO_ON;
}

bw_node bw_cluster_named(const struct bw_roster *roster, const char *name)
{
    for (uint32_t i = 0; i < roster->count; i++)
        if (strcmp(roster->at[i].name, name) == 0)
            return roster->at[i].id;
    return BW_NODE_NONE;
}

int bw_directory_make(const char *path)
{
    char up_to[4096];
    snprintf(up_to, sizeof up_to, "%s", path);
    for (char *at = up_to + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            int made = mkdir(up_to, 0755);
            *at = '/';
            if (made != 0 && errno != EEXIST)
                return -1;
        }
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

static void name_directory(struct bw_who *who)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *name = who->node ? who->node : "default";
    if (who->data)
        snprintf(who->directory, sizeof who->directory, "%s", who->data);
    else if (geteuid() == 0)
        snprintf(who->directory, sizeof who->directory, "/var/lib/bellwether/serve/%s", name);
    else if (state && state[0] == '/')
        snprintf(who->directory, sizeof who->directory, "%s/bellwether/serve/%s", state, name);
    else
        snprintf(who->directory, sizeof who->directory, "%s/.local/state/bellwether/serve/%s",
                 home ? home : "", name);
}

/* The cluster is known by the names and addresses it began with; a node alone by chance. */
static uint64_t number_cluster(const struct bw_roster *first)
{
    static unsigned char bytes[BW_ROSTER_BYTES_MAX];
    uint64_t id = 0;
    if (first->count > 1)
        id = XXH3_64bits(bytes, bw_roster_encode(first, bytes));
    else if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        id = (uint64_t)getpid();
    return id ? id : 1;
}

/* By the options alone: a first start. */
static int found_cluster(struct bw_who *who, const struct bw_roster *listed)
{
    struct bw_identity *identity = &who->identity;
    const char *name = who->node ? who->node : "default";
    if (listed->count) {
        identity->first = *listed;
        identity->self = bw_cluster_named(listed, name);
    } else {
        struct bw_replica_member alone = {.id = 1, .port = who->publish.port};
        snprintf(alone.name, sizeof alone.name, "%s", name);
        snprintf(alone.host, sizeof alone.host, "%s",
                 who->publish.port ? who->publish.host : "127.0.0.1");
        bw_roster_init(&identity->first, &alone, 1);
        identity->self = 1;
    }
    snprintf(identity->name, sizeof identity->name, "%s", name);
    identity->cluster = number_cluster(&identity->first);
    return BW_GO_ON;
}

static int leave(const struct bw_cli_command *command, int code, const char *why)
{
    fprintf(stderr, "%s: %s\n", command->path, why);
    return code;
}

/* The members to join say who this is. */
static int join_cluster(const struct bw_cli_command *command, struct bw_who *who,
                        const struct bw_secure *secure)
{
    static struct bw_replica_member asked[BW_REPLICA_NODES];
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    struct bw_tls_config *tls = NULL;
    uint32_t count = 0;
    for (const char *at = who->join; *at && count < BW_REPLICA_NODES; count++) {
        size_t length = strcspn(at, ",");
        if (bw_address_take(at, length, asked[count].host, sizeof asked[0].host,
                            &asked[count].port) != 0)
            return bw_usage_error(command, "--join: '%.*s' is not HOST:PORT",
                                  length < 60 ? (int)length : 60, at);
        at += length + (at[length] == ',');
    }
    if (bw_secure_peer_tls(secure, &tls, why) != 0)
        return leave(command, BW_EXIT_IO, why);
    struct bw_introduce ask = {.members = asked,
                               .count = count,
                               .self = &who->publish,
                               .tls = tls,
                               .within_ms = JOIN_WITHIN_MS};
    int error = bw_introduce(&ask, &who->identity, why);
    if (tls)
        bw_tls_config_free(tls);
    return error ? leave(command, error == BW_ETIMEDOUT ? BW_EXIT_IO : BW_EXIT_DATA, why)
                 : BW_GO_ON;
}

/* What is on the disk must be what was asked for. A list that differs is taken for an old or a new
 * one of the same cluster if it has this node where the directory has it. */
static int agree(const struct bw_cli_command *command, const struct bw_who *who,
                 const struct bw_roster *listed)
{
    const struct bw_identity *identity = &who->identity;
    const struct bw_replica_member *here = bw_roster_find(&identity->first, identity->self);
    char why[BW_REPLICA_WHY_MAX + 1];
    if (who->node && strcmp(who->node, identity->name) != 0) {
        snprintf(why, sizeof why,
                 "%.300s holds the data of node %s, not of %s: give each node its own --data",
                 who->directory, identity->name, who->node);
        return leave(command, BW_EXIT_DATA, why);
    }
    if (!listed->count || number_cluster(listed) == identity->cluster)
        return BW_GO_ON;
    const struct bw_replica_member *asked =
        bw_roster_find(listed, bw_cluster_named(listed, identity->name));
    if (asked && here && asked->port == here->port && strcmp(asked->host, here->host) == 0)
        return BW_GO_ON;
    snprintf(why, sizeof why,
             "%.300s holds the data of another cluster than --cluster names: give another --data, "
             "or, if it is the right one and %s has moved, leave --cluster out",
             who->directory, identity->name);
    return leave(command, BW_EXIT_DATA, why);
}

static int take_options(const struct bw_cli_command *command, struct bw_who *who,
                        struct bw_roster *listed)
{
    *listed = (struct bw_roster){0};
    struct bw_replica_member *self = &who->publish;
    if (who->node && strlen(who->node) > BW_REPLICA_NAME_MAX)
        return bw_usage_error(command, "--node: more than %u bytes", BW_REPLICA_NAME_MAX);
    if (who->peer && (bw_address_take(who->peer, strlen(who->peer), self->host, sizeof self->host,
                                      &self->port) != 0 ||
                      !self->port))
        return bw_usage_error(command, "--peer: '%.60s' is not HOST:PORT", who->peer);
    if (who->peer_listen &&
        bw_address_take(who->peer_listen, strlen(who->peer_listen), who->listen_host,
                        sizeof who->listen_host, &who->listen_port) != 0)
        return bw_usage_error(command, "--peer-listen: '%.60s' is not HOST:PORT", who->peer_listen);
    if (who->join && (who->cluster || !who->node || !who->peer))
        return bw_usage_error(command, "--join goes with --node and --peer, and without --cluster");
    int code = who->cluster ? bw_cluster_take(command, who->cluster, listed) : BW_GO_ON;
    if (code != BW_GO_ON || !who->cluster)
        return code;
    if (!who->node)
        return bw_usage_error(command, "--cluster needs --node: which of them is this one?");
    if (bw_cluster_named(listed, who->node) == BW_NODE_NONE)
        return bw_usage_error(command, "--node: '%s' is not in --cluster", who->node);
    return BW_GO_ON;
}

static int settle(const struct bw_cli_command *command, struct bw_who *who)
{
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    if (bw_directory_make(who->directory) != 0) {
        fprintf(stderr, "%s: --data: cannot make %s: %s\n", command->path, who->directory,
                strerror(errno));
        return BW_EXIT_IO;
    }
    if (bw_identity_make(&who->identity, who->directory, why) != 0)
        return leave(command, BW_EXIT_IO, why);
    who->made = true;
    return BW_GO_ON;
}

static int check_addresses(const struct bw_cli_command *command, const struct bw_who *who,
                           const struct bw_secure *secure, const char *listen,
                           const struct bw_roster *listed)
{
    const struct bw_roster *known = who->identity.cluster ? &who->identity.first : listed;
    int code = bw_secure_check(command, secure, listen, known->at, known->count);
    if (code == BW_GO_ON && who->publish.port)
        code = bw_secure_check(command, secure, listen, &who->publish, 1);
    return code;
}

int bw_who_find(const struct bw_cli_command *command, struct bw_who *who,
                const struct bw_secure *secure, const char *listen)
{
    static struct bw_roster listed;
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    int code = take_options(command, who, &listed);
    if (code != BW_GO_ON)
        return code;
    name_directory(who);
    if (bw_identity_read(&who->identity, who->directory, why) != 0)
        return leave(command, BW_EXIT_DATA, why);
    bool known = who->identity.cluster != 0;
    code = check_addresses(command, who, secure, listen, &listed);
    snprintf(who->publish.name, sizeof who->publish.name, "%s", who->node ? who->node : "default");
    if (code == BW_GO_ON && known)
        code = agree(command, who, &listed);
    else if (code == BW_GO_ON)
        code = who->join ? join_cluster(command, who, secure) : found_cluster(who, &listed);
    if (code == BW_GO_ON && !known)
        code = settle(command, who);
    snprintf(who->publish.name, sizeof who->publish.name, "%s", who->identity.name);
    return code;
}
