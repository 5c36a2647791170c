/* `bellwether serve`: a replicated lease and election service that speaks etcd's v3 API. */
#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/serve_secure.h"
#include "serve/binding.h"
#include "serve/front.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LISTEN_DEFAULT "127.0.0.1:2379"
#define BW_EXIT_DATA   65 /* what is on the disk cannot be used */

struct serve {
    const char *node, *cluster, *data, *listen;
    bw_time heartbeat_ns, timeout_ns, bind_hold_off_ns;
    struct bw_secure secure;
    /* what follows from it */
    struct bw_replica_member members[BW_REPLICA_NODES];
    uint32_t count;
    bw_node self;
    uint64_t cluster_id;
    char directory[4096], host[256];
    uint16_t port;
    uv_loop_t loop;
    uv_signal_t term, interrupt;
    uv_async_t end;
    int code;
    struct bw_service *service;
    struct bw_front *front;
    bool stopping;
};

static const struct bw_option options[] = {
    {.help = "who this is"},
    {"node", "NAME", "this node's name in --cluster (default: the only one)", .set = bw_set_text,
     .offset = offsetof(struct serve, node)},
    {"cluster", "LIST",
     "all nodes with the addresses they reach each other at: a=HOST:PORT,b=HOST:PORT,... (default: "
     "this node alone)",
     .set = bw_set_text, .offset = offsetof(struct serve, cluster)},
    {"data", "DIR",
     "where the log and snapshots are kept (default: $XDG_STATE_HOME/bellwether/serve, or "
     "/var/lib/bellwether for root)",
     .set = bw_set_text, .offset = offsetof(struct serve, data)},
    {"listen", "ADDR", "where clients connect: HOST:PORT (default " LISTEN_DEFAULT ")",
     .set = bw_set_text, .offset = offsetof(struct serve, listen)},
    {.help = "TLS and who may connect"},
    {"cert", "FILE", "clients: this node's certificate (PEM, with its chain)", .set = bw_set_text,
     .offset = offsetof(struct serve, secure.cert)},
    {"key", "FILE", "clients: its key", .set = bw_set_text,
     .offset = offsetof(struct serve, secure.key)},
    {"client-ca", "FILE", "clients must show a certificate signed by one of these authorities",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.client_ca)},
    {"users", "FILE",
     "users with their roles and password hashes; with it, everybody must say who it is",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.users)},
    {"hash-password", "NAME:ROLE",
     "print a line for --users, its password read from standard input; ROLE is observe, campaign "
     "or admin",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.hash_password)},
    {"peer-cert", "FILE", "nodes: the certificate shown to the others, both as server and client",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.peer_cert)},
    {"peer-key", "FILE", "nodes: its key", .set = bw_set_text,
     .offset = offsetof(struct serve, secure.peer_key)},
    {"peer-ca", "FILE",
     "nodes: the authorities that sign the certificates of nodes, of nobody else",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.peer_ca)},
    {"insecure", NULL, "serve other machines without TLS or without asking who they are",
     .set = bw_set_switch, .offset = offsetof(struct serve, secure.insecure)},
    {.help = "time"},
    {"heartbeat", "D", "how often a leader shows that it lives (default 100ms)",
     .set = bw_set_duration, .offset = offsetof(struct serve, heartbeat_ns), .low = 1},
    {"detect", "D",
     "a leader that is silent so long is replaced (default 250ms; at most twice that, drawn at "
     "random)",
     .set = bw_set_duration, .offset = offsetof(struct serve, timeout_ns), .low = 1},
    {"bind-hold-off", "D",
     "leases bound to a connection from another machine end so long after its client closed it "
     "(default: not before their TTL; on loopback always 10ms)",
     .set = bw_set_duration, .offset = offsetof(struct serve, bind_hold_off_ns), .low = 1},
    {NULL, NULL, NULL, .set = NULL}};

static int take_address(const char *text, size_t length, char *host, size_t size, uint16_t *port)
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

static int take_member(struct serve *s, const char *text, size_t length)
{
    const char *equals = memchr(text, '=', length);
    if (!equals || equals == text || (size_t)(equals - text) > BW_REPLICA_NAME_MAX ||
        s->count == BW_REPLICA_NODES)
        return -1;
    struct bw_replica_member *member = &s->members[s->count++];
    snprintf(member->name, sizeof member->name, "%.*s", (int)(equals - text), text);
    return take_address(equals + 1, length - (size_t)(equals + 1 - text), member->host,
                        sizeof member->host, &member->port);
}

