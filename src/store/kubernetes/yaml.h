/* Converts YAML to JSON values with libyaml: mappings, sequences, and scalars as strings. Enough
 * for a kubeconfig. Size, depth and number of values (aliases can multiply them) are limited. */
#ifndef BW_STORE_KUBERNETES_YAML_H
#define BW_STORE_KUBERNETES_YAML_H

#include <jansson.h>

/* Returns the text's single document, a new reference; NULL with a line in why[BW_WHY_MAX + 1]. */
json_t *bw_kube_yaml(const char *text, size_t length, char *why);

#endif
