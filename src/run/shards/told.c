/* A launcher that is a peer (`bellwether peer --shards`): its own store, a peer with one election
 * per shard, says which shards are ours; here every one that is gets a supervisor, and one that is
 * not any more is ended. The supervisors ask this process for their leases (store/parent/parent.h),
 * so that the peer, its sockets and its disk are there once.
 *
 * Nothing here decides who leads: the peers do (core/shards/balance.h), and when this process dies,
 * so do its supervisors; their guardians kill the works and say so to the others (last_words.h).
 *
 * When only a supervisor dies, its guardian confirms the death of the work to us, too, and then we
 * give the shard back in its place: else our peer would go on to lead a shard that has no
 * supervisor. If the guardian is dead as well, the shard is given back when its lease has expired.
 */
#include "run/shards/told.h"

#include "core/base/error.h"
#include "run/contain/proc.h"
#include "run/guardian/last_words.h"
#include "run/shards/value.h"
#include "run/supervisor/supervisor.h"
#include "store/parent/parent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ASKED_MAX 16u /* requests of one supervisor that are under way */
#define OWN_IDS   UINT64_C(0x4000000000000000)
#define LINE_IDS  (OWN_IDS | UINT64_C(0x80000000))

struct child {
    struct told *told;
    uv_poll_t poll;
    int fd;
    uint32_t shard;
    uint64_t asked[ASKED_MAX]; /* 0: none */
    uint64_t acquire;          /* which of them is an ACQUIRE */
    bool holds;                /* the shard, by `token`, until `held_until` at the latest */
    bw_token token;
    bw_time held_until;
    bool orphan; /* the supervisor was waited for: `status` */
    int status;
    bool confirmed; /* by its guardian: the work is dead */
    bool silent;    /* end of file: the guardian is gone, too */
};

struct seen {
    uint64_t version;
    bw_time watch_at; /* NEVER: it is watched */
    bw_time line_at;  /* not before */
    uint64_t line;    /* the request under way */
    bool lined, said_done;
};

struct told {
    struct launcher *launcher;
    const struct bw_store_ops *ops;
    struct bw_store *store;
    uv_timer_t timer;
    uint64_t lines;
    struct child *child[BW_SHARDS_MAX];
    struct seen seen[BW_SHARDS_MAX];
    struct bw_parent_ask ask;
    struct bw_parent_tell tell;
};

static void on_timer(uv_timer_t *timer);

static const char *election_of(const struct told *told, uint32_t shard, char *out)
{
    bw_shards_election(out, told->launcher->order->election, shard);
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
    struct told *told = child->told;
    struct bw_parent_ask *ask = &told->ask;
    char own[BW_ELECTION_NAME_MAX + 1];
    uint64_t id = ask->request.id;
    if (ask->cancel) {
        forget(child, id);
        told->ops->cancel(told->store, id);
        return;
    }
    if (child->orphan && ask->request.op != BW_STORE_RELEASE)
        return; /* from before its death; nobody waits for the answer */
    if (!bw_parent_read(ask) || strcmp(ask->election, election_of(told, child->shard, own)) != 0 ||
        !remember(child, id))
        return; /* its time runs out: UNKNOWN */
    if (ask->request.op == BW_STORE_ACQUIRE)
        child->acquire = id;
    if (told->ops->request(told->store, &ask->request) != 0)
        forget(child, id);
}

static void on_child_closed(uv_handle_t *handle)
{
    struct child *child = handle->data;
    close(child->fd);
    free(child);
}

static void drop_child(struct told *told, uint32_t shard)
{
    struct child *child = told->child[shard];
    told->seen[shard].lined = false;
    if (!child)
        return;
    told->child[shard] = NULL;
    for (uint32_t i = 0; i < ASKED_MAX; i++)
        if (child->asked[i])
            told->ops->cancel(told->store, child->asked[i]);
    uv_close((uv_handle_t *)&child->poll, on_child_closed);
}

