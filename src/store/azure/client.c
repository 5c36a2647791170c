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

#define PARAMETERS_MAX 8u
#define URL_MAX        (AZURE_SECRET_MAX + 3 * (AZURE_NAME_MAX + AZURE_MARKER_MAX) + 1024u)
#define TEXT_MAX       (HEADERS_MAX + AZURE_MARKER_MAX + 2048u) /* of the string to sign */

/* Of the URL's query, sorted by name as the signature requires. */
struct parameter {
    const char *name, *value;
};

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

/* Returns the number of parameters. `delimiter` leaves out what another program keeps below
 * directories. */
static size_t parameters_of(const struct azure_call *call, struct parameter out[PARAMETERS_MAX])
{
    const struct parameter list[] = {{"comp", "list"},
                                     {"delimiter", "/"},
                                     {"include", "metadata"},
                                     {"marker", call->list_after},
                                     {"maxresults", AZURE_PAGE_BLOBS},
                                     {"restype", "container"}};
    size_t count = 0;
    if (call->query_name)
        out[count++] = (struct parameter){call->query_name, call->query_value};
    for (size_t i = 0; call->list_after && i < sizeof list / sizeof list[0]; i++)
        if (list[i].value[0])
            out[count++] = list[i];
    return count;
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
    struct parameter parameters[PARAMETERS_MAX];
    size_t count = parameters_of(call, parameters);
    used += snprintf(out + used, size - (size_t)used, "/%s%s", s->account, path);
    for (size_t i = 0; i < count && (size_t)used < size; i++)
        used += snprintf(out + used, size - (size_t)used, "\n%s:%s", parameters[i].name,
                         parameters[i].value);
    return (size_t)used < size;
}

static bool sign(const struct azure_settings *s, const struct azure_call *call, const char *path,
                 const struct draft *draft, char *out, size_t size)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    char encoded[2 * EVP_MAX_MD_SIZE], *text = malloc(TEXT_MAX);
    bool good = text && canonical(s, call, draft, path, text, TEXT_MAX) &&
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
    struct parameter parameters[PARAMETERS_MAX];
    size_t count = parameters_of(call, parameters);
    int used =
        snprintf(url, size, "%s/%s%s%s", s->endpoint, s->container, call->blob ? "/" : "", name);
    for (size_t i = 0; i < count && used > 0 && (size_t)used < size; i++) {
        char value[3 * AZURE_MARKER_MAX + 4];
        if (!bw_azure_path(parameters[i].value, value, sizeof value))
            return false;
        used += snprintf(url + used, size - (size_t)used, "%c%s=%s", i == 0 ? '?' : '&',
                         parameters[i].name, value);
    }
    if (s->sas[0] && used > 0 && (size_t)used < size)
        used += snprintf(url + used, size - (size_t)used, "%c%s", count == 0 ? '?' : '&', s->sas);
    return used > 0 && (size_t)used < size;
}

/* Copies the path of a URL, without the query, for the string to sign. */
static void path_of(const char *url, char *out, size_t size)
{
    const char *path = strchr(strstr(url, "://") + 3, '/');
    snprintf(out, size, "%.*s", path ? (int)strcspn(path, "?") : 0, path ? path : "");
}

struct bw_http_request *bw_azure_send(const struct azure_rest *rest, const struct azure_call *call)
{
    char url[URL_MAX], path[3 * AZURE_NAME_MAX + 640];
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
