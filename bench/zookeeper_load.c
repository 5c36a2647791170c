/* The same cycles as serve_load, on ZooKeeper: creates and deletes an ephemeral node. One thread,
 * with ZooKeeper's C client.
 *
 *     zookeeper_load HOST:PORT CLIENTS CONNECTIONS SECONDS
 *
 * Prints one line of JSON, like serve_load. */
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <zookeeper/zookeeper.h>

#define CLIENTS_MAX     4096u
#define CONNECTIONS_MAX 64u
#define SAMPLES_MAX     (1u << 22)
#define PATIENCE_NS     (30ll * 1000000000)

struct client {
    zhandle_t *zh;
    char path[32];
    int64_t began;
    bool held;
};

static struct client clients[CLIENTS_MAX];
static zhandle_t *connections[CONNECTIONS_MAX];
static uint32_t *samples;
static uint32_t sample_count, under_way;
static uint64_t errors;
static bool over;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void go(struct client *client);

static void next(int rc, const struct client *done)
{
    struct client *client = (struct client *)done;
    under_way--;
    errors += rc != ZOK;
    if (rc == ZOK && client->held && sample_count < SAMPLES_MAX)
        samples[sample_count++] = (uint32_t)((now_ns() - client->began) / 1000);
    client->held = rc == ZOK && !client->held;
    if (!over)
        go(client);
}

static void created(int rc, const char *value, const void *client)
{
    (void)value;
    next(rc, client);
}

static void deleted(int rc, const void *client)
{
    next(rc, client);
}

static void go(struct client *client)
{
    int rc;
    if (client->held) {
        rc = zoo_adelete(client->zh, client->path, -1, deleted, client);
    } else {
        client->began = now_ns();
        rc = zoo_acreate(client->zh, client->path, "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL,
                         created, client);
    }
    if (rc != ZOK) {
        fprintf(stderr, "zookeeper_load: %s\n", zerror(rc));
        exit(1);
    }
    under_way++;
}

/* Serves all connections once: waits for the events that each needs, then handles them. */
static void turn(uint32_t count)
{
    struct pollfd fds[CONNECTIONS_MAX];
    int wait_ms = 100;
    for (uint32_t i = 0; i < count; i++) {
        struct timeval patience = {0, 100000};
        int fd = -1, interest = 0;
        zookeeper_interest(connections[i], &fd, &interest, &patience);
        int events =
            (interest & ZOOKEEPER_READ ? POLLIN : 0) | (interest & ZOOKEEPER_WRITE ? POLLOUT : 0);
        fds[i] = (struct pollfd){.fd = fd, .events = (short)events};
        int64_t ms = patience.tv_sec * 1000 + patience.tv_usec / 1000;
        wait_ms = ms < wait_ms ? (int)ms : wait_ms;
    }
    poll(fds, count, wait_ms);
    for (uint32_t i = 0; i < count; i++) {
        int got = (fds[i].revents & (POLLIN | POLLHUP | POLLERR) ? ZOOKEEPER_READ : 0) |
                  (fds[i].revents & POLLOUT ? ZOOKEEPER_WRITE : 0);
        zookeeper_process(connections[i], got);
    }
}

static bool all_connected(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (zoo_state(connections[i]) != ZOO_CONNECTED_STATE)
            return false;
    return true;
}

static void open_connections(const char *host, uint32_t count)
{
    int64_t until = now_ns() + PATIENCE_NS;
    for (uint32_t i = 0; i < count; i++) {
        connections[i] = zookeeper_init(host, NULL, 30000, NULL, NULL, 0);
        if (!connections[i]) {
            perror("zookeeper_load");
            exit(1);
        }
    }
    while (!all_connected(count)) {
        turn(count);
        if (now_ns() > until) {
            fprintf(stderr, "zookeeper_load: cannot connect to %s\n", host);
            exit(1);
        }
    }
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double own_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    uint32_t count = argc == 5 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    uint32_t links = argc == 5 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    if (count < 1 || count > CLIENTS_MAX || links < 1 || links > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: zookeeper_load HOST:PORT CLIENTS CONNECTIONS SECONDS\n");
        return 64;
    }
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    samples = malloc(SAMPLES_MAX * sizeof *samples);
    if (!samples)
        return 71;
    open_connections(argv[1], links);
    double spent = own_seconds();
    int64_t began = now_ns(), length = (int64_t)(strtod(argv[4], NULL) * 1e9);
    for (uint32_t i = 0; i < count; i++) {
        clients[i].zh = connections[i % links];
        snprintf(clients[i].path, sizeof clients[i].path, "/load-%u", i);
        go(&clients[i]);
    }
    while (now_ns() - began < length)
        turn(links);
    double seconds = (double)(now_ns() - began) / 1e9;
    uint32_t cycles = sample_count;
    spent = own_seconds() - spent;
    over = true;
    for (int64_t until = now_ns() + PATIENCE_NS; under_way && now_ns() < until;)
        turn(links);
    for (uint32_t i = 0; i < links; i++)
        zookeeper_close(connections[i]);
    qsort(samples, cycles, sizeof *samples, by_size);
    printf("{\"what\": \"acquire+release\", \"per_s\": %.0f, \"p50_us\": %u, \"p99_us\": %u, "
           "\"errors\": %llu, \"client_core\": %.2f}\n",
           (double)cycles / seconds, cycles ? samples[cycles / 2] : 0,
           cycles ? samples[(uint64_t)cycles * 99 / 100] : 0, (unsigned long long)errors,
           spent / seconds);
    return 0;
}
