/* Derives what happened in an election from two of its records: which candidate was elected, which
 * leader lost leadership, and why. Pure: records in, changes out.
 *
 * A store keeps the current state and no history. Therefore a reason states only what the records
 * prove. A release after a RESIGN note is "resigned". A record that changed its holder while the
 * old holder's work is unconfirmed was "taken". A renewal is not a change. */
#ifndef BW_CLI_ELECTION_CHANGE_H
#define BW_CLI_ELECTION_CHANGE_H

#include "store/store.h"

#define BW_ELECTION_CHANGES_MAX 6u

struct bw_election_change {
    const char *event;                    /* found, elected, lost, dead, note, value, settled */
    const char *reason;                   /* "" if unknown; a static string */
    char leader[BW_CANDIDATE_ID_MAX + 1]; /* the leader concerned; "": none */
    bw_token token;
};

struct bw_observer {
    bool known;
    struct bw_store_record seen;
    uint64_t notes_before; /* serial of the latest note when this leadership began */
};

/* Compares `record` with the previous one. Writes the changes to out[BW_ELECTION_CHANGES_MAX] and
 * returns their number. The caller zeroes the observer before the first record. */
unsigned bw_observer_update(struct bw_observer *observer, const struct bw_store_record *record,
                            struct bw_election_change *out);

const char *bw_note_name(enum bw_note_kind kind);

/* Returns whether the record's note is still a pending request. A note that was carried out, was
 * refused, or addressed an earlier leadership is not. */
bool bw_note_is_open(const struct bw_store_record *record);

/* ---- how a transfer goes ---- */

enum bw_transfer_state {
    BW_TRANSFER_ASKED,      /* the holder has not reacted yet */
    BW_TRANSFER_PREPARING,  /* the holder asked the successor to prepare */
    BW_TRANSFER_READY,      /* the successor is ready, the holder stops its work */
    BW_TRANSFER_FREE,       /* released; the successor has not acquired it yet */
    BW_TRANSFER_DONE,       /* the successor leads */
    BW_TRANSFER_REFUSED,    /* the successor refused; the holder stays the leader */
    BW_TRANSFER_ELSEWHERE,  /* a third candidate leads now */
    BW_TRANSFER_SUPERSEDED, /* another request has replaced this one */
};

struct bw_transfer {
    const char *to;
    const char *holder; /* the leader that is to transfer */
    bw_token token;     /* its token; 0 if the store has no tokens */
    uint64_t serial;    /* serial of our note */
    enum bw_transfer_state state;
};

/* Updates the state from `record`. Returns true when the state is final. */
bool bw_transfer_update(struct bw_transfer *transfer, const struct bw_store_record *record);

#endif
