/* Internals of a peer; only src/peer includes this.
 *
 *   node.c         opening and closing, timers, the public functions
 *   node_form.c    creates the instance when the cluster is formed, or resumes it
 *   node_step.c    steps of the instance: first persist, then act
 *   node_roster.c  membership: joining, roster, founding
 *   node_join.c    resolves the --join addresses repeatedly
 *   node_frame.c   receives and sends frames
 *   node_resend.c  keeps messages that a handshake may drop
 *   node_batch.c   packs frames to one member into one datagram
 *   node_raft.c    Raft's log on disk; Raft's members follow the roster
 *   node_rules.c   settings that all peers must share
 *   node_claims.c  claims of leadership; detects two leaders
 *   node_hold.c    work held by a recovery
 *   node_leave.c   leaving permanently
 *   node_remove.c  removing another member permanently
 *   node_forget.c  forgets nodes that are not members
 *   node_answer.c  deaths, orders and queries */
#ifndef BW_PEER_NODE_STATE_H
#define BW_PEER_NODE_STATE_H

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/elect/instance.h"
#include "core/peer/claims.h"
#include "core/peer/founding.h"
#include "core/peer/roster.h"
#include "net/sealed/datagram.h"
#include "net/sealed/stream.h"
#include "peer/address.h"
#include "peer/disk.h"
#include "peer/node.h"

#define PEER_QUEUE   64u /* plus four for each election */
#define PEER_BATCHES 64u /* members addressed in one turn; one more flushes the batches */
#define PEER_LED     8u
#define PEER_KEPT    16u
#define PEER_TAKEN   8u
/* nodes with other settings that are remembered; beyond that, one may be reported again */
#define PEER_MISMATCHED 16u
#define PEER_JOINS      16u /* entries of --join */
#define PEER_PLACES     64u /* addresses of these entries */
/* How long a node that was heard of counts as present, for founding. */
#define PEER_FRESH (30 * BW_SEC)

struct peer_led { /* the newest term in which we knew `node` as leader */
    bw_node node;
    bw_term term;
    bw_term dead; /* the work of `node` under terms up to this one is dead; 0: unknown */
};

/* The confirmed death of a leader's work. The elector gets it several times (peer_death_tick). */
struct peer_death {
    bw_node node;           /* the leader; BW_NODE_NONE: no death to repeat */
    bw_term term;           /* the work under terms up to this one is dead */
    bool runs;              /* `node` itself reported it, not its guardian */
    bool handed;            /* it hands over to a successor that a user named */
    bw_time again_at, wait; /* next repetition, and the interval before it */
};

/* State of one election beside the elector.
 *
 * Invariants:
 *   dead_term <= own_term
 *   acts_since != 0 implies that we are the announced leader */
struct peer_election {
    struct bw_announcement announced; /* the last announcement */
    struct peer_led led[PEER_LED];
    uint32_t led_next;
    bw_term own_term;  /* newest term in which we led */
    bw_term dead_term; /* we announced that our work under terms up to this one is dead */
    bool dirty;        /* records[e] differs from the disk */
    bool logged;       /* Raft's log grew: report to Raft that it is durable */
    bool compact;      /* enough of Raft's log is committed to be compacted */
    struct peer_death death;
    bw_time acts_since; /* start of our current leadership; 0: not leading */
    struct bw_claims claims;
    struct bw_peer_claim split[2]; /* the two claims of the last split, */
    uint32_t split_again;          /* how many more times to announce them, */
    bw_time split_at;              /* and the earliest time of the next announcement */
    bool done;
    bw_time busy_until; /* our work may run until then; 0: no work runs */
    bw_time lease_ns;   /* longest remaining lease ever seen here; also bounds the work of others */
    bool gone;          /* we left, and are no longer a voter */
    bw_time held_until; /* 0: not held */
};

struct peer_contact { /* our view of a member */
    bw_node id;
    enum bw_member_status status;
    bw_time since;
    bw_time fresh_at;    /* last frame from it, or arrival of a new row about it */
    bw_time received_at; /* last frame from it directly; 0: never */
};

