/* Service accounts and kubeconfigs; see settings.h. */
#include "store/kubernetes/settings.h"

#include "core/base/bug.h"
#include "net/loopback.h"
#include "store/kubernetes/yaml.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX_BYTES (1u << 20)
#define ACCOUNT        "/var/run/secrets/kubernetes.io/serviceaccount"

char *bw_kube_read_file(const char *path, size_t max, size_t *length, char *why)
{
    FILE *file = fopen(path, "re");
    char *text = malloc(max + 1);
    if (!file || !text) {
        bw_store_explain(why, BW_EINVAL, "cannot read %s: %s", path,
                         file ? "no memory" : strerror(errno));
        goto failed;
    }
    *length = fread(text, 1, max + 1, file);
    if (ferror(file) || *length > max) {
        bw_store_explain(why, BW_EINVAL, "cannot read %s: %s", path,
                         *length > max ? "the file is too long" : strerror(EIO));
        goto failed;
    }
    text[*length] = '\0';
    fclose(file);
    return text;
failed:
    if (file)
        fclose(file);
    free(text);
    return NULL;
}

void bw_kube_config_clear(struct bw_kube_config *config)
{
    char *all[] = {config->token,     config->token_file, config->ca_file,  config->ca_pem,
                   config->cert_file, config->cert_pem,   config->key_file, config->key_pem};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i])
            explicit_bzero(all[i], strlen(all[i]));
        free(all[i]);
    }
    memset(config, 0, sizeof *config);
}

/* ---- the pod's service account ---- */

static char *path_in(const char *directory, const char *name)
{
    char *path = NULL;
    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

static int load_account(struct bw_kube_config *config, const char *directory, char *why)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    bool bare6 = host && strchr(host, ':') && host[0] != '[';
    size_t length;
    if (!host)
        return bw_store_explain(why, BW_EINVAL,
                                "KUBERNETES_SERVICE_HOST is not set: is this process in a pod?");
    int used = snprintf(config->server, sizeof config->server, "https://%s%s%s:%s",
                        bare6 ? "[" : "", host, bare6 ? "]" : "", port ? port : "443");
    if (used >= (int)sizeof config->server)
        return bw_store_explain(why, BW_EINVAL, "KUBERNETES_SERVICE_HOST is too long");
    char *namespace_file = path_in(directory, "namespace");
    config->token_file = path_in(directory, "token");
    config->ca_file = path_in(directory, "ca.crt");
    char *namespace = namespace_file && access(namespace_file, R_OK) == 0
                          ? bw_kube_read_file(namespace_file, 63, &length, why)
                          : NULL;
    if (namespace)
        snprintf(config->namespace, sizeof config->namespace, "%.*s",
                 (int)strcspn(namespace, "\r\n"), namespace);
    free(namespace);
    free(namespace_file);
    return config->token_file && config->ca_file ? 0 : BW_ENOMEM;
}

/* ---- a kubeconfig ---- */

struct file {
    const char *path;
    json_t *root;
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && text[0] ? text : NULL;
}

/* Finds the entry with that name in a list of {name, KIND}. */
static const json_t *named(const struct file *file, const char *list, const char *kind,
                           const char *name)
{
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(file->root, list), i, entry)
    {
        const char *own = text_of(entry, "name");
        if (own && strcmp(own, name) == 0)
            return json_object_get(entry, kind);
    }
    return NULL;
}

/* Relative paths are relative to the kubeconfig's directory. */
static int take_path(const struct file *file, const json_t *object, const char *key, char **out)
{
    const char *path = text_of(object, key), *slash = strrchr(file->path, '/');
    if (!path)
        return 0;
    if (path[0] == '/' || !slash)
        *out = strdup(path);
    else if (asprintf(out, "%.*s%s", (int)(slash - file->path + 1), file->path, path) < 0)
        *out = NULL;
    return *out ? 0 : BW_ENOMEM;
}

