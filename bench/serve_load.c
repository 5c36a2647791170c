/* A small gRPC client that puts load on any server with etcd's v3 API, ours or etcd. The
 * client itself is in load_link.h.
 *
 *   acquire + release, closed loop:
 *     serve_load cycles HOST:PORT CLIENTS CONNECTIONS SECONDS
 *   renewals with this many leases:
 *     serve_load keepalive HOST:PORT LEASES CONNECTIONS SECONDS
 *   grant leases and keep them:
 *     serve_load grant HOST:PORT LEASES CONNECTIONS
 *   a put every millisecond to each endpoint until one succeeds; a line on stdin starts it:
 *     serve_load probe HOST:PORT,HOST:PORT,... SECONDS
 *   COUNT puts of BYTES each to one key, or with "KEY*" each to a key of its own; ends early when
 *   all endpoints are gone:
 *     serve_load puts HOST:PORT,HOST:PORT,... KEY WRITERS COUNT BYTES
 *
 * A cycle is a transaction that creates a key with a lease if it is absent, then its deletion.
 * Prints one line of JSON: the figures, and the share of a core that the client uses. */
#include "load_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool stopping;

static size_t client_key(const struct client *client, char *key)
{
    return (size_t)sprintf(key, "bench/%u/%u", (unsigned)getpid(), client->id);
}

static void acquire(struct client *client)
{
    unsigned char compare_part[64], put_part[96], op[112], body[240];
    char key[48];
    size_t key_length = client_key(client, key);
    size_t used = put_number(compare_part, 2, 1); /* CREATE == 0 */
    used += put_bytes(compare_part + used, 3, key, key_length);
    used += put_number(compare_part + used, 5, 0);
    size_t body_used = put_bytes(body, 1, compare_part, used);
    used = put_bytes(put_part, 1, key, key_length);
    used += put_bytes(put_part + used, 2, "v", 1);
    used += put_number(put_part + used, 3, (uint64_t)client->lease);
    used = put_bytes(op, 2, put_part, used);
    body_used += put_bytes(body + body_used, 2, op, used);
    set_message(client, body, body_used);
    client->phase = 1;
    client->since = now_ns();
    call(client, "/etcdserverpb.KV/Txn");
}

static void release(struct client *client)
{
    unsigned char body[64];
    char key[48];
    size_t key_length = client_key(client, key);
    set_message(client, body, put_bytes(body, 1, key, key_length));
    client->phase = 2;
    call(client, "/etcdserverpb.KV/DeleteRange");
}

static void cycle_step(struct client *client)
{
    if (client->status != 0) {
        errors++;
        if (client->conn->broken || errors > 1000)
            return;
    }
    if (client->phase == 1) {
        release(client);
        return;
    }
    if (client->phase == 2) {
        finished += client->status == 0;
        note_latency(client->since);
    }
    if (!stopping)
        acquire(client);
}

static void granted(struct client *client)
{
    if (client->status != 0)
        errors++;
    bool answered = client->in_used > 5; /* a refusal has no message */
    client->lease = answered ? (int64_t)get_number(client->in + 5, client->in_used - 5, 2) : 0;
    finished++;
}

static void grant(struct client *client)
{
    unsigned char body[16];
    set_message(client, body, put_number(body, 1, 3600));
    client->done = granted;
    call(client, "/etcdserverpb.Lease/LeaseGrant");
}

static uint64_t wanted;

static bool all_granted(void)
{
    return finished >= wanted;
}

static bool time_is_over(void)
{
    return now_ns() >= deadline;
}

/* Grants leases on each connection, a few at a time. */
static void grant_all(unsigned count)
{
    make_clients(count);
    for (unsigned next = 0; next < count;) {
        unsigned batch = count - next < 64 * conn_count ? count - next : 64 * conn_count;
        wanted = finished + batch;
        for (unsigned i = 0; i < batch; i++)
            grant(&clients[next + i]);
        run(all_granted, 1000);
        next += batch;
    }
    finished = 0;
}

static int cycles(int argc, char **argv)
{
    struct rusage before;
    if (argc != 4)
        return 64;
    unsigned count = (unsigned)atoi(argv[1]);
    open_conns(argv[0], (unsigned)atoi(argv[2]));
    grant_all(count);
    uint64_t start = now_ns();
    deadline = start + (uint64_t)(atof(argv[3]) * 1e9);
    getrusage(RUSAGE_SELF, &before);
    for (unsigned i = 0; i < count; i++) {
        clients[i].done = cycle_step;
        acquire(&clients[i]);
    }
    run(time_is_over, 100);
    stopping = true;
    report("acquire+release", (double)(now_ns() - start) / 1e9, &before);
    return 0;
}

