/* Requests to a peer, answered from its seat (peer_seat.h); a renewal may wait for the next beat's
 * announcement, a watch for a change. */
#include "store/peer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

bw_time peers_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (bw_time)now.tv_sec * BW_SEC + now.tv_nsec;
}

static void done(struct bw_store *store, struct bw_job *job)
{
    struct bw_store_record record;
    peers_record(store, &record);
    bw_job_done(job, &record);
}

static void refuse(struct bw_store *store, struct bw_job *job, int error, const char *why)
{
    struct bw_store_record record;
    peers_record(store, &record);
    bw_job_refuse(job, &record, error, "%s", why);
}

/* ---- stepping down ---- */

/* The peers elect somebody else, or the heir. Our work is dead, or never was. */
static void resign(struct bw_store *store)
{
    struct bw_command command = {.kind = store->heir ? BW_COMMAND_TRANSFER : BW_COMMAND_RESIGN,
                                 .election = PEER_ELECTION,
                                 .node = store->heir};
    store->heir = store->asked = BW_NODE_NONE;
    bw_peer_command(store->peer, &command);
    peer_seat_resigned(&store->seat, peers_now());
}

static void put_note(struct bw_store *store, enum bw_note_kind kind, const char *from,
                     const char *to)
{
    struct bw_note *note = &store->note;
    note->kind = kind;
    note->serial++;
    snprintf(note->from, sizeof note->from, "%s", from);
    snprintf(note->to, sizeof note->to, "%s", to);
}

/* The leader asks us to get ready to follow it. */
static void on_prepare(struct bw_store *store, bw_node leader)
{
    const char *from = bw_peer_name(store->peer, leader);
    put_note(store, BW_NOTE_PREPARE, from ? from : "", store->contender);
    peers_look(store, true);
}

/* Whom we asked has answered. */
static void on_prepared(struct bw_store *store, bw_node from, bool ready)
{
    if (from != store->asked)
        return;
    store->asked = ready ? from : BW_NODE_NONE;
    store->heir = ready ? from : BW_NODE_NONE;
    put_note(store, ready ? BW_NOTE_READY : BW_NOTE_REFUSE, store->asked_name, store->candidate);
    peers_look(store, true);
}

/* To the elector it is a note like any other: it ends the work first and then releases. */
static void on_hand_over(struct bw_store *store, const struct bw_peer_order *order)
{
    const char *to = order->node ? bw_peer_name(store->peer, order->node) : NULL;
    if (!peer_seat_leads(&store->seat))
        return;
    if (!store->seat.holds) {
        store->heir = order->node;
        bw_peer_dead(store->peer, PEER_ELECTION);
        resign(store);
    } else if (order->kind == BW_PEER_RESIGN) {
        put_note(store, BW_NOTE_RESIGN, "", store->candidate);
    } else if (to) {
        put_note(store, BW_NOTE_TRANSFER, "", to);
    }
    peers_look(store, true);
}

void peers_ordered(struct bw_store *store, const struct bw_peer_order *order)
{
    if (order->kind == BW_PEER_PREPARE)
        on_prepare(store, order->node);
    else if (order->kind == BW_PEER_READY || order->kind == BW_PEER_UNREADY)
        on_prepared(store, order->node, order->kind == BW_PEER_READY);
    else
        on_hand_over(store, order);
}

/* ---- one request each ---- */

static void on_acquire(struct bw_store *store, struct bw_job *job, bw_time now)
{
    const struct bw_store_request *request = &job->request;
    if (request->ttl_ns > store->settings.ttl_ns) {
        refuse(store, job, BW_EINVAL, "longer than the ttl of the peer URL");
        return;
    }
    peer_seat_look(&store->seat, now);
    if (peer_seat_acquire(&store->seat, now, request->ttl_ns, now) != PEER_YES) {
        refuse(store, job, BW_ENOTLEADER, "another peer leads, or nobody yet");
        return;
    }
    store->request = request->id;
    store->version++;
    bw_peer_busy(store->peer, PEER_ELECTION, true);
    snprintf(store->candidate, sizeof store->candidate, "%s", request->candidate);
    snprintf(store->value, sizeof store->value, "%s", request->value ? request->value : "");
    snprintf(store->containment, sizeof store->containment, "%s",
             request->containment ? request->containment : "");
    done(store, job);
}

/* A lease counts from when it was asked for. The job keeps that where a store that knows wall
 * clocks would keep something else. */
static void try_renew(struct bw_store *store, struct bw_job *job)
{
    const struct bw_store_request *request = &job->request;
    bw_time sent = request->until_wall_ns;
    switch (peer_seat_renew(&store->seat, request->token, sent, request->ttl_ns)) {
    case PEER_YES:
        if (request->value)
            snprintf(store->value, sizeof store->value, "%s", request->value);
        store->version++;
        done(store, job);
        break;
    case PEER_WAIT:
        break;
    case PEER_NO:
        refuse(store, job, BW_ENOTLEADER, "another peer leads, or the quorum is lost");
        break;
    }
}

static void on_release(struct bw_store *store, struct bw_job *job)
{
    if (!peer_seat_release(&store->seat, job->request.token)) {
        refuse(store, job, BW_ENOTLEADER, "not held under this token");
        return;
    }
    store->request = 0;
    store->version++;
    bw_peer_busy(store->peer, PEER_ELECTION, !job->request.clean);
    if (job->request.clean)
        bw_peer_dead(store->peer, PEER_ELECTION);
    if (peer_seat_leads(&store->seat))
        resign(store);
    done(store, job);
}

