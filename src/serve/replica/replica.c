/* Opening, recovery, closing and status of a replica; see replica.h. */
#include "serve/replica/replica.h"

#include "core/base/error.h"
#include "os/clock.h"
#include "os/crash.h"
#include "serve/replica/identity.h"
#include "serve/replica/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

static int errno_text(char *why, int error, const char *what, const char *directory)
{
    snprintf(why, BW_REPLICA_WHY_MAX + 1, "%s %s: %s", what, directory, strerror(errno));
    return error;
}

#define LOCK_TURNS    200u
#define LOCK_PAUSE_NS 5000000

/* Locks the directory: one process per directory. */
static int lock_directory(struct bw_replica *r, char *why)
{
    int directory = open(r->options.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return errno_text(why, BW_EIO, "cannot open the data in", r->options.directory);
    BW_CRASH("lock.before-create");
    /* The snapshot writer of a killed node dies with it, but slightly later. */
    for (unsigned turn = 0; turn < LOCK_TURNS; turn++) {
        r->lock_fd = bw_directory_lock(directory);
        if (r->lock_fd >= 0 || errno != EWOULDBLOCK)
            break;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NS}, NULL);
    }
    BW_CRASH("lock.after-create");
    int error = errno;
    close(directory);
    errno = error;
    if (r->lock_fd >= 0)
        return 0;
    if (error != EWOULDBLOCK)
        return errno_text(why, BW_EIO, "cannot open the data in", r->options.directory);
    snprintf(why, BW_REPLICA_WHY_MAX + 1, "%s is in use by another process", r->options.directory);
    return BW_EBUSY;
}

/* ---- contents of the log on disk, while it is read ---- */

static void found_entry(void *context, const struct bw_wal_entry *found)
{
    struct bw_replica *r = context;
    struct bw_log_entry entry = {.term = found->term,
                                 .change = found->change,
                                 .node = found->node,
                                 .length = (uint32_t)found->length,
                                 .bytes = (unsigned char *)found->bytes};
    if (found->index <= r->log.base) { /* covered by the snapshot, or in conflict with it */
        bw_log_truncate(&r->log, r->log.base + 1);
        r->diverged = found->index == r->log.base && found->term != r->snapshot_term;
        return;
    }
    /* Terms never decrease in a log, so such an entry does not continue the snapshot. Entry `base`,
     * which would show it too, may have been in a segment that is lost. */
    r->diverged = r->diverged || found->term < r->snapshot_term;
    if (r->diverged)
        return;
    bw_log_truncate(&r->log, found->index);
    if (bw_log_last(&r->log) + 1 != found->index || bw_log_append(&r->log, &entry) != 0)
        r->recovery = BW_EDAMAGED;
}

static void found_state(void *context, const struct bw_durable *state)
{
    ((struct bw_replica *)context)->durable = *state;
}

static void found_truncate(void *context, bw_index from)
{
    struct bw_replica *r = context;
    bw_log_truncate(&r->log, from > r->log.base ? from : r->log.base + 1);
}

/* A snapshot from the leader replaced the whole state: earlier contents of the log are void. A
 * snapshot of our own changes nothing here: its file was loaded already. Entries that do not
 * continue the snapshot (`diverged`) are void even if the node died before it wrote this record. */
static void found_snapshot(void *context, bw_index index, bw_term term)
{
    struct bw_replica *r = context;
    const struct bw_log_entry *entry = bw_log_at(&r->log, index);
    r->diverged = r->diverged && index != r->log.base;
    r->snapshot_recorded |= index == r->log.base;
    if (index > bw_log_last(&r->log) || (entry && entry->term != term)) {
        if (index > r->log.base)
            r->recovery = BW_EDAMAGED; /* the snapshot's file is missing */
    }
}

static void on_durable(void *context, uint64_t commit)
{
    replica_durable(context, commit);
}

