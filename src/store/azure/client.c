/* One call of Azure's Blob REST API; see client.h. The signature follows "Authorize with Shared
 * Key" in the Azure Storage services REST reference, for the Blob service. */
#include "store/azure/client.h"

#include "store/azure/text.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define VERSION     "2021-08-06"
#define FIELDS_MAX  12u
#define HEADERS_MAX (AZURE_META_MAX + 8192u)

struct draft {
    char bytes[HEADERS_MAX];
    size_t used;
    const char *field[FIELDS_MAX + 1]; /* "Name: value", in alphabetical order, NULL-terminated */
    size_t fields;
    bool full;
};

static void add(struct draft *draft, const char *name, const char *value)
{
    if (!value || draft->full)
        return;
    size_t capacity = sizeof draft->bytes - draft->used;
    char *at = draft->bytes + draft->used;
    int length = snprintf(at, capacity, "%s: %s", name, value);
    if (length < 0 || (size_t)length >= capacity || draft->fields == FIELDS_MAX) {
        draft->full = true;
        return;
    }
    draft->used += (size_t)length + 1;
    draft->field[draft->fields++] = at;
}

static void add_fields(struct draft *draft, const struct azure_call *call)
{
    char date[AZURE_DATE_MAX], seconds[12];
    bw_azure_date(time(NULL), date);
    snprintf(seconds, sizeof seconds, "%u", call->lease_seconds);
    add(draft, "x-ms-blob-type", call->blob_type);
    add(draft, "x-ms-date", date);
    add(draft, "x-ms-lease-action", call->lease_action);
    add(draft, "x-ms-lease-duration", call->lease_seconds ? seconds : NULL);
    add(draft, "x-ms-lease-id", call->lease_id);
    add(draft, "x-ms-meta-bellwether", call->metadata);
    add(draft, "x-ms-meta-lost", call->lost);
    add(draft, "x-ms-proposed-lease-id", call->proposed_lease_id);
    add(draft, "x-ms-version", VERSION);
}

/* Writes the string to sign; false if it does not fit. `path` is the URL's path. */
static bool canonical(const struct azure_settings *s, const struct azure_call *call,
                      const struct draft *draft, const char *path, char *out, size_t size)
{
    int used = snprintf(out, size, "%s\n\n\n\n\n\n\n\n%s\n%s\n\n\n", call->verb,
                        call->if_match ? call->if_match : "",
                        call->if_none_match ? call->if_none_match : "");
    for (size_t i = 0; i < draft->fields && used > 0 && (size_t)used < size; i++) {
        const char *colon = strchr(draft->field[i], ':');
        used += snprintf(out + used, size - (size_t)used, "%.*s:%s\n",
                         (int)(colon - draft->field[i]), draft->field[i], colon + 2);
    }
    if (used < 0 || (size_t)used >= size)
        return false;
    used += snprintf(out + used, size - (size_t)used, "/%s%s%s%s%s%s", s->account, path,
                     call->query_name ? "\n" : "", call->query_name ? call->query_name : "",
                     call->query_name ? ":" : "", call->query_name ? call->query_value : "");
    return (size_t)used < size;
}

static bool sign(const struct azure_settings *s, const struct azure_call *call, const char *path,
                 const struct draft *draft, char *out, size_t size)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    char encoded[2 * EVP_MAX_MD_SIZE], *text = malloc(HEADERS_MAX + 2048);
    bool good = text && canonical(s, call, draft, path, text, HEADERS_MAX + 2048) &&
                HMAC(EVP_sha256(), s->key, (int)s->key_length, (const unsigned char *)text,
                     strlen(text), digest, &length);
    free(text);
    if (!good)
        return false;
    EVP_EncodeBlock((unsigned char *)encoded, digest, (int)length);
    return snprintf(out, size, "SharedKey %s:%s", s->account, encoded) < (int)size;
}

static bool authorize(const struct azure_rest *rest, const struct azure_call *call,
                      const char *path, struct draft *draft)
{
    char text[AZURE_TOKEN_MAX + 16];
    const struct azure_settings *s = rest->settings;
    if (s->sas[0])
        return true; /* the URL already contains the SAS token */
    if (s->key_length) {
        if (!sign(s, call, path, draft, text, sizeof text))
            return false;
    } else {
        const char *token = bw_azure_identity_token(rest->identity);
        if (!token)
            return false;
        snprintf(text, sizeof text, "Bearer %s", token);
    }
    add(draft, "Authorization", text);
    return !draft->full;
}