struct peer_kept { /* a message to a node that may not have met us yet */
    bw_node to;    /* BW_NODE_NONE: unused */
    bw_time at;
    size_t length;
    unsigned char bytes[BW_DATAGRAM_PAYLOAD_MAX];
};

struct peer_queued {
    enum bw_event_kind kind;   /* COMMAND, CONFIRMED_DEAD (our own work), STOP */
    struct bw_command command; /* CONFIRMED_DEAD: election, and the successor as node */
    bw_term term;              /* own_term of the election when this was queued */
};

struct peer_batch {
    bw_node to;
    size_t used;
    unsigned char bytes[BW_PEER_FRAME_MAX];
};

struct peer_join {
    struct bw_peer *peer;
    uv_getaddrinfo_t request;
    bool asking;
    char host[BW_PEER_HOST_MAX + 1];
    char port[6];
};

struct bw_peer {
    struct bw_peer_options options;
    char cluster[256];
    char address[BW_PEER_ADDRESS_MAX + 1];
    uint32_t cap, elections;
    bool guarded; /* quorum guard or Raft: a node that lost its promises is rejected */
    bool raft;
    struct peer_views *views; /* node_views.c; NULL: views were never requested */

    struct bw_peer_disk *disk;
    struct bw_keyring *own_ring;
    struct bw_seal *seal;
    struct bw_datagram *datagram;
    struct bw_stream *stream;
    struct sockaddr_storage bound;

    int timer_fd;
    uv_poll_t timer;
    uv_prepare_t prepare;
    bw_time armed_at;
    uint32_t handles;
    bool dead;   /* `ended` was called, or the peer is closing: it does nothing any more */
    bool broken; /* a disk write failed: later decisions may not be durable */
    bool closing, leaving;
    uint32_t leave_notices; /* notices still to be sent */
    bool asks_vote_gone;    /* we may have been a member before: ask whether our vote is gone */
    bw_time leave_notice_at, leave_until;
    void (*closed)(void *context);

    struct bw_rng rng;
    uint32_t starts;
    struct bw_peer_row own;
    struct bw_peer_roster roster;
    void *roster_memory;
    struct peer_contact *contacts;
    uint32_t contacts_count;
    struct bw_peer_found found;
    /* how often a row from another node made us start a new incarnation */
    uint32_t new_incarnations;
    bool formed;
    bool members_dirty;
    bw_node listed[BW_PEER_FOUNDERS_MAX]; /* --members */
    uint32_t listed_count;

    struct peer_join joins[PEER_JOINS];
    uint32_t joins_count;
    struct sockaddr_storage places[PEER_PLACES];
    uint32_t places_count;
    bw_node mismatched[PEER_MISMATCHED]; /* nodes with other settings than ours */
    uint32_t mismatched_next;
    bw_time started_at;
    bw_time meet_at, changes_at, sync_at, resolve_at, change_at, save_at, claim_at, sweep_at;
    /* frames that the seal had dropped by the last sweep because its table of peers was full */
    uint64_t seal_full_drops;

    struct bw_instance *instance;
    void *instance_memory;
    struct bw_action *actions;
    uint32_t actions_max;
    struct bw_peer_record *records;
    struct peer_election *election;

    struct peer_queued *queue;
    uint32_t queue_first, queue_count, queue_cap;
    struct peer_batch *batches; /* NULL: only one election, frames are sent at once */
    uint32_t batches_used;
    /* The batch being read: sending an answer may overwrite the receive buffer. */
    unsigned char batch_in[BW_PEER_FRAME_MAX];
    bool unsettled; /* an election has `logged` or `compact` set */

    struct peer_kept kept[PEER_KEPT];
    uint32_t kept_next;
    uint64_t taken[PEER_TAKEN]; /* requests to step down that we accepted; 0: none */
    uint32_t taken_next;

