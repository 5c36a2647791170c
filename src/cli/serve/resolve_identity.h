/* Determines which node of which cluster a `bellwether serve` is: from its data directory, from the
 * list of the cluster's first members, or from the members of the cluster it joins. Refuses the
 * directory of another node before it changes anything there. */
#ifndef BW_CLI_SERVE_RESOLVE_IDENTITY_H
#define BW_CLI_SERVE_RESOLVE_IDENTITY_H

#include "cli/serve/secure.h"
#include "serve/replica/identity.h"

#define BW_EXIT_DATA 65 /* the data on disk is unusable */

struct bw_serve_identity {
    const char *node, *cluster, *data, *join, *peer, *peer_listen; /* options */
    /* derived from the options */
    struct bw_identity identity;
    bool made;                        /* this start created the directory's contents */
    struct bw_replica_member publish; /* name and addresses that it announces to other nodes */
    char directory[4096];
    /* address to listen on for other nodes; empty: the one in `publish` */
    char listen_host[BW_REPLICA_HOST_MAX + 1];
    uint16_t listen_port;
};

/* Returns BW_GO_ON, or an exit code after one line on stderr. `listen` is the client address. */
int bw_serve_identity_find(const struct bw_cli_command *command, struct bw_serve_identity *self,
                           const struct bw_secure *secure, const char *listen);

/* Parses "HOST:PORT" or "[HOST]:PORT" of `length` bytes. Returns 0 or -1. */
int bw_address_take(const char *text, size_t length, char *host, size_t size, uint16_t *port);
/* Parses "a=HOST:PORT,b=HOST:PORT" and numbers the nodes in the order of their names. */
int bw_cluster_take(const struct bw_cli_command *command, const char *list,
                    struct bw_member_list *roster);
/* Returns the number of the node `name`, or BW_NODE_NONE. */
bw_node bw_cluster_named(const struct bw_member_list *roster, const char *name);
/* Creates a directory and its parents. Returns 0, or -1 with errno. */
int bw_directory_make(const char *path);

#endif
