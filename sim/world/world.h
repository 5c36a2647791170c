/* The world's insides: everything a run consists of, shared by the files that make it run.
 *
 *     validate.c  settings checked
 *     run.c     memory laid out, one run from start to figures
 *     world.c   the loop: the next pending event, and the network
 *     node.c    processes: start, crash, pause, resume, step, timer
 *     act.c     what a step wants done, and the barrier that holds it back
 *     raft.c    what a host owes Raft: entries, proposals, snapshots, membership
 *     work.c    what leaders do, and the resource they do it to
 *     fault.c   what goes wrong
 *     lease.c   the lease elector, and store_model.c the stores it asks
 *     registry.c  the service's registry on Raft, registry_members.c its members,
 * registry_clients.c who asks
 */
#ifndef BW_SIM_WORLD_H
#define BW_SIM_WORLD_H

#include "core/base/rng.h"
#include "core/elect/instance.h"
#include "sim/checks/check.h"
#include "sim/checks/claims.h"
#include "sim/sim.h"
#include "sim/stores/lease.h"
#include "sim/world/clock.h"
#include "sim/world/disk.h"
#include "sim/world/metrics.h"
#include "sim/world/net.h"
#include "sim/world/queue.h"
#include "sim/world/resource.h"
#include "sim/world/trace.h"

#define BW_SIM_WHY 200u
/* Actions one node may have waiting behind a barrier, and messages waiting for a paused one. Sends
 * beyond are lost, as from a full socket buffer. */
#define BW_SIM_HELD_MAX    1024u
#define BW_SIM_WAITING_MAX 1024u
/* Events at one instant before we say that time stands still: an algorithm's own endless loop. */
#define BW_SIM_INSTANT_MAX 20000000u

enum bw_sim_pending {
    BW_PENDING_MESSAGE,   /* arrives */
    BW_PENDING_FAILED,    /* the sender learns that its message did not */
    BW_PENDING_TIMER,     /* life: timer generation */
    BW_PENDING_DISK,      /* the oldest write is durable */
    BW_PENDING_DISK_DONE, /* and the process hears of it */
    BW_PENDING_EVENT,     /* body: a bw_event for the node (join, leave, hint, command, ...) */
    BW_PENDING_WORK,      /* a leader's next piece of work */
    BW_PENDING_WRITE,     /* arrives at the resource; body: bw_sim_write */
    BW_PENDING_PROPOSE,
    BW_PENDING_READ,
    BW_PENDING_CHANGE, /* Raft: membership changes not yet done are asked for again */
    BW_PENDING_GONE,   /* a leaving node is gone */
    BW_PENDING_FAULT,
    BW_PENDING_FRAME, /* registry: from node to node */
    BW_PENDING_ASKED, /* by a client */
    BW_PENDING_TURN,  /* of a node's loop */
    BW_PENDING_TICK,  /* of a node's timers */
    BW_PENDING_ENDED, /* it was told that it is no member */
    BW_PENDING_CLIENT /* something for a client */
};

struct bw_sim_raft_host {  /* per node and election */
    struct bw_sim_log log; /* as the process sees it */
    bw_index applied;
    uint64_t state;
    bw_index snapshot_asked; /* a snapshot up to here is being written */
};

/* A leader that was told to step down: when it may no longer act it tells the others that its work
 * is dead, as peers do. */
enum bw_sim_ending { BW_SIM_STAYS, BW_SIM_RESIGNS, BW_SIM_HANDS_OVER };

struct bw_sim_node {
    struct bw_instance *instance;
    void *memory;
    struct bw_sim_clock clock;
    bw_time wall_error; /* of its wall clock, which leases with a declared bound look at */
    uint32_t life;      /* events of an earlier life are void */
    uint32_t starts;
    bool member; /* configured or joined, and not left */
    bool up;     /* its process exists */
    bool paused;
    bool leaving; /* was told to stop */
    bool left;    /* ever: one that crashes while it leaves does not come back */
    bool barrier; /* a record is being written: actions are held */
    enum bw_sim_ending ending;
    /* Timer: at most one that counts, told by its generation. */
    bool armed;
    uint32_t timer;
    bw_time armed_for; /* local time */
    struct bw_sim_fifo held, waiting;
    struct bw_sim_disk disk;
    struct bw_sim_write stray; /* passed its check just before a pause; serial 0: none */
    uint16_t stray_election;
    struct bw_sim_raft_host *raft; /* [election], or NULL */
};

struct bw_sim_registry;

struct bw_sim { /* a world, kept from run to run */
    const struct bw_sim_config *config;
    struct bw_sim_result *result;
    char *why;
    int error;

    bw_time now;
    uint32_t instant; /* events since `now` last changed */
    uint32_t cap;     /* highest id: nodes + spare, and stores above */
    uint32_t stores;  /* lease: how many; they are no candidates and count nowhere */
    uint32_t elections;
    bool raft;                 /* the algorithm is Raft: there are logs */
    struct bw_sim_node *nodes; /* [1..cap] */
    struct bw_member *members; /* present membership, by id */
    struct bw_member
        *founders; /* the first `nodes` of them, as configured: Raft's log tells the rest */
    bw_node *member_ids, *order;
    uint32_t members_count;
    bw_node natural; /* initiator runs: the dead leader everybody knew, or none */

    struct bw_sim_queue queue;
    struct bw_sim_net net;
    struct bw_rng rng;
    struct bw_sim_trace trace;
    struct bw_sim_claims claims;
    struct bw_sim_metrics metrics;
    struct bw_sim_resource *resources; /* [election] */
    struct bw_checker *checker;
    struct bw_sim_lease_host *lease_hosts; /* [0] of candidates, then [store][election] */
    struct bw_sim_book *books;             /* [store][election] */