/* Our own elector hands over: the one named must be ready first. Who asks for a transfer asks until
 * it sees it done; the one named gets ready once. */
static void ask_heir(struct bw_store *store, const struct bw_note *note, bw_node to)
{
    struct bw_peer_order order = {.kind = BW_PEER_PREPARE, .election = PEER_ELECTION, .node = to};
    bw_time now = peers_now();
    if (to && to == store->asked && now < store->asked_until)
        return;
    store->asked = to;
    store->asked_until = bw_time_add(now, store->settings.ttl_ns / 2);
    store->heir = BW_NODE_NONE;
    snprintf(store->asked_name, sizeof store->asked_name, "%s", note->to);
    if (to && to != store->settings.id && bw_peer_order(store->peer, &order) == 0)
        return;
    store->asked = BW_NODE_NONE;
    put_note(store, BW_NOTE_REFUSE, note->to, store->candidate);
    store->version++;
}

static void on_note(struct bw_store *store, struct bw_job *job)
{
    static const enum bw_peer_order_kind orders[] = {[BW_NOTE_RESIGN] = BW_PEER_RESIGN,
                                                     [BW_NOTE_TRANSFER] = BW_PEER_TRANSFER,
                                                     [BW_NOTE_READY] = BW_PEER_READY,
                                                     [BW_NOTE_REFUSE] = BW_PEER_UNREADY};
    const struct bw_note *note = &job->request.note;
    bw_node to = note->to[0] ? peers_named(store, note->to) : BW_NODE_NONE;
    if (note->kind == BW_NOTE_PREPARE) {
        ask_heir(store, note, to);
    } else if (note->kind != BW_NOTE_NONE) {
        struct bw_peer_order order = {
            .kind = orders[note->kind], .election = PEER_ELECTION, .node = to};
        int error = bw_peer_order(store->peer, &order);
        if (error) {
            refuse(store, job, error, "nobody leads, or there is no such peer");
            return;
        }
    }
    done(store, job);
}

/* Whoever leaves the line may not or will not lead; one who only steps back comes again at once. */
static void on_line(struct bw_store *store, struct bw_job *job)
{
    store->seat.line = job->request.op == BW_STORE_ENTER ? PEER_LINE_IN : PEER_LINE_OUT;
    snprintf(store->contender, sizeof store->contender, "%s", job->request.candidate);
    if (peer_seat_must_resign(&store->seat, peers_now()))
        resign(store);
    done(store, job);
}

static void start(struct bw_store *store, struct bw_job *job)
{
    switch (job->request.op) {
    case BW_STORE_ACQUIRE:
        on_acquire(store, job, peers_now());
        break;
    case BW_STORE_RENEW:
        job->request.until_wall_ns = peers_now();
        try_renew(store, job);
        break;
    case BW_STORE_RELEASE:
        on_release(store, job);
        break;
    case BW_STORE_READ:
        done(store, job);
        break;
    case BW_STORE_WATCH:
        break; /* looked at below */
    case BW_STORE_ENTER:
    case BW_STORE_LEAVE:
        on_line(store, job);
        break;
    case BW_STORE_LIST:
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EUNSUPPORTED, "peers list no candidates");
        break;
    case BW_STORE_NOTE:
        on_note(store, job);
        break;
    }
}

/* False: not yet, or not any more; it was answered. */
static bool takes_part(struct bw_store *store, struct bw_job *job)
{
    struct bw_peer_status status;
    bw_peer_status(store->peer, PEER_ELECTION, &status);
    if (strcmp(store->election, job->request.election) != 0)
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EINVAL, "these peers elect for '%s'",
                    store->election);
    else if (store->ended[0] && job->request.op != BW_STORE_RELEASE)
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EIO, "%s", store->ended);
    else if (!status.formed && store->settings.expect)
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EBUSY,
                    "%u of the %u peers that make the cluster are here", (unsigned)status.known,
                    (unsigned)store->settings.expect);
    else if (!status.formed)
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EBUSY, "no cluster of peers is found yet");
    else
        return true;
    return false;
}

int peers_ask(struct bw_store *store, const struct bw_store_request *request)
{
    struct bw_job *job = bw_jobs_add(&store->jobs, request);
    if (!job)
        return BW_ELIMIT;
    if (!store->election[0])
        snprintf(store->election, sizeof store->election, "%s", request->election);
    if (!takes_part(store, job))
        return 0;
    start(store, job);
    peers_look(store, false);
    return 0;
}

/* ---- what waits ---- */

static void on_timer(uv_timer_t *timer)
{
    peers_look(timer->data, false);
}

/* libuv's milliseconds begin when its turn did: early by less than one, and looked at again then.
 */
static void keep_time(struct bw_store *store, bw_time now)
{
    bw_time at = peer_seat_deadline(&store->seat, now);
    if (at == BW_TIME_NEVER) {
        uv_timer_stop(&store->timer);
        return;
    }
    uv_update_time(store->loop);
    uv_timer_start(&store->timer, on_timer, (uint64_t)((at - now + BW_MS - 1) / BW_MS), 0);
}

void peers_look(struct bw_store *store, bool changed)
{
    bw_time now = peers_now();
    if (peer_seat_must_resign(&store->seat, now))
        resign(store);
    if (peer_seat_look(&store->seat, now) || changed)
        store->version++;
    struct bw_job *next = NULL;
    for (struct bw_job *job = store->jobs.first; job; job = next) {
        next = job->next;
        if (job->request.op == BW_STORE_RENEW)
            try_renew(store, job);
        else if (job->request.op == BW_STORE_WATCH && job->request.version != store->version)
            done(store, job);
    }
    keep_time(store, now);
}
