/* Mass events at a server with etcd's v3 API, ours or etcd. In each, a canary puts one small key in
 * a closed loop, every 5 ms, and its delay shows how long others wait.
 *
 *   leases with a key each, all of which expire SECONDS from now; ends when all keys are deleted:
 *     serve_mass expire HOST:PORT LEASES CONNECTIONS SECONDS
 *   watchers of one key, which is then put; ends when all watchers have the event:
 *     serve_mass watchers HOST:PORT WATCHERS CONNECTIONS
 *   candidates in one queue, whose head loses its lease, DEATHS times; each ends when the next
 *   candidate is elected:
 *     serve_mass queue HOST:PORT CANDIDATES CONNECTIONS DEATHS
 *
 * Prints "event" when all is prepared, and then one line of JSON. */
#include "load_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANARY_EVERY_NS 5000000u
#define WAIT_MAX_NS     ((uint64_t)300 * 1000000000u)
#define LEASE_BASE      7000000u

static uint64_t wanted, begun, last_event;
static struct client *canary;
static bool canary_busy;
static uint64_t canary_next;

/* ---- the canary ---- */

static void canary_done(struct client *client)
{
    canary_busy = false;
    errors += client->status != 0;
    note_latency(client->since);
}

static void canary_turn(void)
{
    static const unsigned char body[] = {10, 6, 'c', 'a', 'n', 'a', 'r', 'y', 18, 1, 'v'};
    uint64_t now = now_ns();
    if (canary_busy || now < canary_next)
        return;
    canary_next = now + CANARY_EVERY_NS;
    canary_busy = true;
    canary->since = now;
    canary->done = canary_done;
    set_message(canary, body, sizeof body);
    call(canary, "/etcdserverpb.KV/Put");
}

static bool canary_was_calm(void)
{
    canary_turn();
    return now_ns() >= deadline;
}

/* Returns the median delay of the canary in microseconds while nothing else happens. */
static double canary_before(void)
{
    forget_latencies();
    deadline = now_ns() + 1000000000u;
    run(canary_was_calm, 1);
    sort_latencies();
    double median = percentile(0.5);
    forget_latencies();
    return median;
}

static bool all_finished(void)
{
    if (now_ns() - begun > WAIT_MAX_NS) {
        fprintf(stderr, "serve_mass: %llu of %llu done after 300 s\n", (unsigned long long)finished,
                (unsigned long long)wanted);
        exit(1);
    }
    return finished >= wanted;
}

static bool all_finished_beside_the_canary(void)
{
    canary_turn();
    return all_finished() && !canary_busy;
}

static void prepare_done(void)
{
    printf("event\n");
    fflush(stdout);
}

static void report_event(const char *what, double median_before, double ms)
{
    sort_latencies();
    printf("{\"what\": \"%s\", \"ms\": %.1f, \"canary_before_us\": %.0f, \"canary_worst_us\": "
           "%.0f, \"errors\": %llu}\n",
           what, ms, median_before, percentile(1), (unsigned long long)errors);
}

/* Opens the connections, and one more for the canary. make_clients must not give that one to other
 * clients, so it is not counted before include_canary. */
static void open_all(const char *address, const char *count)
{
    open_conns(address, (unsigned)atoi(count) + 1);
    canary = calloc(1, sizeof *canary);
    canary->conn = &conns[--conn_count];
    message_reserve(&canary->message, MESSAGE_MAX);
}

/* From now on `run` serves the connection of the canary too. */
static void include_canary(void)
{
    conn_count++;
}

/* ---- leases ---- */

static uint64_t expire_at;

static void counted(struct client *client)
{
    errors += client->status != 0;
    finished++;
}

static void put_leased(struct client *client)
{
    unsigned char body[96];
    char key[32];
    errors += client->status != 0;
    int length = snprintf(key, sizeof key, "mass/%u", client->id);
    size_t used = put_bytes(body, 1, key, (size_t)length);
    used += put_bytes(body + used, 2, "v", 1);
    used += put_number(body + used, 3, (uint64_t)client->lease);
    set_message(client, body, used);
    client->done = counted;
    call(client, "/etcdserverpb.KV/Put");
}

