/* The address of the API server and our credentials: a pod's service account, or a kubeconfig.
 *
 * The first source that exists is used: ?kubeconfig=FILE, $KUBECONFIG (one file), the service
 * account of the pod, ~/.kube/config.
 *
 * From a kubeconfig these settings are read: server, certificate authority, token, token file and
 * client certificate. Exec plugins, auth providers, passwords, proxies and impersonation are
 * rejected with a message that names them. No message contains a secret. */
#ifndef BW_STORE_KUBERNETES_SETTINGS_H
#define BW_STORE_KUBERNETES_SETTINGS_H

#include "store/kit/url.h"

#define BW_KUBE_PATH_MAX  1023u
#define BW_KUBE_TOKEN_MAX 16383u

struct bw_kube_config {
    char server[512];   /* without trailing '/' */
    char namespace[64]; /* the default namespace */
    char *token;        /* NULL: none, or in the file */
    char *token_file;   /* read again when it changes */
    char *ca_file, *ca_pem, *cert_file, *cert_pem, *key_file, *key_pem;
    bool verify_off;
};

/* Returns 0, or BW_EINVAL or BW_ENOMEM with a line in `why`. */
int bw_kube_config_load(struct bw_kube_config *config, const struct bw_url *url, char *why);
void bw_kube_config_clear(struct bw_kube_config *config);

/* Reads a file of at most `max` bytes. The result ends in NUL, and the caller frees it. NULL with a
 * line in `why`. */
char *bw_kube_read_file(const char *path, size_t max, size_t *length, char *why);

#endif
