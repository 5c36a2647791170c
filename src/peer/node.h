/* A peer: one bw_instance on a real network. Received frames become events, actions become frames,
 * and timers run on CLOCK_BOOTTIME. State that must survive a crash is on disk before other nodes
 * can learn of it.
 *
 * Life cycle:
 * 1. The peer meets others: it sends JOIN to the configured addresses and receives their ROSTER.
 * 2. If a cluster exists, the peer joins it. Otherwise the first `expect` peers found one. Until
 *    then there is no leader, and commands return BW_EBUSY.
 * 3. The elections run until the peer is closed.
 *
 * All functions run on the loop's thread. A hook is never called from within a function of this
 * header. Pointers passed to a hook are valid during that call. */
#ifndef BW_PEER_NODE_H
#define BW_PEER_NODE_H

#include "core/detect/detector.h"
#include "core/elect/elector.h"
#include "core/peer/claims.h"
#include "core/peer/member.h"

#include <sys/socket.h>
#include <uv.h>

#define BW_PEER_WHY_MAX 511u
/* Maximum size of a sealed DEAD frame, with some reserve. */
#define BW_PEER_DEATH_NOTICE_MAX 256u

struct bw_peer;
struct bw_keyring;
struct bw_credentials;

enum bw_peer_order_kind {
    BW_PEER_RESIGN = 1,
    BW_PEER_TRANSFER,
    /* No work runs until RESUME, or until no HOLD was received for some time. Like RESUME, it goes
     * to every member, not only to the leader. */
    BW_PEER_HOLD,
    BW_PEER_RESUME, /* ends HOLD */
    /* Between two members. Each is sent once, over a connection, and has no reply frame. */
    BW_PEER_PREPARE, /* from the leader to its intended successor: get ready */
    BW_PEER_READY,   /* the answer to PREPARE */
    BW_PEER_UNREADY,
    BW_PEER_GONE, /* from the leader to a leaver: no majority depends on its vote any more */
    /* To the leader: remove a member permanently (removal_check.h). */
    BW_PEER_REMOVE,
    BW_PEER_REMOVE_FORCED, /* remove it even if it may be alive */
    /* To the leader that received a TRANSFER to `node`: has the transfer failed? 0: not so far, or
     * unknown; otherwise the cause. */
    BW_PEER_OUTCOME
};

struct bw_peer_order {
    enum bw_peer_order_kind kind;
    uint32_t election;
    /* TRANSFER, OUTCOME: the intended leader. REMOVE: the member to remove. PREPARE, READY,
     * UNREADY: receiver or sender. */
    bw_node node;
};

struct bw_peer_options {
    uv_loop_t *loop;
    bw_node self;          /* at least 1, unique in this cluster */
    const char *cluster;   /* frames of another cluster are dropped; NULL: "bellwether" */
    const char *name;      /* name for people and for `held by`; NULL: the id in digits */
    const char *value;     /* published while we lead; NULL: "" */
    const char *listen;    /* HOST:PORT for both UDP and TCP; port 0: chosen by the kernel */
    const char *advertise; /* address at which others reach us; NULL: the listening address */
    /* NAME:PORT[,NAME:PORT...]; every address of each name is tried repeatedly. NULL: none. */
    const char *join;
    /* "ID HOST:PORT [priority=N] [ordinary]" per line: the exact members of the cluster, including
     * self. NULL: found or join a cluster. */
    const char *members_file;
    const char *directory; /* must exist; locked while open */
    uint32_t expect;       /* number of founders; 0: only join, never found a cluster */
    uint32_t cap;          /* maximum number of members, ever; 0: BW_PEER_MEMBERS_DEFAULT */

    const struct bw_elector_ops *algorithm;
    bool quorum; /* wrap the algorithm in the quorum guard */
    const struct bw_detector_ops *detector;
    /* Timing and preferences, from bw_elector_defaults and bw_detector_defaults. bw_peer_open fills
     * in identity, membership and seeds. */
    struct bw_elector_config elect;
    struct bw_detector_config detect;
    uint32_t elections; /* number of elections that share the detector; 0 means 1 */
    uint32_t priority;
    bool ordinary; /* never a candidate */

    struct bw_keyring *keyring;         /* borrowed; NULL: the public key, which everyone knows */
    struct bw_credentials *credentials; /* TLS between peers; borrowed; NULL: only sealed frames */

