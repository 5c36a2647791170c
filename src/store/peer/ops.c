/* Requests to the peer store, answered from the leadership slot (core/peer/leader_slot.h). A
 * renewal may wait for the announcement that follows the next heartbeat; a watch waits for a
 * change. */
#include "store/peer/peer.h"

#include "core/base/parse_values.h"
#include "os/clock.h"

#include <stdio.h>
#include <string.h>

struct peer_shard *peers_shard(struct bw_store *store, const char *election)
{
    size_t length = strlen(store->settings.election);
    uint64_t number = 0;
    if (store->settings.shards && strncmp(election, store->settings.election, length) == 0 &&
        election[length] == '.' &&
        bw_text_number(election + length + 1, strlen(election + length + 1), BW_SHARDS_MAX,
                       &number) != 0)
        return NULL;
    struct peer_shard *shard = number < store->shards_count ? &store->shards[number] : NULL;
    return shard && strcmp(shard->election, election) == 0 ? shard : NULL;
}

static struct peer_shard *shard_of(struct bw_store *store, const struct bw_job *job)
{
    return peers_shard(store, job->request.election);
}

static void done(struct bw_store *store, struct bw_job *job)
{
    struct bw_store_record record;
    peers_record(store, shard_of(store, job), &record);
    bw_job_done(job, &record);
}

static void refuse(struct bw_store *store, struct bw_job *job, int error, const char *why)
{
    struct bw_store_record record;
    peers_record(store, shard_of(store, job), &record);
    bw_job_refuse(job, &record, error, "%s", why);
}

/* ---- stepping down ---- */

/* Makes the peers elect another leader, or the chosen successor. Our work is dead, or never
 * started. */
static void resign(struct bw_store *store, struct peer_shard *shard)
{
    struct bw_command command = {.kind = shard->successor ? BW_COMMAND_TRANSFER : BW_COMMAND_RESIGN,
                                 .election = (uint16_t)shard->number,
                                 .node = shard->successor};
    shard->successor = shard->preparing = BW_NODE_NONE;
    bw_peer_command(store->peer, &command);
    leader_slot_resigned(&shard->slot, bw_clock_boot());
}

static void put_note(struct peer_shard *shard, enum bw_note_kind kind, const char *from,
                     const char *to)
{
    struct bw_note *note = &shard->note;
    note->kind = kind;
    note->serial++;
    snprintf(note->from, sizeof note->from, "%s", from);
    snprintf(note->to, sizeof note->to, "%s", to);
}

/* The leader asks us to prepare to succeed it. */
static void on_prepare(struct bw_store *store, struct peer_shard *shard, bw_node leader)
{
    const char *from = bw_peer_name(store->peer, leader);
    put_note(shard, BW_NOTE_PREPARE, from ? from : "", shard->queued);
    peers_update(store, shard, true);
}

/* A shard has no candidate here that could prepare before we lead it: answers immediately. */
static void answer_prepare(struct bw_store *store, struct peer_shard *shard, bw_node leader)
{
    bool ready = shard->slot.line == PEER_QUEUE_IN && !shard->done;
    struct bw_peer_order order = {
        .kind = ready ? BW_PEER_READY : BW_PEER_UNREADY, .election = shard->number, .node = leader};
    bw_peer_order(store->peer, &order);
}

/* The successor that we asked to prepare has answered. */
static void on_prepared(struct bw_store *store, struct peer_shard *shard, bw_node from, bool ready)
{
    if (from != shard->preparing)
        return;
    shard->preparing = ready ? from : BW_NODE_NONE;
    shard->successor = ready ? from : BW_NODE_NONE;
    if (from == shard->transfer_to) {
        shard->transfer_error = ready ? 0 : BW_EDENIED;
        shard->transfer_until = BW_TIME_NEVER;
    }
    put_note(shard, ready ? BW_NOTE_READY : BW_NOTE_REFUSE, shard->preparing_name,
             shard->candidate);
    peers_update(store, shard, true);
}

/* Passes a request to hand over to the elector as a note: the elector stops its work first and then
 * releases. */