static void give_back(struct told *told, const struct child *child)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    struct bw_store_request request = {.op = BW_STORE_RELEASE,
                                       .id = LINE_IDS | ++told->lines,
                                       .election = election_of(told, child->shard, election),
                                       .candidate = told->launcher->order->id,
                                       .token = child->token,
                                       .clean = child->confirmed};
    (void)told->ops->request(told->store, &request);
}

/* The supervisor is dead. Is the work, too, or has its lease expired? */
static void settle(struct child *child)
{
    struct told *told = child->told;
    struct launcher *l = told->launcher;
    uint32_t shard = child->shard;
    int status = child->status;
    bw_time now = bw_run_now();
    bool over = child->confirmed || (child->silent && now >= child->held_until);
    if (!child->orphan || child->acquire || (child->holds && !over)) {
        if (child->silent && l->ending) /* nobody else sets it any more */
            uv_timer_start(&told->timer, on_timer,
                           (uint64_t)(bw_time_max(child->held_until - now, 0) / BW_MS + 1), 0);
        return;
    }
    bool held = child->holds;
    if (held)
        give_back(told, child);
    drop_child(told, shard);
    bw_launcher_ended(l, shard, status);
    if (held) /* the release is an election; the watch says whose it is then */
        (void)bw_shards_told(&l->core, shard, false, false);
}

static void read_child(struct child *child)
{
    struct told *told = child->told;
    int passed[2], got;
    while (!child->silent &&
           (got = bw_parent_receive(child->fd, &told->ask, sizeof told->ask, passed)) != 0) {
        for (int i = 0; i < 2; i++)
            if (passed[i] >= 0)
                close(passed[i]);
        if (got == BW_PARENT_FAREWELL)
            child->confirmed = true;
        else if (got > 0)
            on_asked(child);
        else
            child->silent = true;
    }
    if (child->silent)
        uv_poll_stop(&child->poll); /* the supervisor's death is heard of by SIGCHLD */
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct child *child = handle->data;
    struct launcher *l = child->told->launcher;
    (void)status;
    (void)events;
    read_child(child);
    if (!child->orphan)
        return;
    settle(child);
    bw_launcher_act(l);
}

void bw_told_child_died(struct told *told, uint32_t shard, int status)
{
    struct child *child = told->child[shard];
    if (!child) {
        bw_launcher_ended(told->launcher, shard, status);
        return;
    }
    child->orphan = true;
    child->status = status;
    for (uint32_t i = 0; i < ASKED_MAX; i++) /* what may make it holder is waited for */
        if (child->asked[i] && child->asked[i] != child->acquire) {
            told->ops->cancel(told->store, child->asked[i]);
            child->asked[i] = 0;
        }
    read_child(child); /* a release that it sent counts */
    settle(child);
}

bool bw_told_waits(const struct told *told)
{
    for (uint32_t i = 0; i < told->launcher->order->shards; i++)
        if (told->child[i] && told->child[i]->orphan)
            return true;
    return false;
}

int bw_told_child(struct told *told, uint32_t shard)
{
    int pair[2];
    struct child *child = calloc(1, sizeof *child);
    if (!child || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        free(child);
        return -1;
    }
    drop_child(told, shard);
    *child = (struct child){.told = told, .fd = pair[0], .shard = shard};
    if (uv_poll_init(&told->launcher->loop, &child->poll, pair[0]) != 0) {
        close(pair[0]);
        close(pair[1]);
        free(child);
        return -1;
    }
    child->poll.data = child;
    uv_poll_start(&child->poll, UV_READABLE, on_readable);
    told->child[shard] = child;
    return pair[1];
}

bool bw_told_token(const struct told *told)
{
    return told->ops->traits & BW_STORE_TOKEN;
}

/* ---- last words ---- */

static void tell_words(struct told *told, struct child *child)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    struct bw_last_words words;
    if (!told->ops->last_words ||
        !told->ops->last_words(told->store, election_of(told, child->shard, election), &words))
        return;
    int fd = bw_last_words_write(words.rows, words.count);
    if (fd < 0)
        return;
    memset(&told->tell, 0, sizeof told->tell);
    told->tell.kind = BW_PARENT_WORDS;
    (void)bw_parent_send(child->fd, &told->tell, sizeof told->tell, fd, words.socket);
    close(fd);
}