static int open_wal(struct bw_replica *r, char *why)
{
    struct bw_wal_options options = {.directory = r->options.directory,
                                     .cluster = r->options.cluster,
                                     .node = r->options.self,
                                     .covered = r->snapshot_index,
                                     .loop = r->options.loop,
                                     .context = r,
                                     .found_entry = found_entry,
                                     .found_state = found_state,
                                     .found_truncate = found_truncate,
                                     .found_snapshot = found_snapshot,
                                     .durable = on_durable};
    int error = bw_wal_open(&r->wal, &options, why);
    if (error)
        return error;
    r->handles++;
    /* Later records continue the snapshot. The record also shows if its file is lost later. */
    if (r->snapshot_index && (r->diverged || !r->snapshot_recorded))
        bw_wal_snapshot(r->wal, r->log.base, r->snapshot_term);
    if (!r->recovery)
        return 0;
    snprintf(why, BW_REPLICA_WHY_MAX + 1, "the log in %s does not continue the snapshot",
             r->options.directory);
    return r->recovery;
}

/* ---- Raft ---- */

static void survey(const struct bw_log_store *log, struct bw_raft_saved *saved,
                   struct bw_term_run *runs, struct bw_raft_change *changes)
{
    uint32_t run = 0, change = 0;
    for (bw_index i = log->base + 1; i <= bw_log_last(log); i++) {
        const struct bw_log_entry *entry = bw_log_at(log, i), *before = bw_log_at(log, i - 1);
        if (!before || before->term != entry->term) {
            if (run == BW_RAFT_TERM_RUNS_MAX)
                break;
            runs[run++] = (struct bw_term_run){.term = entry->term};
        }
        runs[run - 1].count++;
        if (entry->change && change < BW_RAFT_CHANGES_MAX)
            changes[change++] =
                (struct bw_raft_change){.index = i, .op = entry->change, .node = entry->node};
    }
    saved->runs = runs;
    saved->runs_count = run;
    saved->changes = changes;
    saved->changes_count = change;
}

static bw_time heartbeat_of(const struct bw_replica_options *options)
{
    return options->heartbeat_ns ? options->heartbeat_ns : BW_REPLICA_HEARTBEAT;
}

static bw_time timeout_of(const struct bw_replica_options *options)
{
    return options->timeout_ns ? options->timeout_ns : BW_REPLICA_TIMEOUT;
}

static void configure(struct bw_replica *r, struct bw_elector_config *config,
                      struct bw_member *members)
{
    const struct bw_replica_options *options = &r->options;
    for (uint32_t i = 0; i < options->count; i++)
        members[i] = (struct bw_member){.id = options->members[i].id};
    *config = (struct bw_elector_config){.self = options->self,
                                         .members = members,
                                         .count = options->count,
                                         .cap = BW_REPLICA_NODES};
    bw_elector_defaults(config, BW_MS, heartbeat_of(options));
    config->timeout_min_ns = timeout_of(options);
    config->timeout_max_ns = 2 * config->timeout_min_ns;
    r->disk_timeout = 2 * config->timeout_max_ns;
    config->batch_max = REPLICA_BATCH_MAX;
    config->untimed = true;
    if (getrandom(&config->seed, sizeof config->seed, 0) != (ssize_t)sizeof config->seed)
        config->seed = (uint64_t)bw_clock_boot();
}

static int open_raft(struct bw_replica *r)
{
    static struct bw_term_run runs[BW_RAFT_TERM_RUNS_MAX];
    static struct bw_raft_change changes[BW_RAFT_CHANGES_MAX];
    struct bw_member members[BW_REPLICA_NODES];
    struct bw_elector_config config;
    struct bw_raft_saved saved = {.snapshot_index = r->snapshot_index,
                                  .snapshot_term = r->snapshot_term,
                                  .members = r->saved_member,
                                  .voters = r->saved_voters,
                                  .learners = r->saved_members - r->saved_voters};
    configure(r, &config, members);
    survey(&r->log, &saved, runs, changes);
    config.saved = saved.snapshot_index || saved.runs_count ? &saved : NULL;
    r->raft = aligned_alloc(16, (bw_elect_raft.bytes(&config) + 15) & ~(size_t)15);
    r->actions_max = bw_elect_raft.actions_max(&config);
    r->actions = calloc((size_t)REPLICA_DEPTH * r->actions_max, sizeof *r->actions);
    if (!r->raft || !r->actions)
        return BW_ENOMEM;
    return bw_elect_raft.init(r->raft, &config);
}

