/* Requests to a peer, answered from its seat (core/shards/seat.h); a renewal may wait for the next
 * beat's announcement, a watch for a change. */
#include "store/peer/peer.h"

#include "core/base/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct peer_place *peers_place(struct bw_store *store, const char *election)
{
    size_t length = strlen(store->settings.election);
    uint64_t number = 0;
    if (store->settings.shards && strncmp(election, store->settings.election, length) == 0 &&
        election[length] == '.' &&
        bw_text_number(election + length + 1, strlen(election + length + 1), BW_SHARDS_MAX,
                       &number) != 0)
        return NULL;
    struct peer_place *place = number < store->places_count ? &store->places[number] : NULL;
    return place && strcmp(place->election, election) == 0 ? place : NULL;
}

bw_time peers_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (bw_time)now.tv_sec * BW_SEC + now.tv_nsec;
}

static struct peer_place *place_of(struct bw_store *store, const struct bw_job *job)
{
    return peers_place(store, job->request.election);
}

static void done(struct bw_store *store, struct bw_job *job)
{
    struct bw_store_record record;
    peers_record(store, place_of(store, job), &record);
    bw_job_done(job, &record);
}

static void refuse(struct bw_store *store, struct bw_job *job, int error, const char *why)
{
    struct bw_store_record record;
    peers_record(store, place_of(store, job), &record);
    bw_job_refuse(job, &record, error, "%s", why);
}

/* ---- stepping down ---- */

/* The peers elect somebody else, or the heir. Our work is dead, or never was. */
static void resign(struct bw_store *store, struct peer_place *place)
{
    struct bw_command command = {.kind = place->heir ? BW_COMMAND_TRANSFER : BW_COMMAND_RESIGN,
                                 .election = (uint16_t)place->number,
                                 .node = place->heir};
    place->heir = place->asked = BW_NODE_NONE;
    bw_peer_command(store->peer, &command);
    peer_seat_resigned(&place->seat, peers_now());
}

static void put_note(struct peer_place *place, enum bw_note_kind kind, const char *from,
                     const char *to)
{
    struct bw_note *note = &place->note;
    note->kind = kind;
    note->serial++;
    snprintf(note->from, sizeof note->from, "%s", from);
    snprintf(note->to, sizeof note->to, "%s", to);
}

/* The leader asks us to get ready to follow it. */
static void on_prepare(struct bw_store *store, struct peer_place *place, bw_node leader)
{
    const char *from = bw_peer_name(store->peer, leader);
    put_note(place, BW_NOTE_PREPARE, from ? from : "", place->contender);
    peers_look(store, place, true);
}

/* Of a shard there is nobody here to get ready before we lead it. */
static void answer_prepare(struct bw_store *store, struct peer_place *place, bw_node leader)
{
    bool ready = place->seat.line == PEER_LINE_IN && !place->done;
    struct bw_peer_order order = {
        .kind = ready ? BW_PEER_READY : BW_PEER_UNREADY, .election = place->number, .node = leader};
    bw_peer_order(store->peer, &order);
}

/* Whom we asked has answered. */
static void on_prepared(struct bw_store *store, struct peer_place *place, bw_node from, bool ready)
{
    if (from != place->asked)
        return;
    place->asked = ready ? from : BW_NODE_NONE;
    place->heir = ready ? from : BW_NODE_NONE;
    if (from == place->sought) {
        place->sought_error = ready ? 0 : BW_EDENIED;
        place->sought_until = BW_TIME_NEVER;
    }
    put_note(place, ready ? BW_NOTE_READY : BW_NOTE_REFUSE, place->asked_name, place->candidate);
    peers_look(store, place, true);
}

/* To the elector it is a note like any other: it ends the work first and then releases. */
static void on_hand_over(struct bw_store *store, const struct bw_peer_order *order)
{
    struct peer_place *place = &store->places[order->election];
    const char *to = order->node ? bw_peer_name(store->peer, order->node) : NULL;
    if (!peer_seat_leads(&place->seat))
        return;
    place->sought = order->node;
    place->sought_error = 0;
    place->sought_until = bw_time_add(peers_now(), store->settings.ttl_ns);
    if (!place->seat.holds) {
        place->heir = order->node;
        place->sought_until = BW_TIME_NEVER;
        bw_peer_dead(store->peer, place->number, place->heir);
        resign(store, place);
    } else if (order->kind == BW_PEER_RESIGN) {
        put_note(place, BW_NOTE_RESIGN, "", place->candidate);
    } else if (to) {
        put_note(place, BW_NOTE_TRANSFER, "", to);
    }
    peers_look(store, place, true);
}

