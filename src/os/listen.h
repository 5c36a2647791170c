/* Listening on a TCP address that a user gave. */
#ifndef BW_OS_LISTEN_H
#define BW_OS_LISTEN_H

#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <uv.h>

/* Listens on `host`, an address or a name. A name is looked up, which may block; the first of its
 * addresses that this machine has counts. Returns 0 or a libuv error. */
static inline int bw_listen(uv_tcp_t *listener, const char *host, uint16_t port, int backlog,
                            uv_connection_cb accepted)
{
    char service[8];
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    uv_getaddrinfo_t lookup;
    snprintf(service, sizeof service, "%u", port);
    int error = uv_getaddrinfo(listener->loop, &lookup, NULL, host, service, &hints);
    if (error)
        return error;
    for (const struct addrinfo *at = lookup.addrinfo; at; at = at->ai_next)
        if ((error = uv_tcp_bind(listener, at->ai_addr, 0)) == 0)
            break;
    uv_freeaddrinfo(lookup.addrinfo);
    return error ? error : uv_listen((uv_stream_t *)listener, backlog, accepted);
}

#endif