/* One stream per connection carries the renewals of its leases, eight in flight at a time. */
static unsigned next_lease[CONNS_MAX], lease_count;

static void renew(struct client *client)
{
    unsigned char body[16];
    unsigned conn = (unsigned)(client->conn - conns);
    unsigned index = next_lease[conn];
    next_lease[conn] = index + conn_count < lease_count ? index + conn_count : conn;
    size_t length = put_number(body, 1, (uint64_t)clients[index].lease);
    struct message *message = &client->message;
    if (message->sent == message->length)
        message->length = message->sent = 0;
    unsigned char *at = message->bytes + message->length;
    at[0] = 0;
    at[1] = at[2] = at[3] = 0;
    at[4] = (unsigned char)length;
    memcpy(at + 5, body, length);
    message->length += 5 + length;
}

static void renewed(struct client *client)
{
    if (get_number(client->in + 5, client->in[4], 3) == 0)
        errors++;
    finished++;
    renew(client);
    nghttp2_session_resume_data(client->conn->h2, client->stream);
    client->conn->dirty = true;
}

static int keepalive(int argc, char **argv)
{
    struct rusage before;
    if (argc != 4)
        return 64;
    lease_count = (unsigned)atoi(argv[1]);
    open_conns(argv[0], (unsigned)atoi(argv[2]));
    grant_all(lease_count);
    struct client *streams = calloc(conn_count, sizeof *streams);
    uint64_t start = now_ns();
    deadline = start + (uint64_t)(atof(argv[3]) * 1e9);
    getrusage(RUSAGE_SELF, &before);
    for (unsigned i = 0; i < conn_count; i++) {
        streams[i] = (struct client){.conn = &conns[i], .answer = renewed};
        message_reserve(&streams[i].message, MESSAGE_MAX);
        streams[i].message.more = true;
        next_lease[i] = i;
        for (unsigned flight = 0; flight < 8; flight++)
            renew(&streams[i]);
        call(&streams[i], "/etcdserverpb.Lease/LeaseKeepAlive");
    }
    run(time_is_over, 100);
    report("keepalive", (double)(now_ns() - start) / 1e9, &before);
    return 0;
}

static int grant_only(int argc, char **argv)
{
    struct rusage before;
    if (argc != 3)
        return 64;
    open_conns(argv[0], (unsigned)atoi(argv[2]));
    getrusage(RUSAGE_SELF, &before);
    uint64_t start = now_ns();
    unsigned count = (unsigned)atoi(argv[1]);
    grant_all(count);
    finished = count;
    report("grant", (double)(now_ns() - start) / 1e9, &before);
    return 0;
}

/* ── probe ── */

static bool succeeded;
static unsigned succeeded_at;

static void probe_done(struct client *client)
{
    if (client->status == 0 && !succeeded) {
        succeeded = true;
        succeeded_at = (unsigned)(client->conn - conns);
    }
    client->phase = 0;
}

static bool probe_turn(void)
{
    static uint64_t next;
    uint64_t now = now_ns();
    if (succeeded || now >= deadline)
        return true;
    if (now < next)
        return false;
    next = now + 1000000;
    for (unsigned i = 0; i < conn_count * 64; i++) {
        struct client *client = &clients[i];
        static const unsigned char body[] = {10, 5, 'p', 'r', 'o', 'b', 'e', 18, 1, 'v'};
        if (client->phase || client->conn->broken || i / conn_count != (now / 1000000) % 64)
            continue;
        client->phase = 1;
        client->done = probe_done;
        set_message(client, body, sizeof body);
        call(client, "/etcdserverpb.KV/Put");
    }
    return false;
}

static int probe(int argc, char **argv)
{
    char line[16];
    if (argc != 2)
        return 64;
    open_each(argv[0]);
    make_clients(conn_count * 64);
    printf("ready\n");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        return 1;
    uint64_t start = now_ns();
    deadline = start + (uint64_t)(atof(argv[1]) * 1e9);
    run(probe_turn, 1);
    printf("{\"what\": \"probe\", \"ok\": %s, \"us\": %llu, \"endpoint\": %u}\n",
           succeeded ? "true" : "false", (unsigned long long)(now_ns() - start) / 1000,
           succeeded_at);
    return succeeded ? 0 : 1;
}

/* ── puts ── */