/* ---- peers ---- */

static void on_frame(void *context, bw_node from, enum bw_mesh_frame kind,
                     const unsigned char *bytes, size_t length)
{
    struct bw_replica *r = context;
    replica_measure_received(r, from, length);
    if (!r->started && kind != BW_FRAME_MEET && kind != BW_FRAME_WELCOME &&
        (kind != BW_FRAME_BACK || r->bootstrapping))
        return;
    if (kind != BW_FRAME_BACK && replica_rejoin_is_refused(r, from))
        return;
    if (r->started)
        replica_beat(r);
    switch (kind) {
    case BW_FRAME_RAFT:
        replica_message(r, from, bytes, length);
        break;
    case BW_FRAME_ASK:
        replica_asked(r, from, bytes, length);
        break;
    case BW_FRAME_REPLY:
        bw_router_receive_reply(&r->router, from, bytes, length);
        break;
    case BW_FRAME_PIECE:
        replica_snapshot_piece(r, from, bytes, length);
        break;
    case BW_FRAME_MEET:
        replica_bootstrap_asked(r, from, bytes, length);
        break;
    case BW_FRAME_WELCOME:
        replica_bootstrap_confirmed(r, from, bytes, length);
        break;
    case BW_FRAME_BACK:
        replica_rejoin_received(r, from, bytes, length);
        break;
    default:
        break;
    }
}

static enum bw_mesh_verdict on_judge(void *context, const struct bw_replica_member *from)
{
    return replica_judge(context, from);
}

static enum bw_mesh_verdict on_joins(void *context, const char *host, uint16_t port, bw_node *id,
                                     unsigned char *out, size_t *length)
{
    return replica_joins(context, host, port, id, out, length);
}

static void on_refused(void *context, bw_node node, enum bw_mesh_verdict verdict)
{
    replica_refused(context, node, verdict);
}

static void on_peer_closed(void *context, bw_node node)
{
    struct bw_event event = {.kind = BW_EVENT_HINT, .node = node};
    replica_rejoin_closed(context, node);
    replica_send_lost(context, node);
    struct bw_replica *r = context;
    /* a node that has connected again is not dead: the new connection replaced this one */
    if (r->started && !bw_mesh_receives_from(r->mesh, node))
        replica_step(context, &event);
}

static void on_peer_opened(void *context, bw_node node)
{
    struct bw_replica *r = context;
    if (bw_mesh_connected(r->mesh, node)) {
        replica_bootstrap_opened(r, node);
        replica_rejoin_opened(r, node);
        replica_admit_opened(r);
    }
    if (node == r->router.leader)
        bw_router_reroute(&r->router); /* requests that waited for the connection to the leader */
}

static int open_peers(struct bw_replica *r, char *why)
{
    const struct bw_replica_member *self =
        bw_member_list_find(&r->members.member_list, r->options.self);
    const struct bw_replica_member *published = &r->options.publish;
    const char *listen = r->options.listen_host;
    if (published->host[0] || !self)
        self = published;
    struct bw_mesh_options options = {.loop = r->options.loop,
                                      .cluster = r->options.cluster,
                                      .self = r->options.self,
                                      .host = listen ? listen : self->host,
                                      .port = listen ? r->options.listen_port : self->port,
                                      .own_port = self->port,
                                      .credentials = r->options.credentials,
                                      .context = r,
                                      .frame = on_frame,
                                      .closed = on_peer_closed,
                                      .opened = on_peer_opened,
                                      .judge = on_judge,
                                      .joins = on_joins,
                                      .refused = on_refused};
    memcpy(options.own_host, self->host, sizeof options.own_host);
    int error = bw_mesh_open(&r->mesh, &options, why);
    if (error)
        return error;
    r->handles++;
    replica_mesh_sync(r);
    return 0;
}

/* ---- opening and closing ---- */

