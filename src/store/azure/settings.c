/* The settings of an Azure store; see settings.h. */
#include "store/azure/settings.h"

#include "store/azure/text.h"
#include "store/kit/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVELOPMENT "devstoreaccount1"
/* Published by Microsoft for the development storage; it gives no other access. */
#define DEVELOPMENT_KEY                                                                            \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
#define IDENTITY_ENDPOINT "http://169.254.169.254/metadata/identity/oauth2/token"
#define IDENTITY_QUERY    "api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F"

static const char *const keys[] = {"endpoint",          "key-file",  "sas-file", "auth",
                                   "identity-endpoint", "client-id", "ca-file",  NULL};

static bool is_name(const char *text, size_t least, size_t most, bool dashes)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        bool plain = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');
        if (!plain && !(dashes && text[i] == '-' && i > 0 && i + 1 < length))
            return false;
    }
    return length >= least && length <= most;
}

static int set_place(struct azure_settings *s, const struct bw_url *url, char *why)
{
    if (url->hosts != 1 || url->host[0].port || url->user[0] || url->password[0] ||
        !is_name(url->host[0].name, 3, 24, false))
        return bw_store_explain(
            why, BW_EINVAL,
            "azure://ACCOUNT/CONTAINER: invalid account: expected 3 to 24 lowercase letters and "
            "digits, without user or port");
    snprintf(s->account, sizeof s->account, "%.24s", url->host[0].name);
    size_t length = strcspn(url->path, "/");
    snprintf(s->container, sizeof s->container, "%.*s", (int)length, url->path);
    if (length >= sizeof s->container || !is_name(s->container, 3, 63, true))
        return bw_store_explain(
            why, BW_EINVAL,
            "azure://ACCOUNT/CONTAINER: invalid container: expected 3 to 63 lowercase letters, "
            "digits and '-'");
    const char *blob = url->path + length + (url->path[length] == '/');
    size_t last = strlen(blob);
    if (last && (blob[last - 1] == '/' || blob[last - 1] == '.'))
        return bw_store_explain(why, BW_EINVAL, "invalid blob name: it must not end in '/' or '.'");
    snprintf(s->blob, sizeof s->blob, "%s", blob);
    return 0;
}

static int set_endpoint(struct azure_settings *s, const char *text, char *why)
{
    const char *host = bw_url_endpoint(text, true, why);
    if (!host)
        return BW_EINVAL;
    size_t length = strlen(text);
    while (length && text[length - 1] == '/')
        length--;
    bool path = memchr(host, '/', (size_t)(text + length - host)) != NULL;
    /* the emulator has no host per account */
    bool adds = !path && strcmp(s->account, DEVELOPMENT) == 0;
    int wrote = snprintf(s->endpoint, sizeof s->endpoint, "%.*s%s", (int)length, text,
                         adds ? "/" DEVELOPMENT : "");
    return wrote < (int)sizeof s->endpoint ? 0
                                           : bw_store_explain(why, BW_EINVAL, "endpoint: too long");
}

static int set_key(struct azure_settings *s, const char *text, const char *from, char *why)
{
    s->key_length = bw_azure_unbase64(text, s->key, sizeof s->key);
    return s->key_length
               ? 0
               : bw_store_explain(why, BW_EINVAL, "%s does not contain a valid account key", from);
}

static int set_sas(struct azure_settings *s, const char *text, const char *from, char *why)
{
    text += text[0] == '?';
    size_t length = strlen(text);
    if (!strstr(text, "sig=") || strcspn(text, " \r\n\t") != length || length >= sizeof s->sas)
        return bw_store_explain(why, BW_EINVAL, "%s does not contain a shared access signature",
                                from);
    memcpy(s->sas, text, length + 1);
    return 0;
}

/* Finds the value of NAME= between semicolons; false if it is missing or too long. */
static bool part_of(const char *text, const char *name, char *out, size_t size)
{
    size_t length = strlen(name);
    for (; *text; text += strcspn(text, ";"), text += *text == ';') {
        size_t all = strcspn(text, ";");
        if (all <= length || strncmp(text, name, length) != 0 || text[length] != '=')
            continue;
        if (all - length - 1 >= size)
            return false;
        memcpy(out, text + length + 1, all - length - 1);
        out[all - length - 1] = '\0';
        return true;
    }
    return false;
}

#define CONNECTION "AZURE_STORAGE_CONNECTION_STRING"

