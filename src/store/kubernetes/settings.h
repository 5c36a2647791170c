/* Where the API server is and who we are to it: a pod's service account, or a kubeconfig.
 *
 * The first of these that is there: ?kubeconfig=FILE, $KUBECONFIG (one file), the service account
 * of the pod we run in, ~/.kube/config. Of a kubeconfig what kubectl itself writes for them is
 * read: server, certificate authority, token, token file, client certificate; exec plugins, auth
 * providers, passwords, proxies and impersonation are refused by name. Secrets reach no message. */
#ifndef BW_STORE_KUBERNETES_CONFIG_H
#define BW_STORE_KUBERNETES_CONFIG_H

#include "store/kit/url.h"

#define BW_KUBE_PATH_MAX  1023u
#define BW_KUBE_TOKEN_MAX 16383u

struct bw_kube_config {
    char server[512]; /* without '/' at its end */
    char space[64];   /* the default namespace */
    char *token;      /* NULL: none, or in the file */
    char *token_file; /* read again when it changes */
    char *ca_file, *ca_pem, *cert_file, *cert_pem, *key_file, *key_pem;
    bool verify_off;
};

/* Returns 0, or BW_EINVAL / BW_ENOMEM with a line in why. */
int bw_kube_config_load(struct bw_kube_config *config, const struct bw_url *url, char *why);
void bw_kube_config_clear(struct bw_kube_config *config);

/* The content of a file of at most `max` bytes, NUL-ended, to be freed; NULL with a line in why. */
char *bw_kube_read_file(const char *path, size_t max, size_t *length, char *why);

#endif
