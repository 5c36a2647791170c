/* Exports of a loadable store module.
 *
 * The program loads a module when a URL with its scheme is used. Users therefore need only the
 * client libraries of the stores they use. Each module has its own copy of the store kit (job, url,
 * record_json, http), which has no global state. */
#ifndef BW_STORE_MODULE_H
#define BW_STORE_MODULE_H

#include "store/store.h"

struct bw_store_module {
    const char *version;               /* version of the project; must be the program's own */
    size_t request_bytes, reply_bytes; /* struct sizes when the module was compiled */
    /* Returns the store of a URL; its traits may depend on the URL. Returns NULL with a line in
     * `why` if the URL is invalid. */
    const struct bw_store_ops *(*find)(const char *url, char *why);
};

/* The only visible symbol of a module is `bw_store_module`. */
#define BW_STORE_MODULE(find_ops)                                                                  \
    extern const struct bw_store_module bw_store_module;                                           \
    __attribute__((visibility("default"))) const struct bw_store_module bw_store_module = {        \
        BW_VERSION, sizeof(struct bw_store_request), sizeof(struct bw_store_reply), find_ops}

/* Loads module `name`, once per process. Unless it returns BW_STORE_HERE, *out is NULL and `why`
 * has a line. */
enum bw_store_presence bw_store_module_load(const char *name, const struct bw_store_module **out,
                                            char *why);

#endif
