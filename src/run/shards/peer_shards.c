/* A launcher that is a peer (`bellwether peer --shards`). Its store is a peer with one election per
 * shard, which assigns the shards. This file starts a supervisor for each shard that the peer
 * leads, and ends it when the peer no longer leads. The supervisors send their lease requests to
 * this process (store/parent/parent.h), so that the peer, its sockets and its disk exist only once.
 *
 * The peers decide which one leads (core/shards/peer_balance.h). When this process dies, its
 * supervisors die, too; their guardians kill the work and send death notices to the other peers
 * (death_notice.h).
 *
 * When only a supervisor dies, its guardian also confirms the death of the work to this process,
 * which then releases the shard. Otherwise our peer would continue to lead a shard that has no
 * supervisor. If the guardian is dead, too, the shard is released when its lease has expired. */
#include "run/shards/peer_shards.h"

#include "core/base/error.h"
#include "os/clock.h"
#include "run/contain/proc.h"
#include "run/guardian/death_notice.h"
#include "run/shards/value.h"
#include "run/supervisor/supervisor.h"
#include "store/parent/parent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ASKED_MAX   16u /* requests in flight of one supervisor */
#define WATCH_IDS   UINT64_C(0x4000000000000000)
#define COMMAND_IDS (WATCH_IDS | UINT64_C(0x80000000))

struct child {
    struct peer_shards *peer_shards;
    uv_poll_t poll;
    int fd;
    uint32_t shard;
    uint64_t asked[ASKED_MAX]; /* ids of requests; 0: free */
    uint64_t acquire;          /* id of the ACQUIRE among them; 0: none */
    /* the supervisor holds the shard with `token`, at most until `held_until` */
    bool holds;
    bw_token token;
    bw_time held_until;
    bool orphan; /* the supervisor was reaped with `status` */
    int status;
    bool confirmed; /* its guardian has confirmed the work dead */
    bool closed;    /* end of file: the guardian is gone, too */
};

struct shard_watch {
    uint64_t version;
    bw_time watch_at;  /* NEVER: the watch is in flight */
    bw_time enter_at;  /* earliest time of the next ENTER or LEAVE */
    uint64_t enter_id; /* id of the ENTER or LEAVE in flight */
    bool entered, left, done_reported;
};

struct peer_shards {
    struct launcher *launcher;
    const struct bw_store_ops *ops;
    struct bw_store *store;
    uv_timer_t timer;
    uint64_t commands;
    struct child *child[BW_SHARDS_MAX];
    struct shard_watch shard_watch[BW_SHARDS_MAX];
    struct bw_parent_request ask;
    struct bw_parent_message message;
};

static void on_timer(uv_timer_t *timer);

static const char *election_of(const struct peer_shards *peer_shards, uint32_t shard, char *out)
{
    bw_shards_election(out, peer_shards->launcher->order->election, shard);
    return out;
}

/* ---- supervisors ---- */

static void forget(struct child *child, uint64_t id)
{
    for (uint32_t i = 0; i < ASKED_MAX; i++)
        if (child->asked[i] == id)
            child->asked[i] = 0;
    if (child->acquire == id)
        child->acquire = 0;
}

static bool remember(struct child *child, uint64_t id)
{
    for (uint32_t i = 0; i < ASKED_MAX; i++)
        if (child->asked[i] == 0) {
            child->asked[i] = id;
            return true;
        }
    return false;
}

static void on_asked(struct child *child)
{
    struct peer_shards *peer_shards = child->peer_shards;
    struct bw_parent_request *ask = &peer_shards->ask;
    char own[BW_ELECTION_NAME_MAX + 1];
    uint64_t id = ask->request.id;
    if (ask->cancel) {
        forget(child, id);
        peer_shards->ops->cancel(peer_shards->store, id);
        return;
    }
    if (child->orphan && ask->request.op != BW_STORE_RELEASE)
        return; /* the supervisor is dead and needs no answer */
    if (!bw_parent_read(ask) ||
        strcmp(ask->election, election_of(peer_shards, child->shard, own)) != 0 ||
        !remember(child, id))
        return; /* without an answer, the supervisor counts the request as UNKNOWN */
    if (ask->request.op == BW_STORE_ACQUIRE)
        child->acquire = id;
    if (peer_shards->ops->request(peer_shards->store, &ask->request) != 0)
        forget(child, id);
}