static void start_handles(struct bw_replica *r)
{
    uv_loop_t *loop = r->options.loop;
    bw_silence_init(&r->silence, heartbeat_of(&r->options), timeout_of(&r->options));
    uv_timer_init(loop, &r->timer);
    uv_timer_init(loop, &r->sweeper);
    uv_timer_init(loop, &r->start_timer);
    uv_check_init(loop, &r->check);
    uv_idle_init(loop, &r->turn);
    r->timer.data = r->sweeper.data = r->start_timer.data = r->check.data = r->turn.data = r;
    r->handles += 5;
    r->router.last_turn = bw_clock_boot();
}

void replica_start(struct bw_replica *r)
{
    struct bw_start begin = {.durable = r->durable};
    struct bw_event event = {.kind = BW_EVENT_START, .start = &begin};
    r->started = true;
    replica_remove_leftovers(r); /* not earlier: a node that is refused changes nothing */
    replica_step(r, &event);
    uv_check_start(&r->check, replica_check);
    replica_arm(r);
}

static void replica_free(struct bw_replica *r)
{
    if (r->lock_fd >= 0)
        close(r->lock_fd);
    if (r->incoming.fd >= 0)
        close(r->incoming.fd);
    replica_feed_stop(r);
    bw_registry_memory_drop(&r->incoming.loaded);
    bw_registry_memory_drop(&r->memory);
    bw_log_free(&r->log);
    free(r->raft);
    free(r->actions);
    free(r->held);
    free(r->router.scratch);
    free(r->router.results.ops);
    free((void *)r->router.results.kvs);
    free(r->router.buckets);
    free(r->scratch);
    free(r);
}

/* Rebuilds the members and checks that this program supports the protocol version they rely on. */
static int load_members(struct bw_replica *r, char *why)
{
    replica_roster_rebuild(r);
    if (r->members.member_list.level <= BW_MESH_VERSION)
        return replica_incarnation_begin(r, why);
    snprintf(why, BW_REPLICA_WHY_MAX + 1,
             "the members in %.300s rely on version %u of their protocol, but this version of "
             "bellwether speaks %u",
             r->options.directory, r->members.member_list.level, BW_MESH_VERSION);
    return BW_EVERSION;
}

static int open_parts(struct bw_replica *r, char *why)
{
    r->held = malloc(HELD_MAX * sizeof *r->held);
    r->scratch_size = BW_REQUEST_MAX + 65536u;
    r->scratch = malloc(r->scratch_size);
    if (!r->held || !r->scratch)
        return BW_ENOMEM;
    int error = replica_session_init(r);
    if (!error)
        error = lock_directory(r, why);
    if (!error)
        error = replica_incarnation_allowed(r, why);
    if (!error)
        error = replica_registry_make(r, why);
    if (!error)
        error = replica_snapshot_find(r, why);
    BW_CRASH("open.after-snapshot");
    if (!error)
        error = open_wal(r, why);
    BW_CRASH("open.after-log");
    if (!error)
        error = load_members(r, why);
    if (!error)
        error = open_raft(r);
    if (!error) {
        r->found_index = bw_raft_last_index(r->raft);
        r->found_term = bw_raft_term_at(r->raft, r->found_index);
        if (r->found_term < r->durable.term)
            r->found_term = r->durable.term;
    }
    if (!error)
        error =
            replica_bootstrap_begin(r, r->durable.starts == 0 && bw_log_last(&r->log) == 0, why);
    if (!error)
        error = open_peers(r, why);
    return error;
}

/* Appends what to do about data that cannot be used. */
static void advise(char *why, int error, uint32_t nodes)
{
    size_t used = strlen(why);
    const char *advice = "";
    if (error == BW_EDAMAGED && nodes > 1)
        advice =
            ". Remove this node from the cluster and add it again with an empty directory; the "
            "other nodes have all data";
    else if (error == BW_EDAMAGED)
        advice = ". Restore this node's data from a backup";
    else if (error == BW_EDENIED)
        advice = ". Give every node its own --data, and the --cluster it was created with";
    else if (error == BW_EVERSION)
        advice = ". Start the version that wrote it, or a newer one";
    snprintf(why + used, BW_REPLICA_WHY_MAX + 1 - used, "%s", advice);
}

