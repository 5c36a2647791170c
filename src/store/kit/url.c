/* Parses a store's URL; see url.h. */
#include "store/kit/url.h"

#include "core/base/parse_values.h"
#include "net/loopback.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes percent-encoding. Rejects a part that is too long or contains a NUL. */
static int decode(char *out, size_t size, const char *text, size_t length, const char *part,
                  char *why)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%') {
            int high = i + 2 < length ? digit(text[i + 1]) : -1;
            int low = high >= 0 ? digit(text[i + 2]) : -1;
            if (low < 0 || (high == 0 && low == 0))
                return bw_store_explain(why, BW_EINVAL,
                                        "invalid store URL: bad %% sequence in the %s", part);
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (used + 1 >= size)
            return bw_store_explain(why, BW_EINVAL, "invalid store URL: the %s is too long", part);
        out[used++] = c;
    }
    out[used] = '\0';
    return 0;
}

static int parse_user(struct bw_url *url, const char *text, size_t length, char *why)
{
    const char *colon = memchr(text, ':', length);
    size_t user = colon ? (size_t)(colon - text) : length;
    int error = decode(url->user, sizeof url->user, text, user, "user", why);
    if (error == 0 && colon)
        error = decode(url->password, sizeof url->password, colon + 1, length - user - 1,
                       "password", why);
    return error;
}

static int parse_port(struct bw_url_host *host, const char *text, size_t length, char *why)
{
    uint64_t port;
    if (bw_text_number(text, length, 65535, &port) != 0 || port == 0)
        return bw_store_explain(why, BW_EINVAL,
                                "invalid store URL: port '%.*s' is not a number from 1 to 65535",
                                length < 32 ? (int)length : 32, text);
    host->port = (uint16_t)port;
    return 0;
}

static int parse_host(struct bw_url *url, const char *text, size_t length, char *why)
{
    if (url->hosts == BW_URL_HOSTS_MAX)
        return bw_store_explain(why, BW_EINVAL, "invalid store URL: more than %u hosts",
                                BW_URL_HOSTS_MAX);
    struct bw_url_host *host = &url->host[url->hosts++];
    const char *end = text + length, *name = text, *name_end, *colon;
    if (length && text[0] == '[') {
        name = text + 1;
        name_end = memchr(text, ']', length);
        if (!name_end)
            return bw_store_explain(why, BW_EINVAL, "invalid store URL: missing ']'");
        colon = name_end + 1 < end ? name_end + 1 : NULL;
    } else {
        colon = memchr(text, ':', length);
        name_end = colon ? colon : end;
    }
    if (colon && *colon != ':')
        return bw_store_explain(why, BW_EINVAL,
                                "invalid store URL: expected ':PORT' or ',' after ']'");
    int error = decode(host->name, sizeof host->name, name, (size_t)(name_end - name), "host", why);
    if (error == 0 && !host->name[0])
        error = bw_store_explain(why, BW_EINVAL, "invalid store URL: empty host");
    if (error == 0 && colon)
        error = parse_port(host, colon + 1, (size_t)(end - colon - 1), why);
    return error;
}

static int parse_authority(struct bw_url *url, const char *text, size_t length, char *why)
{
    const char *end = text + length, *at = NULL;
    for (const char *c = text; c < end; c++)
        if (*c == '@')
            at = c;
    if (at) {
        int error = parse_user(url, text, (size_t)(at - text), why);
        if (error != 0)
            return error;
        text = at + 1;
    }
    while (text < end) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *stop = comma ? comma : end;
        int error = parse_host(url, text, (size_t)(stop - text), why);
        if (error != 0)
            return error;
        if (comma && comma + 1 == end)
            return bw_store_explain(why, BW_EINVAL, "invalid store URL: empty host");
        text = comma ? comma + 1 : end;
    }
    return 0;
}

static int parse_query(struct bw_url *url, const char *text, char *why)
{
    while (*text) {
        size_t length = strcspn(text, "&"), key = strcspn(text, "=&");
        if (url->queries == BW_URL_QUERY_MAX)
            return bw_store_explain(why, BW_EINVAL, "invalid store URL: more than %u settings",
                                    BW_URL_QUERY_MAX);
        char *name = url->query[url->queries].key, *value = url->query[url->queries].value;
        size_t skip = key < length ? key + 1 : key;
        int error = decode(name, sizeof url->query[0].key, text, key, "query", why);
        if (error == 0)
            error =
                decode(value, sizeof url->query[0].value, text + skip, length - skip, "query", why);
        if (error != 0)
            return error;
        url->queries += name[0] != '\0';
        text += length + (text[length] == '&');
    }
    return 0;
}

