/* What an onlooker learns from two records of an election: who was elected, who lost it and why.
 * Pure: records in, changes out.
 *
 * A store keeps what is, not what happened. A reason is therefore what the records prove, and no
 * more: a release after a RESIGN note is "resigned", a record taken over while something is owed
 * was "taken". Renewals are no change. */
#ifndef BW_CLI_CHANGE_H
#define BW_CLI_CHANGE_H

#include "store/store.h"

#define BW_SIGHTINGS_MAX 6u

struct bw_sighting {
    const char *event;                    /* found, elected, lost, dead, note, value, settled */
    const char *reason;                   /* "" where there is none; static */
    char leader[BW_CANDIDATE_ID_MAX + 1]; /* whom it concerns; "": nobody */
    bw_token token;
};

struct bw_onlooker {
    bool known;
    struct bw_store_record seen;
    uint64_t notes_before; /* serial of the note that stood when this leadership began */
};

/* Puts changes into out[BW_SIGHTINGS_MAX] and returns how many. Zero the onlooker before its first
 * record. */
unsigned bw_onlooker_see(struct bw_onlooker *onlooker, const struct bw_store_record *record,
                         struct bw_sighting *out);

const char *bw_note_name(enum bw_note_kind kind);

/* Does the record's note still ask something of somebody? One that was carried out, refused, or
 * meant for an earlier leadership does not. */
bool bw_note_is_open(const struct bw_store_record *record);

/* ---- how a transfer goes ---- */

enum bw_transfer_state {
    BW_TRANSFER_ASKED,      /* the holder has not taken it up */
    BW_TRANSFER_PREPARING,  /* the successor was asked to get ready */
    BW_TRANSFER_READY,      /* the successor is ready, the holder stops its work */
    BW_TRANSFER_FREE,       /* released; the successor has not taken it yet */
    BW_TRANSFER_DONE,       /* the successor leads */
    BW_TRANSFER_REFUSED,    /* the successor said no; the holder stays */
    BW_TRANSFER_ELSEWHERE,  /* another one leads now */
    BW_TRANSFER_SUPERSEDED, /* somebody put another request in its place */
};

struct bw_transfer {
    const char *to;
    const char *holder; /* who is to hand over ... */
    bw_token token;     /* ... which leadership; 0 where the store gives none */
    uint64_t serial;    /* of our note */
    enum bw_transfer_state state;
};

/* True when nothing more will come of it. */
bool bw_transfer_see(struct bw_transfer *transfer, const struct bw_store_record *record);

#endif
