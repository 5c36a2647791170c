/* The addresses of the URL's hosts. The loop's worker threads look up the names, each within the
 * timeout, because libpq would block. The store tries all addresses in turn. */
#include "store/postgres/state.h"

#include "os/loop.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bw_pg_resolving {
    uv_getaddrinfo_t request;
    struct bw_store *store; /* NULL: cancelled */
    uint32_t host;
};

static void copy_text(char *out, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);
    memmove(out, text, length);
    out[length] = '\0';
}

static void add_place(struct bw_store *store, const char *host, const char *address, uint16_t port)
{
    struct bw_pg_link *link = &store->link;
    if (link->place_count == BW_PG_PLACES_MAX)
        return;
    struct bw_pg_place *place = &link->places[link->place_count++];
    copy_text(place->host, sizeof place->host, host);
    copy_text(place->address, sizeof place->address, address);
    place->port = port;
}

static void add_address(struct bw_store *store, uint32_t host, const struct sockaddr *address)
{
    char text[64] = "";
    const struct bw_url_host *from = &store->settings.url.host[host];
    if (address->sa_family == AF_INET)
        uv_ip4_name((const struct sockaddr_in *)(const void *)address, text, sizeof text);
    else if (address->sa_family == AF_INET6)
        uv_ip6_name((const struct sockaddr_in6 *)(const void *)address, text, sizeof text);
    if (text[0])
        add_place(store, from->name, text, from->port);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct bw_pg_resolving *resolving = request->data;
    struct bw_store *store = resolving->store;
    if (store) {
        store->link.resolver = NULL;
        for (struct addrinfo *at = found; status == 0 && at; at = at->ai_next)
            add_address(store, resolving->host, at->ai_addr);
        if (status != 0)
            bw_store_explain(store->link.why, 0, "PostgreSQL at %s: %s",
                             store->settings.url.host[resolving->host].name, uv_strerror(status));
    }
    uv_freeaddrinfo(found);
    free(resolving);
    if (store)
        bw_pg_resolve(store);
}

void bw_pg_resolve_stop(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    if (!link->resolver)
        return;
    link->resolver->store = NULL;
    uv_cancel((uv_req_t *)&link->resolver->request);
    link->resolver = NULL;
}

static bool is_address(const char *host)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static bool ask_resolver(struct bw_store *store, uint32_t host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct bw_pg_resolving *resolving = calloc(1, sizeof *resolving);
    if (!resolving)
        return false;
    resolving->store = store;
    resolving->host = host;
    resolving->request.data = resolving;
    if (bw_loop_look_up(store->loop, &resolving->request, on_resolved,
                        store->settings.url.host[host].name, NULL, &hints) != 0) {
        free(resolving);
        return false;
    }
    store->link.resolver = resolving;
    bw_pg_link_limit(store);
    return true;
}

/* Resolves the next host that is not an address; after the last one starts the first attempt. */
void bw_pg_resolve(struct bw_store *store)
{
    struct bw_pg_link *link = &store->link;
    const struct bw_url *url = &store->settings.url;
    if (link->resolver) { /* the lookup timed out */
        bw_store_explain(link->why, 0, "PostgreSQL at %s: name lookup timed out",
                         url->host[link->resolver->host].name);
        bw_pg_resolve_stop(store);
    }
    while (link->resolving < url->hosts) {
        uint32_t at = link->resolving++;
        const char *host = url->host[at].name;
        if (host[0] == '/' || host[0] == '@')
            add_place(store, host, "", url->host[at].port);
        else if (is_address(host))
            add_place(store, host, host, url->host[at].port);
        else if (ask_resolver(store, at))
            return;
    }
    if (url->hosts == 0)
        add_place(store, "", "", 0);
    bw_pg_link_attempt(store);
}
