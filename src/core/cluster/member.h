/* A member of a cluster of peers, as one of them sees it. */
#ifndef BW_PEER_MEMBER_H
#define BW_PEER_MEMBER_H

#include "core/base/message.h"
#include "core/base/types.h"

/* Members there may be: every process keeps a row, and a broadcast of an unguarded algorithm is
 * O(n) datagrams. More want a store or a service. */
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
    char address[BW_PEER_ADDRESS_MAX + 1]; /* HOST:PORT in digits */
    uint32_t priority;
    bool ordinary;
    bool voter; /* its promise or vote counts */
    bool left;  /* in good order; kept for a while so that old news does not bring it back */
    uint32_t incarnation; /* how often it started */
    enum bw_member_status status;
    double level;  /* the detector's: how sure it is that it is gone */
    bw_time since; /* of `status`, on our clock */
};

#endif