#define CONNS_PER_ENDPOINT 8u

static struct {
    const char *key;
    size_t bytes;
    uint64_t begun, ended, count;
    uint64_t refused[16]; /* by gRPC status; 15: all others */
    /* the newest acknowledged revision, and the number of the put that created it */
    uint64_t revision, number;
} writes;

/* The key of the next put. "KEY*" is a key of its own for each put. */
static size_t put_key(unsigned char *body)
{
    char key[128];
    size_t length = strlen(writes.key);
    if (writes.key[length - 1] != '*')
        return put_bytes(body, 1, writes.key, length);
    int used = snprintf(key, sizeof key, "%.*s%016llu", (int)(length - 1 < 96 ? length - 1 : 96),
                        writes.key, (unsigned long long)writes.begun);
    return put_bytes(body, 1, key, (size_t)used);
}

/* Sends the next put. Its value begins with its number, so that a reader can tell which put wrote a
 * value. */
static void put_next(struct client *client)
{
    static unsigned char *body;
    static char *value;
    if (!body) {
        body = malloc(writes.bytes + 256);
        value = malloc(writes.bytes + 1);
        if (!body || !value)
            die("out of memory");
        memset(value, 'v', writes.bytes);
    }
    int head = snprintf(value, writes.bytes + 1, "%016llu", (unsigned long long)writes.begun);
    value[(size_t)head < writes.bytes ? (size_t)head : writes.bytes] = 'v';
    size_t used = put_key(body);
    client->lease = (int64_t)writes.begun++;
    used += put_bytes(body + used, 2, value, writes.bytes);
    set_message(client, body, used);
    client->since = now_ns();
    call(client, "/etcdserverpb.KV/Put");
}

static uint64_t revision_of(const struct client *client)
{
    size_t length = client->in_used > 7 && client->in[5] == 10 ? client->in[6] : 0;
    return length && 7 + length <= client->in_used ? get_number(client->in + 7, length, 3) : 0;
}

static void put_done(struct client *client)
{
    uint64_t revision = client->status == 0 ? revision_of(client) : 0;
    writes.ended++;
    finished += revision > 0;
    errors += revision == 0;
    writes.refused[client->status > 0 && client->status < 15 ? client->status : 15] +=
        revision == 0;
    if (revision > 0)
        note_latency(client->since);
    if (revision > writes.revision) {
        writes.revision = revision;
        writes.number = (uint64_t)client->lease;
    }
    if (writes.begun < writes.count && !client->conn->broken)
        put_next(client);
}

static bool puts_are_over(void)
{
    bool alive = false;
    for (unsigned i = 0; i < conn_count; i++)
        alive |= !conns[i].broken;
    return !alive || writes.ended >= writes.count || now_ns() >= deadline;
}

static int puts_to_one_key(int argc, char **argv)
{
    struct rusage before;
    if (argc != 5)
        return 64;
    unsigned writers = (unsigned)atoi(argv[2]);
    writes.key = argv[1];
    writes.count = (uint64_t)atoll(argv[3]);
    writes.bytes = (size_t)atoll(argv[4]);
    for (unsigned i = 0; i < CONNS_PER_ENDPOINT; i++)
        open_each(argv[0]);
    make_clients(writers);
    getrusage(RUSAGE_SELF, &before);
    uint64_t start = now_ns();
    deadline = start + (uint64_t)1800 * 1000000000u;
    for (unsigned i = 0; i < writers && writes.begun < writes.count; i++) {
        message_reserve(&clients[i].message, writes.bytes + 256);
        clients[i].done = put_done;
        put_next(&clients[i]);
    }
    run(puts_are_over, 100);
    report("puts", (double)(now_ns() - start) / 1e9, &before);
    printf("{\"acknowledged\": %llu, \"revision\": %llu, \"number\": %llu, \"refused\": [",
           (unsigned long long)finished, (unsigned long long)writes.revision,
           (unsigned long long)writes.number);
    for (unsigned i = 0; i < 16; i++)
        printf("%s%llu", i ? ", " : "", (unsigned long long)writes.refused[i]);
    printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"cycles", cycles},
                    {"keepalive", keepalive},
                    {"grant", grant_only},
                    {"probe", probe},
                    {"puts", puts_to_one_key}};
    int code = 64;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (argc > 2 && strcmp(argv[1], commands[i].name) == 0)
            code = commands[i].run(argc - 2, argv + 2);
    if (code == 64)
        fprintf(stderr, "usage: see the header of serve_load.c\n");
    return code;
}
