/* A peer: opening and closing, timers, and the public functions; see node.h and node_state.h. */
#include "peer/node.h"

#include "core/base/bug.h"
#include "os/clock.h"
#include "peer/members_file.h"
#include "peer/node_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* Minimum pause before the timer fires again. */
#define TIMER_PAUSE_NS (200 * BW_US)

void peer_end(struct bw_peer *p, int error, const char *why)
{
    if (p->dead)
        return;
    p->dead = true;
    if (p->options.ended)
        p->options.ended(p->options.context, error, why);
}

bool peer_save(struct bw_peer *p)
{
    p->members_dirty = false;
    p->counters.persisted++;
    return bw_peer_disk_write_members(p->disk, p->starts, &p->found.saved, &p->roster) == 0;
}

/* ---- time ---- */

/* Whether we were elected again after the command was queued. The command is for the leadership of
 * that time. The work of the newer one may already run, and the command would release it. */
static bool is_outdated(const struct bw_peer *p, const struct peer_queued *queued)
{
    bool ends = queued->kind == BW_EVENT_COMMAND && (queued->command.kind == BW_COMMAND_RESIGN ||
                                                     queued->command.kind == BW_COMMAND_TRANSFER);
    return ends && p->election[queued->command.election].own_term > queued->term &&
           !BW_BUG(peer_ends_a_later_leadership);
}

static void run_queue(struct bw_peer *p)
{
    for (uint32_t i = p->queue_count; i > 0; i--) {
        struct peer_queued queued = p->queue[p->queue_first];
        p->queue_first = (p->queue_first + 1) % p->queue_cap;
        p->queue_count--;
        if (is_outdated(p, &queued))
            continue;
        struct bw_event event = {.kind = queued.kind, .node = p->options.self};
        event.election = queued.command.election;
        if (queued.kind == BW_EVENT_COMMAND)
            event.command = queued.command;
        if (BW_BUG(peer_death_covers_later_work))
            queued.term = p->election[queued.command.election].own_term;
        if (queued.kind == BW_EVENT_CONFIRMED_DEAD) {
            event.alone = true;
            event.dead_term = queued.term;
        }
        peer_step(p, &event);
        if (queued.kind == BW_EVENT_CONFIRMED_DEAD && p->formed)
            peer_announce_dead(p, queued.command.election, queued.command.node, queued.term);
    }
}

static void shut_down(struct bw_peer *p);
static void stop(struct bw_peer *p);

static void on_timer(uv_poll_t *handle, int status, int events)
{
    struct bw_peer *p = handle->data;
    uint64_t count;
    (void)status;
    (void)events;
    (void)!read(p->timer_fd, &count, sizeof count);
    p->armed_at = -1;
    bw_time now = bw_clock_boot();
    run_queue(p);
    if (p->closing) {
        shut_down(p);
        return;
    }
    if (p->leaving && !peer_leave_tick(p, now))
        stop(p);
    if (p->dead)
        return;
    peer_tick_instance(p, now);
    peer_death_tick(p, now);
    peer_meet_tick(p, now);
}

static bw_time deadline(const struct bw_peer *p)
{
    if (p->queue_count > 0)
        return 1;
    if (p->closing)
        return 1;
    bw_time at = p->leaving ? p->leave_notice_at : BW_TIME_NEVER;
    if (p->dead)
        return at;
    at = bw_time_min(at, bw_time_min(peer_meet_deadline(p), peer_death_deadline(p)));
    return p->instance ? bw_time_min(at, bw_instance_deadline(p->instance)) : at;
}

