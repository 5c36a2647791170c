/* `bellwether serve`: a replicated lease and election service that speaks etcd's v3 API. */
#include "cli/commands.h"
#include "cli/serve/notify.h"
#include "cli/serve/who.h"
#include "core/base/error.h"
#include "os/loop.h"
#include "serve/api/binding.h"
#include "serve/front/front.h"

#include <signal.h>
#include <string.h>

#define LISTEN_DEFAULT  "127.0.0.1:2379"
#define LAST_ANSWERS_MS 200u

struct serve {
    const char *listen;
    bw_time heartbeat_ns, timeout_ns, bind_hold_off_ns;
    struct bw_who who;
    struct bw_secure secure;
    /* what follows from it */
    char host[BW_REPLICA_HOST_MAX + 1];
    uint16_t port;
    uv_loop_t loop;
    uv_signal_t term, interrupt;
    uv_timer_t end;
    int code;
    bw_node leader; /* as was said */
    bw_term led_term;
    struct bw_notify notify;
    struct bw_service *service;
    struct bw_front *front;
    bool stopping;
    bool refused; /* by the other nodes, before it promised anything */
};

static const struct bw_option options[] = {
    {.help = "who this is"},
    {"node", "NAME", "this node's name in --cluster (default: the only one)", .set = bw_set_text,
     .offset = offsetof(struct serve, who.node)},
    {"cluster", "LIST",
     "the first nodes with the addresses they reach each other at: a=HOST:PORT,b=HOST:PORT,... "
     "(default: this node alone); the data knows them after the first start",
     .set = bw_set_text, .offset = offsetof(struct serve, who.cluster)},
    {"join", "LIST",
     "join the cluster that has nodes there: HOST:PORT,... as they reach each other; `bellwether "
     "cluster add` comes first",
     .set = bw_set_text, .offset = offsetof(struct serve, who.join)},
    {"peer", "ADDR", "where the other nodes reach this one: HOST:PORT; needed with --join",
     .set = bw_set_text, .offset = offsetof(struct serve, who.peer)},
    {"peer-listen", "ADDR",
     "where it listens for them, if that is another address: HOST:PORT (a container's, say)",
     .set = bw_set_text, .offset = offsetof(struct serve, who.peer_listen)},
    {"data", "DIR",
     "where the log and snapshots are kept (default: $XDG_STATE_HOME/bellwether/serve, or "
     "/var/lib/bellwether for root)",
     .set = bw_set_text, .offset = offsetof(struct serve, who.data)},
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
     "the first users of a new cluster, with roles and password hashes: everybody must say who it "
     "is from the start",
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

static int prepare(const struct bw_cli_command *command, struct serve *s)
{
    const char *listen = s->listen ? s->listen : LISTEN_DEFAULT;
    if (bw_address_take(listen, strlen(listen), s->host, sizeof s->host, &s->port) != 0)
        return bw_usage_error(command, "--listen: '%.60s' is not HOST:PORT", listen);
    bw_time heartbeat = s->heartbeat_ns ? s->heartbeat_ns : BW_REPLICA_HEARTBEAT;
    bw_time detect = s->timeout_ns ? s->timeout_ns : BW_REPLICA_TIMEOUT;
    if (detect / 5 < heartbeat / 2) /* two beats may be late */
        return bw_usage_error(command,
                              "--detect (%lld ms) must be at least 2.5 x --heartbeat (%lld ms)",
                              (long long)(detect / BW_MS), (long long)(heartbeat / BW_MS));
    if (s->bind_hold_off_ns && s->bind_hold_off_ns < BW_BIND_LEAST_NS)
        return bw_usage_error(command, "--bind-hold-off must be at least 100ms");
    int code = bw_who_find(command, &s->who, &s->secure, s->host);
    snprintf(s->who.publish.client, sizeof s->who.publish.client, "%s://%s:%u",
             s->secure.cert ? "https" : "http", s->host, s->port);
    return code;
}

static const char *name_of(const struct serve *s, bw_node node)
{
    static struct bw_replica_member members[BW_REPLICA_NODES];
    static char number[16];
    uint32_t voters;
    uint32_t count = bw_replica_members(bw_service_replica(s->service), members, &voters);
    for (uint32_t i = 0; i < count; i++)
        if (members[i].id == node && members[i].name[0])
            return members[i].name;
    snprintf(number, sizeof number, "node %u", node);
    return number;
}

/* A manager sees it in one line. */
static void tell_manager(const struct serve *s, const char *leader)
{
    char line[160];
    snprintf(line, sizeof line, "STATUS=%s leads, term %llu", leader,
             (unsigned long long)s->led_term);
    bw_notify_say(&s->notify, line);
}

static void on_led(void *context)
{
    struct serve *s = context;
    struct bw_replica_status status;
    if (!s->service || s->stopping)
        return;
    bw_replica_status(bw_service_replica(s->service), &status);
    if (status.leader == s->leader && status.term == s->led_term)
        return;
    s->leader = status.leader;
    s->led_term = status.term;
    const char *leader = status.leader ? name_of(s, status.leader) : "nobody";
    fprintf(stderr, "bellwether serve: %s leads, term %llu\n", leader,
            (unsigned long long)status.term);
    tell_manager(s, leader);
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
    bw_notify_say(&s->notify, "STOPPING=1");
    bw_notify_close(&s->notify);
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

static void on_end(uv_timer_t *timer)
{
    stop(timer->data);
}

/* It can take no part: the line says what to do. Not from within its own call. */
static void on_ended(void *context, enum bw_replica_end end, const char *why)
{
    struct serve *s = context;
    fprintf(stderr, "bellwether serve: %s\n", why);
    s->code = end == BW_REPLICA_REMOVED ? BW_EXIT_OK : BW_EXIT_DATA;
    s->refused =
        end != BW_REPLICA_USELESS && !bw_replica_has_started(bw_service_replica(s->service));
    /* Who asked a node to remove itself still hears that it was done. */
    uv_timer_start(&s->end, on_end, end == BW_REPLICA_REMOVED ? LAST_ANSWERS_MS : 0, 0);
}

static void watch_signal(struct serve *s, uv_signal_t *handle, int number)
{
    uv_signal_init(&s->loop, handle);
    handle->data = s;
    uv_signal_start(handle, on_signal, number);
}

static void on_users(void *context, uint32_t count)
{
    (void)context;
    bw_secure_hide();
    fprintf(stderr, "bellwether serve: this cluster has users: %u\n", count);
}

static void on_service_closed(void *context)
{
    ((struct serve *)context)->service = NULL;
}

/* A start that failed leaves a directory that was empty as it was. Otherwise the next start would
 * take itself for the node of this one, whatever its options say. */
static int leave(struct serve *s, int code)
{
    if (s->service && !s->stopping) {
        bw_service_close(s->service, on_service_closed);
        while (s->service)
            uv_run(&s->loop, UV_RUN_ONCE);
    }
    if (s->who.made)
        bw_identity_unmake(s->who.directory);
    return code;
}

static int open_all(const struct bw_cli_command *command, struct serve *s)
{
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    struct bw_service_options service = {
        .loop = &s->loop,
        .directory = s->who.directory,
        .cluster = s->who.identity.cluster,
        .self = s->who.identity.self,
        .members = s->who.identity.first.at,
        .count = s->who.identity.first.count,
        .joins = s->who.identity.joined,
        .publish = s->who.publish,
        .listen_host = s->who.listen_host[0] ? s->who.listen_host : NULL,
        .listen_port = s->who.listen_port,
        .credentials = s->secure.peers,
        .users = s->secure.users ? &s->secure.first : NULL,
        .heartbeat_ns = s->heartbeat_ns,
        .timeout_ns = s->timeout_ns,
        .ttl_min_ns = BW_SEC,
        .registry = {.quota = (uint64_t)2 << 30, .leases_max = 4000000, .history = 131072},
        .context = s,
        .led = on_led,
        .users_known = on_users,
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
    bool data =
        error == BW_EDAMAGED || error == BW_EDENIED || error == BW_EVERSION || error == BW_ESTALE;
    return data ? BW_EXIT_DATA : error ? BW_EXIT_IO : BW_GO_ON;
}

static uint32_t count_members(const struct serve *s)
{
    static struct bw_replica_member members[BW_REPLICA_NODES];
    uint32_t voters;
    return bw_replica_members(bw_service_replica(s->service), members, &voters);
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
    int error = bw_loop_init(&s.loop);
    if (error) {
        fprintf(stderr, "bellwether serve: cannot start an event loop: %s\n", strerror(-error));
        return BW_EXIT_IO;
    }
    uv_timer_init(&s.loop, &s.end);
    s.end.data = &s;
    bw_notify_open(&s.notify, &s.loop);
    code = bw_secure_open(command, &s.secure, &s.loop);
    if (code == BW_GO_ON)
        code = open_all(command, &s);
    if (code != BW_GO_ON)
        return leave(&s, code);
    watch_signal(&s, &s.term, SIGTERM);
    watch_signal(&s, &s.interrupt, SIGINT);
    fprintf(stderr, "bellwether serve: node %s of %u, clients at %s:%u, data in %s\n",
            s.who.identity.name, count_members(&s), s.host, bw_front_port(s.front),
            s.who.directory);
    bw_notify_say(&s.notify, "READY=1");
    uv_run(&s.loop, UV_RUN_DEFAULT);
    return s.refused ? leave(&s, s.code) : s.code;
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
        "and the same on b and c with their own. A fourth, after `bellwether cluster add "
        "10.0.0.4:2380`:\n"
        "  bellwether serve --node d --join 10.0.0.1:2380,10.0.0.2:2380 --peer 10.0.0.4:2380 ...\n"
        "Changed certificates are taken up within seconds, and "
        "on\n"
        "SIGHUP; connections and leases stay.\n",
    .options = options,
    .run = serve,
};
