/* The internals of the world, shared by the files that implement it.
 *
 *     validate.c  checks the settings
 *     run.c       lays out memory and executes one run, from start to figures
 *     world.c     the event loop and the network
 *     step.c      the stepping interface (sim/step.h)
 *     node.c      processes: start, crash, pause, resume, step, timer
 *     act.c       executes the actions of a step, behind the persistence barrier
 *     raft.c      the host's duties for Raft: entries, proposals, snapshots, membership
 *     work.c      the work of leaders, and the resource that they write to
 *     fault.c     faults
 *     members.c   members that leave, are removed and return, as in `peer`
 *     lease.c     the lease elector; store_model.c: the stores that it uses
 *     registry.c  the service's registry on Raft; registry_members.c: its members;
 *                 registry_clients.c: its clients */
#ifndef BW_SIM_WORLD_WORLD_H
#define BW_SIM_WORLD_WORLD_H

#include "core/base/rng.h"
#include "core/elect/instance.h"
#include "core/peer/leader_slot.h"
#include "sim/checks/claims.h"
#include "sim/checks/invariants.h"
#include "sim/figures/metrics.h"
#include "sim/sim.h"
#include "sim/stores/lease.h"
#include "sim/world/clock.h"
#include "sim/world/disk.h"
#include "sim/world/net.h"
#include "sim/world/queue.h"
#include "sim/world/resource.h"
#include "sim/world/trace.h"

#define BW_SIM_WHY 200u
/* Maximum number of actions that wait behind a node's barrier, and of messages that wait for a
 * paused node. Further sends are lost, as from a full socket buffer. */
#define BW_SIM_HELD_MAX    1024u
#define BW_SIM_WAITING_MAX 1024u
/* Maximum number of events at one instant; more of them mean an endless loop of an algorithm. */
#define BW_SIM_INSTANT_MAX 20000000u

enum bw_sim_pending {
    BW_PENDING_MESSAGE,   /* a message arrives */
    BW_PENDING_FAILED,    /* the sender learns that its message did not arrive */
    BW_PENDING_TIMER,     /* a timer; incarnation: timer generation */
    BW_PENDING_DISK,      /* the oldest write becomes durable */
    BW_PENDING_DISK_DONE, /* the process learns of it */
    BW_PENDING_EVENT,     /* body: a bw_event for the node (join, leave, hint, command, ...) */
    BW_PENDING_WORK,      /* a leader's next write */
    BW_PENDING_WRITE,     /* a write arrives at the resource; body: bw_sim_write */
    BW_PENDING_PROPOSE,
    BW_PENDING_READ,
    BW_PENDING_CHANGE, /* Raft: request pending membership changes again */
    BW_PENDING_GONE,   /* a leaving node has left */
    BW_PENDING_UNABLE, /* a member that is unable to lead looks whether it leads */
    BW_PENDING_FAULT,
    BW_PENDING_FRAME, /* registry: a frame from node to node */
    BW_PENDING_ASKED, /* registry: a client's request */
    BW_PENDING_TURN,  /* registry: an iteration of a node's loop */
    BW_PENDING_TICK,  /* registry: a node's timers */
    BW_PENDING_ENDED, /* registry: the node learned that it is not a member */
    BW_PENDING_CLIENT /* registry: an event for a client */
};

struct bw_sim_raft_host {  /* per node and election */
    struct bw_sim_log log; /* as the process sees it */
    bw_index applied;
    uint64_t state;
    bw_index snapshot_asked; /* a snapshot up to this index is being written */
};

/* A leader that was asked to step down. When it may no longer act, it notifies the other nodes that
 * its work is dead, as peers do. */
enum bw_sim_ending { BW_SIM_STAYS, BW_SIM_RESIGNS, BW_SIM_HANDS_OVER };

struct bw_sim_node {
    struct bw_instance *instance;
    void *memory;
    struct bw_sim_clock clock;
    bw_time wall_error;   /* error of its wall clock, for leases with a declared uncertainty */
    uint32_t incarnation; /* incarnation; events of an earlier one are void */
    uint32_t starts;
    bool member; /* configured or joined, and has not left */
    bool up;     /* its process exists */
    bool paused;
    bool leaving; /* was asked to stop */
    bool left;    /* has ever left: a node that crashes while it leaves does not come back */
    /* members.c: was asked to leave or is being removed, and is still in the group */
    bool departing;
    bool wiped;         /* members.c: has lost its disk and has not joined again */
    bool returned;      /* Raft: was removed, and joined again with an empty disk */
    bw_node same_id_as; /* duplicate_id.c: the node whose id this process uses; 0: its own */
    /* its work may act until then although it does not lead, because the process was killed, or
     * because the work takes time to end */
    bw_time work_until;
    bool barrier; /* a record is being written, so actions are held back */
    enum bw_sim_ending ending;
    bool unable;             /* unable.c: its host is drained or unhealthy */
    struct leader_slot slot; /* unable.c: when the member resigns */
    uint64_t unable_look;    /* unable.c: number of the planned look that is valid */
    /* Timer: at most one is valid, the one with the current generation. */
    bool armed;
    uint32_t timer;
    bw_time armed_for; /* on the node's clock */
    struct bw_sim_fifo held, waiting;
    struct bw_sim_disk disk;
    /* a write that passed its check just before a pause; serial 0: none */
    struct bw_sim_write stray;
    uint16_t stray_election;
    struct bw_sim_raft_host *raft; /* [election], or NULL */
};

