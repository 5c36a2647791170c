/* `bellwether serve`: a replicated lease and election service with etcd's v3 API. */
#include "cli/commands.h"
#include "cli/serve/resolve_identity.h"
#include "core/base/error.h"
#include "core/base/parse_values.h"
#include "os/journal.h"
#include "os/loop.h"
#include "os/sd_notify.h"
#include "serve/api/binding.h"
#include "serve/front/front.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LISTEN_DEFAULT      "127.0.0.1:2379"
#define FINAL_REPLIES_MS    200u
#define RETENTION_HOURS_MAX ((bw_time)87600)
#define HEARTBEAT_MIN       BW_MS
#define HEARTBEAT_MAX       (BW_SEC * 3600 * 24)
#define DETECT_MIN          (10 * BW_MS)
#define DETECT_MAX          (BW_SEC * 3600 * 60)

struct serve {
    const char *listen;
    bw_time heartbeat_ns, timeout_ns, bind_hold_off_ns, progress_ns;
    const char *compact_mode, *compact_retention;
    uint64_t quota;
    struct bw_serve_identity self;
    struct bw_secure secure;
    /* derived from the options */
    bw_time compact_period_ns;
    int64_t compact_revisions;
    char host[BW_REPLICA_HOST_MAX + 1];
    uint16_t port;
    uv_loop_t loop;
    uv_signal_t term, interrupt;
    uv_timer_t end;
    int code;
    bw_node leader; /* as last reported */
    bw_term led_term;
    struct bw_notify notify;
    struct bw_service *service;
    struct bw_front *front;
    bool stopping;
    bool refused; /* refused by the other nodes before it took part */
};

static const struct bw_option options[] = {
    {.help = "this node"},
    {"node", "NAME", "name of this node in --cluster (default: the only one)", .set = bw_set_text,
     .offset = offsetof(struct serve, self.node)},
    {"cluster", "LIST",
     "first nodes of the cluster with their peer addresses: a=HOST:PORT,b=HOST:PORT,... (default: "
     "only this node); after the first start the data directory knows the nodes",
     .set = bw_set_text, .offset = offsetof(struct serve, self.cluster)},
    {"join", "LIST",
     "join an existing cluster through the peer addresses of some nodes: HOST:PORT,...; run "
     "`bellwether cluster add` first (default: do not join)",
     .set = bw_set_text, .offset = offsetof(struct serve, self.join)},
    {"peer", "ADDR", "HOST:PORT at which the other nodes reach this node (required with --join)",
     .set = bw_set_text, .offset = offsetof(struct serve, self.peer)},
    {"peer-listen", "ADDR",
     "HOST:PORT to listen on for other nodes, if it differs from --peer, for example in a "
     "container (default: --peer)",
     .set = bw_set_text, .offset = offsetof(struct serve, self.peer_listen)},
    {"data", "DIR",
     "directory for the log and snapshots (default: $XDG_STATE_HOME/bellwether/serve/NODE, or "
     "/var/lib/bellwether/serve/NODE for root)",
     .set = bw_set_text, .offset = offsetof(struct serve, self.data)},
    {"listen", "ADDR", "HOST:PORT to listen on for clients (default: " LISTEN_DEFAULT ")",
     .set = bw_set_text, .offset = offsetof(struct serve, listen)},
    {"quota-bytes", "BYTES",
     "size of keys, leases and history beyond which puts and grants are refused with etcd's alarm "
     "NOSPACE, up to 8589934592 (default: 2147483648, as for etcd; 0: the default)",
     .set = bw_set_u64, .offset = offsetof(struct serve, quota), .high = BW_QUOTA_MAX},
    {.help = "TLS and authentication"},
    {"cert", "FILE", "certificate of this node for clients, PEM with its chain (default: no TLS)",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.cert)},
    {"key", "FILE", "private key of --cert (default: none)", .set = bw_set_text,
     .offset = offsetof(struct serve, secure.key)},
    {"client-ca", "FILE",
     "require client certificates that one of these CAs has signed (default: not required)",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.client_ca)},
    {"client-crl", "FILE",
     "refuse client certificates that these revocation lists of the CAs name, PEM or DER; read "
     "again when "
     "the file changes (default: none)",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.client_crl)},
    {"users", "FILE",
     "first users of a new cluster, with roles and password hashes; requires authentication from "
     "the first request (default: no users)",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.users)},
    {"hash-password", "NAME:ROLE",
     "print a line for --users and exit; reads the password from stdin; ROLE is observe, campaign "
     "or admin (default: run the service)",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.hash_password)},
    {"peer-cert", "FILE",
     "certificate of this node for connections between nodes, as server and client (default: no "
     "TLS)",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.peer_cert)},
    {"peer-key", "FILE", "private key of --peer-cert (default: none)", .set = bw_set_text,
     .offset = offsetof(struct serve, secure.peer_key)},
    {"peer-ca", "FILE", "CAs that sign only the certificates of nodes (default: none)",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.peer_ca)},
    {"peer-crl", "FILE",
     "refuse certificates of nodes that these revocation lists name, PEM or DER (default: none)",
     .set = bw_set_text, .offset = offsetof(struct serve, secure.peer_crl)},
    {"insecure", NULL,
     "allow other machines to connect without TLS or without authentication (default: off)",
     .set = bw_set_switch, .offset = offsetof(struct serve, secure.insecure)},
    {.help = "time"},
    {"heartbeat", "D",
     "interval between heartbeats of the leader (default: 100ms, or 2/5 of --detect if that is "
     "less)",
     .set = bw_set_duration, .offset = offsetof(struct serve, heartbeat_ns), .low = 1},
    {"detect", "D",
     "silence of the leader after which a follower starts an election, drawn at random from D to "
     "twice D (default: 250ms, or 2.5 times --heartbeat if that is more)",
     .set = bw_set_duration, .offset = offsetof(struct serve, timeout_ns), .low = 1},
    {"bind-hold-off", "D",
     "end leases that are bound to a connection from another machine this long after its client "
     "closed it (default: at their TTL; on loopback always 10ms)",
     .set = bw_set_duration, .offset = offsetof(struct serve, bind_hold_off_ns), .low = 1},
    {.help = "history"},
    {"auto-compaction-mode", "MODE",
     "what --auto-compaction-retention means: periodic (a duration) or revision (a number of "
     "revisions) (default: periodic)",
     .set = bw_set_text, .offset = offsetof(struct serve, compact_mode)},
    {"auto-compaction-retention", "N",
     "keep the history of this duration (a number without a unit: hours) or of this many "
     "revisions; compact the rest automatically (default: 0, off)",
     .set = bw_set_text, .offset = offsetof(struct serve, compact_retention)},
    {"watch-progress-notify-interval", "D",
     "interval between progress notifications of a watch that asks for them (default: 10m)",
     .set = bw_set_duration, .offset = offsetof(struct serve, progress_ns), .low = 1},
    {NULL, NULL, NULL, .set = NULL}};