static void on_hand_over(struct bw_store *store, const struct bw_peer_order *order)
{
    struct peer_shard *shard = &store->shards[order->election];
    const char *to = order->node ? bw_peer_name(store->peer, order->node) : NULL;
    if (!leader_slot_leads(&shard->slot))
        return;
    shard->transfer_to = order->node;
    shard->transfer_error = 0;
    shard->transfer_until = bw_time_add(bw_clock_boot(), store->settings.ttl_ns);
    if (!shard->slot.holds) {
        shard->successor = order->node;
        shard->transfer_until = BW_TIME_NEVER;
        bw_peer_dead(store->peer, shard->number, shard->successor);
        resign(store, shard);
    } else if (order->kind == BW_PEER_RESIGN) {
        put_note(shard, BW_NOTE_RESIGN, "", shard->candidate);
    } else if (to) {
        put_note(shard, BW_NOTE_TRANSFER, "", to);
    }
    peers_update(store, shard, true);
}

int peers_outcome(struct bw_store *store, uint32_t election, bw_node to)
{
    const struct peer_shard *shard = &store->shards[election];
    if (shard->transfer_to != to)
        return 0;
    return !shard->transfer_error && bw_clock_boot() >= shard->transfer_until
               ? BW_EBUSY
               : shard->transfer_error;
}

void peers_ordered(struct bw_store *store, const struct bw_peer_order *order)
{
    struct peer_shard *shard = &store->shards[order->election];
    if (order->kind == BW_PEER_PREPARE)
        (store->settings.shards ? answer_prepare : on_prepare)(store, shard, order->node);
    else if (order->kind == BW_PEER_READY || order->kind == BW_PEER_UNREADY)
        on_prepared(store, shard, order->node, order->kind == BW_PEER_READY);
    else
        on_hand_over(store, order);
}

/* ---- one request each ---- */

static void on_acquire(struct bw_store *store, struct bw_job *job, bw_time now)
{
    struct peer_shard *shard = shard_of(store, job);
    const struct bw_store_request *request = &job->request;
    if (request->ttl_ns > store->settings.ttl_ns) {
        refuse(store, job, BW_EINVAL, "TTL too long: longer than ttl= of the peer URL");
        return;
    }
    leader_slot_update(&shard->slot, now);
    if (leader_slot_acquire(&shard->slot, now, request->ttl_ns, now) != PEER_YES) {
        refuse(store, job, BW_ENOTLEADER, "another peer leads, or there is no leader yet");
        return;
    }
    shard->request = request->id;
    shard->version++;
    /* the chosen peer did not become the leader */
    if (shard->transfer_to && !shard->transfer_error)
        shard->transfer_error = BW_ENOQUORUM;
    bw_peer_busy(store->peer, shard->number, bw_time_add(now, request->ttl_ns));
    snprintf(shard->candidate, sizeof shard->candidate, "%s", request->candidate);
    snprintf(shard->value, sizeof shard->value, "%s", request->value ? request->value : "");
    snprintf(shard->containment, sizeof shard->containment, "%s",
             request->containment ? request->containment : "");
    done(store, job);
}

/* A lease counts from when it was requested. The job keeps that time in until_wall_ns, which this
 * store does not use otherwise. */
static void try_renew(struct bw_store *store, struct bw_job *job)
{
    struct peer_shard *shard = shard_of(store, job);
    const struct bw_store_request *request = &job->request;
    bw_time sent = request->until_wall_ns;
    switch (leader_slot_renew(&shard->slot, request->token, sent, request->ttl_ns)) {
    case PEER_YES:
        if (request->settled)
            leader_slot_settled(&shard->slot);
        if (request->value)
            snprintf(shard->value, sizeof shard->value, "%s", request->value);
        shard->version++;
        bw_peer_busy(store->peer, shard->number, bw_time_add(sent, request->ttl_ns));
        done(store, job);
        break;
    case PEER_WAIT:
        break;
    case PEER_NO:
        refuse(store, job, BW_ENOTLEADER, "another peer leads, or the quorum is lost");
        break;
    }
}

/* The work of a shard has ended for good: notifies the other peers. The leader keeps leading the
 * shard, but runs nothing. */