static void on_words(void *context, const char *election)
{
    struct told *told = context;
    char own[BW_ELECTION_NAME_MAX + 1];
    for (uint32_t i = 0; i < told->launcher->order->shards; i++)
        if (told->child[i] && strcmp(election_of(told, i, own), election) == 0)
            tell_words(told, told->child[i]);
}

/* ---- which shards are ours ---- */

static void watch(struct told *told, uint32_t shard)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    struct seen *seen = &told->seen[shard];
    struct bw_store_request request = {.op = BW_STORE_WATCH,
                                       .id = OWN_IDS | shard,
                                       .election = election_of(told, shard, election),
                                       .version = seen->version};
    seen->watch_at = BW_TIME_NEVER;
    if (told->ops->request(told->store, &request) != 0)
        seen->watch_at = bw_run_now() + told->launcher->order->retry_ns;
}

static void on_watched(struct told *told, uint32_t shard, const struct bw_store_reply *reply)
{
    struct launcher *l = told->launcher;
    struct seen *seen = &told->seen[shard];
    if (reply->outcome != BW_OUTCOME_DONE) {
        seen->watch_at = bw_run_now() + l->order->retry_ns;
        return;
    }
    const struct bw_store_record *record = &reply->record;
    seen->version = record->version;
    bool ours = !record->held || strcmp(record->holder, l->order->id) == 0;
    bool nobodys = record->held && !record->holder[0]; /* for the moment: it stays as it was */
    bool done = !record->containment[0] && strcmp(record->value, BW_STORE_VALUE_DONE) == 0;
    ours = ours || (nobodys && l->core.at[shard].ours);
    if (!l->ending && bw_shards_told(&l->core, shard, ours, done))
        bw_launcher_end_shard(l, shard, "another leads it");
    watch(told, shard);
}

static void line_failed(struct told *told, uint64_t id)
{
    for (uint32_t i = 0; i < told->launcher->order->shards; i++)
        if (told->seen[i].line == id) {
            told->seen[i].lined = told->seen[i].said_done = false;
            told->seen[i].line_at = bw_run_now() + told->launcher->order->retry_ns;
        }
}

/* That we are fit to lead a shard, or that there is nothing to lead any more. */
static void line_up(struct told *told, uint32_t shard, bw_time now)
{
    struct launcher *l = told->launcher;
    struct seen *seen = &told->seen[shard];
    bool done = l->core.at[shard].done, fit = bw_shards_fit(&l->core, shard, now);
    char election[BW_ELECTION_NAME_MAX + 1];
    if (now < seen->line_at || (done ? seen->said_done : seen->lined || !fit))
        return;
    struct bw_store_request request = {.op = BW_STORE_ENTER,
                                       .id = LINE_IDS | ++told->lines,
                                       .election = election_of(told, shard, election),
                                       .candidate = l->order->id,
                                       .value = done ? BW_STORE_VALUE_DONE : "",
                                       .ttl_ns = l->order->ttl_ns};
    seen->line = request.id;
    seen->lined = true;
    seen->said_done = done;
    if (told->ops->request(told->store, &request) != 0)
        line_failed(told, request.id);
}

/* ---- the store ---- */

static void note_lease(struct child *child, const struct bw_store_reply *reply)
{
    bool done = reply->outcome == BW_OUTCOME_DONE;
    if (reply->op == BW_STORE_ACQUIRE && done) {
        child->holds = true;
        child->token = reply->record.token;
        child->confirmed = child->orphan; /* the answer came too late to start any work */
    } else if (reply->op == BW_STORE_RELEASE && (done || reply->outcome == BW_OUTCOME_REFUSED)) {
        child->holds = false;
    }
    if (done && (reply->op == BW_STORE_ACQUIRE || reply->op == BW_STORE_RENEW))
        child->held_until = bw_time_add(bw_run_now(), child->told->launcher->order->ttl_ns);
}