static void on_child_closed(uv_handle_t *handle)
{
    struct child *child = handle->data;
    close(child->fd);
    free(child);
}

static void drop_child(struct peer_shards *peer_shards, uint32_t shard)
{
    struct child *child = peer_shards->child[shard];
    peer_shards->shard_watch[shard].entered = peer_shards->shard_watch[shard].left = false;
    if (!child)
        return;
    peer_shards->child[shard] = NULL;
    for (uint32_t i = 0; i < ASKED_MAX; i++)
        if (child->asked[i])
            peer_shards->ops->cancel(peer_shards->store, child->asked[i]);
    uv_close((uv_handle_t *)&child->poll, on_child_closed);
}

static void release_shard(struct peer_shards *peer_shards, const struct child *child)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    struct bw_store_request request = {.op = BW_STORE_RELEASE,
                                       .id = COMMAND_IDS | ++peer_shards->commands,
                                       .election = election_of(peer_shards, child->shard, election),
                                       .candidate = peer_shards->launcher->order->id,
                                       .token = child->token,
                                       .clean = child->confirmed};
    (void)peer_shards->ops->request(peer_shards->store, &request);
}

/* The supervisor is dead. Releases its shard once the work is dead, too, or the lease has
 * expired. */
static void settle(struct child *child)
{
    struct peer_shards *peer_shards = child->peer_shards;
    struct launcher *l = peer_shards->launcher;
    uint32_t shard = child->shard;
    int status = child->status;
    bw_time now = bw_clock_boot();
    bool over = child->confirmed || (child->closed && now >= child->held_until);
    if (!child->orphan || child->acquire || (child->holds && !over)) {
        if (child->closed && l->ending) /* the launcher no longer sets the timer */
            uv_timer_start(&peer_shards->timer, on_timer,
                           (uint64_t)(bw_time_max(child->held_until - now, 0) / BW_MS + 1), 0);
        return;
    }
    bool held = child->holds;
    if (held)
        release_shard(peer_shards, child);
    drop_child(peer_shards, shard);
    bw_launcher_ended(l, shard, status);
    if (held) /* the release starts an election; the watch reports the new leader */
        (void)bw_shards_assign(&l->core, shard, false, false);
}

static void read_child(struct child *child)
{
    struct peer_shards *peer_shards = child->peer_shards;
    int passed[2], got;
    while (!child->closed && (got = bw_parent_receive(child->fd, &peer_shards->ask,
                                                      sizeof peer_shards->ask, passed)) != 0) {
        for (int i = 0; i < 2; i++)
            if (passed[i] >= 0)
                close(passed[i]);
        if (got == BW_PARENT_CLEAN_CLOSE)
            child->confirmed = true;
        else if (got > 0)
            on_asked(child);
        else
            child->closed = true;
    }
    if (child->closed)
        uv_poll_stop(&child->poll); /* SIGCHLD reports the supervisor's death */
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct child *child = handle->data;
    struct launcher *l = child->peer_shards->launcher;
    (void)status;
    (void)events;
    read_child(child);
    if (!child->orphan)
        return;
    settle(child);
    bw_launcher_act(l);
}

void bw_peer_shards_child_died(struct peer_shards *peer_shards, uint32_t shard, int status)
{
    struct child *child = peer_shards->child[shard];
    if (!child) {
        bw_launcher_ended(peer_shards->launcher, shard, status);
        return;
    }
    child->orphan = true;
    child->status = status;
    /* Cancels all requests of the dead supervisor except an ACQUIRE, which may still make it the
     * holder. */
    for (uint32_t i = 0; i < ASKED_MAX; i++)
        if (child->asked[i] && child->asked[i] != child->acquire) {
            peer_shards->ops->cancel(peer_shards->store, child->asked[i]);
            child->asked[i] = 0;
        }
    read_child(child); /* its last packet may be a release */
    settle(child);
}

bool bw_peer_shards_waits(const struct peer_shards *peer_shards)
{
    for (uint32_t i = 0; i < peer_shards->launcher->order->shards; i++)
        if (peer_shards->child[i] && peer_shards->child[i]->orphan)
            return true;
    return false;
}

