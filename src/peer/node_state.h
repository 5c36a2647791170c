/* The inside of a peer; nobody outside src/peer includes this.
 *
 *   node.c          opening and closing, the clock, what others may ask of us here
 *   node_form.c     the instance: made when the cluster is formed, or gone on with
 *   node_step.c     its steps: what is written down, then what is done
 *   node_meet.c     who is there: joining, roster, founding
 *   node_join.c     the addresses that we were told to join, looked up again and again
 *   node_frame.c    frames in and out
 *   node_keep.c     messages that a hand-shake may swallow
 *   node_batch.c    many frames to one member in one datagram
 *   node_raft.c     Raft's log on disk, and its members after the roster
 *   node_claims.c   who says that it leads, and whether two do
 *   node_hold.c     work held by a recovery
 *   node_leave.c    leaving for good
 *   node_sweep.c    forgetting who is no member
 *   node_answer.c   deaths, orders and questions */
#ifndef BW_PEER_NODE_STATE_H
#define BW_PEER_NODE_STATE_H

#include "core/base/error.h"
#include "core/base/rng.h"
#include "core/cluster/claims.h"
#include "core/cluster/found.h"
#include "core/cluster/roster.h"
#include "core/elect/instance.h"
#include "net/sealed/datagram.h"
#include "net/sealed/stream.h"
#include "peer/address.h"
#include "peer/disk.h"
#include "peer/node.h"

#define PEER_QUEUE   64u /* and four for each election */
#define PEER_BATCHES 64u /* members spoken to in one turn; the next begins another */
#define PEER_LED     8u
#define PEER_KEPT    16u
#define PEER_ODD     16u /* who differs, remembered at once; more are told of again */
#define PEER_JOINS   16u /* entries of --join */
#define PEER_PLACES  64u /* addresses behind them */
/* How long somebody who was heard of counts as there, for founding. */
#define PEER_FRESH (30 * BW_SEC)

struct peer_led { /* the newest term under which we knew `node` as leader */
    bw_node node;
    bw_term term;
    bw_term dead; /* what it ran under terms up to this one is dead; 0: not known */
};

struct peer_death { /* somebody's work is dead: thought of again for a while */
    bw_node node;   /* BW_NODE_NONE: none */
    bw_term term;
    bool handed; /* it lives, and hands over to a successor that it names */
    bw_time again_at, wait;
};

struct peer_election {
    struct bw_announcement said; /* the last announcement */
    struct peer_led led[PEER_LED];
    uint32_t led_next;
    bw_term own_term; /* the newest under which we led ourselves */
    bw_term buried;   /* we said that what we ran under terms up to this one is dead */
    bool dirty;       /* records[e] differs from the disk */
    bool logged;      /* Raft's log grew: it wants to hear that it is durable */
    bool compact;     /* enough of Raft's log is committed to be dropped */
    struct peer_death death;
    bw_time acts_since; /* this leadership of ours; 0: we do not lead */
    struct bw_claims claims;
    struct bw_peer_claim split[2]; /* two that were found, */
    uint32_t split_again;          /* how often the others are still told, */
    bw_time split_at;              /* and not before then */
    bool done;
    bw_time busy_until; /* work of ours may run until then; 0: none runs */
    bw_time lease_ns;   /* the longest that was ever left of it, and so of the others' work */
    bool gone;          /* we left, and are no longer a voter */
    bw_time held_until; /* 0: nobody holds it */
};

struct peer_mind { /* what we think of a member; by its place in `minds` */
    bw_node id;
    enum bw_member_status status;
    bw_time since;
    bw_time heard;  /* from itself, or the arrival of a row that was news */
    bw_time spoken; /* directly, ever; 0: never */
};

struct peer_kept { /* a message to somebody who may not believe us yet */
    bw_node to;    /* BW_NODE_NONE: nothing */
    bw_time at;
    size_t length;
    unsigned char bytes[BW_DATAGRAM_PAYLOAD_MAX];
};

struct peer_queued {
    enum bw_event_kind kind;   /* COMMAND, CONFIRMED_DEAD (our own work), STOP */
    struct bw_command command; /* CONFIRMED_DEAD: election, and the heir as node */
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
    bool guarded; /* quorum guard or Raft: who forgot what it promised is refused */
    bool raft;

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
    bool dead;   /* `ended` was called, or we are closing: nothing is done any more */
    bool broken; /* the disk failed: what was decided since may not be on it */
    bool closing, leaving;
    uint32_t farewells; /* still to be said */
    bool asks; /* we may have been of this cluster before: we ask whether our vote is gone */
    bw_time farewell_at, leave_until;
    void (*closed)(void *context);