static int take_data(const struct file *file, const json_t *object, const char *key, char **out,
                     char *why)
{
    const char *text = text_of(object, key);
    if (!text)
        return 0;
    size_t length = strlen(text);
    unsigned char *bytes = malloc(length + 4);
    if (!bytes)
        return BW_ENOMEM;
    int used =
        length % 4 == 0 ? EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)length) : -1;
    if (used < 0) {
        free(bytes);
        return bw_store_explain(why, BW_EINVAL, "%s: %s is not valid base64", file->path, key);
    }
    /* EVP_DecodeBlock decodes padding to NULs, which end the PEM text earlier */
    bytes[used] = '\0';
    *out = (char *)bytes;
    return 0;
}

static int take_cluster(struct bw_kube_config *config, const struct file *file,
                        const json_t *cluster, char *why)
{
    const char *server = text_of(cluster, "server"),
               *off = text_of(cluster, "insecure-skip-tls-verify");
    static const char *const unsupported[] = {"proxy-url", "tls-server-name", NULL};
    for (size_t i = 0; unsupported[i]; i++)
        if (text_of(cluster, unsupported[i]))
            return bw_store_explain(why, BW_EINVAL, "%s: %s is not supported", file->path,
                                    unsupported[i]);
    if (!server || strlen(server) >= sizeof config->server)
        return bw_store_explain(why, BW_EINVAL, "%s: the cluster has no server", file->path);
    snprintf(config->server, sizeof config->server, "%s", server);
    size_t length = strlen(config->server);
    while (length && config->server[length - 1] == '/')
        config->server[--length] = '\0';
    config->verify_off = off && strcmp(off, "true") == 0;
    int error = take_path(file, cluster, "certificate-authority", &config->ca_file);
    if (error == 0)
        error = take_data(file, cluster, "certificate-authority-data", &config->ca_pem, why);
    return error;
}

static int refuse_user(const struct file *file, const json_t *user, char *why)
{
    static const char *const unsupported[] = {"exec", "auth-provider", "username", "password",
                                              "as",   "as-groups",     "as-uid",   "as-user-extra",
                                              NULL};
    for (size_t i = 0; unsupported[i]; i++)
        if (json_object_get(user, unsupported[i]))
            return bw_store_explain(
                why, BW_EINVAL,
                "%s: users with '%s' are not supported: give a token, tokenFile or "
                "client certificate, for instance a service account's",
                file->path, unsupported[i]);
    return 0;
}

static int take_user(struct bw_kube_config *config, const struct file *file, const json_t *user,
                     char *why)
{
    const char *token = text_of(user, "token");
    int error = refuse_user(file, user, why);
    if (error == 0)
        error = take_path(file, user, "tokenFile", &config->token_file);
    if (error == 0 && token && !config->token_file) /* the file wins, as in client-go */
        error = (config->token = strdup(token)) ? 0 : BW_ENOMEM;
    if (error == 0 && token && strlen(token) > BW_KUBE_TOKEN_MAX)
        error = bw_store_explain(why, BW_EINVAL, "%s: the token is too long", file->path);
    if (error == 0)
        error = take_path(file, user, "client-certificate", &config->cert_file);
    if (error == 0)
        error = take_path(file, user, "client-key", &config->key_file);
    if (error == 0)
        error = take_data(file, user, "client-certificate-data", &config->cert_pem, why);
    return error ? error : take_data(file, user, "client-key-data", &config->key_pem, why);
}

