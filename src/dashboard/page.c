/* Fields of a request for a page, see page.h. */
#include "dashboard/page.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define HOST_MAX 64u /* longer than any address */

struct element {
    const char *at;
    size_t length;
};

/* Takes the next element of a list that is separated by commas, without blanks around it. Returns
 * false at the end of the list. */
static bool take_element(const char **at, const char *end, struct element *out)
{
    if (*at >= end)
        return false;
    const char *comma = memchr(*at, ',', (size_t)(end - *at));
    const char *stop = comma ? comma : end;
    const char *from = *at;
    *at = comma ? comma + 1 : end;
    while (from < stop && (*from == ' ' || *from == '\t'))
        from++;
    while (stop > from && (stop[-1] == ' ' || stop[-1] == '\t'))
        stop--;
    *out = (struct element){from, (size_t)(stop - from)};
    return true;
}

/* "gzip", "gzip;q=0.5": weights are 0 to 1, so only zeros and a point mean "not acceptable". */
static bool is_gzip(struct element element)
{
    static const char name[] = "gzip";
    size_t length = sizeof name - 1;
    if (element.length < length || strncasecmp(element.at, name, length) != 0)
        return false;
    const char *rest = element.at + length, *end = element.at + element.length;
    while (rest < end && (*rest == ' ' || *rest == ';'))
        rest++;
    if (rest == end)
        return element.length == length;
    if (end - rest < 3 || strncasecmp(rest, "q=", 2) != 0)
        return false;
    for (rest += 2; rest < end; rest++)
        if (*rest >= '1' && *rest <= '9')
            return true;
    return false;
}

bool bw_web_accepts_gzip(const char *value, size_t length)
{
    const char *at = value, *end = value + length;
    struct element element;
    while (take_element(&at, end, &element))
        if (is_gzip(element))
            return true;
    return false;
}

/* The tag without W/. */
static struct element opaque(struct element tag)
{
    bool weak = tag.length > 2 && tag.at[0] == 'W' && tag.at[1] == '/';
    return weak ? (struct element){tag.at + 2, tag.length - 2} : tag;
}

bool bw_web_has_tag(const char *value, size_t length, const char *etag)
{
    const char *at = value, *end = value + length;
    struct element element;
    struct element tag = opaque((struct element){etag, strlen(etag)});
    while (take_element(&at, end, &element)) {
        element = opaque(element);
        if (element.length == tag.length && memcmp(element.at, tag.at, tag.length) == 0)
            return true;
    }
    return false;
}

bool bw_web_is_address(const char *host, size_t length)
{
    char text[HOST_MAX];
    unsigned char bytes[16];
    bool bracketed = length && host[0] == '[';
    const char *end = length ? memchr(host, bracketed ? ']' : ':', length) : NULL;
    size_t used = (end ? (size_t)(end - host) : length) - (bracketed ? 1 : 0);
    if ((bracketed && !end) || used >= sizeof text)
        return false;
    if (used)
        memcpy(text, host + (bracketed ? 1 : 0), used);
    text[used] = '\0';
    if (bracketed)
        return inet_pton(AF_INET6, text, bytes) == 1;
    return strcasecmp(text, "localhost") == 0 || inet_pton(AF_INET, text, bytes) == 1;
}
