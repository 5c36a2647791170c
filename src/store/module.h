/* What a store's loadable module exports. A module is loaded when a URL of its scheme is used, so
 * that nobody pays for another's client library; it is linked with its own copy of the store kit
 * (job, url, record_json, http), which has no state of its own. */
#ifndef BW_STORE_MODULE_H
#define BW_STORE_MODULE_H

#include "store/store.h"

struct bw_store_module {
    const char *version;               /* of the project; another one is refused */
    size_t request_bytes, reply_bytes; /* as this module was compiled */
    /* The store of a URL: its traits may depend on it. NULL with a line in why. */
    const struct bw_store_ops *(*find)(const char *url, char *why);
};

/* The one visible symbol of a module is `bw_store_module`. */
#define BW_STORE_MODULE(find_ops)                                                                  \
    extern const struct bw_store_module bw_store_module;                                           \
    __attribute__((visibility("default"))) const struct bw_store_module bw_store_module = {        \
        BW_VERSION, sizeof(struct bw_store_request), sizeof(struct bw_store_reply), find_ops}

/* Loads module `name` once per process. Unless it is HERE: *out is NULL, and `why` has a line. */
enum bw_store_presence bw_store_module_load(const char *name, const struct bw_store_module **out,
                                            char *why);

#endif