    struct bw_rng rng;
    uint32_t starts;
    struct bw_peer_row own;
    struct bw_peer_roster roster;
    void *roster_memory;
    struct peer_mind *minds;
    uint32_t minds_count;
    struct bw_peer_found found;
    uint32_t renamed; /* how often somebody else's word made us start a new incarnation */
    bool formed;
    bool members_dirty;
    bw_node listed[BW_PEER_FOUNDERS_MAX]; /* --members */
    uint32_t listed_count;

    struct peer_join joins[PEER_JOINS];
    uint32_t joins_count;
    struct sockaddr_storage places[PEER_PLACES];
    uint32_t places_count;
    bw_node odd[PEER_ODD]; /* who takes part by other rules than ours */
    uint32_t odd_next;
    bw_time started_at;
    bw_time meet_at, tell_at, sync_at, resolve_at, change_at, save_at, claim_at, sweep_at;
    uint64_t turned_away; /* frames for which the seal had no room, when it was last looked at */

    struct bw_instance *instance;
    void *instance_memory;
    struct bw_action *actions;
    uint32_t actions_max;
    struct bw_peer_record *records;
    struct peer_election *election;

    struct peer_queued *queue;
    uint32_t queue_first, queue_count, queue_cap;
    struct peer_batch *batches; /* NULL: one election, every frame goes at once */
    uint32_t batches_used;
    unsigned char batch_in[BW_PEER_FRAME_MAX]; /* being read: what it makes us send may take the
                                                  place of what was received */
    bool unsettled;                            /* some election has `logged` or `compact` set */

    struct peer_kept kept[PEER_KEPT];
    uint32_t kept_next;

    struct bw_peer_counters counters;
    struct bw_peer_frame in, out; /* being read, being made */
    struct bw_peer_found_out found_out;
    unsigned char bytes[BW_FRAME_MAX];                   /* a frame being made */
    _Alignas(8) unsigned char list[BW_MESSAGE_DATA_MAX]; /* behind a message being read */
    struct bw_peer_member shown;                         /* for hooks and status */
};

bw_time peer_now(void);
/* It cannot go on: tells `ended` once and stands still. */
void peer_end(struct bw_peer *p, int error, const char *why);
/* Writes roster and founding down; false: the disk refused. */
bool peer_save(struct bw_peer *p);

/* node_form.c */
bool peer_form(struct bw_peer *p);

/* node_step.c */
void peer_step(struct bw_peer *p, struct bw_event *event);
void peer_tick_instance(struct bw_peer *p, bw_time now);
void peer_settle(struct bw_peer *p, uint32_t election);
/* What we promised may not be on the disk: nothing may be said any more. */
void peer_disk_failed(struct bw_peer *p);

/* node_meet.c */
void peer_meet_start(struct bw_peer *p);
void peer_meet_tick(struct bw_peer *p, bw_time now);
bw_time peer_meet_deadline(const struct bw_peer *p);
void peer_meet_rows(struct bw_peer *p, bw_node from, const struct bw_peer_rows *rows,
                    const struct sockaddr *address, bool join);
void peer_meet_sync(struct bw_peer *p, bw_node from, const struct bw_peer_sync *sync,
                    const struct sockaddr *address);
void peer_meet_found(struct bw_peer *p, bw_node from, const struct bw_peer_founding *said);
void peer_meet_hello(struct bw_peer *p, bw_node to, const struct sockaddr *address);
/* Is its roster like ours? */
void peer_meet_compare(struct bw_peer *p, bw_node to, const struct sockaddr *address);
/* Our own row goes to everybody. */
void peer_meet_farewell(struct bw_peer *p);
struct peer_mind *peer_mind(struct bw_peer *p, bw_node id);
void peer_heard(struct bw_peer *p, bw_node id, bw_time now);

/* node_rules.c */
void peer_rules_own(const struct bw_peer *p, struct bw_peer_rules *out);
/* Somebody's rules. False: they are not ours, and what else it says counts for nothing; or we have
 * ended because of that. */
bool peer_rules_heard(struct bw_peer *p, bw_node from, const struct bw_peer_rules *said);
bool peer_rules_odd(const struct bw_peer *p, bw_node id);

/* node_join.c */
int peer_join_parse(struct bw_peer *p, char *why);
void peer_join_resolve(struct bw_peer *p);
/* One more place to look at. */
void peer_join_place(struct bw_peer *p, const struct sockaddr *address);