static bool mark_done(struct bw_store *store, struct peer_shard *shard, const struct bw_job *job)
{
    const char *value = job->request.value;
    if (!store->settings.shards || !value || strcmp(value, BW_STORE_VALUE_DONE) != 0)
        return false;
    shard->version += !shard->done;
    shard->done = true;
    bw_peer_done(store->peer, shard->number);
    return true;
}

static void on_release(struct bw_store *store, struct bw_job *job)
{
    struct peer_shard *shard = shard_of(store, job);
    if (!leader_slot_release(&shard->slot, job->request.token)) {
        refuse(store, job, BW_ENOTLEADER, "not held under this token");
        return;
    }
    if (job->request.settled)
        leader_slot_settled(&shard->slot);
    shard->request = 0;
    shard->version++;
    bw_peer_busy(store->peer, shard->number, job->request.clean ? 0 : BW_TIME_NEVER);
    if (mark_done(store, shard, job) && leader_slot_leads(&shard->slot)) {
        /* stay leader, so that no other peer runs the work again */
        shard->slot.line = PEER_QUEUE_IN;
        done(store, job);
        return;
    }
    if (job->request.clean)
        bw_peer_dead(store->peer, shard->number,
                     leader_slot_leads(&shard->slot) ? shard->successor : BW_NODE_NONE);
    if (leader_slot_leads(&shard->slot))
        resign(store, shard);
    done(store, job);
}

/* Our own elector hands over: asks the chosen successor to prepare.
 *
 * The requester of a transfer repeats its request until the transfer is done. The successor is
 * asked again only after half a TTL. */
static void prepare_successor(struct bw_store *store, struct peer_shard *shard,
                              const struct bw_note *note, bw_node to)
{
    struct bw_peer_order order = {.kind = BW_PEER_PREPARE, .election = shard->number, .node = to};
    bw_time now = bw_clock_boot();
    if (to && to == shard->preparing && now < shard->prepare_again_at)
        return;
    shard->preparing = to;
    shard->prepare_again_at = bw_time_add(now, store->settings.ttl_ns / 2);
    shard->successor = BW_NODE_NONE;
    snprintf(shard->preparing_name, sizeof shard->preparing_name, "%s", note->to);
    if (to && to != store->settings.id && bw_peer_order(store->peer, &order) == 0)
        return;
    shard->preparing = BW_NODE_NONE;
    put_note(shard, BW_NOTE_REFUSE, note->to, shard->candidate);
    shard->version++;
}

static void on_note(struct bw_store *store, struct bw_job *job)
{
    static const enum bw_peer_order_kind orders[] = {[BW_NOTE_RESIGN] = BW_PEER_RESIGN,
                                                     [BW_NOTE_TRANSFER] = BW_PEER_TRANSFER,
                                                     [BW_NOTE_READY] = BW_PEER_READY,
                                                     [BW_NOTE_REFUSE] = BW_PEER_UNREADY};
    struct peer_shard *shard = shard_of(store, job);
    const struct bw_note *note = &job->request.note;
    bw_node to = note->to[0] ? peers_find_member(store, note->to) : BW_NODE_NONE;
    if (note->kind == BW_NOTE_PREPARE) {
        prepare_successor(store, shard, note, to);
    } else if (note->kind != BW_NOTE_NONE) {
        struct bw_peer_order order = {
            .kind = orders[note->kind], .election = shard->number, .node = to};
        int error = bw_peer_order(store->peer, &order);
        if (error) {
            refuse(store, job, error, "no leader, or no such peer");
            return;
        }
    }
    done(store, job);
}

/* ENTER and LEAVE: joins or leaves the queue of candidates. A candidate that leaves must not lead.
 * One that only steps down enters again immediately. */
static void on_queue(struct bw_store *store, struct bw_job *job)
{
    struct peer_shard *shard = shard_of(store, job);
    bool enters = job->request.op == BW_STORE_ENTER;
    if (enters)
        mark_done(store, shard, job);
    shard->slot.line = enters || shard->done ? PEER_QUEUE_IN : PEER_QUEUE_OUT;
    snprintf(shard->queued, sizeof shard->queued, "%s", job->request.candidate);
    if (enters && shard->note.kind == BW_NOTE_PREPARE && !shard->note.to[0]) {
        snprintf(shard->note.to, sizeof shard->note.to, "%s", shard->queued);
        shard->note.serial++; /* the leader asked before a candidate entered here */
        shard->version++;
    }
    if (leader_slot_must_resign(&shard->slot, bw_clock_boot()))
        resign(store, shard);
    done(store, job);
}