struct bw_sim_registry;

struct bw_sim { /* a world; reused between runs */
    const struct bw_sim_config *config;
    struct bw_sim_result *result;
    char *why;
    int error;

    bw_time now;
    uint32_t instant; /* number of events since `now` last changed */
    uint32_t cap;     /* highest id: nodes + spare, and stores above */
    /* lease: number of stores, which are not candidates and do not count for agreement */
    uint32_t stores;
    uint32_t elections;
    bool raft;                 /* the algorithm is Raft, so there are logs */
    struct bw_sim_node *nodes; /* [1..cap] */
    struct bw_member *members; /* current members, by id */
    /* the first `nodes` members, as configured; Raft's log holds the changes */
    struct bw_member *founders;
    /* scratch buffer: the founders except one, which restarted without its disk */
    struct bw_member *other_founders;
    bw_node *member_ids, *order;
    bw_node *founder_ids; /* ids 1..nodes */
    uint32_t members_count;
    bw_node natural; /* runs with an initiator: the dead leader that all nodes know, or none */

    struct bw_sim_queue queue;
    struct bw_sim_net net;
    struct bw_rng rng;
    struct bw_sim_trace trace;
    struct bw_sim_claims claims;
    struct bw_sim_metrics metrics;
    struct bw_sim_resource *resources; /* [election] */
    struct bw_checker *checker;
    struct bw_sim_lease_host *lease_hosts; /* [0] for candidates, then [store][election] */
    struct bw_sim_book *books;             /* [store][election] */

    struct bw_actions actions;
    struct bw_instance_election *configs; /* [election], scratch buffer for init */
    struct bw_start *starts;              /* [election], scratch buffer for START */
    uint32_t next_fault;
    uint64_t inflight;  /* electors' messages in flight */
    bool recheck;       /* a view or the set of counted nodes has changed */
    bool settled;       /* all nodes agree */
    bool stopped;       /* a checker has found a violation */
    bw_node leader_hit; /* the node that the last fault on "the leader" hit */
    bw_time settled_at;
    uint64_t requests; /* number of proposals so far */
    bool changing;     /* Raft: membership changes are pending */

    /* of this run, or NULL; its memory, kept between runs */
    struct bw_sim_registry *registry, *registry_kept;

    void *block; /* memory for everything above whose size depends on the run */
    size_t block_bytes;
    struct bw_sim_raft_host *hosts; /* Raft: [node][election]; their memory is kept between runs */
    struct bw_sim_log *logs;        /* the durable logs, likewise */
    uint32_t hosts_count;
    void *scratch; /* entries under construction */
    size_t scratch_bytes;
    unsigned char *frame; /* codec: bytes and list of one message */
    void *frame_data;
};

/* Returns whether the node is a store. */
static inline bool bw_sim_is_store(const struct bw_sim *sim, bw_node id)
{
    return id > sim->cap - sim->stores;
}

/* validate.c */
/* Returns 0, or an error with a reason. */
int bw_sim_validate(const struct bw_sim_config *config, char *why);
/* The same for one fault of this configuration, without its time. */
int bw_sim_validate_fault(const struct bw_sim_config *config, const struct bw_sim_fault *fault,
                          char *why);