int bw_peer_shards_child(struct peer_shards *peer_shards, uint32_t shard)
{
    int pair[2];
    struct child *child = calloc(1, sizeof *child);
    if (!child || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        free(child);
        return -1;
    }
    drop_child(peer_shards, shard);
    *child = (struct child){.peer_shards = peer_shards, .fd = pair[0], .shard = shard};
    if (uv_poll_init(&peer_shards->launcher->loop, &child->poll, pair[0]) != 0) {
        close(pair[0]);
        close(pair[1]);
        free(child);
        return -1;
    }
    child->poll.data = child;
    uv_poll_start(&child->poll, UV_READABLE, on_readable);
    peer_shards->child[shard] = child;
    return pair[1];
}

bool bw_peer_shards_token(const struct peer_shards *peer_shards)
{
    return peer_shards->ops->traits & BW_STORE_TOKEN;
}

/* ---- death notices ---- */

static void send_death_notices(struct peer_shards *peer_shards, struct child *child)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    struct bw_death_notices notices;
    if (!peer_shards->ops->death_notices ||
        !peer_shards->ops->death_notices(
            peer_shards->store, election_of(peer_shards, child->shard, election), &notices))
        return;
    int fd = bw_death_notices_write(notices.rows, notices.count);
    if (fd < 0)
        return;
    memset(&peer_shards->message, 0, sizeof peer_shards->message);
    peer_shards->message.kind = BW_PARENT_DEATH_NOTICES;
    (void)bw_parent_send(child->fd, &peer_shards->message, sizeof peer_shards->message, fd,
                         notices.socket);
    close(fd);
}

static void on_death_notices(void *context, const char *election)
{
    struct peer_shards *peer_shards = context;
    char own[BW_ELECTION_NAME_MAX + 1];
    for (uint32_t i = 0; i < peer_shards->launcher->order->shards; i++)
        if (peer_shards->child[i] && strcmp(election_of(peer_shards, i, own), election) == 0)
            send_death_notices(peer_shards, peer_shards->child[i]);
}

/* ---- which shards are ours ---- */

static void watch(struct peer_shards *peer_shards, uint32_t shard)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    struct shard_watch *shard_watch = &peer_shards->shard_watch[shard];
    struct bw_store_request request = {.op = BW_STORE_WATCH,
                                       .id = WATCH_IDS | shard,
                                       .election = election_of(peer_shards, shard, election),
                                       .version = shard_watch->version};
    shard_watch->watch_at = BW_TIME_NEVER;
    if (peer_shards->ops->request(peer_shards->store, &request) != 0)
        shard_watch->watch_at = bw_clock_boot() + peer_shards->launcher->order->retry_ns;
}

static void on_watched(struct peer_shards *peer_shards, uint32_t shard,
                       const struct bw_store_reply *reply)
{
    struct launcher *l = peer_shards->launcher;
    struct shard_watch *shard_watch = &peer_shards->shard_watch[shard];
    if (reply->outcome != BW_OUTCOME_DONE) {
        shard_watch->watch_at = bw_clock_boot() + l->order->retry_ns;
        return;
    }
    const struct bw_store_record *record = &reply->record;
    shard_watch->version = record->version;
    bool ours = !record->held || strcmp(record->holder, l->order->id) == 0;
    /* an election is in progress: the assignment stays as it is */
    bool has_no_leader = record->held && !record->holder[0];
    bool done = !record->containment[0] && strcmp(record->value, BW_STORE_VALUE_DONE) == 0;
    ours = (ours || (has_no_leader && l->core.at[shard].ours)) && !l->drain.drained;
    if (!l->ending && bw_shards_assign(&l->core, shard, ours, done))
        bw_launcher_end_shard(l, shard, "another leads it");
    watch(peer_shards, shard);
}

static void enter_failed(struct peer_shards *peer_shards, uint64_t id)
{
    for (uint32_t i = 0; i < peer_shards->launcher->order->shards; i++)
        if (peer_shards->shard_watch[i].enter_id == id) {
            peer_shards->shard_watch[i].entered = peer_shards->shard_watch[i].left =
                peer_shards->shard_watch[i].done_reported = false;
            peer_shards->shard_watch[i].enter_at =
                bw_clock_boot() + peer_shards->launcher->order->retry_ns;
        }
}