static void grant_until(struct client *client)
{
    unsigned char body[32];
    uint64_t left = expire_at > now_ns() ? expire_at - now_ns() : 0;
    client->lease = (int64_t)(LEASE_BASE + client->id);
    size_t used = put_number(body, 1, (left + 999999999u) / 1000000000u);
    used += put_number(body + used, 2, (uint64_t)client->lease);
    set_message(client, body, used);
    client->done = put_leased;
    call(client, "/etcdserverpb.Lease/LeaseGrant");
}

static void in_batches(unsigned count, void (*begin)(struct client *client))
{
    for (unsigned next = 0; next < count;) {
        unsigned batch = count - next < 64 * conn_count ? count - next : 64 * conn_count;
        wanted = finished + batch;
        for (unsigned i = 0; i < batch; i++)
            begin(&clients[next + i]);
        run(all_finished, 1000);
        next += batch;
    }
    finished = 0;
}

static void deleted(struct client *client)
{
    unsigned events = count_fields(client->in + 5, answer_length(client), 11);
    if (events && !last_event)
        begun = now_ns();
    last_event = events ? now_ns() : last_event;
    finished += events;
}

/* Watches the deletions of all keys below "mass/". */
static void watch_deletions(struct client *client)
{
    unsigned char create[32], body[40];
    size_t used = put_bytes(create, 1, "mass/", 5);
    used += put_bytes(create + used, 2, "mass0", 5);
    used += put_bytes(create + used, 5, "", 1); /* filters, packed: NOPUT */
    set_message(client, body, put_bytes(body, 1, create, used));
    client->message.more = true;
    client->answer = deleted;
    call(client, "/etcdserverpb.Watch/Watch");
}

static int expire(int argc, char **argv)
{
    if (argc != 4)
        return 64;
    unsigned count = (unsigned)atoi(argv[1]);
    open_all(argv[0], argv[2]);
    make_clients(count + 1);
    begun = now_ns();
    expire_at = begun + (uint64_t)atoi(argv[3]) * 1000000000u;
    in_batches(count, grant_until);
    if (now_ns() + 2000000000u > expire_at) {
        fprintf(stderr, "serve_mass: the grants took too long: give more SECONDS\n");
        return 1;
    }
    watch_deletions(&clients[count]);
    include_canary();
    double median = canary_before();
    prepare_done();
    wanted = count;
    run(all_finished_beside_the_canary, 1);
    report_event("expire", median, (double)(last_event - begun) / 1e6);
    return errors ? 1 : 0;
}

/* ---- watchers ---- */

static void watched(struct client *client)
{
    const unsigned char *at = client->in + 5;
    size_t length = answer_length(client);
    if (get_number(at, length, 4)) {
        fprintf(stderr, "serve_mass: the server refused a watcher\n");
        exit(1);
    }
    finished += get_number(at, length, 3) ? 1 : count_fields(at, length, 11);
}

/* Puts all creations of one stream into one buffer. */
static void create_watchers(struct client *client, unsigned count)
{
    static const unsigned char one[] = {0, 0, 0, 0, 7, 10, 5, 10, 3, 'k', 'e', 'y'};
    message_reserve(&client->message, count * sizeof one);
    for (unsigned i = 0; i < count; i++)
        memcpy(client->message.bytes + i * sizeof one, one, sizeof one);
    client->message.length = count * sizeof one;
    client->message.sent = 0;
    client->message.more = true;
    client->answer = watched;
    call(client, "/etcdserverpb.Watch/Watch");
}

static int watchers(int argc, char **argv)
{
    static const unsigned char body[] = {10, 3, 'k', 'e', 'y', 18, 1, 'v'};
    if (argc != 3)
        return 64;
    unsigned count = (unsigned)atoi(argv[1]);
    open_all(argv[0], argv[2]);
    make_clients(conn_count + 1);
    begun = now_ns();
    for (unsigned i = 0; i < conn_count; i++)
        create_watchers(&clients[i], count / conn_count + (i < count % conn_count));
    wanted = count;
    run(all_finished, 1000);
    struct client *writer = &clients[conn_count];
    include_canary();
    double median = canary_before();
    prepare_done();
    finished = 0;
    begun = now_ns();
    set_message(writer, body, sizeof body);
    call(writer, "/etcdserverpb.KV/Put");
    run(all_finished_beside_the_canary, 1);
    report_event("watchers", median, (double)(now_ns() - begun) / 1e6);
    return 0;
}

