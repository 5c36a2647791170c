/* YAML by libyaml; see yaml.h. */
#include "store/kubernetes/yaml.h"

#include "store/store.h"

#include <yaml.h>

#define DEPTH_MAX  32u
#define VALUES_MAX 65536u

struct reading {
    yaml_document_t document;
    unsigned left; /* values that may still be created */
};

static json_t *convert(struct reading *r, int index, unsigned depth);

static bool add_item(struct reading *r, json_t *array, int index, unsigned depth)
{
    json_t *value = convert(r, index, depth);
    return value && json_array_append_new(array, value) == 0;
}

static bool add_pair(struct reading *r, json_t *object, const yaml_node_pair_t *pair,
                     unsigned depth)
{
    const yaml_node_t *key = yaml_document_get_node(&r->document, pair->key);
    if (!key || key->type != YAML_SCALAR_NODE)
        return false;
    json_t *value = convert(r, pair->value, depth);
    return value && json_object_set_new(object, (const char *)key->data.scalar.value, value) == 0;
}

static json_t *convert_many(struct reading *r, const yaml_node_t *node, unsigned depth)
{
    bool good = true, list = node->type == YAML_SEQUENCE_NODE;
    json_t *many = list ? json_array() : json_object();
    if (list)
        for (yaml_node_item_t *at = node->data.sequence.items.start;
             good && at < node->data.sequence.items.top; at++)
            good = add_item(r, many, *at, depth + 1);
    else
        for (yaml_node_pair_t *at = node->data.mapping.pairs.start;
             good && at < node->data.mapping.pairs.top; at++)
            good = add_pair(r, many, at, depth + 1);
    if (good)
        return many;
    json_decref(many);
    return NULL;
}

static json_t *convert(struct reading *r, int index, unsigned depth)
{
    const yaml_node_t *node = yaml_document_get_node(&r->document, index);
    if (!node || depth > DEPTH_MAX || r->left == 0)
        return NULL;
    r->left--;
    if (node->type == YAML_SCALAR_NODE)
        return json_stringn((const char *)node->data.scalar.value, node->data.scalar.length);
    return convert_many(r, node, depth);
}

json_t *bw_kube_yaml(const char *text, size_t length, char *why)
{
    struct reading r = {.left = VALUES_MAX};
    yaml_parser_t parser;
    json_t *root = NULL;
    if (!yaml_parser_initialize(&parser)) {
        bw_store_explain(why, BW_ENOMEM, "no memory to read YAML");
        return NULL;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    if (!yaml_parser_load(&parser, &r.document)) {
        bw_store_explain(why, BW_EINVAL, "invalid YAML in line %zu: %s",
                         parser.problem_mark.line + 1,
                         parser.problem ? parser.problem : "unreadable");
    } else {
        if (yaml_document_get_root_node(&r.document))
            root = convert(&r, 1, 0);
        if (!root)
            bw_store_explain(why, BW_EINVAL, "the YAML document is empty, too deep or too large");
        yaml_document_delete(&r.document);
    }
    yaml_parser_delete(&parser);
    return root;
}
