/* Which stores this build has, found by the scheme of a URL. A store whose client library was
 * missing at build time is not in the table. */
#include "base/text.h"
#include "store/sqlite.h"
#include "store/store.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct bw_store_ops *const stores[] = {&bw_store_sqlite, NULL};

const struct bw_store_ops *const *bw_store_all(void)
{
    return stores;
}

/* Length of the scheme, 0 when there is none: letters, digits, '+', '-', '.' up to the first ':'. A
 * path may hold a ':' behind a '/'. */
static size_t scheme_length(const char *url)
{
    if (!isalpha((unsigned char)url[0]))
        return 0;
    size_t length = 1;
    while (isalnum((unsigned char)url[length]) || (url[length] && strchr("+-.", url[length])))
        length++;
    return url[length] == ':' ? length : 0;
}

static void say_known(char *why, const char *scheme)
{
    const char *meant = NULL;
    int used = snprintf(why, BW_WHY_MAX + 1, "unknown store scheme '%s:'; known:", scheme);
    for (size_t i = 0; stores[i]; i++) {
        if (used > 0 && used < (int)BW_WHY_MAX)
            used += snprintf(why + used, BW_WHY_MAX + 1 - (size_t)used, " %s:", stores[i]->scheme);
        if (bw_text_similar(scheme, stores[i]->scheme))
            meant = stores[i]->scheme;
    }
    if (meant && used > 0 && used < (int)BW_WHY_MAX)
        snprintf(why + used, BW_WHY_MAX + 1 - (size_t)used, "; did you mean '%s:'?", meant);
}

const struct bw_store_ops *bw_store_find(const char *url, char *why)
{
    why[0] = '\0';
    size_t length = scheme_length(url);
    if (length == 0 && url[0])
        return stores[0];
    char scheme[33] = "";
    if (length == 0) {
        snprintf(why, BW_WHY_MAX + 1, "empty store URL");
        return NULL;
    }
    snprintf(scheme, sizeof scheme, "%.*s", length < 32 ? (int)length : 32, url);
    for (size_t i = 0; stores[i]; i++)
        if (strcmp(scheme, stores[i]->scheme) == 0)
            return stores[i];
    say_known(why, scheme);
    return NULL;
}
