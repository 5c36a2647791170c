/* A seat among peers, as a lease elector sees it: may we lead now, are we still leading, must
 * somebody else?
 *
 * Pure: announcements of the election in, answers to ACQUIRE, RENEW and RELEASE out. A lease of
 * length T that was asked for at t is given only if the peers' announcement lets us act from before
 * now until t + T or later: what the elector counts on is never more than what the quorum promised.
 * An algorithm without such promises (act_until NEVER) gives leases as long as it says that we
 * lead; it says so itself that two may.
 *
 * Who leads among the peers and is not fit to (left the line), or stands back, resigns, so that
 * another can. Who led and lost it still holds the seat here until it has said that its work is
 * dead. */
#ifndef BW_STORE_PEER_SEAT_H
#define BW_STORE_PEER_SEAT_H

#include "core/base/action.h"

/* A resignation that nobody follows is taken back after this: nobody else wants to lead. And who
 * has not said by then that it stands in line is not fit to. */
#define PEER_SEAT_RESIGN_NS BW_SEC

enum peer_line {
    PEER_LINE_UNKNOWN, /* has not said yet */
    PEER_LINE_IN,
    PEER_LINE_OUT /* left it, or gave the lead back */
};

struct peer_seat {
    bw_node self;
    bw_time ttl_ns;              /* of the leases that will be asked for */
    struct bw_announcement told; /* the newest; leader NONE: nobody */
    bw_node before;              /* who led since we last did; NONE: nobody */
    enum peer_line line;         /* is our elector ready to lead? */
    bw_time led_since;           /* leading: since when */
    bool holds, lost;            /* ours; ours and somebody else leads meanwhile */
    bw_token token;              /* holds: of that leadership */
    bw_time resigned_until;      /* leading, but about to hand over; 0: not */
    bw_time patient_until;       /* not fit: not resigned again before then */
    bool held;                   /* a recovery holds all work */
    bool was_free;               /* as it was last looked at */
};

enum peer_verdict {
    PEER_YES,
    PEER_WAIT, /* an announcement decides; it comes with the next beat */
    PEER_NO
};

void peer_seat_init(struct peer_seat *seat, bw_node self, bw_time ttl_ns);

/* All return true if readers see something else than before. */
bool peer_seat_hear(struct peer_seat *seat, const struct bw_announcement *told, bw_time now);
/* A recovery holds all work, or lets it go: who leads loses the lead, nobody gets it meanwhile. */
bool peer_seat_hold(struct peer_seat *seat, bool held, bw_time now);
bool peer_seat_look(struct peer_seat *seat, bw_time now); /* time passed */
/* When to look again; NEVER: when something is heard. */
bw_time peer_seat_deadline(const struct peer_seat *seat, bw_time now);

/* Nobody's: whoever asks now gets it. */
bool peer_seat_free(const struct peer_seat *seat, bw_time now);
bool peer_seat_leads(const struct peer_seat *seat);
/* Leads, and should not. */
bool peer_seat_must_resign(const struct peer_seat *seat, bw_time now);

enum peer_verdict peer_seat_acquire(struct peer_seat *seat, bw_time sent, bw_time ttl_ns,
                                    bw_time now);
enum peer_verdict peer_seat_renew(const struct peer_seat *seat, bw_token token, bw_time sent,
                                  bw_time ttl_ns);
/* True if it was held under this token: the work is dead from here on. */
bool peer_seat_release(struct peer_seat *seat, bw_token token);
/* The peers were told that we do not want to lead. */
void peer_seat_resigned(struct peer_seat *seat, bw_time now);

#endif