static int take_context(struct bw_kube_config *config, const struct file *file, const char *name,
                        char *why)
{
    if (!name)
        name = text_of(file->root, "current-context");
    if (!name)
        return bw_store_explain(why, BW_EINVAL,
                                "%s has no current-context: choose one with ?context=", file->path);
    const json_t *context = named(file, "contexts", "context", name);
    const char *cluster = text_of(context, "cluster"), *user = text_of(context, "user");
    const char *namespace = text_of(context, "namespace");
    if (!context || !cluster)
        return bw_store_explain(why, BW_EINVAL, "%s has no context '%s'", file->path, name);
    const json_t *the_cluster = named(file, "clusters", "cluster", cluster);
    const json_t *the_user = user ? named(file, "users", "user", user) : NULL;
    if (!the_cluster || (user && !the_user))
        return bw_store_explain(why, BW_EINVAL, "%s has no %s '%s'", file->path,
                                the_cluster ? "user" : "cluster", the_cluster ? user : cluster);
    snprintf(config->namespace, sizeof config->namespace, "%s", namespace ? namespace : "default");
    int error = take_cluster(config, file, the_cluster, why);
    return error || !the_user ? error : take_user(config, file, the_user, why);
}

static int load_file(struct bw_kube_config *config, const char *path, const char *context,
                     char *why)
{
    char problem[BW_WHY_MAX + 1] = "";
    size_t length;
    char *text = bw_kube_read_file(path, FILE_MAX_BYTES, &length, why);
    if (!text)
        return BW_EINVAL;
    struct file file = {.path = path, .root = bw_kube_yaml(text, length, problem)};
    explicit_bzero(text, length);
    free(text);
    if (!file.root)
        return bw_store_explain(why, BW_EINVAL, "%s: %s", path, problem);
    int error = take_context(config, &file, context, why);
    json_decref(file.root);
    return error;
}

static int check(const struct bw_kube_config *config, char *why)
{
    bool tls = strncmp(config->server, "https://", 8) == 0;
    if (strchr(config->server, '@')) /* the URL contains a password, and messages show the URL */
        return bw_store_explain(why, BW_EINVAL,
                                "the server's address must not contain a user or password");
    if (!tls && strncmp(config->server, "http://", 7) != 0)
        return bw_store_explain(
            why, BW_EINVAL, "invalid API server '%.100s': expected an https:// or http:// address",
            config->server);
    bool loopback = BW_BUG(kubernetes_loopback_by_prefix)
                        ? strncmp(config->server, "http://127.", 11) == 0
                        : !tls && bw_net_address_is_loopback(config->server + 7);
    if (!tls && !loopback && (config->token || config->token_file))
        return bw_store_explain(
            why, BW_EINVAL,
            "cannot send a token to %.100s without TLS: use https://; http:// is "
            "for loopback addresses only",
            config->server);
    return 0;
}

/* Loads the first source that exists. */
static int load_first(struct bw_kube_config *config, const struct bw_url *url, char *why)
{
    const char *by_url = bw_url_query(url, "kubeconfig"), *by_environment = getenv("KUBECONFIG");
    const char *home = getenv("HOME");
    const char *account = bw_url_query(url, "service-account");
    const char *context = bw_url_query(url, "context");
    char at_home[BW_KUBE_PATH_MAX + 1];
    if (by_url)
        return load_file(config, by_url, context, why);
    if (!account && by_environment && strchr(by_environment, ':'))
        return bw_store_explain(why, BW_EINVAL, "KUBECONFIG names several files: expected one");
    if (!account && by_environment && by_environment[0])
        return load_file(config, by_environment, context, why);
    if (account || (getenv("KUBERNETES_SERVICE_HOST") && !context))
        return load_account(config, account ? account : ACCOUNT, why);
    snprintf(at_home, sizeof at_home, "%s/.kube/config", home ? home : "");
    return load_file(config, at_home, context, why);
}

int bw_kube_config_load(struct bw_kube_config *config, const struct bw_url *url, char *why)
{
    memset(config, 0, sizeof *config);
    why[0] = '\0';
    int error = load_first(config, url, why);
    if (error == 0)
        error = check(config, why);
    if (error == BW_ENOMEM && !why[0])
        bw_store_explain(why, error, "no memory for the Kubernetes credentials");
    if (error != 0)
        bw_kube_config_clear(config);
    return error;
}