/* Reads the retention as etcd does: a bare number is hours, or revisions. */
static int take_retention(const struct bw_cli_command *command, struct serve *s)
{
    const char *mode = s->compact_mode ? s->compact_mode : "periodic";
    const char *text = s->compact_retention ? s->compact_retention : "0";
    bool by_revision = strcmp(mode, "revision") == 0;
    size_t digits = strspn(text, "0123456789");
    bool is_number = digits > 0 && digits <= 15 && text[digits] == '\0';
    int64_t number = is_number ? strtoll(text, NULL, 10) : 0;
    if (!by_revision && strcmp(mode, "periodic") != 0)
        return bw_usage_error(
            command, "invalid --auto-compaction-mode '%.60s': expected periodic or revision", mode);
    if (by_revision && !is_number)
        return bw_usage_error(command,
                              "invalid --auto-compaction-retention '%.60s': expected a number of "
                              "revisions",
                              text);
    if (by_revision)
        s->compact_revisions = number;
    else if (is_number && number <= RETENTION_HOURS_MAX)
        s->compact_period_ns = number * 3600 * BW_SEC;
    else if (is_number || bw_text_duration(text, strlen(text), &s->compact_period_ns) != 0 ||
             s->compact_period_ns > RETENTION_HOURS_MAX * 3600 * BW_SEC)
        return bw_usage_error(command,
                              "invalid --auto-compaction-retention '%.60s': expected a duration "
                              "such as 30m, up to 10 years",
                              text);
    return BW_GO_ON;
}

/* Derives the interval between heartbeats and the detection time from each other. The detection
 * time is at least 2.5 heartbeats, so that two late heartbeats start no election. */