    struct bw_peer_counters counters;
    struct bw_peer_frame in, out; /* frame being read, frame being made */
    struct bw_peer_found_out found_out;
    unsigned char bytes[BW_FRAME_MAX];                   /* encoded frame */
    _Alignas(8) unsigned char list[BW_MESSAGE_DATA_MAX]; /* data of the message being read */
    struct bw_peer_member shown;                         /* for hooks and status */
};

/* Ends the peer: calls `ended` once and stops all activity. */
void peer_end(struct bw_peer *p, int error, const char *why);
/* Writes roster and founding to disk. Returns false if the write failed. */
bool peer_save(struct bw_peer *p);

/* node_form.c */
bool peer_form(struct bw_peer *p);

/* node_step.c */
void peer_step(struct bw_peer *p, struct bw_event *event);
void peer_tick_instance(struct bw_peer *p, bw_time now);
void peer_settle(struct bw_peer *p, uint32_t election);
/* Handles a failed disk write: our promises may not be durable, so the peer sends nothing any more.
 */
void peer_disk_failed(struct bw_peer *p);

/* node_roster.c */
void peer_meet_start(struct bw_peer *p);
void peer_meet_tick(struct bw_peer *p, bw_time now);
bw_time peer_meet_deadline(const struct bw_peer *p);
void peer_meet_rows(struct bw_peer *p, bw_node from, const struct bw_peer_rows *rows,
                    const struct sockaddr *address, bool join);
void peer_meet_sync(struct bw_peer *p, bw_node from, const struct bw_peer_sync *sync,
                    const struct sockaddr *address);
void peer_meet_found(struct bw_peer *p, bw_node from, const struct bw_peer_founding *received);
void peer_meet_hello(struct bw_peer *p, bw_node to, const struct sockaddr *address);
/* Starts to compare the roster of node `to` with ours. */
void peer_meet_compare(struct bw_peer *p, bw_node to, const struct sockaddr *address);
/* Sends our own row to all members. */
void peer_meet_announce_leave(struct bw_peer *p);
struct peer_contact *peer_contact(struct bw_peer *p, bw_node id);
void peer_received(struct bw_peer *p, bw_node id, bw_time now);

/* node_rules.c */
void peer_rules_own(const struct bw_peer *p, struct bw_peer_rules *out);
/* Compares the settings of another node with ours. Returns false if they differ: then its other
 * messages are ignored, or this peer has ended because of the difference. */
bool peer_rules_received(struct bw_peer *p, bw_node from, const struct bw_peer_rules *received);
bool peer_rules_mismatched(const struct bw_peer *p, bw_node id);

/* node_join.c */
int peer_join_parse(struct bw_peer *p, char *why);
void peer_join_resolve(struct bw_peer *p);
/* Adds an address to try. */
void peer_join_place(struct bw_peer *p, const struct sockaddr *address);

/* node_frame.c */
int peer_net_open(struct bw_peer *p, char *why);
void peer_net_close(struct bw_peer *p);
/* Notes that one handle was closed. After the last one, frees the peer. */
void peer_net_closed(struct bw_peer *p);
void peer_send(struct bw_peer *p, bw_node to);
void peer_send_to(struct bw_peer *p, const struct sockaddr *address, bw_node to);
void peer_send_message(struct bw_peer *p, const struct bw_message *msg);
/* Sends an encoded message of the instance. */
void peer_send_bytes(struct bw_peer *p, bw_node to, const unsigned char *bytes, size_t length);

/* node_resend.c */
void peer_keep(struct bw_peer *p, bw_node to, const unsigned char *bytes, size_t length);
/* Sends the kept messages for `to` once more. Returns false if there were none. */
bool peer_keep_again(struct bw_peer *p, bw_node to);

void peer_count_out(struct bw_peer *p, int error, int length);

/* node_batch.c */
/* Makes all records durable that were written so far. Returns false if the disk failed, now or
 * earlier. */
bool peer_sync(struct bw_peer *p);
/* Adds a frame to the batch for member `to`. Returns false if the frame is too large for a batch,
 * or batching is off: the caller must send it alone. */