/* Announces that we are ready to lead a shard, that the shard is done, or (this host is drained)
 * that another peer must lead it. */
static void enter(struct peer_shards *peer_shards, uint32_t shard, bw_time now)
{
    struct launcher *l = peer_shards->launcher;
    struct shard_watch *shard_watch = &peer_shards->shard_watch[shard];
    bool done = l->core.at[shard].done, fit = bw_shards_may_start(&l->core, shard, now);
    bool leaves = l->drain.drained && !done;
    char election[BW_ELECTION_NAME_MAX + 1];
    if (now < shard_watch->enter_at || (leaves ? shard_watch->left
                                        : done ? shard_watch->done_reported
                                               : shard_watch->entered || !fit))
        return;
    struct bw_store_request request = {.op = leaves ? BW_STORE_LEAVE : BW_STORE_ENTER,
                                       .id = COMMAND_IDS | ++peer_shards->commands,
                                       .election = election_of(peer_shards, shard, election),
                                       .candidate = l->order->id,
                                       .value = done ? BW_STORE_VALUE_DONE : "",
                                       .ttl_ns = l->order->ttl_ns};
    shard_watch->enter_id = request.id;
    shard_watch->entered = !leaves;
    shard_watch->left = leaves;
    shard_watch->done_reported = done;
    if (peer_shards->ops->request(peer_shards->store, &request) != 0)
        enter_failed(peer_shards, request.id);
}

void bw_peer_shards_drain(struct peer_shards *peer_shards, bool drained)
{
    struct launcher *l = peer_shards->launcher;
    for (uint32_t i = 0; i < l->order->shards; i++) {
        struct shard_watch *shard_watch = &peer_shards->shard_watch[i];
        shard_watch->entered = shard_watch->left = false;
        if (drained && bw_shards_assign(&l->core, i, false, false))
            bw_launcher_end_shard(l, i, "this host is drained");
        if (drained || shard_watch->watch_at != BW_TIME_NEVER)
            continue;
        peer_shards->ops->cancel(peer_shards->store, WATCH_IDS | i);
        shard_watch->version = 0; /* look again which shards are ours */
        shard_watch->watch_at = 0;
    }
}

/* ---- the store ---- */

static void note_lease(struct child *child, const struct bw_store_reply *reply)
{
    bool done = reply->outcome == BW_OUTCOME_DONE;
    if (reply->op == BW_STORE_ACQUIRE && done) {
        child->holds = true;
        child->token = reply->record.token;
        /* the supervisor died before this answer, so it has started no work */
        child->confirmed = child->orphan;
    } else if (reply->op == BW_STORE_RELEASE && (done || reply->outcome == BW_OUTCOME_REFUSED)) {
        child->holds = false;
    }
    if (done && (reply->op == BW_STORE_ACQUIRE || reply->op == BW_STORE_RENEW))
        child->held_until =
            bw_time_add(bw_clock_boot(), child->peer_shards->launcher->order->ttl_ns);
}

static void pass_on(struct peer_shards *peer_shards, const struct bw_store_reply *reply)
{
    bool lease = reply->op == BW_STORE_ACQUIRE || reply->op == BW_STORE_RENEW;
    for (uint32_t i = 0; i < peer_shards->launcher->order->shards; i++) {
        struct child *child = peer_shards->child[i];
        for (uint32_t k = 0; child && k < ASKED_MAX; k++) {
            if (child->asked[k] != reply->id)
                continue;
            forget(child, reply->id);
            note_lease(child, reply);
            if (child->orphan) {
                settle(child);
                return;
            }
            if (lease && reply->outcome == BW_OUTCOME_DONE)
                send_death_notices(peer_shards, child);
            memset(&peer_shards->message, 0, sizeof peer_shards->message);
            peer_shards->message.kind = BW_PARENT_REPLY;
            peer_shards->message.reply = *reply;
            (void)bw_parent_send(child->fd, &peer_shards->message, sizeof peer_shards->message, -1,
                                 -1);
            return;
        }
    }
}

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    struct peer_shards *peer_shards = context;
    if (reply->id >= WATCH_IDS && reply->id < WATCH_IDS + BW_SHARDS_MAX)
        on_watched(peer_shards, (uint32_t)(reply->id - WATCH_IDS), reply);
    else if (reply->id >> 31 == COMMAND_IDS >> 31) {
        if (reply->outcome != BW_OUTCOME_DONE)
            enter_failed(peer_shards, reply->id);
    } else
        pass_on(peer_shards, reply);
    bw_launcher_act(peer_shards->launcher);
}