static void pass_on(struct told *told, const struct bw_store_reply *reply)
{
    bool lease = reply->op == BW_STORE_ACQUIRE || reply->op == BW_STORE_RENEW;
    for (uint32_t i = 0; i < told->launcher->order->shards; i++) {
        struct child *child = told->child[i];
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
                tell_words(told, child);
            memset(&told->tell, 0, sizeof told->tell);
            told->tell.kind = BW_PARENT_REPLY;
            told->tell.reply = *reply;
            (void)bw_parent_send(child->fd, &told->tell, sizeof told->tell, -1, -1);
            return;
        }
    }
}

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    struct told *told = context;
    if (reply->id >= OWN_IDS && reply->id < OWN_IDS + BW_SHARDS_MAX)
        on_watched(told, (uint32_t)(reply->id - OWN_IDS), reply);
    else if (reply->id >> 31 == LINE_IDS >> 31) {
        if (reply->outcome != BW_OUTCOME_DONE)
            line_failed(told, reply->id);
    } else
        pass_on(told, reply);
    bw_launcher_act(told->launcher);
}

static void on_event(void *context, const char *event, const char *line)
{
    struct told *told = context;
    bw_log_event(&told->launcher->log, BW_LOG_WARNING, event, NULL, "%s", line);
}

static void on_ended(void *context, int error, const char *line)
{
    struct told *told = context;
    bw_log_event(&told->launcher->log, BW_LOG_ERROR, "cannot-go-on", NULL, "%s", line);
    int code = error == BW_EIO ? BW_RUN_EXIT_DISK : error == BW_EINVAL ? 64 : BW_RUN_EXIT_DATA;
    bw_launcher_end(told->launcher, code);
}

/* ---- time ---- */

void bw_told_act(struct told *told, bw_time now)
{
    for (uint32_t i = 0; i < told->launcher->order->shards; i++) {
        if (told->seen[i].watch_at <= now)
            watch(told, i);
        line_up(told, i, now);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct told *told = timer->data;
    for (uint32_t i = 0; i < told->launcher->order->shards; i++)
        if (told->child[i] && told->child[i]->orphan)
            settle(told->child[i]);
    bw_launcher_act(told->launcher);
}

void bw_told_sleep(struct told *told, bw_time until, bw_time now)
{
    for (uint32_t i = 0; i < told->launcher->order->shards; i++) {
        const struct bw_shard *shard = &told->launcher->core.at[i];
        until = bw_time_min(until, told->seen[i].watch_at);
        if (told->child[i] && told->child[i]->orphan && told->child[i]->silent)
            until = bw_time_min(until, told->child[i]->held_until);
        if (!told->seen[i].lined && !shard->done && shard->state == BW_SHARD_IDLE)
            until = bw_time_min(until, bw_time_max(shard->start_from, told->seen[i].line_at));
    }
    if (until == BW_TIME_NEVER)
        uv_timer_stop(&told->timer);
    else
        uv_timer_start(&told->timer, on_timer,
                       until > now ? (uint64_t)((until - now) / BW_MS + 1) : 0, 0);
}

/* ---- opening and closing ---- */

int bw_told_open(struct told **out, struct launcher *l, char *why)
{
    char about[BW_WHY_MAX + 1];
    struct told *told = calloc(1, sizeof *told);
    if (!told)
        return BW_ENOMEM;
    struct bw_store_options options = {.context = told,
                                       .reply = on_reply,
                                       .event = on_event,
                                       .ended = on_ended,
                                       .words = on_words};
    told->launcher = l;
    told->ops = bw_store_find(l->order->store, why);
    int error = told->ops ? told->ops->open(&told->store, l->order->store, &l->loop, &options, why)
                          : BW_EINVAL;
    if (error) {
        free(told);
        return error;
    }
    uv_timer_init(&l->loop, &told->timer);
    told->timer.data = told;
    if (told->ops->about && told->ops->about(told->store, about))
        bw_log_event(&l->log, BW_LOG_INFO, "promise", NULL, "%s", about);
    *out = told;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void bw_told_close(struct told *told)
{
    for (uint32_t i = 0; i < told->launcher->order->shards; i++)
        drop_child(told, i);
    told->ops->close(told->store);
    uv_close((uv_handle_t *)&told->timer, on_timer_closed);
}
