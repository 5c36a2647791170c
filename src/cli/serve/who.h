/* Which node of which cluster a `bellwether serve` is: by what its directory says, by the list of a
 * cluster's first members, or by asking the members it is to join. A directory that is another's is
 * refused before it is touched. */
#ifndef BW_CLI_SERVE_WHO_H
#define BW_CLI_SERVE_WHO_H

#include "cli/serve/secure.h"
#include "serve/replica/identity.h"

#define BW_EXIT_DATA 65 /* what is on the disk cannot be used */

struct bw_who {
    const char *node, *cluster, *data, *join, *peer, *peer_listen; /* options */
    /* what follows from them */
    struct bw_identity identity;
    bool made;                        /* by this start: the directory was empty */
    struct bw_replica_member publish; /* what others are to know of it */
    char directory[4096];
    char listen_host[BW_REPLICA_HOST_MAX + 1]; /* for other nodes; empty: where they reach it */
    uint16_t listen_port;
};

/* BW_GO_ON, or the code to leave with; a line was said. `listen`: where clients connect. */
int bw_who_find(const struct bw_cli_command *command, struct bw_who *who,
                const struct bw_secure *secure, const char *listen);

/* "HOST:PORT", "[HOST]:PORT" of so many bytes. Returns 0 or -1. */
int bw_address_take(const char *text, size_t length, char *host, size_t size, uint16_t *port);
/* "a=HOST:PORT,b=HOST:PORT": numbered in the order of their names. */
int bw_cluster_take(const struct bw_cli_command *command, const char *list,
                    struct bw_roster *roster);
/* The number of a name, BW_NODE_NONE: not among them. */
bw_node bw_cluster_named(const struct bw_roster *roster, const char *name);
/* Makes a directory and those above it. Returns 0 or -1 with errno. */
int bw_directory_make(const char *path);

#endif