static void on_prepare(uv_prepare_t *handle)
{
    struct bw_peer *p = handle->data;
    peer_batch_flush(p);
    bw_time at = deadline(p);
    if (at == p->armed_at)
        return;
    bool again = p->armed_at == -1 && at > 1;
    struct itimerspec when = {{0, 0}, {0, 0}};
    p->armed_at = at;
    if (again) /* the timer has just fired: wait at least the minimum pause */
        at = bw_time_max(at, bw_clock_boot() + TIMER_PAUSE_NS);
    if (at != BW_TIME_NEVER) {
        when.it_value.tv_sec = at / BW_SEC;
        when.it_value.tv_nsec = at % BW_SEC;
    }
    timerfd_settime(p->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* ---- closing ---- */

static void free_self(struct bw_peer *p)
{
    if (p->timer_fd >= 0)
        close(p->timer_fd);
    if (p->seal)
        bw_seal_free(p->seal);
    if (p->own_ring)
        bw_keyring_free(p->own_ring);
    if (p->disk)
        bw_peer_disk_close(p->disk);
    free(p->instance_memory);
    free(p->actions);
    free(p->views);
    free(p->roster_memory);
    free(p->contacts);
    free(p->records);
    free(p->election);
    free(p->queue);
    free(p->batches);
    free(p);
}

void peer_net_closed(struct bw_peer *p)
{
    void (*closed)(void *context) = p->closed;
    void *context = p->options.context;
    if (p->handles > 0)
        return;
    free_self(p);
    if (closed)
        closed(context);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct bw_peer *p = handle->data;
    p->handles--;
    peer_net_closed(p);
}

static void shut_down(struct bw_peer *p)
{
    p->dead = p->closing = true;
    p->handles++; /* keeps the peer alive until all handles are closing */
    if (p->datagram)
        peer_batch_flush(p);
    peer_net_close(p);
    if (p->timer.data)
        uv_close((uv_handle_t *)&p->timer, on_handle_closed);
    if (p->prepare.data)
        uv_close((uv_handle_t *)&p->prepare, on_handle_closed);
    p->handles--;
    peer_net_closed(p);
}

/* Stops the elections, which hand over; then all resources are freed. */
static void stop(struct bw_peer *p)
{
    struct peer_queued last = {.kind = BW_EVENT_STOP};
    p->queue_count -=
        p->queue_count == p->queue_cap; /* STOP replaces the newest command if the queue is full */
    peer_enqueue(p, &last);
    p->closing = true;
}

/* The owner may be freed before the peer is, so no hook is called any more. */
static void clear_hooks(struct bw_peer *p)
{
    p->options.formed = NULL;
    p->options.announced = NULL;
    p->options.member = NULL;
    p->options.death_notices_changed = NULL;
    p->options.ordered = NULL;
    p->options.outcome = NULL;
    p->options.split = NULL;
    p->options.held = NULL;
    p->options.done = NULL;
    p->options.differs = NULL;
    p->options.ended = NULL;
}

void bw_peer_close(struct bw_peer *p, bool leave, void (*closed)(void *context))
{
    p->closed = closed;
    clear_hooks(p);
    if (leave)
        peer_leave(p);
    else
        stop(p);
}

/* ---- opening ---- */

static int refuse(char *why, const char *what)
{
    snprintf(why, BW_PEER_WHY_MAX + 1, "%s", what);
    return BW_EINVAL;
}

static int check(const struct bw_peer_options *o, char *why)
{
    bool raft = o->algorithm == &bw_elect_raft;
    if (o->self == BW_NODE_NONE)
        return refuse(why, "invalid node id 0: expected an integer of at least 1");
    if (!o->loop || !o->listen || !o->directory || !o->algorithm || !o->detector)
        return refuse(
            why, "missing option: loop, listen, directory, algorithm and detector are required");
    if (raft && o->ordinary)
        return refuse(why, "raft has no ordinary members");
    if (o->quorum && !raft && !(o->algorithm->traits & BW_TRAIT_GUARDABLE))
        return refuse(why, "cannot use the quorum guard with this algorithm");
    if (o->elections > BW_ELECTIONS_MAX || o->cap > BW_PEER_MEMBERS_MAX)
        return refuse(why, "too many elections or members");
    if (o->expect > BW_PEER_FOUNDERS_MAX || (raft && o->expect > BW_RAFT_MEMBERS_MAX))
        return refuse(why, "too many founders expected");
    if (!o->expect && !o->join && !o->members_file)
        return refuse(why, "need --join ADDRESS (existing cluster) or --expect N (new cluster)");
    if (o->elections > 1 && !o->detector)
        return refuse(why, "several elections require a failure detector");
    if (o->elect.period_ns <= 0 || o->detect.period_ns <= 0)
        return refuse(why, "invalid period: expected more than 0");
    return 0;
}

static int allocate(struct bw_peer *p, char *why)
{
    p->roster_memory = malloc(bw_peer_roster_bytes(p->cap));
    p->contacts = calloc(p->cap, sizeof *p->contacts);
    p->records = calloc(p->elections, sizeof *p->records);
    p->election = calloc(p->elections, sizeof *p->election);
    p->queue_cap = PEER_QUEUE + 4 * p->elections;
    p->queue = calloc(p->queue_cap, sizeof *p->queue);
    p->batches = p->elections > 1 ? calloc(PEER_BATCHES, sizeof *p->batches) : NULL;
    if (!p->roster_memory || !p->contacts || !p->records || !p->election || !p->queue ||
        (p->elections > 1 && !p->batches)) {
        snprintf(why, BW_PEER_WHY_MAX + 1, "out of memory");
        return BW_ENOMEM;
    }
    bw_peer_roster_init(&p->roster, p->roster_memory, p->cap);
    return 0;
}

static int read_disk(struct bw_peer *p, struct bw_peer_found_saved *saved, char *why)
{
    struct bw_peer_disk_options options = {.directory = p->options.directory,
                                           .self = p->options.self,
                                           .cluster = p->cluster,
                                           .elections = p->elections};
    int error = bw_peer_disk_open(&p->disk, &options, why);
    if (error)
        return error;
    error = bw_peer_disk_read_members(p->disk, &p->starts, saved, &p->roster);
    if (error)
        snprintf(why, BW_PEER_WHY_MAX + 1,
                 "%.200s/members is damaged: cannot read the members of the cluster; remove this "
                 "node from the cluster, then let it join again with an empty directory",
                 p->options.directory);
    for (uint32_t e = 0; !error && e < p->elections; e++)
        p->records[e] = *bw_peer_disk_record(p->disk, e);
    return error;
}

/* Adds a member from the --members file. A row read from the disk is newer than the row of the file
 * and stays in the roster. */
static int take_listed(struct bw_peer *p, const struct bw_peer_row *row, char *why)
{
    struct sockaddr_storage address;
    if (p->listed_count == BW_PEER_FOUNDERS_MAX ||
        (p->raft && p->listed_count == BW_RAFT_MEMBERS_MAX))
        return refuse(why, "members file: too many members");
    p->listed[p->listed_count++] = row->id;
    bw_peer_roster_take(&p->roster, row, true);
    if (row->id != p->options.self && bw_peer_address_to(&row->address, &address))
        peer_join_place(p, (struct sockaddr *)&address);
    return 0;
}

/* --members: the list names the founders of the cluster. */
static int read_list(struct bw_peer *p, char *why)
{
    struct bw_peer_roster list;
    if (!p->options.members_file)
        return 0;
    void *memory = malloc(bw_peer_roster_bytes(p->cap));
    if (!memory) {
        snprintf(why, BW_PEER_WHY_MAX + 1, "out of memory");
        return BW_ENOMEM;
    }
    bw_peer_roster_init(&list, memory, p->cap);
    int error = bw_peer_members_read(p->options.members_file, &list, why);
    for (uint32_t i = 0; !error && i < list.count; i++)
        error = take_listed(p, &list.at[i].row, why);
    if (!error && !bw_peer_roster_has(&list, p->options.self))
        error = refuse(why, "members file: this node is not in the list");
    free(memory);
    return error;
}

/* Without promises, a list of members needs no founding. */
static void begin_founding(struct bw_peer *p, struct bw_peer_found_saved *saved)
{
    if (p->listed_count > 0 && !saved->founded && !p->guarded) {
        saved->founded = true;
        saved->proposer = p->listed[0];
        saved->count = p->listed_count;
        memcpy(saved->set, p->listed, p->listed_count * sizeof p->listed[0]);
    }
    bw_peer_found_init(&p->found, p->options.self, p->options.expect, p->listed, p->listed_count,
                       saved);
    p->found.lenient = !p->guarded;
}

/* Makes our own row: a new start, and our address. */
static int make_own_row(struct bw_peer *p, char *why)
{
    struct sockaddr_storage address = p->bound;
    const struct bw_peer_row *known = bw_peer_roster_find(&p->roster, p->options.self);
    const struct bw_peer_options *o = &p->options;
    if (o->advertise && bw_peer_address_find(o->advertise, &address) != 0) {
        snprintf(why, BW_PEER_WHY_MAX + 1,
                 "invalid --advertise address '%.200s': expected HOST:PORT", o->advertise);
        return BW_EINVAL;
    }
    p->starts++;
    p->own = (struct bw_peer_row){.id = o->self,
                                  .incarnation = p->starts,
                                  .directory = bw_peer_disk_id(p->disk),
                                  .priority = o->priority ? o->priority
                                              : known     ? known->priority
                                                          : 0,
                                  .ordinary = o->ordinary || (known && known->ordinary)};
    if (!bw_peer_address_any((struct sockaddr *)&address))
        bw_peer_address_from(&p->own.address, (struct sockaddr *)&address);
    if (o->name)
        snprintf(p->own.name, sizeof p->own.name, "%s", o->name);
    else
        snprintf(p->own.name, sizeof p->own.name, "%u", o->self);
    snprintf(p->own.value, sizeof p->own.value, "%s", o->value ? o->value : "");
    bw_peer_address_text((struct sockaddr *)&address, p->address);
    bw_peer_roster_take(&p->roster, &p->own, true);
    if (peer_save(p))
        return 0;
    snprintf(why, BW_PEER_WHY_MAX + 1, "cannot write to directory %.200s", o->directory);
    return BW_EIO;
}

static int start_clock(struct bw_peer *p, char *why)
{
    uint64_t seed = 0;
    (void)!getrandom(&seed, sizeof seed, 0);
    bw_rng_init(&p->rng, seed ^ (uint64_t)bw_clock_boot() ^ (uint64_t)p->options.self << 48);
    p->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (p->timer_fd < 0 || uv_poll_init(p->options.loop, &p->timer, p->timer_fd) != 0) {
        snprintf(why, BW_PEER_WHY_MAX + 1, "cannot create a timer");
        return BW_EIO;
    }
    p->timer.data = p->prepare.data = p;
    p->handles += 2;
    p->armed_at = 0;
    p->started_at = bw_clock_boot();
    uv_prepare_init(p->options.loop, &p->prepare);
    uv_poll_start(&p->timer, UV_READABLE, on_timer);
    uv_prepare_start(&p->prepare, on_prepare);
    return 0;
}

static int open_inside(struct bw_peer *p, char *why)
{
    struct bw_peer_found_saved saved;
    int error = allocate(p, why);
    if (!error)
        error = read_disk(p, &saved, why);
    if (!error)
        error = read_list(p, why);
    if (!error)
        error = peer_join_parse(p, why);
    if (!error)
        error = peer_net_open(p, why);
    if (error)
        return error;
    begin_founding(p, &saved);
    error = make_own_row(p, why);
    if (!error)
        error = start_clock(p, why);
    if (!error) {
        peer_claims_init(p);
        peer_meet_start(p);
    }
    return error;
}

int bw_peer_open(struct bw_peer **out, const struct bw_peer_options *options, char *why)
{
    int error = check(options, why);
    struct bw_peer *p = error ? NULL : calloc(1, sizeof *p);
    if (error)
        return error;
    if (!p) {
        snprintf(why, BW_PEER_WHY_MAX + 1, "out of memory");
        return BW_ENOMEM;
    }
    p->options = *options;
    p->timer_fd = -1;
    p->raft = options->algorithm == &bw_elect_raft;
    p->guarded = p->raft || options->quorum;
    p->cap = options->cap ? options->cap : BW_PEER_MEMBERS_DEFAULT;
    p->elections = options->elections ? options->elections : 1;
    snprintf(p->cluster, sizeof p->cluster, "%s",
             options->cluster ? options->cluster : "bellwether");
    error = open_inside(p, why);
    if (error) {
        shut_down(p);
        return error;
    }
    *out = p;
    return 0;
}

/* ---- public functions ---- */

int peer_enqueue(struct bw_peer *p, const struct peer_queued *queued)
{
    if (p->queue_count == p->queue_cap)
        return BW_EBUSY;
    struct peer_queued *slot = &p->queue[(p->queue_first + p->queue_count++) % p->queue_cap];
    *slot = *queued;
    slot->term = p->election[queued->command.election].own_term;
    return 0;
}

int bw_peer_command(struct bw_peer *p, const struct bw_command *command)
{
    struct peer_queued queued = {.kind = BW_EVENT_COMMAND, .command = *command};
    if (command->election >= p->elections ||
        (command->kind != BW_COMMAND_CAMPAIGN && command->kind != BW_COMMAND_RESIGN &&
         command->kind != BW_COMMAND_TRANSFER))
        return BW_EINVAL;
    return p->formed && !p->closing ? peer_enqueue(p, &queued) : BW_EBUSY;
}

void bw_peer_dead(struct bw_peer *p, uint32_t election, bw_node successor)
{
    struct peer_queued queued = {.kind = BW_EVENT_CONFIRMED_DEAD,
                                 .command = {.election = (uint16_t)election, .node = successor}};
    if (election < p->elections)
        peer_enqueue(p, &queued);
}

void bw_peer_status(struct bw_peer *p, uint32_t election, struct bw_peer_status *out)
{
    *out =
        (struct bw_peer_status){.self = p->options.self,
                                .formed = p->formed,
                                .known = bw_peer_roster_members(&p->roster),
                                .expected = p->listed_count ? p->listed_count : p->options.expect,
                                .state = "meeting"};
    if (!p->instance || election >= p->elections)
        return;
    struct bw_elector_status status;
    out->busy = p->election[election].busy_until > 0;
    out->held = p->election[election].held_until != 0;
    bw_instance_status(p->instance, election, &status);
    out->leader = status.leader;
    out->leading = status.leading;
    out->electing = status.electing;
    out->term = status.term;
    out->token = status.token;
    out->act_from = status.act_from;
    out->act_until = status.act_until;
    out->state = status.state;
    for (uint32_t i = 0; p->guarded && i < p->roster.count; i++) {
        peer_show(p, p->roster.at[i].row.id, &p->shown);
        out->voters += p->shown.voter;
    }
    if (bw_peer_roster_find(&p->roster, status.leader)) {
        peer_show(p, status.leader, &p->shown);
        out->leader_member = &p->shown;
    }
}

uint32_t bw_peer_members(struct bw_peer *p, struct bw_peer_member *out, uint32_t cap)
{
    for (uint32_t i = 0; i < p->roster.count && i < cap; i++)
        peer_show(p, p->roster.at[i].row.id, &out[i]);
    return p->roster.count;
}

const char *bw_peer_name(struct bw_peer *p, bw_node node)
{
    const struct bw_peer_row *row = bw_peer_roster_find(&p->roster, node);
    return row ? row->name : NULL;
}

void bw_peer_counters(const struct bw_peer *p, struct bw_peer_counters *out)
{
    struct bw_seal_counts counts;
    *out = p->counters;
    bw_seal_counts(p->seal, &counts);
    for (unsigned i = 0; i < BW_SEAL_DROPS; i++)
        if (i != BW_SEAL_DROP_UNVERIFIED) /* normal: the first frame of every sender */
            out->refused += counts.dropped[i];
}

const char *bw_peer_dropped(const struct bw_peer *p, unsigned i, uint64_t *count)
{
    struct bw_seal_counts counts;
    if (i >= BW_SEAL_DROPS)
        return NULL;
    bw_seal_counts(p->seal, &counts);
    *count = counts.dropped[i];
    return bw_seal_drop_name(i);
}

int bw_peer_socket(const struct bw_peer *p)
{
    return bw_datagram_socket(p->datagram);
}

const char *bw_peer_address(const struct bw_peer *p)
{
    return p->address;
}