int bw_url_parse(struct bw_url *url, const char *text, char *why)
{
    memset(url, 0, sizeof *url);
    const char *colon = strstr(text, "://");
    if (!colon || colon == text)
        return bw_store_explain(why, BW_EINVAL, "invalid store URL: expected SCHEME://...");
    if (strlen(text) > BW_URL_TEXT_MAX)
        return bw_store_explain(why, BW_EINVAL, "invalid store URL: longer than %u bytes",
                                BW_URL_TEXT_MAX);
    int error =
        decode(url->scheme, sizeof url->scheme, text, (size_t)(colon - text), "scheme", why);
    const char *authority = colon + 3;
    size_t length = strcspn(authority, "/?");
    const char *path = authority + length;
    if (error == 0)
        error = parse_authority(url, authority, length, why);
    size_t path_length = strcspn(path, "?");
    if (error == 0 && path_length)
        error = decode(url->path, sizeof url->path, path + 1, path_length - 1, "path", why);
    if (error == 0 && path[path_length] == '?')
        error = parse_query(url, path + path_length + 1, why);
    return error;
}

const char *bw_url_query(const struct bw_url *url, const char *key)
{
    for (uint32_t i = 0; i < url->queries; i++)
        if (strcmp(url->query[i].key, key) == 0)
            return url->query[i].value;
    return NULL;
}

int bw_url_check_keys(const struct bw_url *url, const char *const *keys, char *why)
{
    for (uint32_t i = 0; i < url->queries; i++) {
        const char *const *known = keys, *near = NULL;
        while (*known && strcmp(*known, url->query[i].key) != 0) {
            if (bw_text_similar(url->query[i].key, *known))
                near = *known;
            known++;
        }
        if (!*known)
            return bw_store_explain(why, BW_EINVAL, "unknown setting '%s' in the %s: URL%s%s%s",
                                    url->query[i].key, url->scheme, near ? "; did you mean '" : "",
                                    near ? near : "", near ? "'?" : "");
    }
    return 0;
}

static int read_secret(const char *path, char *out, size_t size, char *why)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return bw_store_explain(why, BW_EINVAL, "cannot read %s: %s", path, strerror(errno));
    size_t length = fread(out, 1, size, file);
    bool failed = ferror(file) != 0;
    fclose(file);
    if (failed || length >= size || memchr(out, '\0', length)) {
        memset(out, 0, size);
        return bw_store_explain(why, BW_EINVAL,
                                "cannot use %s: expected a secret of at most %zu bytes", path,
                                size - 1);
    }
    while (length && (out[length - 1] == '\n' || out[length - 1] == '\r'))
        length--;
    out[length] = '\0';
    return 0;
}

int bw_url_secret(const struct bw_url *url, const char *key, const char *environment, char *out,
                  size_t size, char *why)
{
    char file_key[80];
    snprintf(file_key, sizeof file_key, "%s-file", key);
    const char *path = bw_url_query(url, file_key);
    const char *value = environment ? getenv(environment) : NULL;
    out[0] = '\0';
    if (path)
        return read_secret(path, out, size, why);
    if (!value && strcmp(key, "password") == 0)
        value = url->password;
    if (!value)
        return 0;
    if (strlen(value) >= size)
        return bw_store_explain(why, BW_EINVAL, "the %s is longer than %zu bytes", key, size - 1);
    memcpy(out, value, strlen(value) + 1);
    return 0;
}

/* ---- endpoints ---- */

const char *bw_url_endpoint(const char *text, bool may_have_path, char *why)
{
    bool tls = strncmp(text, "https://", 8) == 0, plain = strncmp(text, "http://", 7) == 0;
    const char *host = text + (tls ? 8 : plain ? 7 : strlen(text));
    if (!*host || strpbrk(host, may_have_path ? "?#@ " : "/?#@ ")) {
        bw_store_explain(why, 0, "invalid endpoint: expected https://HOST[:PORT]%s",
                         may_have_path ? "[/PATH]" : "");
        return NULL;
    }
    if (plain && !bw_net_address_is_loopback(host)) {
        bw_store_explain(why, 0,
                         "invalid endpoint: http:// is for this machine only; use https://");
        return NULL;
    }
    return host;
}
