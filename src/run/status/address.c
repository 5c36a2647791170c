/* Addresses, see address.h. */
#include "run/status/address.h"

#include "core/base/error.h"
#include "core/base/parse_values.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

static int read_unix(const char *path, struct bw_http_address *out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof address.sun_path)
        return BW_EINVAL;
    memcpy(address.sun_path, path, length);
    memcpy(&out->bytes, &address, sizeof address);
    out->length = sizeof address;
    out->loopback = true;
    return 0;
}

static int read_ipv6(const char *host, uint16_t port, struct bw_http_address *out)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    if (inet_pton(AF_INET6, host, &address.sin6_addr) != 1)
        return BW_EINVAL;
    memcpy(&out->bytes, &address, sizeof address);
    out->length = sizeof address;
    out->loopback = IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
    return 0;
}

static int read_ipv4(const char *host, uint16_t port, struct bw_http_address *out)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return BW_EINVAL;
    memcpy(&out->bytes, &address, sizeof address);
    out->length = sizeof address;
    out->loopback = ntohl(address.sin_addr.s_addr) >> 24 == 127;
    return 0;
}

int bw_http_address_read(const char *text, struct bw_http_address *out)
{
    char host[INET6_ADDRSTRLEN] = "";
    uint64_t port = 0;
    memset(out, 0, sizeof *out);
    if (strncmp(text, "unix:", 5) == 0)
        return read_unix(text + 5, out);
    const char *colon = strrchr(text, ':');
    if (!colon || bw_text_number(colon + 1, strlen(colon + 1), 65535, &port) != 0)
        return BW_EINVAL;
    bool ipv6 = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
    const char *begin = ipv6 ? text + 1 : text;
    size_t length = (size_t)((ipv6 ? colon - 1 : colon) - begin);
    if (length >= sizeof host)
        return BW_EINVAL;
    memcpy(host, begin, length);
    return ipv6 ? read_ipv6(host, (uint16_t)port, out) : read_ipv4(host, (uint16_t)port, out);
}