    struct bw_actions actions;
    struct bw_instance_election *configs; /* [election], scratch for init */
    struct bw_start *starts;              /* [election], scratch for START */
    uint32_t next_fault;
    uint64_t inflight; /* electors' messages under way */
    bool recheck;      /* somebody's view, or who counts, has changed */
    bool settled;      /* all agree */
    bool stopped;      /* a checker has found something */
    bw_node struck;    /* whom a fault on "the leader" hit last */
    bw_time settled_at;
    uint64_t requests; /* proposals so far */
    bool changing;     /* Raft: membership changes are still to be made */

    struct bw_sim_registry *registry, *registry_kept; /* of this run, or NULL; its memory */

    void *block; /* all of the above that has a size per run */
    size_t block_bytes;
    struct bw_sim_raft_host *hosts; /* Raft: [node][election]; their memory survives runs */
    struct bw_sim_log *logs;        /* likewise, the durable ones */
    uint32_t hosts_count;
    void *scratch; /* entries being put together */
    size_t scratch_bytes;
    unsigned char *frame; /* codec: bytes and list of one message */
    void *frame_data;
};

/* Is it a store? */
static inline bool bw_sim_is_store(const struct bw_sim *sim, bw_node id)
{
    return id > sim->cap - sim->stores;
}

/* validate.c */
/* 0, or an error with its sentence. */
int bw_sim_validate(const struct bw_sim_config *config, char *why);

/* world.c */
/* Records the first error and its sentence; the loop then ends. */
void bw_sim_fail(struct bw_sim *sim, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void bw_sim_loop(struct bw_sim *sim);
/* `extra` travels along unseen by the modules: a snapshot's state. */
void bw_sim_send(struct bw_sim *sim, const struct bw_message *msg, uint64_t extra);
/* A pending event for a node's present life; NULL when out of memory. */
struct bw_sim_slot *bw_sim_pend(struct bw_sim *sim, enum bw_sim_pending kind, bw_node node);
/* What waited for a paused node happens now. */
void bw_sim_again(struct bw_sim *sim, struct bw_sim_slot *slot);
/* `size` bytes that stay until the next call; NULL when out of memory. */
void *bw_sim_scratch(struct bw_sim *sim, size_t size);

/* node.c */
/* Fills in what instance `id` is made of; its elections are sim->configs. */
void bw_sim_node_config(struct bw_sim *sim, bw_node id, struct bw_instance_config *config);
/* A process comes into being; its first step is apart, so that all can be there at time 0. */
void bw_sim_node_boot(struct bw_sim *sim, bw_node id);
void bw_sim_node_start(struct bw_sim *sim, bw_node id, bool passive, bw_node leader);
void bw_sim_node_crash(struct bw_sim *sim, bw_node id);
void bw_sim_node_pause(struct bw_sim *sim, bw_node id);
void bw_sim_node_resume(struct bw_sim *sim, bw_node id);
/* One step of a running node; fills in event->now. `extra`: what came with the message. */
void bw_sim_node_step(struct bw_sim *sim, bw_node id, struct bw_event *event, uint64_t extra);
/* Steps the node, or lets the event wait if it is paused; nothing if it is dead. */
void bw_sim_node_tell(struct bw_sim *sim, bw_node id, const struct bw_event *event);
void bw_sim_node_timer(struct bw_sim *sim, struct bw_sim_slot *slot);
/* The deadline may have moved, or the clock's rate changed (`anew`). */
void bw_sim_node_arm(struct bw_sim *sim, struct bw_sim_node *node, bw_node id, bool anew);
/* Puts a pending event behind the others that wait for a paused node. */
void bw_sim_node_wait(struct bw_sim *sim, struct bw_sim_node *node, struct bw_sim_slot *slot);

/* act.c */
void bw_sim_act(struct bw_sim *sim, bw_node id, const struct bw_event *event, uint64_t extra);
/* A write is durable. */
void bw_sim_act_durable(struct bw_sim *sim, struct bw_sim_slot *slot);
/* The process hears of it: what waited goes on. Takes the slot over. */
void bw_sim_act_done(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Begins a write; takes the slot over, a disk write with node and election set. */
void bw_sim_act_write(struct bw_sim *sim, struct bw_sim_slot *slot);

/* work.c */
/* The claim's window has changed: there may be work to do. */
void bw_sim_work_schedule(struct bw_sim *sim, bw_node id, uint32_t election);
void bw_sim_work_due(struct bw_sim *sim, struct bw_sim_slot *slot);
void bw_sim_work_arrives(struct bw_sim *sim, struct bw_sim_slot *slot);
/* Around a pause: a write may already have passed its check. */
void bw_sim_work_pause(struct bw_sim *sim, bw_node id);
void bw_sim_work_resume(struct bw_sim *sim, bw_node id);

/* fault.c */
void bw_sim_fault_due(struct bw_sim *sim, const struct bw_sim_fault *fault);
/* A leaving node is done, or is given more time; takes the slot over. */
void bw_sim_fault_gone(struct bw_sim *sim, struct bw_sim_slot *slot);
/* A node begins that was added, or stops in good order because it is no member. */
void bw_sim_fault_join(struct bw_sim *sim, bw_node id);
void bw_sim_fault_leave(struct bw_sim *sim, bw_node id);
/* Kills the process, as a crash fault does. */
void bw_sim_fault_crash(struct bw_sim *sim, bw_node id);

#endif