int peers_outcome(struct bw_store *store, uint32_t election, bw_node to)
{
    const struct peer_place *place = &store->places[election];
    if (place->sought != to)
        return 0;
    return !place->sought_error && peers_now() >= place->sought_until ? BW_EBUSY
                                                                      : place->sought_error;
}

void peers_ordered(struct bw_store *store, const struct bw_peer_order *order)
{
    struct peer_place *place = &store->places[order->election];
    if (order->kind == BW_PEER_PREPARE)
        (store->settings.shards ? answer_prepare : on_prepare)(store, place, order->node);
    else if (order->kind == BW_PEER_READY || order->kind == BW_PEER_UNREADY)
        on_prepared(store, place, order->node, order->kind == BW_PEER_READY);
    else
        on_hand_over(store, order);
}

/* ---- one request each ---- */

static void on_acquire(struct bw_store *store, struct bw_job *job, bw_time now)
{
    struct peer_place *place = place_of(store, job);
    const struct bw_store_request *request = &job->request;
    if (request->ttl_ns > store->settings.ttl_ns) {
        refuse(store, job, BW_EINVAL, "longer than the ttl of the peer URL");
        return;
    }
    peer_seat_look(&place->seat, now);
    if (peer_seat_acquire(&place->seat, now, request->ttl_ns, now) != PEER_YES) {
        refuse(store, job, BW_ENOTLEADER, "another peer leads, or nobody yet");
        return;
    }
    place->request = request->id;
    place->version++;
    if (place->sought && !place->sought_error) /* the peer named did not take the lead */
        place->sought_error = BW_ENOQUORUM;
    bw_peer_busy(store->peer, place->number, bw_time_add(now, request->ttl_ns));
    snprintf(place->candidate, sizeof place->candidate, "%s", request->candidate);
    snprintf(place->value, sizeof place->value, "%s", request->value ? request->value : "");
    snprintf(place->containment, sizeof place->containment, "%s",
             request->containment ? request->containment : "");
    done(store, job);
}

/* A lease counts from when it was asked for. The job keeps that where a store that knows wall
 * clocks would keep something else. */
static void try_renew(struct bw_store *store, struct bw_job *job)
{
    struct peer_place *place = place_of(store, job);
    const struct bw_store_request *request = &job->request;
    bw_time sent = request->until_wall_ns;
    switch (peer_seat_renew(&place->seat, request->token, sent, request->ttl_ns)) {
    case PEER_YES:
        if (request->value)
            snprintf(place->value, sizeof place->value, "%s", request->value);
        place->version++;
        bw_peer_busy(store->peer, place->number, bw_time_add(sent, request->ttl_ns));
        done(store, job);
        break;
    case PEER_WAIT:
        break;
    case PEER_NO:
        refuse(store, job, BW_ENOTLEADER, "another peer leads, or the quorum is lost");
        break;
    }
}

/* The work of a shard has ended for good: who leads it says so to the others, and runs nothing. */
static bool note_done(struct bw_store *store, struct peer_place *place, const struct bw_job *job)
{
    const char *value = job->request.value;
    if (!store->settings.shards || !value || strcmp(value, BW_STORE_VALUE_DONE) != 0)
        return false;
    place->version += !place->done;
    place->done = true;
    bw_peer_done(store->peer, place->number);
    return true;
}

static void on_release(struct bw_store *store, struct bw_job *job)
{
    struct peer_place *place = place_of(store, job);
    if (!peer_seat_release(&place->seat, job->request.token)) {
        refuse(store, job, BW_ENOTLEADER, "not held under this token");
        return;
    }
    place->request = 0;
    place->version++;
    bw_peer_busy(store->peer, place->number, job->request.clean ? 0 : BW_TIME_NEVER);
    if (note_done(store, place, job) && peer_seat_leads(&place->seat)) {
        place->seat.line = PEER_LINE_IN; /* leads on, so that nobody does it again */
        done(store, job);
        return;
    }
    if (job->request.clean)
        bw_peer_dead(store->peer, place->number,
                     peer_seat_leads(&place->seat) ? place->heir : BW_NODE_NONE);
    if (peer_seat_leads(&place->seat))
        resign(store, place);
    done(store, job);
}

/* Our own elector hands over: the one named must be ready first. Who asks for a transfer asks until
 * it sees it done; the one named gets ready once. */