/* world.c */
/* Records the first error and its reason; the loop then ends. */
void bw_sim_fail(struct bw_sim *sim, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void bw_sim_loop(struct bw_sim *sim);
/* Returns whether no error and no violation has ended the run. */
bool bw_sim_goes_on(const struct bw_sim *sim);
/* Handles the next event; there must be one. */
void bw_sim_loop_once(struct bw_sim *sim);
/* Turns an error of the queue into the run's error, with its reason. */
void bw_sim_check_queue(struct bw_sim *sim);
/* `slot` sends the message. `extra` travels with it, invisible to the modules: a snapshot's
 * state. */
void bw_sim_send(struct bw_sim *sim, bw_node slot, const struct bw_message *msg, uint64_t extra);
/* Creates a pending event for the node's current incarnation; NULL if out of memory. */
struct bw_sim_slot *bw_sim_pend(struct bw_sim *sim, enum bw_sim_pending kind, bw_node node);
/* Handles an event that waited for a paused node. */
void bw_sim_again(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Returns `size` bytes that are valid until the next call; NULL if out of memory. */
void *bw_sim_scratch(struct bw_sim *sim, size_t size);

/* node.c */
/* Fills in the configuration of instance `id`; its elections are sim->configs. */
void bw_sim_node_config(struct bw_sim *sim, bw_node id, struct bw_instance_config *config);
/* Creates a process. Its first step is separate, so that all processes exist at time 0. */
void bw_sim_node_boot(struct bw_sim *sim, bw_node id);
void bw_sim_node_start(struct bw_sim *sim, bw_node id, bool passive, bw_node leader);
void bw_sim_node_crash(struct bw_sim *sim, bw_node id);
void bw_sim_node_pause(struct bw_sim *sim, bw_node id);
void bw_sim_node_resume(struct bw_sim *sim, bw_node id);
/* Executes one step of a running node; fills in event->now. `extra`: what came with the message. */
void bw_sim_node_step(struct bw_sim *sim, bw_node id, struct bw_event *event, uint64_t extra);
/* Steps the node, or queues the event if the node is paused; ignores it if the node is dead. */
void bw_sim_node_deliver(struct bw_sim *sim, bw_node id, const struct bw_event *event);
void bw_sim_node_timer(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Updates the timer after the deadline moved or the clock's rate changed (`restart`). */
void bw_sim_node_arm(struct bw_sim *sim, struct bw_sim_node *node, bw_node id, bool restart);
/* Queues an event for a paused node, after the others. */
void bw_sim_node_wait(struct bw_sim *sim, struct bw_sim_node *node, struct bw_sim_slot *slot);

/* act.c */
void bw_sim_act(struct bw_sim *sim, bw_node id, const struct bw_event *event, uint64_t extra);
/* A write becomes durable. */
void bw_sim_act_durable(struct bw_sim *sim, struct bw_sim_slot *slot);
/* The process learns of it and continues with the held actions. Consumes the slot. */
void bw_sim_act_done(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Starts a disk write; consumes the slot, which has node and election set. */
void bw_sim_act_write(struct bw_sim *sim, struct bw_sim_slot *slot);

/* work.c */
/* Schedules work after the claim's window has changed. */
void bw_sim_work_schedule(struct bw_sim *sim, bw_node id, uint32_t election);
void bw_sim_work_due(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_work_arrives(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Called at a pause: a write may already have passed its check. */
void bw_sim_work_pause(struct bw_sim *sim, bw_node id);
void bw_sim_work_resume(struct bw_sim *sim, bw_node id);

/* members.c */
/* Returns whether a join, leave, removal or loss of the disk is possible now. */
bool bw_sim_members_may(const struct bw_sim *sim, const struct bw_sim_fault *fault, bw_node id);
/* Raft, with peer_rules: node begins to leave the group. */
void bw_sim_members_depart(struct bw_sim *sim, bw_node id);
/* Ends the processes whose removal from the group is committed. Returns whether others still wait
 * for it. */
bool bw_sim_members_reap(struct bw_sim *sim);
/* Prepares the disk of a node that joins. */
void bw_sim_members_return(struct bw_sim *sim, bw_node id);
void bw_sim_members_wipe(struct bw_sim *sim, bw_node id);

/* duplicate_id.c */
/* Returns the id that the process in this slot uses. */
bw_node bw_sim_id_of(const struct bw_sim *sim, bw_node slot);
/* Returns whether the slot is the one of second processes. */
bool bw_sim_is_second(const struct bw_sim *sim, bw_node slot);
/* Returns the slot of the running second process of `id`, or BW_NODE_NONE. */
bw_node bw_sim_second_of(const struct bw_sim *sim, bw_node id);
bool bw_sim_second_may(const struct bw_sim *sim, bw_node id);
void bw_sim_second_start(struct bw_sim *sim, bw_node id);
/* Returns the slot of the process that receives the next message to `id`. */
bw_node bw_sim_receiver(struct bw_sim *sim, bw_node id);

/* fault.c */
void bw_sim_fault_due(struct bw_sim *sim, const struct bw_sim_fault *fault);
/* Returns whether bw_sim_fault_due would carry out this fault now. */
bool bw_sim_fault_possible(struct bw_sim *sim, const struct bw_sim_fault *fault);
/* A leaving node has left, or gets more time; consumes the slot. */
void bw_sim_fault_gone(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Starts a node that was added; stops a node cleanly that is not a member. */
void bw_sim_fault_join(struct bw_sim *sim, bw_node id);
void bw_sim_fault_leave(struct bw_sim *sim, bw_node id);
/* Asks the node to resign everything that it leads; its work is dead. */
void bw_sim_fault_resign(struct bw_sim *sim, bw_node id);
/* Kills the process, like a crash fault. */
void bw_sim_fault_crash(struct bw_sim *sim, bw_node id);
/* Takes the node off the list of members. */
void bw_sim_fault_forget_member(struct bw_sim *sim, bw_node id);
/* Delivers the event to all members except `id`. */
void bw_sim_fault_notify(struct bw_sim *sim, bw_node id, const struct bw_event *event);

/* unable.c */
/* A process starts on the host of the node. */
void bw_sim_unable_start(struct bw_sim *sim, bw_node id);
void bw_sim_unable_announced(struct bw_sim *sim, bw_node id, const struct bw_announcement *a);
void bw_sim_unable_set(struct bw_sim *sim, bw_node id, bool unable);
/* The planned look of a member that is unable to lead. */
void bw_sim_unable_due(struct bw_sim *sim, struct bw_sim_slot *slot);

#endif
