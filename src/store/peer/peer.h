/* The store whose elections are decided by peers instead of by a server; see store.c for the model.
 */
#ifndef BW_STORE_PEER_H
#define BW_STORE_PEER_H

#include "core/shards/seat.h"
#include "net/sealed/keyring.h"
#include "net/tls/credentials.h"
#include "peer/node.h"
#include "store/kit/job.h"
#include "store/peer/settings.h"

/* One election: the only one, or with shards=N one of NAME.0 to NAME.(N-1). */
struct peer_place {
    uint32_t number; /* among the peers' elections */
    char election[BW_ELECTION_NAME_MAX + 1];
    struct peer_seat seat;
    /* What readers see beside the seat. */
    uint64_t version, request;
    char candidate[BW_CANDIDATE_ID_MAX + 1], value[BW_VALUE_MAX + 1];
    char containment[BW_CONTAINMENT_MAX + 1];
    struct bw_note note;
    bw_node heir; /* who is to follow us; NONE: whoever the peers elect */
    /* Who was asked to get ready for that; NONE: nobody. And how it was called. */
    bw_node asked;
    bw_time asked_until; /* when it may be asked again */
    char asked_name[BW_CANDIDATE_ID_MAX + 1];
    /* The last transfer that somebody asked for: to whom (NONE: none), why it came to nothing (0:
     * it has not), and when the peer named is taken for silent (NEVER: it has answered). */
    bw_node sought;
    int sought_error;
    bw_time sought_until;
    char contender[BW_CANDIDATE_ID_MAX + 1]; /* who stands in line here */
    bool done;                               /* its work has ended for good, here or elsewhere */
};

struct bw_store {
    uv_loop_t *loop;
    struct bw_store_options options;
    struct bw_jobs jobs;
    struct peer_settings settings;
    struct bw_peer *peer;
    struct bw_keyring *keyring;
    struct bw_credentials *credentials; /* NULL: no TLS */
    uv_timer_t timer;                   /* until a seat must be looked at again */
    uv_fs_poll_t key_watch;             /* the key file, while there is one */
    unsigned handles;                   /* to be closed before it is freed */
    char ended[BW_WHY_MAX + 1];         /* why it can take no part any more; "": it can */
    struct peer_place *places;          /* settings.shards of them, or one */
    uint32_t places_count;
    struct bw_last_word *words;
    struct bw_peer_letter *letters;
};

/* Now, on the clock of announcements. */
bw_time peers_now(void);

/* ---- ops.c: requests ---- */

int peers_ask(struct bw_store *store, const struct bw_store_request *request);
/* Something changed or time passed: answers what waited for it, and keeps the timer. */
void peers_look(struct bw_store *store, struct peer_place *place, bool changed);
/* The place of an election; NULL: these peers do not elect for it. */
struct peer_place *peers_place(struct bw_store *store, const char *election);
/* Somebody asks us, the leader, to hand over. */
void peers_ordered(struct bw_store *store, const struct bw_peer_order *order);
/* What has become of the transfer to `to`: 0, or why it came to nothing. */
int peers_outcome(struct bw_store *store, uint32_t election, bw_node to);

/* ---- record.c ---- */

void peers_record(struct bw_store *store, const struct peer_place *place,
                  struct bw_store_record *record);
/* The node of that name among the members; NONE: nobody. */
bw_node peers_named(struct bw_store *store, const char *name);

#endif