static int set_connection(struct azure_settings *s, const char *text, char *why)
{
    char part[AZURE_SECRET_MAX + 1], url[600], protocol[8] = "https";
    int error = 0;
    if (part_of(text, "AccountName", part, sizeof part) && strcmp(part, s->account) != 0)
        return bw_store_explain(why, BW_EINVAL, CONNECTION " belongs to another account");
    if (part_of(text, "BlobEndpoint", part, sizeof part)) {
        error = set_endpoint(s, part, why);
    } else if (part_of(text, "EndpointSuffix", part, 256)) {
        part_of(text, "DefaultEndpointsProtocol", protocol, sizeof protocol);
        snprintf(url, sizeof url, "%s://%s.blob.%.255s", protocol, s->account, part);
        error = set_endpoint(s, url, why);
    }
    if (error == 0 && part_of(text, "AccountKey", part, sizeof part))
        error = set_key(s, part, CONNECTION, why);
    else if (error == 0 && part_of(text, "SharedAccessSignature", part, sizeof part))
        error = set_sas(s, part, CONNECTION, why);
    return error;
}

static int set_identity(struct azure_settings *s, const struct bw_url *url, char *why)
{
    const char *from = bw_url_query(url, "identity-endpoint");
    const char *client = bw_url_query(url, "client-id");
    if (from && strncmp(from, "http://", 7) != 0 && strncmp(from, "https://", 8) != 0)
        return bw_store_explain(why, BW_EINVAL,
                                "invalid identity-endpoint: expected http://HOST[:PORT]/PATH");
    if (client && strspn(client, "0123456789abcdefABCDEF-") != strlen(client))
        return bw_store_explain(why, BW_EINVAL,
                                "invalid client-id: expected hexadecimal digits and '-'");
    s->identity = true;
    snprintf(s->identity_url, sizeof s->identity_url, "%s?%s%s%s", from ? from : IDENTITY_ENDPOINT,
             IDENTITY_QUERY, client ? "&client_id=" : "", client ? client : "");
    return 0;
}

static bool is_open(const struct azure_settings *s)
{
    return s->key_length || s->sas[0];
}

static int read_secrets(struct azure_settings *s, const struct bw_url *url, char *secret, char *why)
{
    int error = bw_url_secret(url, "key", "AZURE_STORAGE_KEY", secret, AZURE_SECRET_MAX + 1, why);
    if (error == 0 && secret[0] && !bw_url_query(url, "sas-file"))
        return set_key(s, secret, bw_url_query(url, "key-file") ? "key-file" : "AZURE_STORAGE_KEY",
                       why);
    if (error == 0)
        error =
            bw_url_secret(url, "sas", "AZURE_STORAGE_SAS_TOKEN", secret, AZURE_SECRET_MAX + 1, why);
    if (error == 0 && secret[0])
        return set_sas(s, secret,
                       bw_url_query(url, "sas-file") ? "sas-file" : "AZURE_STORAGE_SAS_TOKEN", why);
    return error;
}

static int set_credentials(struct azure_settings *s, const struct bw_url *url, char *why)
{
    char secret[AZURE_SECRET_MAX + 1] = "";
    const char *auth = bw_url_query(url, "auth"), *connection = getenv(CONNECTION);
    if (auth && strcmp(auth, "identity") != 0)
        return bw_store_explain(why, BW_EINVAL, "invalid auth: expected 'identity'");
    if (auth)
        return set_identity(s, url, why);
    int error = read_secrets(s, url, secret, why);
    explicit_bzero(secret, sizeof secret);
    if (error == 0 && !is_open(s) && connection)
        error = set_connection(s, connection, why);
    if (error == 0 && !is_open(s) && strcmp(s->account, DEVELOPMENT) == 0)
        error = set_key(s, DEVELOPMENT_KEY, "the program", why);
    if (error == 0 && !is_open(s))
        error = set_identity(s, url, why);
    return error;
}

int bw_azure_settings(struct azure_settings *s, const char *text, char *why)
{
    struct bw_url url;
    char fallback[128];
    memset(s, 0, sizeof *s);
    int error = bw_url_parse(&url, text, why);
    if (error == 0)
        error = bw_url_check_keys(&url, keys, why);
    if (error == 0)
        error = set_place(s, &url, why);
    if (error != 0)
        return error;
    const char *endpoint = bw_url_query(&url, "endpoint"), *ca = bw_url_query(&url, "ca-file");
    snprintf(fallback, sizeof fallback, "https://%s.blob.core.windows.net", s->account);
    if (strcmp(s->account, DEVELOPMENT) == 0)
        snprintf(fallback, sizeof fallback, "http://127.0.0.1:10000");
    error = set_endpoint(s, fallback, why);
    if (error == 0)
        error = set_credentials(s, &url, why);
    if (error == 0 && endpoint) /* overrides a connection string */
        error = set_endpoint(s, endpoint, why);
    snprintf(s->ca_file, sizeof s->ca_file, "%s", ca ? ca : "");
    return error;
}