static void ask_heir(struct bw_store *store, struct peer_place *place, const struct bw_note *note,
                     bw_node to)
{
    struct bw_peer_order order = {.kind = BW_PEER_PREPARE, .election = place->number, .node = to};
    bw_time now = peers_now();
    if (to && to == place->asked && now < place->asked_until)
        return;
    place->asked = to;
    place->asked_until = bw_time_add(now, store->settings.ttl_ns / 2);
    place->heir = BW_NODE_NONE;
    snprintf(place->asked_name, sizeof place->asked_name, "%s", note->to);
    if (to && to != store->settings.id && bw_peer_order(store->peer, &order) == 0)
        return;
    place->asked = BW_NODE_NONE;
    put_note(place, BW_NOTE_REFUSE, note->to, place->candidate);
    place->version++;
}

static void on_note(struct bw_store *store, struct bw_job *job)
{
    static const enum bw_peer_order_kind orders[] = {[BW_NOTE_RESIGN] = BW_PEER_RESIGN,
                                                     [BW_NOTE_TRANSFER] = BW_PEER_TRANSFER,
                                                     [BW_NOTE_READY] = BW_PEER_READY,
                                                     [BW_NOTE_REFUSE] = BW_PEER_UNREADY};
    struct peer_place *place = place_of(store, job);
    const struct bw_note *note = &job->request.note;
    bw_node to = note->to[0] ? peers_named(store, note->to) : BW_NODE_NONE;
    if (note->kind == BW_NOTE_PREPARE) {
        ask_heir(store, place, note, to);
    } else if (note->kind != BW_NOTE_NONE) {
        struct bw_peer_order order = {
            .kind = orders[note->kind], .election = place->number, .node = to};
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
    struct peer_place *place = place_of(store, job);
    bool enters = job->request.op == BW_STORE_ENTER;
    if (enters)
        note_done(store, place, job);
    place->seat.line = enters || place->done ? PEER_LINE_IN : PEER_LINE_OUT;
    snprintf(place->contender, sizeof place->contender, "%s", job->request.candidate);
    if (enters && place->note.kind == BW_NOTE_PREPARE && !place->note.to[0]) {
        snprintf(place->note.to, sizeof place->note.to, "%s", place->contender);
        place->note.serial++; /* asked before anybody stood in line here */
        place->version++;
    }
    if (peer_seat_must_resign(&place->seat, peers_now()))
        resign(store, place);
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
    bw_peer_status(store->peer, 0, &status);
    if (!place_of(store, job))
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EINVAL, "these peers elect for '%s'",
                    store->settings.shards ? store->settings.election : store->places->election);
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
    if (!store->places->election[0])
        snprintf(store->places->election, sizeof store->places->election, "%s", request->election);
    if (!takes_part(store, job))
        return 0;
    struct peer_place *place = place_of(store, job);
    start(store, job);
    peers_look(store, place, false);
    return 0;
}

/* ---- what waits ---- */

static void on_timer(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    for (uint32_t i = 0; i < store->places_count; i++)
        peers_look(store, &store->places[i], false);
}

/* libuv's milliseconds begin when its turn did: early by less than one, and looked at again then.
 */
static void keep_time(struct bw_store *store, bw_time now)
{
    bw_time at = BW_TIME_NEVER;
    for (uint32_t i = 0; i < store->places_count; i++)
        at = bw_time_min(at, peer_seat_deadline(&store->places[i].seat, now));
    if (at == BW_TIME_NEVER) {
        uv_timer_stop(&store->timer);
        return;
    }
    uv_update_time(store->loop);
    uv_timer_start(&store->timer, on_timer, (uint64_t)((at - now + BW_MS - 1) / BW_MS), 0);
}

void peers_look(struct bw_store *store, struct peer_place *place, bool changed)
{
    bw_time now = peers_now();
    if (peer_seat_must_resign(&place->seat, now))
        resign(store, place);
    if (peer_seat_look(&place->seat, now) || changed)
        place->version++;
    struct bw_job *next = NULL;
    for (struct bw_job *job = store->jobs.first; job; job = next) {
        next = job->next;
        if (strcmp(job->request.election, place->election) != 0)
            continue;
        if (job->request.op == BW_STORE_RENEW)
            try_renew(store, job);
        else if (job->request.op == BW_STORE_WATCH && job->request.version != place->version)
            done(store, job);
    }
    keep_time(store, now);
}
