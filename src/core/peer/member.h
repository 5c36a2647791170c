/* A member of a peer cluster, as the local node sees it. */
#ifndef BW_CORE_PEER_MEMBER_H
#define BW_CORE_PEER_MEMBER_H

#include "core/base/message.h"
#include "core/base/types.h"

/* Maximum number of members. Every process keeps one row per member, and a broadcast of an
 * algorithm without the quorum guard sends O(n) datagrams. Larger groups need a store or a
 * service. */
#define BW_PEER_MEMBERS_MAX     1024u
#define BW_PEER_MEMBERS_DEFAULT 256u
#define BW_PEER_NAME_MAX        63u
#define BW_PEER_VALUE_MAX       127u
/* "[IPv6%scope]:port" */
#define BW_PEER_ADDRESS_MAX 79u

struct bw_peer_member {
    bw_node id;
    char name[BW_PEER_NAME_MAX + 1];
    char value[BW_PEER_VALUE_MAX + 1];
    char address[BW_PEER_ADDRESS_MAX + 1]; /* numeric HOST:PORT */
    uint32_t priority;
    bool ordinary;
    bool voter; /* its promise or vote counts towards a quorum */
    bool left;  /* left cleanly; the row is kept so that old messages do not add it again */
    uint32_t incarnation; /* number of starts */
    enum bw_member_status status;
    double level;  /* the detector's level of suspicion */
    bw_time since; /* start of `status`, on our clock */
};

#endif
