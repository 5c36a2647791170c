/* The prefix of Bellwether's own keys of an election on etcd and `serve`: /bellwether/ELECTION/.
 *
 * ELECTION is the path of the election, PREFIX/NAME, with '/' as %2F and '%' as %25. The client
 * (store/etcd/keys.h) and the server (serve/api/death_proof.c) share this rule. */
#ifndef BW_NET_ELECTION_KEYS_H
#define BW_NET_ELECTION_KEYS_H

#include <stddef.h>

#define BW_ELECTION_KEYS "/bellwether/"
/* Memory for the prefix of a path of this length, with its terminating NUL. */
#define BW_ELECTION_KEYS_BYTES(length) (sizeof BW_ELECTION_KEYS + 3 * (size_t)(length) + 1)

/* Writes the prefix, NUL-terminated. Returns its length. */
size_t bw_election_keys(char *out, const char *path, size_t length);

#endif