bool peer_batch_add(struct bw_peer *p, bw_node to, unsigned kind, const unsigned char *payload,
                    size_t length);
void peer_batch_flush(struct bw_peer *p);
/* Takes the next frame from a batch. Returns false at the end of the batch, or if it is not a
 * batch. */
bool peer_batch_next(struct bw_sealed *rest, struct bw_sealed *one);

/* node_raft.c */
void peer_raft_note(struct bw_peer *p, const struct bw_action *action);
void peer_raft_saved(const struct bw_peer_log *log, struct bw_raft_saved *out);
void peer_raft_change(struct bw_peer *p);
/* True if `id` is neither voter nor learner in the committed membership. */
bool peer_raft_without(const struct bw_peer *p, uint32_t election, bw_node id);
/* True if `id` is a voter neither in the committed nor in a pending membership, so that its vote is
 * gone permanently. */
bool peer_raft_voteless(const struct bw_peer *p, uint32_t election, bw_node id);

/* node_claims.c */
void peer_claims_init(struct bw_peer *p);
void peer_claims_received(struct bw_peer *p, bw_node from, const struct bw_peer_claim_frame *lead);
void peer_claims_killed(struct bw_peer *p, uint32_t election, bw_node node, bw_term term);
void peer_claims_last(struct bw_peer *p, uint32_t election,
                      const struct bw_announcement *announcement);
void peer_claims_tick(struct bw_peer *p, bw_time now);

/* node_hold.c */
void peer_hold(struct bw_peer *p, uint32_t election, bool hold);
void peer_hold_tick(struct bw_peer *p, bw_time now);
bw_time peer_hold_deadline(const struct bw_peer *p);

/* node_leave.c */
void peer_leave(struct bw_peer *p);
/* True for a member, and for one that has left while a decision may still need its vote. */
bool peer_counts_on(const struct bw_peer *p, bw_node id);
/* Continues to leave the cluster. Returns false when nothing is left to wait for. */
bool peer_leave_tick(struct bw_peer *p, bw_time now);
/* A node announces that it has left. */
void peer_leave_received(struct bw_peer *p, bw_node from, const struct sockaddr *address);
/* For a node that came back without its state. peer_leave_ask asks whether a majority still counts
 * our vote; peer_leave_free returns true once no majority does. */
void peer_leave_ask(struct bw_peer *p);
bool peer_leave_free(const struct bw_peer *p);
void peer_leave_gone(struct bw_peer *p, bw_node from, uint32_t election);

/* node_remove.c */
/* Removes `node` from the cluster; only on the leader. Returns 0, or the reason why it must stay
 * (removal_check.h). */
int peer_remove(struct bw_peer *p, bw_node node, bool insists);

/* node_forget.c */
void peer_sweep(struct bw_peer *p);
void peer_sweep_tick(struct bw_peer *p, bw_time now);

/* node_answer.c */
void peer_answer_dead(struct bw_peer *p, bw_node from, const struct bw_peer_death *death,
                      bool handed);
void peer_answer_order(struct bw_peer *p, bw_node from, const struct sockaddr *address,
                       const struct bw_peer_hand_over *received);
void peer_answer_query(struct bw_peer *p, bw_node from, const struct sockaddr *address,
                       const struct bw_peer_query *query);
/* node_views.c */
void peer_take_view(struct bw_peer *p, bw_node from, const struct bw_peer_view *view);
void peer_death_tick(struct bw_peer *p, bw_time now);
bw_time peer_death_deadline(const struct bw_peer *p);
void peer_announce_dead(struct bw_peer *p, uint32_t election, bw_node successor, bw_term term);
void peer_led(struct bw_peer *p, uint32_t election, bw_node node, bw_term term);
void peer_show(struct bw_peer *p, bw_node id, struct bw_peer_member *out);
int peer_enqueue(struct bw_peer *p, const struct peer_queued *queued);

#endif
