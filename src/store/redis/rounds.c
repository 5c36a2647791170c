/* One request to one or several instances, in rounds of votes; see state.h.
 *
 * A round ends when every instance has replied or has failed. With several instances, once a
 * majority has decided, the remaining ones have REDIS_STRAGGLERS_MS to reply. So a hanging instance
 * does not delay the request, and a slow one is not left behind with a stale lock. */
#include "store/redis/state.h"

#include "os/clock.h"
#include "store/kit/record_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS        5u
#define TIMEOUT_MIN_MS 100u
#define TIMEOUT_MAX_MS 5000u
#define NUMBER_BYTES   24u

static void send_vote(struct redis_ask *ask, unsigned node, bool whole);

/* ---- lifecycle of an ask ---- */

static struct redis_ask *new_ask(struct bw_store *store, const char *election)
{
    struct redis_ask *ask = calloc(1, sizeof *ask);
    struct redis_election *found = ask ? redis_election_get(store, election) : NULL;
    if (!found) {
        free(ask);
        return NULL;
    }
    ask->store = store;
    ask->election = found;
    found->asks++;
    ask->started = bw_clock_boot();
    ask->next = store->asks;
    if (ask->next)
        ask->next->previous = ask;
    store->asks = ask;
    return ask;
}

static void clear_votes(struct redis_ask *ask)
{
    for (unsigned i = 0; i < ask->store->nodes; i++) {
        if (ask->vote[i].command)
            redis_command_forget(ask->vote[i].command);
        free(ask->vote[i].state);
        ask->vote[i] = (struct redis_vote){.command = NULL};
    }
    ask->open = 0;
    ask->round_ends_ms = 0;
}

void redis_ask_free(struct redis_ask *ask)
{
    if (ask->parked)
        redis_watch_stop(ask);
    clear_votes(ask);
    *(ask->previous ? &ask->previous->next : &ask->store->asks) = ask->next;
    if (ask->next)
        ask->next->previous = ask->previous;
    ask->election->asks--;
    redis_names_free(ask->names);
    free(ask);
}

void redis_ask_forget(struct bw_job *job)
{
    struct redis_ask *ask = job->context;
    if (ask)
        redis_ask_free(ask);
}

static struct bw_job *detach(struct redis_ask *ask)
{
    struct bw_job *job = ask->job;
    if (job)
        job->context = NULL;
    ask->job = NULL;
    return job;
}

void redis_ask_done(struct redis_ask *ask)
{
    struct bw_store_record record;
    struct bw_job *job = detach(ask);
    redis_state_present(&ask->election->state, &record);
    if (job)
        bw_job_done(job, &record);
    redis_ask_free(ask);
}

void redis_ask_refuse(struct redis_ask *ask, int error, const char *why)
{
    struct bw_store_record record;
    struct bw_job *job = detach(ask);
    redis_state_present(&ask->election->state, &record);
    if (job)
        bw_job_refuse(job, &record, error, "%s%s%s", why, record.held ? "held by " : "",
                      record.held ? record.holder : "");
    redis_ask_free(ask);
}

/* True if so many instances deny access that no majority is left. */
static bool is_denied(const struct redis_ask *ask)
{
    unsigned denied = 0;
    for (unsigned i = 0; i < ask->store->nodes; i++)
        denied += ask->vote[i].denied;
    return denied > ask->store->nodes - ask->store->majority;
}

void redis_ask_fail(struct redis_ask *ask)
{
    bool unknown = ask->lost > 0 || ask->done > 0;
    int error = is_denied(ask) ? BW_EDENIED : BW_EIO;
    struct bw_job *job = detach(ask);
    if (job)
        bw_job_fail(job, unknown ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE, error, "%s",
                    ask->why[0] ? ask->why : "no answer from Redis");
    redis_ask_free(ask);
}

/* ---- one round ---- */

static void count_votes(struct redis_ask *ask)
{
    ask->done = ask->held = ask->again = ask->unsent = ask->lost = 0;
    for (unsigned i = 0; i < ask->store->nodes; i++) {
        const struct redis_vote *vote = &ask->vote[i];
        bool replied = vote->outcome == REDIS_REPLIED;
        ask->unsent += vote->outcome == REDIS_UNSENT;
        ask->lost += vote->outcome == REDIS_LOST || vote->outcome == REDIS_OPEN;
        ask->done += replied && (vote->verdict == REDIS_DONE || vote->verdict == REDIS_READ);
        ask->held += replied && vote->verdict == REDIS_HELD;
        ask->again += replied && vote->verdict == REDIS_AGAIN;
    }
}