    void *context; /* context of the hooks; any hook may be NULL */
    /* This peer is now a member of a cluster: founded, joined, or resumed after a restart. */
    void (*formed)(void *context);
    /* The leader changed, or the time until which we may act. */
    void (*announced)(void *context, uint32_t election, const struct bw_announcement *announcement);
    /* A member joined, left, was suspected or is trusted again. */
    void (*member)(void *context, const struct bw_peer_member *member);
    /* bw_peer_death_notices would now return other notices. */
    void (*death_notices_changed)(void *context, uint32_t election);
    /* Another node asks us, the leader, to hand over. Our work must be dead before the order is
     * passed to bw_peer_command. Without this hook, the order is carried out at once. */
    void (*ordered)(void *context, const struct bw_peer_order *order);
    /* A client asks for the outcome of the TRANSFER to `to`. 0: it has not failed so far.
     * BW_EDENIED: the successor is not ready. BW_EBUSY: the successor has not answered.
     * BW_ENOQUORUM: the successor did not become leader, and we continue to lead. */
    int (*outcome)(void *context, uint32_t election, bw_node to);
    /* Two nodes claim to lead the same election at overlapping times. */
    void (*split)(void *context, uint32_t election, const struct bw_peer_claim *one,
                  const struct bw_peer_claim *other);
    /* Another node reports that the work of this election has ended permanently (bw_peer_done). */
    void (*done)(void *context, uint32_t election);
    /* A recovery holds this election. While held, work must end and no work may start. */
    void (*held)(void *context, uint32_t election, bool held);
    /* `node` runs with other settings than ours and must end; its messages are ignored. Called
     * once. */
    void (*differs)(void *context, bw_node node, const char *line);
    /* This peer cannot take part any more; the line says why and what to do. Close it. BW_EIO: a
     * disk write failed. BW_EDAMAGED: the disk has an older state than the other peers know.
     * BW_EINVAL: the others have other settings. BW_ENOMEM. Deaths (bw_peer_dead) are still
     * announced. */
    void (*ended)(void *context, int error, const char *why);
};

/* Opens a peer. Returns 0, or an error with a line in why[BW_PEER_WHY_MAX + 1]: BW_EINVAL
 * (settings), BW_EDAMAGED (the directory belongs to another node or cluster, is a copy, or is
 * damaged), BW_EBUSY (directory in use), BW_EIO, BW_ENOMEM. */
int bw_peer_open(struct bw_peer **out, const struct bw_peer_options *options, char *why);

/* Closes the peer. If we lead, it hands over; our work must be dead by then. After all resources
 * are freed, the loop calls `closed`; no other hook is called any more. `leave`: permanently, so
 * the other members forget us; otherwise they expect us back. With Raft, a leaver stays until the
 * others can decide without it, for a few seconds at most. */
void bw_peer_close(struct bw_peer *peer, bool leave, void (*closed)(void *context));

/* Executes CAMPAIGN, RESIGN or TRANSFER. Our work must be dead, or never started. 0: the loop will
 * execute it. BW_EBUSY: not formed yet, or too many commands pending. BW_EINVAL. */
int bw_peer_command(struct bw_peer *peer, const struct bw_command *command);

/* Call this when all work that we ran so far, under any term, is confirmed dead. The peer announces
 * this to all members, which are then no longer bound by their promises to us. `successor`: the
 * node to which the next command will TRANSFER leadership; other nodes do not campaign meanwhile.
 * NONE: any node may campaign. */
void bw_peer_dead(struct bw_peer *peer, uint32_t election, bw_node successor);

/* Reports that work of this election may run here until `until` (BW_TIME_NEVER: unknown), or 0: no
 * work runs. Other nodes see this, and use it to detect an overlap with another leader. */
void bw_peer_busy(struct bw_peer *peer, uint32_t election, bw_time until);

/* Reports that the work of this election has ended permanently. Every later leader announces it,
 * too. */
void bw_peer_done(struct bw_peer *peer, uint32_t election);

/* Asks the leader to hand over (with an ORDER frame if another node leads), or sends one of the
 * messages between two members. Returns 0; BW_ENOTLEADER: there is no leader; BW_ENOTMEMBER;
 * BW_EINVAL. For a TRANSFER also: BW_EDENIED: the algorithm's rank forbids it; BW_EUNSUPPORTED: the
 * successor is suspected; BW_EBUSY: the successor cannot take over yet (no vote, or not in our
 * group). */
