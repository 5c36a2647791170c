/* Is this an address that only this machine can reach? */
#ifndef BW_NET_LOOPBACK_H
#define BW_NET_LOOPBACK_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A name is taken to be elsewhere, but for the one that every machine has. */
static inline bool bw_net_host_is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcmp(host, "localhost") == 0;
}

/* "HOST:PORT" or "[IPv6]:PORT"; what has neither form is elsewhere. */
static inline bool bw_net_address_is_loopback(const char *address)
{
    char host[64];
    const char *colon = strrchr(address, ':');
    size_t length = colon ? (size_t)(colon - address) : strlen(address);
    bool bracketed = length > 2 && address[0] == '[' && address[length - 1] == ']';
    int wrote = snprintf(host, sizeof host, "%.*s", (int)(bracketed ? length - 2 : length),
                         address + bracketed);
    return wrote > 0 && (size_t)wrote < sizeof host && bw_net_host_is_loopback(host);
}

#endif
