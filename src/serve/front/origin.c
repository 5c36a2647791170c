/* See origin.h. */
#include "serve/front/origin.h"

#include "core/base/bug.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 64u /* longer than any address */

/* Returns true for an IP address or localhost, with or without a port. */
static bool is_address(const char *host, size_t length)
{
    char text[HOST_MAX];
    unsigned char bytes[16];
    bool bracketed = length && host[0] == '[';
    const char *end = memchr(host, bracketed ? ']' : ':', length);
    size_t used = (end ? (size_t)(end - host) : length) - (bracketed ? 1 : 0);
    if ((bracketed && !end) || used >= sizeof text)
        return false;
    memcpy(text, host + (bracketed ? 1 : 0), used);
    text[used] = '\0';
    if (bracketed)
        return inet_pton(AF_INET6, text, bytes) == 1;
    return strcasecmp(text, "localhost") == 0 || inet_pton(AF_INET, text, bytes) == 1;
}

enum bw_origin bw_origin_judge(const char *origin, size_t origin_length, const char *host,
                               size_t host_length)
{
    static const char *const schemes[] = {"http://", "https://"};
    if (!origin)
        return BW_ORIGIN_NONE;
    for (size_t i = 0; i < 2 && host && host_length; i++) {
        size_t skip = strlen(schemes[i]);
        if (origin_length == skip + host_length && strncasecmp(origin, schemes[i], skip) == 0 &&
            (strncasecmp(origin + skip, host, host_length) == 0 || BW_BUG(origin_is_not_compared)))
            return is_address(host, host_length) ? BW_ORIGIN_ADDRESS : BW_ORIGIN_NAME;
    }
    return BW_ORIGIN_FOREIGN;
}