/* node_frame.c */
int peer_net_open(struct bw_peer *p, char *why);
void peer_net_close(struct bw_peer *p);
/* One thing less is open: with the last, everything is freed. */
void peer_net_closed(struct bw_peer *p);
void peer_send(struct bw_peer *p, bw_node to);
void peer_send_to(struct bw_peer *p, const struct sockaddr *address, bw_node to);
void peer_send_message(struct bw_peer *p, const struct bw_message *msg);
/* A message of the instance that is encoded already. */
void peer_send_bytes(struct bw_peer *p, bw_node to, const unsigned char *bytes, size_t length);

/* node_keep.c */
void peer_keep(struct bw_peer *p, bw_node to, const unsigned char *bytes, size_t length);
/* Sends what was kept for `to` again, once; false: there was nothing. */
bool peer_keep_again(struct bw_peer *p, bw_node to);

void peer_count_out(struct bw_peer *p, int error, int length);

/* node_batch.c */
/* What was put on the disk is durable from here on. False: it is not, and never will be. */
bool peer_sync(struct bw_peer *p);
/* False: it does not fit, or nothing is batched. */
bool peer_batch_add(struct bw_peer *p, bw_node to, unsigned kind, const unsigned char *payload,
                    size_t length);
void peer_batch_flush(struct bw_peer *p);
/* The next frame of a batch, which is shortened by it. False: the end, or no batch at all. */
bool peer_batch_next(struct bw_sealed *rest, struct bw_sealed *one);

/* node_raft.c */
void peer_raft_note(struct bw_peer *p, const struct bw_action *action);
void peer_raft_saved(const struct bw_peer_log *log, struct bw_raft_saved *out);
void peer_raft_change(struct bw_peer *p);
/* Is it neither voter nor learner, by what is committed? */
bool peer_raft_without(const struct bw_peer *p, uint32_t election, bw_node id);
/* Its vote is gone for good: neither what is committed nor what may be counts it. */
bool peer_raft_voteless(const struct bw_peer *p, uint32_t election, bw_node id);

/* node_claims.c */
void peer_claims_init(struct bw_peer *p);
void peer_claims_heard(struct bw_peer *p, bw_node from, const struct bw_peer_lead *lead);
void peer_claims_killed(struct bw_peer *p, uint32_t election, bw_node node, bw_term term);
void peer_claims_last(struct bw_peer *p, uint32_t election, const struct bw_announcement *said);
void peer_claims_tick(struct bw_peer *p, bw_time now);

/* node_hold.c */
void peer_hold(struct bw_peer *p, uint32_t election, bool hold);
void peer_hold_tick(struct bw_peer *p, bw_time now);
bw_time peer_hold_deadline(const struct bw_peer *p);

/* node_leave.c */
void peer_leave(struct bw_peer *p);
/* A member; or one that has left, but without whose vote nothing may be decided yet. */
bool peer_counts_on(const struct bw_peer *p, bw_node id);
/* False: there is nothing more to wait for. */
bool peer_leave_tick(struct bw_peer *p, bw_time now);
/* Somebody says itself that it has left. */
void peer_leave_heard(struct bw_peer *p, bw_node from, const struct sockaddr *address);
/* Came back without memory: asks whether a majority still counts on us; true: none does. */
void peer_leave_ask(struct bw_peer *p);
bool peer_leave_free(const struct bw_peer *p);
void peer_leave_gone(struct bw_peer *p, bw_node from, uint32_t election);

/* node_remove.c */
/* We lead: `node` is taken out. 0, or why not (removal.h). */
int peer_remove(struct bw_peer *p, bw_node node, bool insists);

/* node_sweep.c */
void peer_sweep(struct bw_peer *p);
void peer_sweep_tick(struct bw_peer *p, bw_time now);

/* node_answer.c */
void peer_answer_dead(struct bw_peer *p, bw_node from, const struct bw_peer_death *death,
                      bool handed);
void peer_answer_order(struct bw_peer *p, bw_node from, const struct sockaddr *address,
                       const struct bw_peer_hand_over *said);
void peer_answer_query(struct bw_peer *p, bw_node from, const struct sockaddr *address,
                       const struct bw_peer_query *query);
void peer_death_tick(struct bw_peer *p, bw_time now);
bw_time peer_death_deadline(const struct bw_peer *p);
void peer_tell_dead(struct bw_peer *p, uint32_t election, bw_node heir);
void peer_led(struct bw_peer *p, uint32_t election, bw_node node, bw_term term);
void peer_show(struct bw_peer *p, bw_node id, struct bw_peer_member *out);
int peer_enqueue(struct bw_peer *p, const struct peer_queued *queued);

#endif
