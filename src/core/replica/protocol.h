/* What nodes say to each other, as values: kinds of frames, verdicts on who connects, versions.
 *
 * The first frame of a connection names the versions that its sender speaks, and is answered with
 * those of the other side before anything else is said: two that have none in common part there.
 * What is said then is said in the highest that both know. */
#ifndef BW_SERVE_PROTOCOL_H
#define BW_SERVE_PROTOCOL_H

#include "core/base/types.h"

/* The versions that are spoken. A change of any frame but HELLO, JOIN and ANSWER, whose first
 * fields stay for good, is a new one, and so is a new kind of entry in the log (roster.h, level).
 *
 *   1   as it began
 *   2   a node says in the log how often it started and which versions it speaks
 *   3   level 2 of the registry (registry.h): users, who asked for a change, nested transactions */
#ifndef BW_MESH_VERSION
#define BW_MESH_VERSION 3u
#endif
#ifndef BW_MESH_VERSION_MIN
#define BW_MESH_VERSION_MIN 1u
#endif
#define BW_VERSION_LIVES  2u /* the first that tells which life a node lives */
#define BW_MESH_REGISTRY  3u /* the first that knows BW_REGISTRY_LEVEL */
#define BW_MESH_ANSWER    12u
#define BW_MESH_FRAME_MAX ((size_t)128 << 20) /* an append of 64 of the largest entries */

enum bw_peer_frame {
    BW_FRAME_HELLO = 1,
    BW_FRAME_RAFT,    /* 4 length of the message, message (codec.h), entries */
    BW_FRAME_ASK,     /* 8 request, 1 enum bw_replica_kind, proposal's bytes or 8 lease */
    BW_FRAME_TOLD,    /* 8 request, 4 error, 8 index, 8 ttl_ns */
    BW_FRAME_PIECE,   /* 8 index of the snapshot, 8 offset, 1 last, bytes */
    BW_FRAME_MEET,    /* 8 who asks: a number of its directory */
    BW_FRAME_WELCOME, /* 8 that number, 1 yes */
    BW_FRAME_ANSWER,
    BW_FRAME_JOIN,
    BW_FRAME_BACK, /* how far it is, which life it lives (serve/replica/back.c) */
    BW_FRAME_KINDS
};

enum bw_mesh_verdict {
    BW_MESH_OK,
    BW_MESH_REMOVED,     /* it was a member, and is none any more */
    BW_MESH_FOREIGN,     /* of another cluster, or meant for another node */
    BW_MESH_TOO_NEW,     /* it speaks no version that we do: they are all higher */
    BW_MESH_TOO_OLD,     /* or all lower */
    BW_MESH_UNKNOWN,     /* JOIN: no member is to be at this address */
    BW_MESH_STARTED,     /* JOIN: it is, and has been there already */
    BW_MESH_CERTIFICATE, /* its certificate is not for the address it gives */
    BW_MESH_VERDICTS
};

struct bw_versions { /* that a side speaks */
    uint32_t highest, lowest;
};

/* What `ours` are to say to a side that speaks `theirs`: OK, TOO_NEW or TOO_OLD. `level` is what
 * the cluster has come to rely on (roster.h): who does not know it is too old. */
enum bw_mesh_verdict bw_versions_judge(const struct bw_versions *ours,
                                       const struct bw_versions *theirs, uint32_t level);

#endif