static void end_round(struct redis_ask *ask)
{
    for (unsigned i = 0; i < ask->store->nodes; i++)
        if (ask->vote[i].command) {
            redis_command_forget(ask->vote[i].command);
            ask->vote[i].command = NULL;
            ask->vote[i].outcome = REDIS_LOST;
        }
    ask->open = 0;
    ask->round_ends_ms = 0;
    count_votes(ask);
    ask->then(ask);
}

/* True if the open votes cannot change how the round ends. */
static bool is_decided(const struct redis_ask *ask)
{
    unsigned good = 0, majority = ask->store->majority;
    for (unsigned i = 0; i < ask->store->nodes; i++)
        good += ask->vote[i].outcome == REDIS_REPLIED && ask->vote[i].verdict != REDIS_HELD &&
                ask->vote[i].verdict != REDIS_AGAIN;
    return good >= majority || good + ask->open < majority;
}

static void on_stragglers(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    uint64_t now = uv_now(store->loop);
    bool more = false;
    for (struct redis_ask *ask = store->asks; ask;) {
        if (ask->round_ends_ms && ask->round_ends_ms <= now) {
            end_round(ask);
            ask = store->asks; /* end_round may have freed any ask */
            more = false;
            continue;
        }
        more |= ask->round_ends_ms != 0;
        ask = ask->next;
    }
    if (!more)
        uv_timer_stop(timer);
}

static void end_round_in(struct redis_ask *ask, unsigned ms)
{
    uv_timer_t *timer = &ask->store->stragglers;
    ask->round_ends_ms = uv_now(ask->store->loop) + ms;
    if (!uv_is_active((uv_handle_t *)timer))
        uv_timer_start(timer, on_stragglers, TICK_MS, TICK_MS);
}

void redis_ask_check_round(struct redis_ask *ask)
{
    if (ask->open == 0)
        end_round(ask);
    else if (!ask->round_ends_ms && is_decided(ask))
        end_round_in(ask, REDIS_STRAGGLERS_MS);
}

void redis_ask_pause(struct redis_ask *ask, unsigned ms, void (*then)(struct redis_ask *ask))
{
    clear_votes(ask);
    ask->then = then;
    end_round_in(ask, ms);
}

/* ---- votes ---- */