int bw_replica_open(struct bw_replica **out, const struct bw_replica_options *options, char *why)
{
    struct bw_replica *r = calloc(1, sizeof *r);
    why[0] = '\0';
    if (!r || options->count == 0 || options->count > BW_REPLICA_NODES) {
        free(r);
        return r ? BW_EINVAL : BW_ENOMEM;
    }
    r->options = *options;
    r->lock_fd = r->incoming.fd = -1;
    bw_membership_init(&r->members, options->self, options->joins, options->members,
                       options->count);
    int error = open_parts(r, why);
    if (error) {
        if (!why[0])
            snprintf(why, BW_REPLICA_WHY_MAX + 1, "%s", bw_error_text(error));
        advise(why, error, options->count);
        if (r->wal)
            bw_wal_close(r->wal);
        if (r->mesh)
            bw_mesh_close(r->mesh, NULL);
        replica_free(r);
        return error;
    }
    start_handles(r);
    if (!r->bootstrapping)
        replica_admit_begin(r);
    *out = r;
    return 0;
}

void replica_release(struct bw_replica *r)
{
    if (--r->handles > 0)
        return;
    void (*closed)(void *context) = r->closed;
    void *context = r->options.context;
    replica_free(r);
    if (closed)
        closed(context);
}

static void on_handle_closed(uv_handle_t *handle)
{
    replica_release(handle->data);
}

static void on_peers_closed(void *context)
{
    replica_release(context);
}

void bw_replica_close(struct bw_replica *r, void (*closed)(void *context))
{
    struct bw_event event = {.kind = BW_EVENT_STOP};
    if (r->started)
        replica_step(r, &event);
    bw_wal_commit(r->wal);
    r->closing = true;
    r->closed = closed;
    bw_router_clear(&r->router);
    replica_snapshot_stop(r);
    uv_close((uv_handle_t *)&r->timer, on_handle_closed);
    uv_close((uv_handle_t *)&r->sweeper, on_handle_closed);
    uv_close((uv_handle_t *)&r->start_timer, on_handle_closed);
    uv_close((uv_handle_t *)&r->check, on_handle_closed);
    uv_close((uv_handle_t *)&r->turn, on_handle_closed);
    bw_mesh_close(r->mesh, on_peers_closed);
    bw_wal_close(r->wal);
    replica_release(r);
}

struct bw_registry *bw_replica_registry(struct bw_replica *r)
{
    return r->router.registry;
}

void bw_replica_status(const struct bw_replica *r, struct bw_replica_status *out)
{
    const struct bw_replica_member *self =
        bw_member_list_find(&r->members.applied, r->options.self);
    *out = (struct bw_replica_status){.self = r->options.self,
                                      .leader = r->router.leader,
                                      .leading = r->router.leading,
                                      .term = r->term,
                                      .commit = r->commit,
                                      .applied = r->router.applied,
                                      .last = bw_log_last(&r->log),
                                      .leader_changes = r->leader_changes,
                                      .proposals = r->router.proposals,
                                      .proposals_failed = r->router.proposals_failed,
                                      .log_bytes = bw_wal_bytes(r->wal),
                                      .level = r->members.applied.level,
                                      .incarnation = self ? self->starts : 0};
}

uint32_t bw_replica_members(const struct bw_replica *r, struct bw_replica_member *out,
                            uint32_t *voters)
{
    bw_node ids[BW_RAFT_MEMBERS_MAX];
    uint32_t count = bw_raft_members_at(r->raft, bw_raft_commit_index(r->raft), ids, voters);
    for (uint32_t i = 0; i < count; i++) {
        const struct bw_replica_member *member = bw_member_list_find(&r->members.applied, ids[i]);
        out[i] = member ? *member : (struct bw_replica_member){.id = ids[i]};
    }
    return count;
}

bool bw_replica_has_started(const struct bw_replica *r)
{
    return r->started;
}

bool bw_replica_is_voter(const struct bw_replica *r)
{
    return r->voter;
}
