/* Converts network addresses; see address.h. */
#include "peer/address.h"

#include "core/base/error.h"
#include "core/base/parse_values.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

int bw_peer_address_split(const char *text, size_t length, char host[BW_PEER_HOST_MAX + 1],
                          char port[6])
{
    uint64_t number;
    size_t colon = length;
    while (colon > 0 && text[colon - 1] != ':')
        colon--;
    if (colon == 0 || length - colon > 5 ||
        bw_text_number(text + colon, length - colon, 65535, &number) != 0)
        return BW_EINVAL;
    size_t begin = 0, end = colon - 1;
    if (end > 1 && text[0] == '[' && text[end - 1] == ']') {
        begin = 1;
        end--;
    } else if (memchr(text, ':', end)) {
        return BW_EINVAL; /* IPv6 without brackets: the port is ambiguous */
    }
    if (end == begin || end - begin > BW_PEER_HOST_MAX)
        return BW_EINVAL;
    memcpy(host, text + begin, end - begin);
    host[end - begin] = '\0';
    memcpy(port, text + colon, length - colon);
    port[length - colon] = '\0';
    return 0;
}

static int look_up(const char *text, int flags, struct sockaddr_storage *out)
{
    char host[BW_PEER_HOST_MAX + 1], port[6];
    struct addrinfo hints = {.ai_flags = flags | AI_NUMERICSERV, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *found;
    if (bw_peer_address_split(text, strlen(text), host, port) != 0)
        return BW_EINVAL;
    if (getaddrinfo(host, port, &hints, &found) != 0)
        return flags & AI_NUMERICHOST ? BW_EINVAL : BW_EIO;
    memset(out, 0, sizeof *out);
    memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

int bw_peer_address_read(const char *text, struct sockaddr_storage *out)
{
    return look_up(text, AI_NUMERICHOST, out);
}

int bw_peer_address_find(const char *text, struct sockaddr_storage *out)
{
    return look_up(text, 0, out);
}

void bw_peer_address_from(struct bw_peer_address *out, const struct sockaddr *address)
{
    memset(out, 0, sizeof *out);
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)address;
        out->family = 4;
        out->port = ntohs(in->sin_port);
        memcpy(out->bytes, &in->sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const void *)address;
        out->family = 6;
        out->port = ntohs(in->sin6_port);
        out->scope = in->sin6_scope_id;
        memcpy(out->bytes, &in->sin6_addr, 16);
    }
}

bool bw_peer_address_to(const struct bw_peer_address *address, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (address->family == 4) {
        struct sockaddr_in *in = (void *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(address->port);
        memcpy(&in->sin_addr, address->bytes, 4);
    } else if (address->family == 6) {
        struct sockaddr_in6 *in = (void *)out;
        in->sin6_family = AF_INET6;
        in->sin6_port = htons(address->port);
        in->sin6_scope_id = address->scope;
        memcpy(&in->sin6_addr, address->bytes, 16);
    }
    return address->family != 0;
}

bool bw_peer_address_any(const struct sockaddr *address)
{
    static const unsigned char zeroes[16];
    struct bw_peer_address plain;
    bw_peer_address_from(&plain, address);
    return memcmp(plain.bytes, zeroes, sizeof zeroes) == 0;
}

bool bw_peer_address_same(const struct sockaddr *a, const struct sockaddr *b)
{
    struct bw_peer_address one, other;
    bw_peer_address_from(&one, a);
    bw_peer_address_from(&other, b);
    return one.family == other.family && one.port == other.port &&
           memcmp(one.bytes, other.bytes, sizeof one.bytes) == 0;
}

void bw_peer_address_text(const struct sockaddr *address, char out[BW_PEER_ADDRESS_MAX + 1])
{
    char host[INET6_ADDRSTRLEN] = "?";
    struct bw_peer_address plain;
    bw_peer_address_from(&plain, address);
    if (plain.family)
        inet_ntop(address->sa_family, plain.bytes, host, sizeof host);
    snprintf(out, BW_PEER_ADDRESS_MAX + 1, plain.family == 6 ? "[%s]:%u" : "%s:%u", host,
             (unsigned)plain.port);
}
