/* Protocol between the nodes of a service: frame kinds, verdicts on connecting nodes, versions.
 *
 * The first frame of a connection contains the sender's versions, and the receiver answers with its
 * own. If the two share no version, the connection ends. Otherwise both use the highest shared
 * version. */
#ifndef BW_CORE_REPLICA_PROTOCOL_H
#define BW_CORE_REPLICA_PROTOCOL_H

#include "core/base/types.h"

/* The supported versions. Every change of a frame other than HELLO, JOIN and ANSWER, and every new
 * kind of log entry, needs a new version (see `level` in member_list.h). The first fields of HELLO,
 * JOIN and ANSWER never change.
 *
 *   1   the first version
 *   2   a node publishes its incarnation and its versions in the log
 *   3   level 2 of the registry (registry.h): users, the author of a change, nested transactions
 *   4   level 3 of the registry: a bound on the bytes of the history, alarms
 *   5   level 4 of the registry: roles with permissions on ranges of keys */
#ifndef BW_MESH_VERSION
#define BW_MESH_VERSION 5u
#endif
#ifndef BW_MESH_VERSION_MIN
#define BW_MESH_VERSION_MIN 1u
#endif
#define BW_VERSION_INCARNATIONS 2u /* the first version that publishes incarnations */
#define BW_MESH_REGISTRY        5u /* the first version that supports BW_REGISTRY_LEVEL */
#define BW_MESH_ANSWER          12u
#define BW_MESH_FRAME_MAX       ((size_t)128 << 20) /* an append of 64 entries of maximum size */

enum bw_mesh_frame {
    BW_FRAME_HELLO = 1,
    BW_FRAME_RAFT,    /* 4 length of the message, message (codec.h), entries */
    BW_FRAME_ASK,     /* 8 request, 1 enum bw_replica_kind, proposal's bytes or 8 lease */
    BW_FRAME_REPLY,   /* reply: 8 request, 4 error, 8 index, 8 ttl_ns */
    BW_FRAME_PIECE,   /* 8 index of the snapshot, 8 offset, 1 last, bytes */
    BW_FRAME_MEET,    /* 8 number of the asking node's directory */
    BW_FRAME_WELCOME, /* 8 the same number, 1 accepted */
    BW_FRAME_ANSWER,
    BW_FRAME_JOIN,
    BW_FRAME_BACK, /* log position and incarnation of the sender (serve/replica/rejoin.c) */
    BW_FRAME_KINDS
};

enum bw_mesh_verdict {
    BW_MESH_OK,
    BW_MESH_REMOVED,     /* the node was a member and was removed */
    BW_MESH_FOREIGN,     /* of another cluster, or meant for another node */
    BW_MESH_TOO_NEW,     /* no shared version: all of its versions are higher */
    BW_MESH_TOO_OLD,     /* no shared version: all of its versions are lower */
    BW_MESH_UNKNOWN,     /* JOIN: the address belongs to no member */
    BW_MESH_STARTED,     /* JOIN: this member has already started once */
    BW_MESH_CERTIFICATE, /* its certificate does not match its address */
    BW_MESH_VERDICTS
};

struct bw_versions { /* supported range */
    uint32_t highest, lowest;
};

/* Judges the other side's versions: OK, TOO_NEW or TOO_OLD. `level` is the version that the cluster
 * relies on (member_list.h): a side that does not support it is too old. */
enum bw_mesh_verdict bw_versions_judge(const struct bw_versions *ours,
                                       const struct bw_versions *theirs, uint32_t level);

#endif