int bw_peer_order(struct bw_peer *peer, const struct bw_peer_order *order);

struct bw_peer_status {
    bw_node self;
    bool formed;
    uint32_t known, expected; /* before it is formed: nodes met, and nodes expected */
    bw_node leader;           /* leader of the requested election */
    bool leading, electing;
    bool busy, held; /* bw_peer_busy; HOLD */
    bw_term term;
    bw_token token;
    bw_time act_from, act_until;
    const char *state; /* name of the state in the algorithm */
    /* the leader's name, value and address; NULL: there is no leader, or it is unknown */
    const struct bw_peer_member *leader_member;
    /* voters whose majority decides; 0: no quorum is used */
    uint32_t voters;
};

void bw_peer_status(struct bw_peer *peer, uint32_t election, struct bw_peer_status *out);
/* Time for which the leader may act without a renewal, in milliseconds. 0: it does not lead, or may
 * not act now; UINT64_MAX: no limit. */
uint64_t bw_peer_left_ms(const struct bw_peer_status *status, bw_time now);
/* Writes all known nodes, including ourselves, sorted by id, at most `cap` of them. Returns their
 * total number. */
uint32_t bw_peer_members(struct bw_peer *peer, struct bw_peer_member *out, uint32_t cap);
/* True if `node` or its guardian has announced that its work is dead, for the newest term in which
 * we knew it as leader. */
bool bw_peer_is_dead(const struct bw_peer *peer, uint32_t election, bw_node node);
/* For display: asks up to BW_PEER_VIEWS_MAX members for their views of one election. The answers
 * come later; bw_peer_view_of returns the last one of `node` and its age, or false. */
#define BW_PEER_VIEWS_MAX 64u
struct bw_peer_election_view;
void bw_peer_ask_views(struct bw_peer *peer, uint32_t election);
bool bw_peer_view_of(const struct bw_peer *peer, bw_node node, struct bw_peer_election_view *out,
                     bw_time *age);
/* Name of a member, or NULL. Valid until the next turn of the loop. */
const char *bw_peer_name(struct bw_peer *peer, bw_node node);

/* Counters of traffic and dropped frames. */
struct bw_peer_counters {
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t malformed;       /* valid seal, but not a frame of our protocol */
    uint64_t unknown_senders; /* sender is not a member, or has other settings */
    /* invalid seal: wrong key, cluster, version, or replayed; see net/sealed/seal.h */
    uint64_t refused;
    uint64_t not_sent;      /* no address, or no buffer space */
    uint64_t elections;     /* leaders announced */
    uint64_t splits;        /* two leaders seen at once */
    uint64_t persisted;     /* records written and synced */
    uint64_t moves;         /* elections handed over because we led more than our share */
    uint64_t roster_frames; /* part of frames_out: membership, not detection or election */
};

void bw_peer_counters(const struct bw_peer *peer, struct bw_peer_counters *out);
/* Number of frames dropped for reason number `i`: all of `refused`, and the first frame of every
 * sender. Returns the name of the reason (static), or NULL if there are no more reasons. */
const char *bw_peer_dropped(const struct bw_peer *peer, unsigned i, uint64_t *count);

/* A death notice. It is sealed in advance, so that a guardian without a key can send it after this
 * process was killed and the work is confirmed dead. There is one per other member; each is valid
 * once. */
struct bw_peer_death_notice {
    struct sockaddr_storage to;
    socklen_t to_length;
    uint32_t length;
    unsigned char bytes[BW_PEER_DEATH_NOTICE_MAX];
};

/* Makes notices that say: "The work that `self` ran in this election under terms up to the current
 * one is dead." Returns how many were written (at most `cap`); 0 while we do not lead. Each call
 * seals new notices; older ones remain valid. */
uint32_t bw_peer_death_notices(struct bw_peer *peer, uint32_t election,
                               struct bw_peer_death_notice *out, uint32_t cap);
/* UDP socket from which the notices are sent; borrowed. */
int bw_peer_socket(const struct bw_peer *peer);
/* Address at which we can be reached, as text; derived from `advertise`. Valid as long as the
 * peer. */
const char *bw_peer_address(const struct bw_peer *peer);

#endif
