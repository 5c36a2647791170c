/* YAML as JSON values, by libyaml: mappings, sequences, and scalars as strings. Enough for a
 * kubeconfig. Bounded in size, depth and, for aliases that multiply, in values. */
#ifndef BW_STORE_KUBERNETES_YAML_H
#define BW_STORE_KUBERNETES_YAML_H

#include <jansson.h>

/* The one document of the text, a new reference; NULL with a line in why[BW_WHY_MAX + 1]. */
json_t *bw_kube_yaml(const char *text, size_t length, char *why);

#endif
