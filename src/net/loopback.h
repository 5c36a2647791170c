/* Decides whether an address stays on this machine. Every check that refuses unencrypted traffic to
 * other machines uses these functions.
 *
 * A host is loopback if it is exactly "localhost", an IPv4 address in 127.0.0.0/8, or ::1. Any
 * other name may resolve to any machine ("127.example.com", "localhost.example.com"). Addresses
 * that inet_pton does not accept ("127.1", "0x7f.1") are not loopback. */
#ifndef BW_NET_LOOPBACK_H
#define BW_NET_LOOPBACK_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* `host` has no port and no brackets. */
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

/* Accepts HOST[:PORT] or [IPv6][:PORT], as in a URL; a path, query or fragment may follow. Anything
 * else is not loopback: in "127.0.0.1:80@example.com" the host is example.com. */
static inline bool bw_net_address_is_loopback(const char *address)
{
    char host[INET6_ADDRSTRLEN];
    bool bracketed = address[0] == '[';
    const char *start = address + bracketed;
    size_t length = strcspn(start, bracketed ? "]" : ":/?#");
    if (length >= sizeof host || (bracketed && start[length] != ']'))
        return false;
    const char *end = start + length + bracketed;
    if (*end == ':')
        end += 1 + strspn(end + 1, "0123456789");
    if (*end && !strchr("/?#", *end))
        return false;
    snprintf(host, sizeof host, "%.*s", (int)length, start);
    return !strchr(host, ':') == !bracketed && bw_net_host_is_loopback(host);
}

#endif