/* True if Redis returns this error before the script has written anything. */
static bool was_not_done(const char *error)
{
    static const char *const words[] = {
        "READONLY",   "LOADING", "NOAUTH",    "OOM",        "MISCONF",     "MOVED",    "BUSY",
        "MASTERDOWN", "NOPERM",  "WRONGTYPE", "NOREPLICAS", "CLUSTERDOWN", "CROSSSLOT"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncmp(error, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

static void note_error(struct redis_ask *ask, struct redis_vote *vote, const redisReply *reply)
{
    bool sharded = strncmp(reply->str, "MOVED", 5) == 0;
    vote->outcome = was_not_done(reply->str) ? REDIS_UNSENT : REDIS_LOST;
    vote->denied = redis_is_denial(reply->str);
    snprintf(ask->why, sizeof ask->why, "Redis error: %.180s%s", reply->str,
             sharded ? " (a Redis Cluster is not supported)" : "");
}

static void note_state(struct redis_ask *ask, struct redis_vote *vote, const redisReply *reply)
{
    vote->state = malloc(sizeof *vote->state);
    if (vote->state && redis_state_parse(reply, vote->state, &vote->verdict) == 0) {
        vote->outcome = REDIS_REPLIED;
        return;
    }
    free(vote->state);
    vote->state = NULL;
    vote->outcome = REDIS_LOST;
    snprintf(ask->why, sizeof ask->why,
             "unexpected reply from Redis: does {%.80s%.80s}/bellwether belong to another program?",
             ask->store->settings.prefix, ask->election->name);
}

static void on_vote(struct redis_command *command, const redisReply *reply, bool sent)
{
    struct redis_ask *ask = command->context;
    unsigned node = command->node;
    struct redis_vote *vote = &ask->vote[node];
    vote->command = NULL;
    ask->open--;
    if (!reply) {
        vote->outcome = sent ? REDIS_LOST : REDIS_UNSENT;
        vote->denied = command->link->denied;
        snprintf(ask->why, sizeof ask->why, "%s", command->link->why);
    } else if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
        send_vote(ask, node, true);
    } else if (reply->type == REDIS_REPLY_ERROR) {
        note_error(ask, vote, reply);
    } else {
        note_state(ask, vote, reply);
    }
    redis_ask_check_round(ask);
}

int redis_ask_send(struct redis_ask *ask, unsigned node, enum redis_script_name script, bool whole,
                   unsigned count, const char *const *words,
                   void (*answer)(struct redis_command *command, const redisReply *reply,
                                  bool sent))
{
    const char *all[REDIS_WORDS_MAX] = {
        whole ? "EVAL" : "EVALSHA", whole ? redis_script_text(script) : ask->store->digest[script]};
    memcpy(all + 2, words, count * sizeof words[0]);
    struct redis_vote *vote = &ask->vote[node];
    struct redis_link *link = &ask->store->node[node].link;
    vote->outcome = REDIS_OPEN;
    vote->command = redis_link_send(link, count + 2, all, NULL, answer, ask);
    if (vote->command) {
        ask->open++;
        ask->generation = link->generation;
        return 0;
    }
    vote->outcome = REDIS_UNSENT;
    vote->denied = link->denied;
    snprintf(ask->why, sizeof ask->why, "%s",
             link->why[0] ? link->why : "too many commands are waiting");
    return BW_EIO;
}

/* A restarted instance may have lost a lock. It votes again after every lease that it could have
 * granted has expired. */
static bool may_vote(struct redis_ask *ask, unsigned node)
{
    const struct redis_link *link = &ask->store->node[node].link;
    uint64_t now = uv_now(ask->store->loop);
    uint64_t ttl_ms = ask->job ? (uint64_t)(ask->job->request.ttl_ns / BW_MS) : 0;
    if (strcmp(ask->op, "lock") != 0 || ask->store->settings.restarts_durable || !link->up ||
        link->started_ms == 0 || now >= link->started_ms + ttl_ms + 1000)
        return true;
    snprintf(ask->why, sizeof ask->why,
             "%s:%u restarted less than one TTL ago and may have lost a lock", link->host.name,
             (unsigned)link->host.port);
    return false;
}

static void send_vote(struct redis_ask *ask, unsigned node, bool whole)
{
    char record[BW_RECORD_JSON_MAX], note[BW_RECORD_JSON_MAX];
    char key[REDIS_KEY_MAX], side[REDIS_KEY_MAX], candidates[REDIS_KEY_MAX], ttl[NUMBER_BYTES],
        from[NUMBER_BYTES], to[NUMBER_BYTES], highest[NUMBER_BYTES];
    redis_election_key(ask->election, key);
    redis_election_side(ask->election, side);
    redis_election_candidates(ask->election, candidates);
    const struct bw_note *own_note = &ask->record.note;
    const char *own = ask->job && ask->job->request.candidate ? ask->job->request.candidate : "";
    bw_time span = ask->job ? ask->job->request.ttl_ns : 0;
    snprintf(ttl, sizeof ttl, "%" PRId64, span / BW_MS + (span % BW_MS != 0));
    snprintf(from, sizeof from, "%" PRIu64, ask->from);
    snprintf(to, sizeof to, "%" PRIu64, ask->to);
    snprintf(highest, sizeof highest, "%" PRIu64, ask->election->highest);
    if (bw_record_pack(&ask->record, record, sizeof record) < 0 ||
        bw_note_pack(&ask->record.note, note, sizeof note) < 0) {
        ask->vote[node].outcome = REDIS_UNSENT;
        snprintf(ask->why, sizeof ask->why, "candidate id or value is not valid UTF-8");
        return;
    }
    const char *words[] = {"3",     key,
                           side,    candidates,
                           ask->op, ask->lock,
                           ttl,     from,
                           to,      record,
                           note,    highest,
                           own,     own_note->kind == BW_NOTE_READY ? own_note->from : ""};
    redis_ask_send(ask, node, REDIS_SCRIPT_RECORD, whole, sizeof words / sizeof words[0], words,
                   on_vote);
}

void redis_ask_round(struct redis_ask *ask, const char *op, uint64_t from, uint64_t to,
                     void (*then)(struct redis_ask *ask))
{
    clear_votes(ask);
    ask->op = op;
    ask->published_states = ask->election->published_states;
    ask->invalidations = ask->election->invalidations;
    ask->from = from;
    ask->to = to;
    ask->then = then;
    for (unsigned i = 0; i < ask->store->nodes; i++) {
        ask->vote[i].outcome = REDIS_UNSENT;
        if (may_vote(ask, i))
            send_vote(ask, i, false);
    }
    redis_ask_check_round(ask);
}

/* ---- learning from a round ---- */

bool redis_ask_merge(const struct redis_ask *ask, struct redis_state *state)
{
    const struct redis_state *states[REDIS_NODES_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < ask->store->nodes; i++)
        if (ask->vote[i].outcome == REDIS_REPLIED)
            states[count++] = ask->vote[i].state;
    if (count < ask->store->majority)
        return false;
    redis_state_merge(state, states, count, ask->store->nodes);
    if (ask->store->nodes > 1)
        state->token = BW_TOKEN_NONE;
    return true;
}

/* Three cases decide whether the reply is used:
 *   - A pub/sub message on the other connection has overtaken the reply: the newer state stays.
 *   - The reply is older and no message explains it: the server lost data, and the reply is used.
 *   - A message invalidated the state during the round: the state stays unknown, because the reply
 *     may be older than the message. */
bool redis_ask_learn(struct redis_ask *ask)
{
    struct redis_state state;
    struct redis_election *election = ask->election;
    if (!redis_ask_merge(ask, &state))
        return false;
    ask->fresh = true;
    bool overtaken =
        state.n < election->state.n && ask->published_states != election->published_states;
    if (!overtaken)
        redis_election_set(election, &state);
    if (ask->invalidations != election->invalidations)
        election->known = false;
    return true;
}

/* ---- starting a request ---- */

static void after_read(struct redis_ask *ask)
{
    if (redis_ask_learn(ask))
        redis_ask_done(ask);
    else
        redis_ask_fail(ask);
}

static void after_refresh(struct redis_ask *ask)
{
    struct redis_election *election = ask->election;
    bool again = election->read_again;
    redis_ask_learn(ask);
    election->reading = election->read_again = false;
    redis_ask_free(ask);
    if (again)
        redis_ask_refresh(election);
}

void redis_ask_refresh(struct redis_election *election)
{
    if (election->reading) {
        election->read_again = true;
        return;
    }
    struct redis_ask *ask = new_ask(election->store, election->name);
    if (!ask)
        return;
    election->reading = true;
    redis_ask_round(ask, "read", 0, 0, after_refresh);
}

static void limit_timeouts(struct bw_store *store, bw_time ttl_ns)
{
    bw_time quarter = ttl_ns / 4 / BW_MS;
    unsigned ms = quarter > TIMEOUT_MAX_MS   ? TIMEOUT_MAX_MS
                  : quarter < TIMEOUT_MIN_MS ? TIMEOUT_MIN_MS
                                             : (unsigned)quarter;
    for (unsigned i = 0; i < store->nodes; i++) {
        redis_link_limit_timeout(&store->node[i].link, ms);
        redis_link_limit_timeout(&store->node[i].subscriber, ms);
    }
}

int redis_ask_start(struct bw_store *store, struct bw_job *job)
{
    struct redis_ask *ask = new_ask(store, job->request.election);
    if (!ask)
        return BW_ENOMEM;
    ask->job = job;
    job->context = ask;
    if (job->request.ttl_ns > 0)
        limit_timeouts(store, job->request.ttl_ns);
    switch (job->request.op) {
    case BW_STORE_READ:
        redis_ask_round(ask, "read", 0, 0, after_read);
        break;
    case BW_STORE_WATCH:
        redis_watch_start(ask);
        break;
    case BW_STORE_ELECTIONS:
        redis_names_start(ask);
        break;
    case BW_STORE_ENTER:
    case BW_STORE_LEAVE:
    case BW_STORE_LIST:
        redis_list_start(ask);
        break;
    case BW_STORE_ACQUIRE:
    case BW_STORE_RENEW:
    case BW_STORE_RELEASE:
    case BW_STORE_NOTE:
        redis_change_start(ask);
        break;
    }
    return 0;
}
