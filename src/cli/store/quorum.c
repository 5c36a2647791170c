/* See quorum.h. A node that accepts a connection counts as answering, although it may hang, and so
 * does a node whose name has several addresses. So the line is never printed while a majority might
 * serve requests. */
#include "cli/store/quorum.h"

#include "os/clock.h"
#include "store/kit/url.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct {
    const char *scheme;
    uint16_t port;
} quorums[] = {{"etcd", 2379},        {"etcds", 2379},     {"bellwether", 2379},
               {"bellwethers", 2379}, {"zookeeper", 2181}, {"zookeepers", 2181}};

/* The default port of a store that needs a majority of its nodes; 0: the store needs none. */
static uint16_t port_of(const char *scheme)
{
    for (size_t i = 0; i < sizeof quorums / sizeof quorums[0]; i++)
        if (strcmp(scheme, quorums[i].scheme) == 0)
            return quorums[i].port;
    return 0;
}

/* Starts a connection to the host. Returns a socket, or -1. A host with several addresses sets
 * *unknown instead: the store may use any of them. */
static int start_connection(const struct bw_url_host *host, uint16_t port, bool *unknown)
{
    int fd = -1;
    char service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    snprintf(service, sizeof service, "%u", host->port ? host->port : port);
    if (getaddrinfo(host->name, service, &hints, &found) != 0)
        return -1;
    *unknown = found->ai_next != NULL;
    if (!*unknown)
        fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

static bool is_connected(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

/* Waits until each connection has succeeded or failed, or the time is over. Returns how many
 * succeeded. */
static uint32_t count_connected(struct pollfd *polls, uint32_t count)
{
    uint32_t connected = 0, waiting = count;
    bw_time until = bw_clock_boot() + BW_QUORUM_WITHIN_MS * BW_MS;
    for (uint32_t i = 0; i < count; i++)
        waiting -= polls[i].fd < 0;
    while (waiting > 0) {
        bw_time left = until - bw_clock_boot();
        if (left <= 0 || poll(polls, count, (int)(left / BW_MS) + 1) < 0)
            break;
        for (uint32_t i = 0; i < count; i++)
            if (polls[i].fd >= 0 && polls[i].revents) {
                connected += is_connected(polls[i].fd);
                close(polls[i].fd);
                polls[i].fd = -1;
                waiting--;
            }
    }
    for (uint32_t i = 0; i < count; i++)
        if (polls[i].fd >= 0)
            close(polls[i].fd);
    return connected;
}

bool bw_quorum_is_lost(const char *url, char line[BW_WHY_MAX + 1])
{
    static struct bw_url parsed;
    struct pollfd polls[BW_URL_HOSTS_MAX];
    if (bw_url_parse(&parsed, url, line) != 0)
        return false;
    uint16_t port = port_of(parsed.scheme);
    if (port == 0 || parsed.hosts < 3)
        return false;
    uint32_t hosts = parsed.hosts, connected = 0;
    for (uint32_t i = 0; i < hosts; i++) {
        bool unknown = false;
        polls[i].fd = start_connection(&parsed.host[i], port, &unknown);
        polls[i].events = POLLOUT;
        polls[i].revents = 0;
        connected += unknown;
    }
    connected += count_connected(polls, hosts);
    explicit_bzero(&parsed, sizeof parsed); /* it contains the password */
    if (connected > hosts / 2)
        return false;
    snprintf(line, BW_WHY_MAX + 1, "no quorum: %u of %u nodes %s", connected, hosts,
             connected == 1 ? "answers" : "answer");
    return true;
}
