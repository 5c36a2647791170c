/* Determines the identity of this node; see resolve_identity.h. */
#include "cli/serve/resolve_identity.h"

#include "core/base/error.h"
#include "core/base/parse_values.h"
#include "os/journal.h"
#include "serve/replica/fetch_identity.h"

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

static int take_member(struct bw_member_list *roster, const char *text, size_t length)
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
                    struct bw_member_list *roster)
{
    *roster = (struct bw_member_list){0};
    for (const char *at = list; *at;) {
        size_t length = strcspn(at, ",");
        if (take_member(roster, at, length) != 0)
            return bw_usage_error(command, "invalid --cluster '%.*s': expected NAME=HOST:PORT",
                                  length < 60 ? (int)length : 60, at);
        at += length + (at[length] == ',');
    }
    if (roster->count == 0)
        return bw_usage_error(command, "--cluster is empty; expected NAME=HOST:PORT,...");
    qsort(roster->at, roster->count, sizeof roster->at[0], compare_names);
    for (uint32_t i = 0; i < roster->count; i++) {
        roster->at[i].id = i + 1;
        if (i && strcmp(roster->at[i].name, roster->at[i - 1].name) == 0)
            return bw_usage_error(command, "--cluster: duplicate node %s", roster->at[i].name);
    }
    roster->highest = roster->count;
    return BW_GO_ON;
}

bw_node bw_cluster_named(const struct bw_member_list *roster, const char *name)
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

static void name_directory(struct bw_serve_identity *self)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *name = self->node ? self->node : "default";
    if (self->data)
        snprintf(self->directory, sizeof self->directory, "%s", self->data);
    else if (geteuid() == 0)
        snprintf(self->directory, sizeof self->directory, "/var/lib/bellwether/serve/%s", name);
    else if (state && state[0] == '/')
        snprintf(self->directory, sizeof self->directory, "%s/bellwether/serve/%s", state, name);
    else
        snprintf(self->directory, sizeof self->directory, "%s/.local/state/bellwether/serve/%s",
                 home ? home : "", name);
}

/* Returns the cluster's id: a hash of its first names and addresses, or a random number for a
 * single node. */
static uint64_t number_cluster(const struct bw_member_list *first)
{
    static unsigned char bytes[BW_MEMBER_LIST_BYTES_MAX];
    uint64_t id = 0;
    if (first->count > 1)
        id = XXH3_64bits(bytes, bw_member_list_encode(first, bytes));
    else if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        id = (uint64_t)getpid();
    return id ? id : 1;
}

/* Creates the identity from the options, on a first start. */
static int found_cluster(struct bw_serve_identity *self, const struct bw_member_list *listed)
{
    struct bw_identity *identity = &self->identity;
    const char *name = self->node ? self->node : "default";
    if (listed->count) {
        identity->first = *listed;
        identity->self = bw_cluster_named(listed, name);
    } else {
        struct bw_replica_member alone = {.id = 1, .port = self->publish.port};
        snprintf(alone.name, sizeof alone.name, "%s", name);
        snprintf(alone.host, sizeof alone.host, "%s",
                 self->publish.port ? self->publish.host : "127.0.0.1");
        bw_member_list_init(&identity->first, &alone, 1);
        identity->self = 1;
    }
    snprintf(identity->name, sizeof identity->name, "%s", name);
    identity->cluster = number_cluster(&identity->first);
    return BW_GO_ON;
}

static int leave(const struct bw_cli_command *command, int code, const char *why)
{
    bw_print_line(BW_PRIORITY_ERROR, "%s: %s", command->path, why);
    return code;
}

/* Asks the members of the cluster to join for this node's identity. */
static int join_cluster(const struct bw_cli_command *command, struct bw_serve_identity *self,
                        const struct bw_secure *secure)
{
    static struct bw_replica_member asked[BW_REPLICA_NODES];
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    struct bw_tls_config *tls = NULL;
    uint32_t count = 0;
    for (const char *at = self->join; *at && count < BW_REPLICA_NODES; count++) {
        size_t length = strcspn(at, ",");
        if (bw_address_take(at, length, asked[count].host, sizeof asked[0].host,
                            &asked[count].port) != 0)
            return bw_usage_error(command, "invalid --join '%.*s': expected HOST:PORT",
                                  length < 60 ? (int)length : 60, at);
        at += length + (at[length] == ',');
    }
    if (bw_secure_peer_tls(secure, &tls, why) != 0)
        return leave(command, BW_EXIT_IO, why);
    struct bw_introduce ask = {.members = asked,
                               .count = count,
                               .self = &self->publish,
                               .tls = tls,
                               .within_ms = JOIN_WITHIN_MS};
    int error = bw_introduce(&ask, &self->identity, why);
    if (tls)
        bw_tls_config_free(tls);
    return error ? leave(command, error == BW_ETIMEDOUT ? BW_EXIT_IO : BW_EXIT_DATA, why)
                 : BW_GO_ON;
}

