/* A peer: one bw_instance on a real network. Frames become events, actions become frames, timers
 * run on CLOCK_BOOTTIME, what must not be forgotten is on disk before it is spoken of.
 *
 * Its life: it meets the others (JOIN to whom it was told, ROSTER back), a cluster is founded by
 * the first `expect` of them or joined if there is one, then the elections run until it is closed.
 * Before that nobody leads and commands are refused with BW_EBUSY.
 *
 * Everything happens on the loop's thread. A hook is never called from within a call of this
 * header; pointers given to a hook are valid for that call. */
#ifndef BW_PEER_NODE_H
#define BW_PEER_NODE_H

#include "core/cluster/claims.h"
#include "core/cluster/member.h"
#include "core/detect/detector.h"
#include "core/elect/elector.h"

#include <sys/socket.h>
#include <uv.h>

#define BW_PEER_WHY_MAX 511u
/* A sealed DEAD frame, with room to spare. */
#define BW_PEER_LETTER_MAX 256u

struct bw_peer;
struct bw_keyring;
struct bw_credentials;

enum bw_peer_order_kind {
    BW_PEER_RESIGN = 1,
    BW_PEER_TRANSFER,
    BW_PEER_HOLD,   /* no work runs until RESUME, or until nobody has said HOLD for a while */
    BW_PEER_RESUME, /* to every member, whoever leads, as HOLD */
    /* Between two members; each comes once, by a connection, and has no answer of its own. */
    BW_PEER_PREPARE, /* of the leader, to who is to follow it: get ready */
    BW_PEER_READY,   /* the answer to that */
    BW_PEER_UNREADY,
    BW_PEER_GONE, /* of the leader, to who has left: no majority counts on you any more */
    /* To the leader: that member is gone for good, take it out (removal.h). */
    BW_PEER_REMOVE,
    BW_PEER_REMOVE_LIVING, /* although it may be alive */
    /* To the leader that was asked for a TRANSFER to `node`: has it come to nothing? 0: not so far,
     * or nothing is known of it; else why. */
    BW_PEER_OUTCOME
};

struct bw_peer_order {
    enum bw_peer_order_kind kind;
    uint32_t election;
    bw_node node; /* TRANSFER, OUTCOME: who is to lead; REMOVE: who is to go; PREPARE, READY,
                     UNREADY: to whom, or of whom */
};

struct bw_peer_options {
    uv_loop_t *loop;
    bw_node self;          /* 1 and up; nobody else's in this cluster */
    const char *cluster;   /* frames of another cluster are dropped; NULL: "bellwether" */
    const char *name;      /* who we are, for people and for `held by`; NULL: the id in digits */
    const char *value;     /* shown while we lead; NULL: "" */
    const char *listen;    /* HOST:PORT, UDP and TCP alike; port 0: the kernel chooses */
    const char *advertise; /* where others reach us; NULL: what we listen on */
    const char *join;      /* NAME:PORT[,NAME:PORT...]; every address of a name is tried, again and
                              again; NULL: nobody */
    const char *members_file; /* "ID HOST:PORT [priority=N] [ordinary]" per line: exactly these are
                                 the cluster, self among them; NULL: found or join one */
    const char *directory;    /* exists; locked while it is open */
    uint32_t expect;          /* how many found the cluster; 0: join one, never found it */
    uint32_t cap;             /* members there may ever be; 0: BW_PEER_MEMBERS_DEFAULT */

    const struct bw_elector_ops *algorithm;
    bool quorum; /* the quorum guard stands around it */
    const struct bw_detector_ops *detector;
    /* Timing and taste, from bw_elector_defaults and bw_detector_defaults; identity, membership and
     * seeds are filled in here. */
    struct bw_elector_config elect;
    struct bw_detector_config detect;
    uint32_t elections; /* sharing the detector; 0 means 1 */
    uint32_t priority;
    bool ordinary; /* never a candidate */

    struct bw_keyring *keyring;         /* borrowed; NULL: the public key */
    struct bw_credentials *credentials; /* TLS between peers; borrowed; NULL: sealed frames only */

    void *context; /* of the hooks; any hook may be NULL */
    /* We are one of a cluster from now on: founded, joined, or gone on with after a restart. */
    void (*formed)(void *context);
    /* Who leads changed, or until when we may act. */
    void (*announced)(void *context, uint32_t election, const struct bw_announcement *announcement);
    /* Somebody came, left, was suspected or is trusted again. */
    void (*member)(void *context, const struct bw_peer_member *member);
    /* bw_peer_last_words would say something else from now on. */
    void (*letters)(void *context, uint32_t election);
    /* Somebody asks us, the leader, to hand over. The work must be dead before bw_peer_command is
     * given what was ordered. Without this hook it is done at once. */
    void (*ordered)(void *context, const struct bw_peer_order *order);
    /* A client asks what has become of the TRANSFER to `to`. 0: nothing has gone wrong so far.
     * BW_EDENIED: the peer named is not ready; BW_EBUSY: it has not answered; BW_ENOQUORUM: it
     * did not take the lead, and we lead on. */
    int (*outcome)(void *context, uint32_t election, bw_node to);
    /* Two claim to lead the same election at overlapping times. */
    void (*split)(void *context, uint32_t election, const struct bw_peer_claim *one,
                  const struct bw_peer_claim *other);
    /* The work of this election has ended for good, somebody says (bw_peer_done). */
    void (*done)(void *context, uint32_t election);
    /* A recovery holds this election: work must end, and none begin, until told otherwise. */
    void (*held)(void *context, uint32_t election, bool held);
    /* `node` takes part with other settings than ours, and has to go: it is not heard. Once. */
    void (*differs)(void *context, bw_node node, const char *line);
    /* It can take no part any more, for good; the line says why and what to do. Close it. BW_EIO:
     * its disk refused a write; BW_EDAMAGED: what is on it is not what the others know; BW_EINVAL:
     * the others have other settings; BW_ENOMEM. Deaths (bw_peer_dead) are still told. */
    void (*ended)(void *context, int error, const char *why);
};

