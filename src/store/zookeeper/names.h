/* Paths and node names of an election in ZooKeeper:
 *
 *   BASE/NAME                        the latch: one ephemeral sequential child per candidate
 *     _c_GUID-latch-0000000012       as Curator's LeaderLatch names them (the default)
 *     HEX__lock__0000000012          as kazoo's Election names them
 *   BASE/.bellwether/NAME/record     the last leader, and fields that foreign clients do not have
 *   BASE/.bellwether/NAME/note       a request to the holder or to a candidate
 *   BASE/.bellwether/NAME/mail-ID    wake-up node, changed when a note is for a waiting candidate
 *   BASE/.bellwether/NAME/at-GUID    value and priority of a waiting candidate, ephemeral
 *
 * Curator sorts all children of its path, so BASE/NAME contains only candidates. GUIDs of
 * Bellwether are of version 8 (RFC 9562: vendor-defined), those of Curator and kazoo of version 4.
 * This distinguishes Bellwether candidates from foreign ones. */
#ifndef BW_STORE_ZOOKEEPER_NAMES_H
#define BW_STORE_ZOOKEEPER_NAMES_H

#include "store/store.h"

#define BW_ZK_BASE_MAX 511u
/* "/.bellwether/" and "/mail-" plus a name and an id with every byte escaped. */
#define BW_ZK_PATH_MAX (BW_ZK_BASE_MAX + 3 * BW_ELECTION_NAME_MAX + 3 * BW_CANDIDATE_ID_MAX + 32)
#define BW_ZK_NODE_MAX 95u /* a candidate's node: 3 + 36 + 7 + 11 or less, with reserve */
#define BW_ZK_GUID_MAX 32u /* hexadecimal digits, no hyphens */

enum bw_zk_recipe { BW_ZK_CURATOR, BW_ZK_KAZOO };

struct bw_zk_paths {
    char latch[BW_ZK_PATH_MAX + 1];
    char side[BW_ZK_PATH_MAX + 1];
    char record[BW_ZK_PATH_MAX + 1];
    char note[BW_ZK_PATH_MAX + 1];
};

/* A candidate's node, parsed from its name. */
struct bw_zk_node {
    char name[BW_ZK_NODE_MAX + 1];
    int64_t sequence;
    char guid[BW_ZK_GUID_MAX + 1]; /* "" if the name has none */
    /* a Bellwether candidate created the node, in this or another process */
    bool ours;
};

/* `base` is "" or starts with '/' and does not end with '/'. Different elections get different
 * paths. A name of plain characters is not escaped. */
void bw_zk_paths_make(struct bw_zk_paths *paths, const char *base, const char *election);
/* Writes BASE/.bellwether/NAME/PREFIX plus the escaped `rest`, a candidate's id or a GUID. */
void bw_zk_side_path(char out[BW_ZK_PATH_MAX + 1], const struct bw_zk_paths *paths,
                     const char *prefix, const char *rest);
/* Writes BASE/.bellwether, which has a child per election that a Bellwether candidate entered. */
void bw_zk_side_root(char out[BW_ZK_PATH_MAX + 1], const char *base);
/* Reads the name of the election that has this child of BASE or of BASE/.bellwether. Returns false
 * if no election has it. */
bool bw_zk_election_of(char out[BW_ELECTION_NAME_MAX + 1], const char *base, const char *child);
/* Returns false with a line in why[] if ZooKeeper would reject this path. */
bool bw_zk_base_check(const char *base, char *why);

void bw_zk_guid_make(char out[BW_ZK_GUID_MAX + 1], const unsigned char random[16]);
/* The name that a candidate asks the server to create; the server appends the sequence number. */
void bw_zk_node_prefix(char out[BW_ZK_NODE_MAX + 1], enum bw_zk_recipe recipe, const char *guid);
/* Parses the name of a node. Returns false if it is not a candidate node of this recipe. */
bool bw_zk_node_parse(struct bw_zk_node *node, enum bw_zk_recipe recipe, const char *name);
/* Queue order: negative if a comes before b. */
int bw_zk_node_compare(const struct bw_zk_node *a, const struct bw_zk_node *b);

#endif
