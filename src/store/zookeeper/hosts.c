/* The addresses of an ensemble; see hosts.h. */
#include "store/zookeeper/hosts.h"

#include "os/loop.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bw_zk_lookup {
    uv_getaddrinfo_t request;
    struct bw_zk_hosts *hosts; /* NULL: cancelled */
    struct bw_zk_lookup *next;
    uint16_t port;
};

void bw_zk_hosts_init(struct bw_zk_hosts *hosts, const struct bw_url *url, uv_loop_t *loop,
                      void (*done)(struct bw_zk_hosts *hosts), void *context)
{
    *hosts = (struct bw_zk_hosts){.url = url, .loop = loop, .done = done, .context = context};
}

/* The library splits at the last ':', so an IPv6 address needs no brackets. */
static void add(struct bw_zk_hosts *hosts, const char *address, uint16_t port)
{
    if (hosts->count < BW_ZK_ADDRESSES_MAX)
        snprintf(hosts->address[hosts->count++], BW_ZK_ADDRESS_MAX + 1, "%.50s:%u", address, port);
}

static void add_found(struct bw_zk_hosts *hosts, const struct addrinfo *found, uint16_t port)
{
    char text[INET6_ADDRSTRLEN];
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        if (at->ai_family == AF_INET)
            uv_ip4_name((const struct sockaddr_in *)at->ai_addr, text, sizeof text);
        else if (at->ai_family == AF_INET6)
            uv_ip6_name((const struct sockaddr_in6 *)at->ai_addr, text, sizeof text);
        else
            continue;
        add(hosts, text, port);
    }
}

static void unlink_lookup(struct bw_zk_lookup *lookup)
{
    struct bw_zk_lookup **at = &lookup->hosts->lookups;
    while (*at != lookup)
        at = &(*at)->next;
    *at = lookup->next;
}

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct bw_zk_lookup *lookup = request->data;
    struct bw_zk_hosts *hosts = lookup->hosts;
    if (hosts) {
        unlink_lookup(lookup);
        if (status == 0)
            add_found(hosts, found, lookup->port);
        hosts->waits--;
    }
    uv_freeaddrinfo(found);
    free(lookup);
    if (hosts && hosts->waits == 0 && hosts->busy) {
        hosts->busy = false;
        hosts->done(hosts);
    }
}

static void look_up(struct bw_zk_hosts *hosts, const char *name, uint16_t port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    struct bw_zk_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return;
    lookup->request.data = lookup;
    lookup->hosts = hosts;
    lookup->port = port;
    if (bw_loop_look_up(hosts->loop, &lookup->request, on_found, name, NULL, &hints) != 0) {
        free(lookup);
        return;
    }
    lookup->next = hosts->lookups;
    hosts->lookups = lookup;
    hosts->waits++;
}

bool bw_zk_hosts_find(struct bw_zk_hosts *hosts)
{
    bw_zk_hosts_stop(hosts);
    hosts->count = 0;
    for (uint32_t i = 0; i < hosts->url->hosts; i++) {
        const struct bw_url_host *host = &hosts->url->host[i];
        uint16_t port = host->port ? host->port : (uint16_t)BW_ZK_PORT;
        struct in_addr four;
        struct in6_addr six;
        if (inet_pton(AF_INET, host->name, &four) == 1 ||
            inet_pton(AF_INET6, host->name, &six) == 1)
            add(hosts, host->name, port);
        else
            look_up(hosts, host->name, port);
    }
    hosts->busy = hosts->waits > 0;
    return !hosts->busy;
}

void bw_zk_hosts_stop(struct bw_zk_hosts *hosts)
{
    while (hosts->lookups) {
        struct bw_zk_lookup *lookup = hosts->lookups;
        hosts->lookups = lookup->next;
        lookup->hosts = NULL;
        uv_cancel((uv_req_t *)&lookup->request);
    }
    hosts->waits = 0;
    hosts->busy = false;
}

void bw_zk_hosts_text(const struct bw_zk_hosts *hosts, unsigned first, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < hosts->count; i++) {
        const char *address = hosts->address[(first + i) % hosts->count];
        if (used + strlen(address) + 2 > size)
            return;
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "," : "", address);
    }
}