static int derive_times(const struct bw_cli_command *command, struct serve *s)
{
    bw_time *heartbeat = &s->heartbeat_ns, *detect = &s->timeout_ns;
    char text[4][BW_SPAN_TEXT];
    if ((*heartbeat && *heartbeat < HEARTBEAT_MIN) || *heartbeat > HEARTBEAT_MAX)
        return bw_usage_error(command, "use --heartbeat 1ms or more, at most 24h");
    bw_time least = bw_time_max(DETECT_MIN, (*heartbeat * 5 / 2 + BW_MS - 1) / BW_MS * BW_MS);
    bw_span_exact(text[0], least);
    if ((*detect && *detect < DETECT_MIN) || *detect > DETECT_MAX)
        return bw_usage_error(command, "use --detect %s or more, at most 60h", text[0]);
    if (!*detect)
        *detect = bw_time_max(BW_REPLICA_TIMEOUT, least);
    if (!*heartbeat)
        *heartbeat = bw_time_min(BW_REPLICA_HEARTBEAT, *detect * 2 / 5);
    if (*heartbeat <= *detect * 2 / 5)
        return BW_GO_ON;
    return bw_usage_error(
        command,
        "use --detect %s or more, or --heartbeat %s or less: --detect %s is less than 2.5 times "
        "--heartbeat %s",
        text[0], bw_span_exact(text[1], *detect * 2 / 5), bw_span_exact(text[2], *detect),
        bw_span_exact(text[3], *heartbeat));
}