/* Nodes are numbered in the order of their names; the cluster is known by all of it. */
static int take_cluster(const struct bw_cli_command *command, struct serve *s)
{
    for (const char *at = s->cluster; *at;) {
        size_t length = strcspn(at, ",");
        if (take_member(s, at, length) != 0)
            return bw_usage_error(command, "--cluster: '%.*s' is not NAME=HOST:PORT",
                                  length < 60 ? (int)length : 60, at);
        at += length + (at[length] == ',');
    }
    qsort(s->members, s->count, sizeof s->members[0], compare_names);
    for (uint32_t i = 0; i < s->count; i++) {
        s->members[i].id = i + 1;
        if (i && strcmp(s->members[i].name, s->members[i - 1].name) == 0)
            return bw_usage_error(command, "--cluster: '%s' stands there twice",
                                  s->members[i].name);
        if (s->node && strcmp(s->members[i].name, s->node) == 0)
            s->self = i + 1;
    }
    if (!s->node)
        return bw_usage_error(command, "--cluster needs --node: which of them is this one?");
    if (s->self == BW_NODE_NONE)
        return bw_usage_error(command, "--node: '%s' is not in --cluster", s->node);
    return BW_GO_ON;
}

static void alone(struct serve *s)
{
    snprintf(s->members[0].name, sizeof s->members[0].name, "%s", s->node ? s->node : "default");
    snprintf(s->members[0].host, sizeof s->members[0].host, "127.0.0.1");
    s->members[0].id = s->self = 1;
    s->count = 1;
}

static void identify(struct serve *s)
{
    uint64_t id = s->count;
    for (uint32_t i = 0; i < s->count; i++)
        id = XXH3_64bits_withSeed(s->members[i].name, strlen(s->members[i].name), id);
    s->cluster_id = id ? id : 1;
    snprintf(s->members[s->self - 1].client, sizeof s->members[0].client, "%s://%s:%u",
             s->secure.cert ? "https" : "http", s->host, s->port);
}

static int make_directories(char *path)
{
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = '\0';
            int made = mkdir(path, 0755);
            *at = '/';
            if (made != 0 && errno != EEXIST)
                return -1;
        }
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

static int find_directory(const struct bw_cli_command *command, struct serve *s)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *name = s->members[s->self - 1].name;
    if (s->data)
        snprintf(s->directory, sizeof s->directory, "%s", s->data);
    else if (geteuid() == 0)
        snprintf(s->directory, sizeof s->directory, "/var/lib/bellwether/serve/%s", name);
    else if (state && state[0] == '/')
        snprintf(s->directory, sizeof s->directory, "%s/bellwether/serve/%s", state, name);
    else
        snprintf(s->directory, sizeof s->directory, "%s/.local/state/bellwether/serve/%s",
                 home ? home : "", name);
    if (make_directories(s->directory) == 0)
        return BW_GO_ON;
    fprintf(stderr, "%s: --data: cannot make %s: %s\n", command->path, s->directory,
            strerror(errno));
    return BW_EXIT_IO;
}

static int prepare(const struct bw_cli_command *command, struct serve *s)
{
    const char *listen = s->listen ? s->listen : LISTEN_DEFAULT;
    if (take_address(listen, strlen(listen), s->host, sizeof s->host, &s->port) != 0)
        return bw_usage_error(command, "--listen: '%.60s' is not HOST:PORT", listen);
    if (s->heartbeat_ns && s->timeout_ns && s->timeout_ns < 3 * s->heartbeat_ns)
        return bw_usage_error(command, "--detect must be at least 3 x --heartbeat");
    if (s->bind_hold_off_ns && s->bind_hold_off_ns < BW_BIND_LEAST_NS)
        return bw_usage_error(command, "--bind-hold-off must be at least 100ms");
    if (!s->cluster)
        alone(s);
    int code = s->cluster ? take_cluster(command, s) : BW_GO_ON;
    if (code == BW_GO_ON)
        code = bw_secure_check(command, &s->secure, s->host, s->members, s->count);
    if (code != BW_GO_ON)
        return code;
    identify(s);
    return find_directory(command, s);
}

static void on_led(void *context)
{
    struct serve *s = context;
    struct bw_replica_status status;
    if (!s->service || s->stopping)
        return;
    bw_replica_status(bw_service_replica(s->service), &status);
    const char *leader = status.leader ? s->members[status.leader - 1].name : "nobody";
    fprintf(stderr, "bellwether serve: %s leads, term %llu\n", leader,
            (unsigned long long)status.term);
}

