/* Names in a ZooKeeper tree: where an election lives, and what the children of its path are called.
 *
 *   BASE/NAME                        the latch: one ephemeral sequential child per candidate
 *     _c_GUID-latch-0000000012       as Curator's LeaderLatch names them (the default)
 *     HEX__lock__0000000012          as kazoo's Election names them
 *   BASE/.bellwether/NAME/record     who led last, and what foreign clients have no place for
 *   BASE/.bellwether/NAME/note       what somebody asks of the holder
 *   BASE/.bellwether/NAME/mail-ID    rung when a note is for a waiting candidate
 *   BASE/.bellwether/NAME/at-GUID    value and priority of a waiting candidate, ephemeral
 *
 * Curator sorts every child of its path and kazoo only those of its own kind, so nothing of ours
 * but candidates stands there. The GUIDs made here are of version 8 (RFC 9562: vendor-made), those
 * of Curator and kazoo of version 4: that is how a Bellwether candidate is told from a foreign one.
 */
#ifndef BW_STORE_ZOOKEEPER_NAMES_H
#define BW_STORE_ZOOKEEPER_NAMES_H

#include "store/store.h"

#define BW_ZK_BASE_MAX 511u
/* "/.bellwether/" and "/mail-" around a name and an id with every byte escaped. */
#define BW_ZK_PATH_MAX (BW_ZK_BASE_MAX + 3 * BW_ELECTION_NAME_MAX + 3 * BW_CANDIDATE_ID_MAX + 32)
#define BW_ZK_NODE_MAX 95u /* a candidate's child: 3 + 36 + 7 + 11, and kin */
#define BW_ZK_GUID_MAX 32u /* hexadecimal digits, no hyphens */

enum bw_zk_recipe { BW_ZK_CURATOR, BW_ZK_KAZOO };

struct bw_zk_paths {
    char latch[BW_ZK_PATH_MAX + 1];
    char side[BW_ZK_PATH_MAX + 1];
    char record[BW_ZK_PATH_MAX + 1];
    char note[BW_ZK_PATH_MAX + 1];
};

/* A child that contends, as its name tells. */
struct bw_zk_node {
    char name[BW_ZK_NODE_MAX + 1];
    int64_t sequence;
    char guid[BW_ZK_GUID_MAX + 1]; /* "" if the name has none */
    bool ours;                     /* made by a Bellwether candidate, of whatever process */
};

/* `base` is "" or starts with '/' and has no other '/' at its end. Any two elections get different
 * paths; a name of plain signs stands as it is. */
void bw_zk_paths_make(struct bw_zk_paths *paths, const char *base, const char *election);
/* BASE/.bellwether/NAME/PREFIX and the escaped rest, which is a candidate's id or a GUID. */
void bw_zk_side_path(char out[BW_ZK_PATH_MAX + 1], const struct bw_zk_paths *paths,
                     const char *prefix, const char *rest);
/* False with a line in why[]: ZooKeeper would not take this path. */
bool bw_zk_base_check(const char *base, char *why);

void bw_zk_guid_make(char out[BW_ZK_GUID_MAX + 1], const unsigned char random[16]);
/* What a candidate asks the server to create, before the server adds the number. */
void bw_zk_node_prefix(char out[BW_ZK_NODE_MAX + 1], enum bw_zk_recipe recipe, const char *guid);
/* False: not a contender by this recipe. */
bool bw_zk_node_parse(struct bw_zk_node *node, enum bw_zk_recipe recipe, const char *name);
/* Order of service: negative if a is served before b. */
int bw_zk_node_compare(const struct bw_zk_node *a, const struct bw_zk_node *b);

#endif