static bool is_any_address(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* The host that clients are told. A node that listens on all addresses names the one by which the
 * other nodes reach it. */
static const char *client_host(const struct serve *s)
{
    const struct bw_identity *identity = &s->self.identity;
    const struct bw_replica_member *here = bw_member_list_find(&identity->first, identity->self);
    if (!is_any_address(s->host))
        return s->host;
    if (s->self.publish.port)
        return s->self.publish.host;
    return here ? here->host : s->host;
}

static int prepare(const struct bw_cli_command *command, struct serve *s)
{
    const char *listen = s->listen ? s->listen : LISTEN_DEFAULT;
    if (bw_address_take(listen, strlen(listen), s->host, sizeof s->host, &s->port) != 0)
        return bw_usage_error(command, "invalid --listen '%.60s': expected HOST:PORT", listen);
    int code = derive_times(command, s);
    if (code != BW_GO_ON)
        return code;
    if (s->bind_hold_off_ns && s->bind_hold_off_ns < BW_BIND_LEAST_NS)
        return bw_usage_error(command, "use --bind-hold-off 100ms or more");
    code = take_retention(command, s);
    if (code == BW_GO_ON)
        code = bw_serve_identity_find(command, &s->self, &s->secure, s->host);
    snprintf(s->self.publish.client, sizeof s->self.publish.client, "%s://%s:%u",
             s->secure.cert ? "https" : "http", client_host(s), s->port);
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

/* Shows the leader in the service manager's status line. */
static void notify_manager(const struct serve *s, const char *leader)
{
    bw_notify_line(&s->notify, "STATUS=leader %s, term %llu", leader,
                   (unsigned long long)s->led_term);
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
    const char *leader = status.leader ? name_of(s, status.leader) : "none";
    bw_print_line(BW_PRIORITY_INFO, "bellwether serve: leader %s, term %llu", leader,
                  (unsigned long long)status.term);
    notify_manager(s, leader);
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
    bw_notify_send(&s->notify, "STOPPING=1");
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

/* The replica has ended and cannot take part; `why` says what to do. Ends the process from a timer,
 * not from within this callback. */
static void on_ended(void *context, enum bw_replica_end end, const char *why)
{
    struct serve *s = context;
    bw_print_line(end == BW_REPLICA_REMOVED ? BW_PRIORITY_INFO : BW_PRIORITY_ERROR,
                  "bellwether serve: %s", why);
    s->code = end == BW_REPLICA_REMOVED ? BW_EXIT_OK : BW_EXIT_DATA;
    s->refused =
        end != BW_REPLICA_UNUSABLE && !bw_replica_has_started(bw_service_replica(s->service));
    /* A client that asked a node to remove itself still gets the response. */
    uv_timer_start(&s->end, on_end, end == BW_REPLICA_REMOVED ? FINAL_REPLIES_MS : 0, 0);
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
    bw_print_line(BW_PRIORITY_INFO, "bellwether serve: authentication is on: %u users", count);
}

static void on_service_closed(void *context)
{
    ((struct serve *)context)->service = NULL;
}

/* After a failed first start, empties the directory again. Otherwise the next start would use this
 * identity, whatever its options say. */
static int leave(struct serve *s, int code)
{
    if (s->service && !s->stopping) {
        bw_service_close(s->service, on_service_closed);
        while (s->service)
            uv_run(&s->loop, UV_RUN_ONCE);
    }
    if (s->self.made)
        bw_identity_unmake(s->self.directory);
    return code;
}

static int open_all(const struct bw_cli_command *command, struct serve *s)
{
    char why[BW_REPLICA_WHY_MAX + 1] = "";
    struct bw_service_options service = {.loop = &s->loop,
                                         .directory = s->self.directory,
                                         .cluster = s->self.identity.cluster,
                                         .self = s->self.identity.self,
                                         .members = s->self.identity.first.at,
                                         .count = s->self.identity.first.count,
                                         .joins = s->self.identity.joined,
                                         .publish = s->self.publish,
                                         .listen_host =
                                             s->self.listen_host[0] ? s->self.listen_host : NULL,
                                         .listen_port = s->self.listen_port,
                                         .credentials = s->secure.peers,
                                         .users = s->secure.users ? &s->secure.first : NULL,
                                         .heartbeat_ns = s->heartbeat_ns,
                                         .timeout_ns = s->timeout_ns,
                                         .ttl_min_ns = BW_SEC,
                                         .progress_ns = s->progress_ns,
                                         .compact_period_ns = s->compact_period_ns,
                                         .compact_revisions = s->compact_revisions,
                                         .quota = s->quota ? s->quota : BW_QUOTA_DEFAULT,
                                         .registry = {.quota = (uint64_t)2 << 30,
                                                      .ceiling = (uint64_t)9 << 30,
                                                      .leases_max = 4000000,
                                                      .history = 131072,
                                                      .history_bytes = (uint64_t)256 << 20},
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
        bw_print_line(BW_PRIORITY_ERROR, "%s: %s", command->path,
                      why[0] ? why : bw_error_text(error));
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

/* A node that has just joined does not know the other members yet. */
static void print_start(const struct serve *s)
{
    char of[32] = " joins";
    if (!s->self.identity.joined || !s->self.made)
        snprintf(of, sizeof of, " of %u", count_members(s));
    bw_print_line(BW_PRIORITY_INFO, "bellwether serve: node %s%s, clients at %s:%u, data in %s",
                  s->self.identity.name, of, s->host, bw_front_port(s->front), s->self.directory);
}

/* A change of 100 KB passes through several buffers. By default the heap returns each of them to
 * the kernel when it is freed, and every new one begins with page faults: more than half of the
 * time that the event loop spent on such changes. So each arena keeps up to HEAP_KEEPS bytes;
 * src/serve/replica/measure.c returns them when the changes are over. */
#define HEAP_KEEPS (32 << 20)
/* Larger blocks are mapped one by one, and returned to the kernel when they are freed. */
#define HEAP_BLOCK (8 << 20)

static void prepare_heap(void)
{
    mallopt(M_MMAP_THRESHOLD, HEAP_BLOCK);
    mallopt(M_TRIM_THRESHOLD, HEAP_KEEPS);
    mallopt(M_TOP_PAD, 1 << 20);
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
    prepare_heap();
    int error = bw_loop_init(&s.loop);
    if (error) {
        bw_print_line(BW_PRIORITY_ERROR, "bellwether serve: cannot start an event loop: %s",
                      strerror(-error));
        return BW_EXIT_IO;
    }
    error = bw_loop_start_pool(&s.loop);
    if (error) {
        bw_print_line(BW_PRIORITY_ERROR, "bellwether serve: cannot start threads: %s",
                      strerror(-error));
        return BW_EXIT_IO;
    }
    uv_timer_init(&s.loop, &s.end);
    s.end.data = &s;
    bw_notify_open(&s.notify);
    bw_notify_beat(&s.notify, &s.loop);
    code = bw_secure_open(command, &s.secure, &s.loop);
    if (code == BW_GO_ON)
        code = open_all(command, &s);
    if (code != BW_GO_ON)
        return leave(&s, code);
    watch_signal(&s, &s.term, SIGTERM);
    watch_signal(&s, &s.interrupt, SIGINT);
    print_start(&s);
    bw_notify_send(&s.notify, "READY=1");
    uv_run(&s.loop, UV_RUN_DEFAULT);
    return s.refused ? leave(&s, s.code) : s.code;
}

const struct bw_cli_command bw_command_serve = {
    .name = "serve",
    .path = "bellwether serve",
    .usage = "[options]",
    .about = "run a replicated lease and election service for etcd clients",
    .text =
        "Without options it runs one durable node on loopback. Three nodes:\n"
        "  bellwether serve --node a --cluster a=10.0.0.1:2380,b=10.0.0.2:2380,c=10.0.0.3:2380 \\\n"
        "                   --listen 10.0.0.1:2379 --cert a.crt --key a.key --client-ca "
        "clients.crt \\\n"
        "                   --peer-cert a-peer.crt --peer-key a-peer.key --peer-ca peers.crt\n"
        "and likewise on b and c. A fourth node, after `bellwether cluster add 10.0.0.4:2380`:\n"
        "  bellwether serve --node d --join 10.0.0.1:2380,10.0.0.2:2380 --peer 10.0.0.4:2380 ...\n"
        "It reloads changed certificates within seconds, and at once on SIGHUP; connections and\n"
        "leases stay.\n",
    .options = options,
    .run = serve,
};
