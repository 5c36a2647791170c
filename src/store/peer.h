/* The store whose elections are decided by peers instead of by a server; see peer.c for the model.
 */
#ifndef BW_STORE_PEER_H
#define BW_STORE_PEER_H

#include "net/credentials.h"
#include "net/keyring.h"
#include "peer/node.h"
#include "store/job.h"
#include "store/peer_seat.h"
#include "store/peer_settings.h"

/* A peer has one election; its number among the peers. */
#define PEER_ELECTION 0u

struct bw_store {
    uv_loop_t *loop;
    struct bw_store_options options;
    struct bw_jobs jobs;
    struct peer_settings settings;
    struct bw_peer *peer;
    struct bw_keyring *keyring;
    struct bw_credentials *credentials; /* NULL: no TLS */
    uv_timer_t timer;                   /* until the seat must be looked at again */
    uv_fs_poll_t key_watch;             /* the key file, while there is one */
    unsigned handles;                   /* to be closed before it is freed */
    char election[BW_ELECTION_NAME_MAX + 1];
    char ended[BW_WHY_MAX + 1]; /* why it can take no part any more; "": it can */
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
    char contender[BW_CANDIDATE_ID_MAX + 1]; /* who stands in line here */
    struct bw_last_word *words;
    struct bw_peer_letter *letters;
};

/* Now, on the clock of announcements. */
bw_time peers_now(void);

/* ---- peer_ask.c: requests ---- */

int peers_ask(struct bw_store *store, const struct bw_store_request *request);
/* Something changed or time passed: answers what waited for it, and keeps the timer. */
void peers_look(struct bw_store *store, bool changed);
/* Somebody asks us, the leader, to hand over. */
void peers_ordered(struct bw_store *store, const struct bw_peer_order *order);

/* ---- peer_record.c ---- */

void peers_record(struct bw_store *store, struct bw_store_record *record);
/* The node of that name among the members; NONE: nobody. */
bw_node peers_named(struct bw_store *store, const char *name);

#endif