static void on_front_closed(void *context)
{
    (void)context;
}

static void stop(struct serve *s)
{
    if (s->stopping)
        return;
    s->stopping = true;
    bw_front_close(s->front, on_front_closed, s);
    bw_service_close(s->service, NULL);
    bw_secure_close(&s->secure);
    uv_close((uv_handle_t *)&s->term, NULL);
    uv_close((uv_handle_t *)&s->interrupt, NULL);
    uv_close((uv_handle_t *)&s->end, NULL);
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    stop(handle->data);
}

/* It can take no part: the line says what to do. Not from within its own call. */
static void on_ended(void *context, const char *why)
{
    struct serve *s = context;
    fprintf(stderr, "bellwether serve: %s\n", why);
    s->code = BW_EXIT_DATA;
    uv_async_send(&s->end);
}

static void on_end(uv_async_t *async)
{
    stop(async->data);
}

static void watch_signal(struct serve *s, uv_signal_t *handle, int number)
{
    uv_signal_init(&s->loop, handle);
    handle->data = s;
    uv_signal_start(handle, on_signal, number);
}

static int open_all(const struct bw_cli_command *command, struct serve *s)
{
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    struct bw_service_options service = {
        .loop = &s->loop,
        .directory = s->directory,
        .cluster = s->cluster_id,
        .self = s->self,
        .members = s->members,
        .count = s->count,
        .credentials = s->secure.peers,
        .auth = s->secure.auth,
        .heartbeat_ns = s->heartbeat_ns,
        .timeout_ns = s->timeout_ns,
        .ttl_min_ns = BW_SEC,
        .registry = {.quota = (uint64_t)2 << 30, .leases_max = 4000000, .history = 131072},
        .context = s,
        .led = on_led,
        .ended = on_ended};
    int error = bw_service_open(&s->service, &service, why);
    struct bw_front_options front = {.loop = &s->loop,
                                     .service = s->service,
                                     .host = s->host,
                                     .port = s->port,
                                     .credentials = s->secure.clients,
                                     .bind_hold_off_ns = s->bind_hold_off_ns};
    if (!error)
        error = bw_front_open(&s->front, &front, why);
    if (error)
        fprintf(stderr, "%s: %s\n", command->path, why);
    bool data = error == BW_EDAMAGED || error == BW_EDENIED || error == BW_EVERSION;
    return data ? BW_EXIT_DATA : error ? BW_EXIT_IO : BW_GO_ON;
}

static int serve(const struct bw_cli_command *command, int argc, char **argv)
{
    static struct serve s;
    struct bw_parsed parsed;
    int code = bw_options_parse(command, argc, argv, &s, &parsed);
    if (code == BW_GO_ON && s.secure.hash_password)
        return bw_secure_hash(command, s.secure.hash_password);
    if (code == BW_GO_ON)
        code = prepare(command, &s);
    if (code != BW_GO_ON)
        return code;
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&s.loop);
    uv_async_init(&s.loop, &s.end, on_end);
    s.end.data = &s;
    code = bw_secure_open(command, &s.secure, &s.loop, s.cluster_id);
    if (code == BW_GO_ON)
        code = open_all(command, &s);
    if (code != BW_GO_ON)
        return code;
    watch_signal(&s, &s.term, SIGTERM);
    watch_signal(&s, &s.interrupt, SIGINT);
    fprintf(stderr, "bellwether serve: node %s of %u, clients at %s:%u, data in %s\n",
            s.members[s.self - 1].name, s.count, s.host, bw_front_port(s.front), s.directory);
    uv_run(&s.loop, UV_RUN_DEFAULT);
    return s.code;
}

const struct bw_cli_command bw_command_serve = {
    .name = "serve",
    .path = "bellwether serve",
    .usage = "[options]",
    .about = "a replicated lease and election service that etcd's clients can use",
    .text =
        "Without options: one durable node on loopback, ready at once. Three nodes:\n"
        "  bellwether serve --node a --cluster a=10.0.0.1:2380,b=10.0.0.2:2380,c=10.0.0.3:2380 \\\n"
        "                   --listen 10.0.0.1:2379 --cert a.crt --key a.key --client-ca "
        "clients.crt \\\n"
        "                   --peer-cert a-peer.crt --peer-key a-peer.key --peer-ca peers.crt\n"
        "and the same on b and c with their own. Changed files are taken up within seconds, and "
        "on\n"
        "SIGHUP; connections and leases stay.\n",
    .options = options,
    .run = serve,
};