/* Returns 0, or an error with a line in why[BW_PEER_WHY_MAX + 1]: BW_EINVAL (settings),
 * BW_EDAMAGED (the directory is another node's or cluster's, or copied, or broken), BW_EBUSY (it is
 * in use), BW_EIO, BW_ENOMEM. */
int bw_peer_open(struct bw_peer **out, const struct bw_peer_options *options, char *why);

/* Leaves the loop: hands over if we lead (our work must be dead by then), lets go of everything and
 * calls `closed` from the loop; no other hook is called any more. `leave`: for good, the others
 * forget us; otherwise we are expected back. With Raft who leaves stays until the others can decide
 * without it, for a few seconds at the most. */
void bw_peer_close(struct bw_peer *peer, bool leave, void (*closed)(void *context));

/* CAMPAIGN, RESIGN or TRANSFER; our work is dead, or never was. 0: will be done from the loop;
 * BW_EBUSY: not formed yet, or too many under way; BW_EINVAL. */
int bw_peer_command(struct bw_peer *peer, const struct bw_command *command);

/* The work that we ran under any term so far is confirmed dead: everybody is told, and what was
 * promised to us is void. `heir`: the next command is a TRANSFER to it, so that nobody else stands
 * for election meanwhile; NONE: anybody may. */
void bw_peer_dead(struct bw_peer *peer, uint32_t election, bw_node heir);

/* Work of this election may be running here until then (BW_TIME_NEVER: nobody knows), or 0: not any
 * more. What others see of us, and how an overlap with another leader is found. */
void bw_peer_busy(struct bw_peer *peer, uint32_t election, bw_time until);

/* The work of this election has ended for good: whoever leads it from now on says so to the others.
 */
void bw_peer_done(struct bw_peer *peer, uint32_t election);

/* Asks whoever leads to hand over (an ORDER frame when that is somebody else); or tells a member
 * what two members tell each other. 0, BW_ENOTLEADER: nobody leads, BW_ENOTMEMBER, BW_EINVAL; of a
 * TRANSFER also BW_EDENIED: the algorithm's rank forbids it, BW_EUNSUPPORTED: the peer named is
 * suspected, BW_EBUSY: it cannot take over yet (it has no vote, or is not of our group). */
int bw_peer_order(struct bw_peer *peer, const struct bw_peer_order *order);

struct bw_peer_status {
    bw_node self;
    bool formed;
    uint32_t known, expected; /* before that: how many we met, and of how many */
    bw_node leader;           /* of the election asked for */
    bool leading, electing;
    bool busy, held; /* bw_peer_busy; HOLD */
    bw_term term;
    bw_token token;
    bw_time act_from, act_until;
    const char *state;                      /* the algorithm's own name of it */
    const struct bw_peer_member *leader_is; /* name, value, address; NULL: nobody, or not known */
    uint32_t voters;                        /* whose majority decides; 0: no quorum is asked for */
};

void bw_peer_status(struct bw_peer *peer, uint32_t election, struct bw_peer_status *out);
/* Everybody known, ourselves included, by id; returns how many there are, `cap` of them in `out`.
 */
uint32_t bw_peer_members(struct bw_peer *peer, struct bw_peer_member *out, uint32_t cap);
/* Has `node` said, or its guardian, that what it ran under the newest term in which we knew it as
 * leader is dead? */
bool bw_peer_is_dead(const struct bw_peer *peer, uint32_t election, bw_node node);
/* The name of a member, or NULL. Valid until the next turn of the loop. */
const char *bw_peer_name(struct bw_peer *peer, bw_node node);

/* What is dropped, and what it costs. */
struct bw_peer_counters {
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t malformed; /* opened, but not a frame of ours */
    uint64_t strangers; /* of somebody who is not a member, or takes part by other rules */
    uint64_t refused; /* not opened: wrong key, cluster, version, replayed; see net/sealed/seal.h */
    uint64_t not_sent;      /* no address, no room */
    uint64_t elections;     /* announcements of a leader */
    uint64_t splits;        /* two leaders seen */
    uint64_t persisted;     /* records written and synced */
    uint64_t moves;         /* elections that we handed over because we led more than our share */
    uint64_t roster_frames; /* of frames_out: membership, not detection or election */
};

void bw_peer_counters(const struct bw_peer *peer, struct bw_peer_counters *out);
/* Of `refused`, and everybody's first frames: those dropped for reason number `i`; its name,
 * static, or NULL: there are no more reasons. */
const char *bw_peer_dropped(const struct bw_peer *peer, unsigned i, uint64_t *count);

/* Last words: sealed beforehand, so that a guardian without any key can send them when this process
 * was killed and the work is confirmed dead. One per other member; each is good once. */
struct bw_peer_letter {
    struct sockaddr_storage to;
    socklen_t to_length;
    uint32_t length;
    unsigned char bytes[BW_PEER_LETTER_MAX];
};

/* "What `self` ran in this election under terms up to the present one is dead." Returns how many
 * were written (at most `cap`); 0 while we do not lead. Each call seals new ones: older letters
 * remain valid. */
uint32_t bw_peer_last_words(struct bw_peer *peer, uint32_t election, struct bw_peer_letter *out,
                            uint32_t cap);
/* The UDP socket they are sent from; borrowed. */
int bw_peer_socket(const struct bw_peer *peer);
/* Where we can be reached, as text: what `advertise` became. Valid for the life of the peer. */
const char *bw_peer_address(const struct bw_peer *peer);

#endif