static void on_event(void *context, const char *event, const char *line)
{
    struct peer_shards *peer_shards = context;
    bw_log_event(&peer_shards->launcher->log, BW_LOG_WARNING, event, NULL, "%s", line);
}

static void on_ended(void *context, int error, const char *line)
{
    struct peer_shards *peer_shards = context;
    bw_log_event(&peer_shards->launcher->log, BW_LOG_ERROR, "fatal-error", NULL, "%s", line);
    int code = error == BW_EIO ? BW_RUN_EXIT_DISK : error == BW_EINVAL ? 64 : BW_RUN_EXIT_DATA;
    bw_launcher_end(peer_shards->launcher, code);
}

/* ---- time ---- */

void bw_peer_shards_act(struct peer_shards *peer_shards, bw_time now)
{
    for (uint32_t i = 0; i < peer_shards->launcher->order->shards; i++) {
        if (peer_shards->shard_watch[i].watch_at <= now)
            watch(peer_shards, i);
        enter(peer_shards, i, now);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct peer_shards *peer_shards = timer->data;
    for (uint32_t i = 0; i < peer_shards->launcher->order->shards; i++)
        if (peer_shards->child[i] && peer_shards->child[i]->orphan)
            settle(peer_shards->child[i]);
    bw_launcher_act(peer_shards->launcher);
}

void bw_peer_shards_sleep(struct peer_shards *peer_shards, bw_time until, bw_time now)
{
    for (uint32_t i = 0; i < peer_shards->launcher->order->shards; i++) {
        const struct bw_shard *shard = &peer_shards->launcher->core.at[i];
        until = bw_time_min(until, peer_shards->shard_watch[i].watch_at);
        if (peer_shards->child[i] && peer_shards->child[i]->orphan && peer_shards->child[i]->closed)
            until = bw_time_min(until, peer_shards->child[i]->held_until);
        bool drained = peer_shards->launcher->drain.drained;
        if (drained ? !peer_shards->shard_watch[i].left && !shard->done
                    : !peer_shards->shard_watch[i].entered && !shard->done &&
                          shard->state == BW_SHARD_IDLE)
            until = bw_time_min(
                until, bw_time_max(shard->start_from, peer_shards->shard_watch[i].enter_at));
    }
    if (until == BW_TIME_NEVER)
        uv_timer_stop(&peer_shards->timer);
    else
        uv_timer_start(&peer_shards->timer, on_timer,
                       until > now ? (uint64_t)((until - now) / BW_MS + 1) : 0, 0);
}

/* ---- opening and closing ---- */

int bw_peer_shards_open(struct peer_shards **out, struct launcher *l, char *why)
{
    char about[BW_WHY_MAX + 1];
    struct peer_shards *peer_shards = calloc(1, sizeof *peer_shards);
    if (!peer_shards)
        return BW_ENOMEM;
    struct bw_store_options options = {.context = peer_shards,
                                       .reply = on_reply,
                                       .event = on_event,
                                       .ended = on_ended,
                                       .notices_changed = on_death_notices};
    peer_shards->launcher = l;
    peer_shards->ops = bw_store_find(l->order->store, why);
    int error = peer_shards->ops ? peer_shards->ops->open(&peer_shards->store, l->order->store,
                                                          &l->loop, &options, why)
                                 : BW_EINVAL;
    if (error) {
        free(peer_shards);
        return error;
    }
    uv_timer_init(&l->loop, &peer_shards->timer);
    peer_shards->timer.data = peer_shards;
    if (peer_shards->ops->about && peer_shards->ops->about(peer_shards->store, about))
        bw_log_event(&l->log, BW_LOG_INFO, "promise", NULL, "%s", about);
    *out = peer_shards;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void bw_peer_shards_close(struct peer_shards *peer_shards)
{
    for (uint32_t i = 0; i < peer_shards->launcher->order->shards; i++)
        drop_child(peer_shards, i);
    peer_shards->ops->close(peer_shards->store);
    uv_close((uv_handle_t *)&peer_shards->timer, on_timer_closed);
}
