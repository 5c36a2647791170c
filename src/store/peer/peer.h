/* The store `peer:`: peers decide its elections, without a server. Model and guarantees:
 * store.c. */
#ifndef BW_STORE_PEER_PEER_H
#define BW_STORE_PEER_PEER_H

#include "core/peer/frame.h"
#include "core/peer/leader_slot.h"
#include "net/sealed/keyring.h"
#include "net/stamp.h"
#include "net/tls/credentials.h"
#include "peer/node.h"
#include "store/kit/job.h"
#include "store/peer/settings.h"

/* One election: the only one, or with shards=N one of NAME.0 to NAME.(N-1). */
struct peer_shard {
    uint32_t number; /* index among the peers' elections */
    char election[BW_ELECTION_NAME_MAX + 1];
    struct leader_slot slot;
    /* Shown to readers in addition to the slot. */
    uint64_t version, request;
    char candidate[BW_CANDIDATE_ID_MAX + 1], value[BW_VALUE_MAX + 1];
    char containment[BW_CONTAINMENT_MAX + 1];
    struct bw_note note;
    bw_node successor; /* chosen successor; NONE: any peer */
    /* The peer that was asked to prepare as successor (NONE: none), and its name in the note. */
    bw_node preparing;
    bw_time prepare_again_at; /* when it may be asked again */
    char preparing_name[BW_CANDIDATE_ID_MAX + 1];
    /* The last requested transfer: its target (NONE: none), why it failed (0: it has not), and when
     * the target counts as not answering (NEVER: it has answered). */
    bw_node transfer_to;
    int transfer_error;
    bw_time transfer_until;
    char queued[BW_CANDIDATE_ID_MAX + 1]; /* our candidate in the queue */
    /* the election's work has ended for good, on this peer or another */
    bool done;
};

struct bw_store {
    uv_loop_t *loop;
    struct bw_store_options options;
    struct bw_jobs jobs;
    struct peer_settings settings;
    struct bw_peer *peer;
    struct bw_keyring *keyring;
    struct bw_credentials *credentials; /* NULL: no TLS */
    uv_timer_t timer;                   /* next deadline of any slot */
    uv_timer_t key_watch;               /* looks at the key file, if there is one */
    struct bw_stamp key_seen;           /* of the key file when it was last read */
    unsigned handles;                   /* handles to close before freeing */
    char ended[BW_WHY_MAX + 1];         /* why this peer can no longer take part; "": it can */
    struct peer_shard *shards;          /* settings.shards elements, or one */
    uint32_t shards_count;
    struct bw_death_notice *notices;
    struct bw_peer_death_notice *messages;
};

/* ---- ops.c: requests ---- */

int peers_request(struct bw_store *store, const struct bw_store_request *request);
/* Call this when the shard changed or time has passed. Answers the pending requests that can now be
 * answered, and arms the timer. */
void peers_update(struct bw_store *store, struct peer_shard *shard, bool changed);
/* Returns the shard with this election name; NULL: these peers do not run that election. */
struct peer_shard *peers_shard(struct bw_store *store, const char *election);
/* Handles an order from another peer or a user: hand over, prepare, or the answer to a PREPARE. */
void peers_ordered(struct bw_store *store, const struct bw_peer_order *order);
/* Returns the outcome of the transfer to `to`: 0, or why it failed. */
int peers_outcome(struct bw_store *store, uint32_t election, bw_node to);

/* ---- members.c ---- */

uint32_t peers_members(struct bw_store *store, const char *election, struct bw_store_member *out,
                       uint32_t cap);

/* ---- record.c ---- */

void peers_record(struct bw_store *store, const struct peer_shard *shard,
                  struct bw_store_record *record);
/* Finds a member by name, or by number. NONE: no such member. */
bw_node peers_find_member(struct bw_store *store, const char *name);

#endif