/* Checks that the identity on disk matches the options. A different --cluster list is accepted as
 * an older or newer list of the same cluster if it has this node at the place that the directory
 * has. */
static int agree(const struct bw_cli_command *command, const struct bw_serve_identity *self,
                 const struct bw_member_list *listed)
{
    const struct bw_identity *identity = &self->identity;
    const struct bw_replica_member *here = bw_member_list_find(&identity->first, identity->self);
    char why[BW_REPLICA_WHY_MAX + 1];
    if (self->node && strcmp(self->node, identity->name) != 0) {
        snprintf(why, sizeof why,
                 "%.300s holds the data of node %s, not of %s; give each node its own --data",
                 self->directory, identity->name, self->node);
        return leave(command, BW_EXIT_DATA, why);
    }
    if (!listed->count || number_cluster(listed) == identity->cluster)
        return BW_GO_ON;
    const struct bw_replica_member *asked =
        bw_member_list_find(listed, bw_cluster_named(listed, identity->name));
    if (asked && here && asked->port == here->port && strcmp(asked->host, here->host) == 0)
        return BW_GO_ON;
    snprintf(why, sizeof why,
             "%.300s holds the data of a cluster other than --cluster; use another --data, or, if "
             "the data is right and %s has moved, omit --cluster",
             self->directory, identity->name);
    return leave(command, BW_EXIT_DATA, why);
}

static int take_options(const struct bw_cli_command *command, struct bw_serve_identity *self,
                        struct bw_member_list *listed)
{
    *listed = (struct bw_member_list){0};
    struct bw_replica_member *published = &self->publish;
    if (self->node && strlen(self->node) > BW_REPLICA_NAME_MAX)
        return bw_usage_error(command, "invalid --node: longer than %u bytes", BW_REPLICA_NAME_MAX);
    if (self->peer && (bw_address_take(self->peer, strlen(self->peer), published->host,
                                       sizeof published->host, &published->port) != 0 ||
                       !published->port))
        return bw_usage_error(command, "invalid --peer '%.60s': expected HOST:PORT", self->peer);
    if (self->peer_listen &&
        bw_address_take(self->peer_listen, strlen(self->peer_listen), self->listen_host,
                        sizeof self->listen_host, &self->listen_port) != 0)
        return bw_usage_error(command, "invalid --peer-listen '%.60s': expected HOST:PORT",
                              self->peer_listen);
    if (self->join && (self->cluster || !self->node || !self->peer))
        return bw_usage_error(command,
                              "--join needs --node and --peer, and conflicts with --cluster");
    int code = self->cluster ? bw_cluster_take(command, self->cluster, listed) : BW_GO_ON;
    if (code != BW_GO_ON || !self->cluster)
        return code;
    if (!self->node)
        return bw_usage_error(command,
                              "--cluster needs --node NAME, to say which of the nodes this is");
    if (bw_cluster_named(listed, self->node) == BW_NODE_NONE)
        return bw_usage_error(command, "--node '%s' is not in --cluster", self->node);
    return BW_GO_ON;
}

static int settle(const struct bw_cli_command *command, struct bw_serve_identity *self)
{
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    if (bw_directory_make(self->directory) != 0) {
        bw_print_line(BW_PRIORITY_ERROR, "%s: cannot create data directory %s: %s", command->path,
                      self->directory, strerror(errno));
        return BW_EXIT_IO;
    }
    if (bw_identity_make(&self->identity, self->directory, why) != 0)
        return leave(command, BW_EXIT_IO, why);
    self->made = true;
    return BW_GO_ON;
}

static int check_addresses(const struct bw_cli_command *command,
                           const struct bw_serve_identity *self, const struct bw_secure *secure,
                           const char *listen, const struct bw_member_list *listed)
{
    const struct bw_member_list *known = self->identity.cluster ? &self->identity.first : listed;
    int code = bw_secure_check(command, secure, listen, known->at, known->count);
    if (code == BW_GO_ON && self->publish.port)
        code = bw_secure_check(command, secure, listen, &self->publish, 1);
    return code;
}

int bw_serve_identity_find(const struct bw_cli_command *command, struct bw_serve_identity *self,
                           const struct bw_secure *secure, const char *listen)
{
    static struct bw_member_list listed;
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    int code = take_options(command, self, &listed);
    if (code != BW_GO_ON)
        return code;
    name_directory(self);
    if (bw_identity_read(&self->identity, self->directory, why) != 0)
        return leave(command, BW_EXIT_DATA, why);
    bool known = self->identity.cluster != 0;
    code = check_addresses(command, self, secure, listen, &listed);
    snprintf(self->publish.name, sizeof self->publish.name, "%s",
             self->node ? self->node : "default");
    if (code == BW_GO_ON && known)
        code = agree(command, self, &listed);
    else if (code == BW_GO_ON)
        code = self->join ? join_cluster(command, self, secure) : found_cluster(self, &listed);
    if (code == BW_GO_ON && !known)
        code = settle(command, self);
    snprintf(self->publish.name, sizeof self->publish.name, "%s", self->identity.name);
    return code;
}