static void start(struct bw_store *store, struct bw_job *job)
{
    switch (job->request.op) {
    case BW_STORE_ACQUIRE:
        on_acquire(store, job, bw_clock_boot());
        break;
    case BW_STORE_RENEW:
        job->request.until_wall_ns = bw_clock_boot();
        try_renew(store, job);
        break;
    case BW_STORE_RELEASE:
        on_release(store, job);
        break;
    case BW_STORE_READ:
        done(store, job);
        break;
    case BW_STORE_WATCH:
        break; /* checked by peers_update */
    case BW_STORE_ENTER:
    case BW_STORE_LEAVE:
        on_queue(store, job);
        break;
    case BW_STORE_LIST:
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EUNSUPPORTED,
                    "the peer store cannot list candidates");
        break;
    case BW_STORE_ELECTIONS:
        break; /* not sent: this store lacks the trait NAMES */
    case BW_STORE_NOTE:
        on_note(store, job);
        break;
    }
}

/* If this peer cannot take part yet, or not any more, answers the job and returns false. */
static bool check_ready(struct bw_store *store, struct bw_job *job)
{
    struct bw_peer_status status;
    bw_peer_status(store->peer, 0, &status);
    if (!shard_of(store, job))
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EINVAL,
                    "these peers run the election '%s' only",
                    store->settings.shards ? store->settings.election : store->shards->election);
    else if (store->ended[0] && job->request.op != BW_STORE_RELEASE)
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EIO, "%s", store->ended);
    else if (!status.formed && store->settings.expect)
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EBUSY,
                    "waiting for the cluster to form: %u of %u peers found", (unsigned)status.known,
                    (unsigned)store->settings.expect);
    else if (!status.formed)
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EBUSY, "no cluster of peers found yet");
    else
        return true;
    return false;
}

int peers_request(struct bw_store *store, const struct bw_store_request *request)
{
    struct bw_job *job = bw_jobs_add(&store->jobs, request);
    if (!job)
        return BW_ELIMIT;
    if (!store->shards->election[0])
        snprintf(store->shards->election, sizeof store->shards->election, "%s", request->election);
    if (!check_ready(store, job))
        return 0;
    struct peer_shard *shard = shard_of(store, job);
    start(store, job);
    peers_update(store, shard, false);
    return 0;
}

/* ---- pending requests ---- */

static void on_timer(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    for (uint32_t i = 0; i < store->shards_count; i++)
        peers_update(store, &store->shards[i], false);
}

/* libuv counts milliseconds from the start of the loop's turn, so the timer may fire up to one
 * millisecond early. It is then armed again. */
static void arm_timer(struct bw_store *store, bw_time now)
{
    bw_time at = BW_TIME_NEVER;
    for (uint32_t i = 0; i < store->shards_count; i++)
        at = bw_time_min(at, leader_slot_deadline(&store->shards[i].slot, now));
    if (at == BW_TIME_NEVER) {
        uv_timer_stop(&store->timer);
        return;
    }
    uv_update_time(store->loop);
    uv_timer_start(&store->timer, on_timer, (uint64_t)((at - now + BW_MS - 1) / BW_MS), 0);
}

void peers_update(struct bw_store *store, struct peer_shard *shard, bool changed)
{
    bw_time now = bw_clock_boot();
    if (leader_slot_must_resign(&shard->slot, now))
        resign(store, shard);
    if (leader_slot_update(&shard->slot, now) || changed)
        shard->version++;
    struct bw_job *next = NULL;
    for (struct bw_job *job = store->jobs.first; job; job = next) {
        next = job->next;
        if (strcmp(job->request.election, shard->election) != 0)
            continue;
        if (job->request.op == BW_STORE_RENEW)
            try_renew(store, job);
        else if (job->request.op == BW_STORE_WATCH && job->request.version != shard->version)
            done(store, job);
    }
    arm_timer(store, now);
}