static bool make_url(const struct azure_settings *s, const struct azure_call *call, char *url,
                     size_t size)
{
    char name[3 * AZURE_NAME_MAX + 4] = "";
    if (call->blob && !bw_azure_path(call->blob, name, sizeof name))
        return false;
    const char *query = call->query_name ? call->query_name : "";
    int length = snprintf(url, size, "%s/%s%s%s%s%s%s%s%s%s", s->endpoint, s->container,
                          call->blob ? "/" : "", name, *query || s->sas[0] ? "?" : "", query,
                          *query ? "=" : "", *query ? call->query_value : "",
                          *query && s->sas[0] ? "&" : "", s->sas);
    return length > 0 && (size_t)length < size;
}

/* Copies the path of a URL, without the query, for the string to sign. */
static void path_of(const char *url, char *out, size_t size)
{
    const char *path = strchr(strstr(url, "://") + 3, '/');
    snprintf(out, size, "%.*s", path ? (int)strcspn(path, "?") : 0, path ? path : "");
}

struct bw_http_request *bw_azure_send(const struct azure_rest *rest, const struct azure_call *call)
{
    char url[AZURE_SECRET_MAX + 3 * AZURE_NAME_MAX + 1024], path[3 * AZURE_NAME_MAX + 640];
    struct draft draft = {.used = 0};
    if (!make_url(rest->settings, call, url, sizeof url))
        return NULL;
    path_of(url, path, sizeof path);
    add_fields(&draft, call);
    if (!authorize(rest, call, path, &draft))
        return NULL;
    add(&draft, "If-Match", call->if_match);
    add(&draft, "If-None-Match", call->if_none_match);
    struct bw_http_ask ask = {.method = call->verb,
                              .url = url,
                              .headers = draft.field,
                              .within_ns = call->within_ns,
                              .urgent = call->urgent,
                              .answer = call->answer,
                              .context = call->context};
    struct bw_http_request *request = draft.full ? NULL : bw_http_send(rest->http, &ask);
    explicit_bzero(url, sizeof url);
    return request;
}

static bool lease_of(const char *text, enum azure_lease_state *out)
{
    static const struct {
        const char *word;
        enum azure_lease_state state;
    } words[] = {{"available", AZURE_FREE},
                 {"leased", AZURE_LEASED},
                 {"breaking", AZURE_LEASED},
                 {"expired", AZURE_OVER},
                 {"broken", AZURE_OVER}};
    for (size_t i = 0; text && i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(text, words[i].word) == 0) {
            *out = words[i].state;
            return true;
        }
    return false;
}

bool bw_azure_blob_of(const struct bw_http_answer *answer, struct azure_blob *blob)
{
    const char *etag = bw_http_header(answer, "ETag"), *line = NULL;
    const char *length = bw_http_header(answer, "Content-Length");
    memset(blob, 0, sizeof *blob);
    if (!etag || strlen(etag) > AZURE_ETAG_MAX || strpbrk(etag, "\r\n") ||
        !lease_of(bw_http_header(answer, "x-ms-lease-state"), &blob->lease))
        return false;
    snprintf(blob->etag, sizeof blob->etag, "%s", etag);
    blob->foreign = !length || strcmp(length, "0") != 0;
    while ((line = bw_http_header_next(answer, line))) {
        if (strncasecmp(line, "x-ms-meta-", 10) != 0)
            continue;
        if (strncasecmp(line, "x-ms-meta-lost:", 15) == 0) {
            snprintf(blob->lost, sizeof blob->lost, "%s", line + 15 + strspn(line + 15, " \t"));
            continue;
        }
        if (strncasecmp(line, "x-ms-meta-bellwether:", 21) != 0) {
            blob->foreign = true;
            continue;
        }
        const char *value = line + 21 + strspn(line + 21, " \t");
        if (strlen(value) > AZURE_META_MAX)
            return false;
        snprintf(blob->metadata, sizeof blob->metadata, "%s", value);
    }
    return true;
}

const char *bw_azure_code(const struct bw_http_answer *answer)
{
    const char *code = bw_http_header(answer, "x-ms-error-code");
    return code && strlen(code) < 100 ? code : "";
}