/* ---- a queue ---- */

static struct client *head;
static uint64_t waiting; /* candidates in the queue, as counted by the server */

static void elected(struct client *client)
{
    if (client->status != 0) {
        fprintf(stderr, "serve_mass: candidate %u failed with status %d after %.1f s\n", client->id,
                client->status, (double)(now_ns() - begun) / 1e9);
        exit(1);
    }
    head = client;
    finished++;
}

static void campaign(struct client *client)
{
    unsigned char body[64];
    size_t used = put_bytes(body, 1, "mass", 4);
    used += put_number(body + used, 2, (uint64_t)client->lease);
    used += put_bytes(body + used, 3, "v", 1);
    set_message(client, body, used);
    client->done = elected;
    call(client, "/v3electionpb.Election/Campaign");
}

static void granted(struct client *client)
{
    errors += client->status != 0;
    finished++;
}

static void grant_long(struct client *client)
{
    unsigned char body[32];
    client->lease = (int64_t)(LEASE_BASE + client->id);
    size_t used = put_number(body, 1, 3600);
    used += put_number(body + used, 2, (uint64_t)client->lease);
    set_message(client, body, used);
    client->done = granted;
    call(client, "/etcdserverpb.Lease/LeaseGrant");
}

static void queue_counted(struct client *client)
{
    waiting = client->in_used > 5 ? get_number(client->in + 5, client->in_used - 5, 4) : 0;
    client->phase = 0;
}

static bool queue_is_full(void)
{
    struct client *asker = &clients[wanted];
    unsigned char body[32];
    if (waiting < wanted && !asker->phase && now_ns() >= asker->since) {
        size_t used = put_bytes(body, 1, "mass/", 5);
        used += put_bytes(body + used, 2, "mass0", 5);
        used += put_number(body + used, 9, 1); /* count only */
        asker->since = now_ns() + 100000000u;
        asker->phase = 1;
        asker->done = queue_counted;
        set_message(asker, body, used);
        call(asker, "/etcdserverpb.KV/Range");
    }
    return waiting >= wanted || now_ns() - begun > WAIT_MAX_NS;
}

static void revoke_head(struct client *by)
{
    unsigned char body[16];
    set_message(by, body, put_number(body, 1, (uint64_t)head->lease));
    by->done = NULL;
    call(by, "/etcdserverpb.Lease/LeaseRevoke");
}

static int queue(int argc, char **argv)
{
    if (argc != 4)
        return 64;
    unsigned count = (unsigned)atoi(argv[1]), deaths = (unsigned)atoi(argv[3]);
    double total = 0;
    open_all(argv[0], argv[2]);
    make_clients(count + 1);
    begun = now_ns();
    in_batches(count, grant_long);
    campaign(&clients[0]);
    wanted = 1;
    run(all_finished, 1000);
    for (unsigned i = 1; i < count; i++)
        campaign(&clients[i]);
    wanted = count;
    clients[count].conn = canary->conn; /* the other connections have no free streams */
    include_canary();
    run(queue_is_full, 10);
    double median = canary_before();
    prepare_done();
    for (unsigned i = 0; i < deaths; i++) {
        wanted = finished + 1;
        begun = now_ns();
        revoke_head(&clients[count]);
        run(all_finished_beside_the_canary, 1);
        total += (double)(now_ns() - begun) / 1e6;
    }
    report_event("queue", median, total / deaths);
    return errors || waiting < count ? 1 : 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } commands[] = {{"expire", expire}, {"watchers", watchers}, {"queue", queue}};
    int code = 64;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (argc > 2 && strcmp(argv[1], commands[i].name) == 0)
            code = commands[i].run(argc - 2, argv + 2);
    if (code == 64)
        fprintf(stderr, "usage: see the header of serve_mass.c\n");
    return code;
}
