/* One request over one or several instances: rounds of votes; see state.h.
 *
 * A round ends when every instance has answered or is known not to. Where several are asked and a
 * majority has decided, the last ones have REDIS_STRAGGLERS_MS: an instance that hangs delays
 * nobody, and one that is merely slow is not left behind with a lock. */
#include "store/redis/state.h"

#include "store/kit/record_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TICK_MS        5u
#define PATIENCE_LEAST 100u
#define PATIENCE_MOST  5000u
#define NUMBER_BYTES   24u

static void send_vote(struct redis_ask *ask, unsigned node, bool whole);

static bw_time boottime(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (bw_time)now.tv_sec * BW_SEC + now.tv_nsec;
}

/* ---- an ask's life ---- */

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
    ask->started = boottime();
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
    ask->linger_ms = 0;
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
        bw_job_refuse(job, &record, error, "%s%s%s", why, record.held ? record.holder : "",
                      record.held ? " holds it" : "");
    redis_ask_free(ask);
}

/* So many do not let us in that no majority is left to ask. */
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
    ask->linger_ms = 0;
    count_votes(ask);
    ask->then(ask);
}

/* Whatever the open votes are, the round ends the same way. */
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
        if (ask->linger_ms && ask->linger_ms <= now) {
            end_round(ask);
            ask = store->asks; /* it may have freed any of them */
            more = false;
            continue;
        }
        more |= ask->linger_ms != 0;
        ask = ask->next;
    }
    if (!more)
        uv_timer_stop(timer);
}

static void linger(struct redis_ask *ask, unsigned ms)
{
    uv_timer_t *timer = &ask->store->stragglers;
    ask->linger_ms = uv_now(ask->store->loop) + ms;
    if (!uv_is_active((uv_handle_t *)timer))
        uv_timer_start(timer, on_stragglers, TICK_MS, TICK_MS);
}

static void look_at_end(struct redis_ask *ask)
{
    if (ask->open == 0)
        end_round(ask);
    else if (!ask->linger_ms && is_decided(ask))
        linger(ask, REDIS_STRAGGLERS_MS);
}

void redis_ask_pause(struct redis_ask *ask, unsigned ms, void (*then)(struct redis_ask *ask))
{
    clear_votes(ask);
    ask->then = then;
    linger(ask, ms);
}

/* ---- votes ---- */

/* Errors before the script wrote anything. */
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
    snprintf(ask->why, sizeof ask->why, "Redis says: %.180s%s", reply->str,
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
             "Redis' answer makes no sense: is {%.80s%.80s}/bellwether ours?",
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
    look_at_end(ask);
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
    snprintf(ask->why, sizeof ask->why, "%s", link->why[0] ? link->why : "too much at once");
    return BW_EIO;
}

/* A restarted instance may have forgotten a lock: it votes again once every lease it could have
 * given has run out. */
static bool may_vote(struct redis_ask *ask, unsigned node)
{
    const struct redis_link *link = &ask->store->node[node].link;
    uint64_t now = uv_now(ask->store->loop);
    uint64_t ttl_ms = ask->job ? (uint64_t)(ask->job->request.ttl_ns / BW_MS) : 0;
    if (strcmp(ask->op, "lock") != 0 || ask->store->settings.restarts_durable || !link->up ||
        link->born_ms == 0 || now >= link->born_ms + ttl_ms + 1000)
        return true;
    snprintf(ask->why, sizeof ask->why,
             "%s:%u restarted less than a TTL ago: it may have forgotten a lock", link->host.name,
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
    const struct bw_note *said = &ask->record.note;
    const char *own = ask->job && ask->job->request.candidate ? ask->job->request.candidate : "";
    bw_time span = ask->job ? ask->job->request.ttl_ns : 0;
    snprintf(ttl, sizeof ttl, "%" PRId64, span / BW_MS + (span % BW_MS != 0));
    snprintf(from, sizeof from, "%" PRIu64, ask->from);
    snprintf(to, sizeof to, "%" PRIu64, ask->to);
    snprintf(highest, sizeof highest, "%" PRIu64, ask->election->highest);
    if (bw_record_pack(&ask->record, record, sizeof record) < 0 ||
        bw_note_pack(&ask->record.note, note, sizeof note) < 0) {
        ask->vote[node].outcome = REDIS_UNSENT;
        snprintf(ask->why, sizeof ask->why, "an id or value that is no UTF-8");
        return;
    }
    const char *words[] = {"3",     key,
                           side,    candidates,
                           ask->op, ask->lock,
                           ttl,     from,
                           to,      record,
                           note,    highest,
                           own,     said->kind == BW_NOTE_READY ? said->from : ""};
    redis_ask_send(ask, node, REDIS_SCRIPT_RECORD, whole, sizeof words / sizeof words[0], words,
                   on_vote);
}

void redis_ask_round(struct redis_ask *ask, const char *op, uint64_t from, uint64_t to,
                     void (*then)(struct redis_ask *ask))
{
    clear_votes(ask);
    ask->op = op;
    ask->told = ask->election->told;
    ask->doubts = ask->election->doubts;
    ask->from = from;
    ask->to = to;
    ask->then = then;
    for (unsigned i = 0; i < ask->store->nodes; i++) {
        ask->vote[i].outcome = REDIS_UNSENT;
        if (may_vote(ask, i))
            send_vote(ask, i, false);
    }
    look_at_end(ask);
}

/* ---- what a round taught ---- */

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

/* A message on the other connection may have overtaken this answer. An older state that no message
 * explains is a server that forgot: it is believed. What was doubted meanwhile stays unknown: the
 * answer may be from before. */
bool redis_ask_learn(struct redis_ask *ask)
{
    struct redis_state state;
    struct redis_election *election = ask->election;
    if (!redis_ask_merge(ask, &state))
        return false;
    ask->fresh = true;
    bool overtaken = state.n < election->state.n && ask->told != election->told;
    if (!overtaken)
        redis_election_set(election, &state);
    if (ask->doubts != election->doubts)
        election->known = false;
    return true;
}

/* ---- beginning ---- */

static void after_read(struct redis_ask *ask)
{
    if (redis_ask_learn(ask))
        redis_ask_done(ask);
    else
        redis_ask_fail(ask);
}

static void after_look(struct redis_ask *ask)
{
    struct redis_election *election = ask->election;
    bool again = election->read_again;
    redis_ask_learn(ask);
    election->reading = election->read_again = false;
    redis_ask_free(ask);
    if (again)
        redis_ask_look(election);
}

void redis_ask_look(struct redis_election *election)
{
    if (election->reading) {
        election->read_again = true;
        return;
    }
    struct redis_ask *ask = new_ask(election->store, election->name);
    if (!ask)
        return;
    election->reading = true;
    redis_ask_round(ask, "read", 0, 0, after_look);
}

static void be_patient(struct bw_store *store, bw_time ttl_ns)
{
    bw_time quarter = ttl_ns / 4 / BW_MS;
    unsigned ms = quarter > PATIENCE_MOST    ? PATIENCE_MOST
                  : quarter < PATIENCE_LEAST ? PATIENCE_LEAST
                                             : (unsigned)quarter;
    for (unsigned i = 0; i < store->nodes; i++) {
        redis_link_patience(&store->node[i].link, ms);
        redis_link_patience(&store->node[i].ear, ms);
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
        be_patient(store, job->request.ttl_ns);
    switch (job->request.op) {
    case BW_STORE_READ:
        redis_ask_round(ask, "read", 0, 0, after_read);
        break;
    case BW_STORE_WATCH:
        redis_watch_start(ask);
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
