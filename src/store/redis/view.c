/* The state of an election on Redis; see view.h. */
#include "store/redis/view.h"

#include "core/base/bug.h"

#include "store/kit/record.h"
#include "store/kit/record_json.h"
#include "store/redis/script.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX_DIGITS ((size_t)16)
#define TAIL       (2 * (HEX_DIGITS + 1)) /* ":REQUEST:NONCE" */

static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ at[i]) * 1099511628211u; /* FNV-1a */
    return hash;
}

#define MIX_START 14695981039346656037u

/* ---- parsing ---- */

struct part {
    const char *text;
    size_t length;
};

static int number_of(const struct part *part, uint64_t *out)
{
    char *end;
    if (part->length == 0 || part->length > 16 || part->text[0] < '0' || part->text[0] > '9')
        return BW_EMALFORMED;
    *out = strtoull(part->text, &end, 10);
    return end == part->text + part->length ? 0 : BW_EMALFORMED;
}

static void set_lock(struct redis_state *state, const struct part *part)
{
    size_t length = part->length < REDIS_LOCK_MAX ? part->length : REDIS_LOCK_MAX;
    memcpy(state->lock, part->text, length);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)state->lock[i] < 0x20 || (unsigned char)state->lock[i] >= 0x7f)
            state->lock[i] = '?'; /* our lock values are printable ASCII */
    state->lock[length] = '\0';
    state->lock_hash = mix(MIX_START, part->text, part->length);
}

static int set_side(struct redis_state *state, const struct part *parts)
{
    const struct part *owner = &parts[5], *record = &parts[6], *note = &parts[7];
    if (number_of(&parts[3], &state->n) != 0 || number_of(&parts[4], &state->token) != 0 ||
        owner->length > REDIS_LOCK_MAX)
        return BW_EMALFORMED;
    memcpy(state->owner, owner->text, owner->length);
    int error = record->length ? bw_record_unpack(record->text, record->length, &state->kept) : 0;
    if (error == 0 && note->length)
        error = bw_note_unpack(note->text, note->length, &state->kept.note);
    return error;
}

static int fill(struct redis_state *state, const struct part *parts, long long left)
{
    memset(state, 0, sizeof *state);
    state->locked = left != -2;
    state->endless = left == -1;
    if (left > 0 && left < INT64_MAX / BW_MS)
        state->left_ns = left * BW_MS;
    if (state->locked)
        set_lock(state, &parts[1]);
    return set_side(state, parts);
}

static int verdict_of(const char *word, enum redis_verdict *verdict)
{
    static const char *const words[] = {"done", "held", "again", "read"};
    for (unsigned i = 0; i < 4; i++)
        if (strcmp(word, words[i]) == 0) {
            *verdict = (enum redis_verdict)i;
            return 0;
        }
    return BW_EMALFORMED;
}

int redis_state_parse(const redisReply *reply, struct redis_state *state,
                      enum redis_verdict *verdict)
{
    struct part parts[REDIS_STATE_PARTS] = {{NULL, 0}};
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != REDIS_STATE_PARTS ||
        reply->element[2]->type != REDIS_REPLY_INTEGER)
        return BW_EMALFORMED;
    for (unsigned i = 0; i < REDIS_STATE_PARTS; i++) {
        if (i == 2)
            continue;
        if (reply->element[i]->type != REDIS_REPLY_STRING)
            return BW_EMALFORMED;
        parts[i] = (struct part){reply->element[i]->str, reply->element[i]->len};
    }
    if (verdict_of(parts[0].text, verdict) != 0)
        return BW_EMALFORMED;
    return fill(state, parts, reply->element[2]->integer);
}

int redis_state_parse_published(const char *text, size_t length, struct redis_state *state,
                                struct redis_next *next)
{
    struct part parts[REDIS_STATE_PARTS] = {{NULL, 0}};
    json_t *json = json_loadb(text, length, 0, NULL);
    int error = json_is_array(json) && json_array_size(json) == REDIS_STATE_PARTS + 2 &&
                        json_is_integer(json_array_get(json, 2))
                    ? 0
                    : BW_EMALFORMED;
    for (unsigned i = 0; i < REDIS_STATE_PARTS && error == 0; i++) {
        const json_t *part = json_array_get(json, i);
        if (i == 2)
            continue;
        parts[i] = (struct part){json_string_value(part), json_string_length(part)};
        error = parts[i].text ? 0 : BW_EMALFORMED;
    }
    if (error == 0)
        error = fill(state, parts, json_integer_value(json_array_get(json, 2)));
    const char *first = json_string_value(json_array_get(json, REDIS_STATE_PARTS));
    json_int_t missed = json_integer_value(json_array_get(json, REDIS_STATE_PARTS + 1));
    snprintf(next->candidate, sizeof next->candidate, "%s", first ? first : "");
    next->missed = missed < 0                   ? 0
                   : missed > REDIS_MISSED_MOST ? REDIS_MISSED_MOST
                                                : (unsigned)missed;
    json_decref(json);
    return error;
}

/* ---- several instances ---- */

static bool same_lock(const struct redis_state *a, const struct redis_state *b)
{
    return a->locked && b->locked && a->lock_hash == b->lock_hash;
}

static bool is_known(const struct redis_state *state)
{
    return state->locked && strcmp(state->lock, state->owner) == 0;
}

/* Time until fewer than `enough` of these instances have the lock: the `enough`-th longest of the
 * remaining times. */
static bw_time time_left(const struct redis_state *lock, const struct redis_state *const *states,
                         unsigned count, unsigned enough)
{
    bw_time left = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned longer = 0;
        for (unsigned j = 0; j < count; j++)
            longer += same_lock(lock, states[j]) && states[j]->left_ns >= states[i]->left_ns;
        if (same_lock(lock, states[i]) && longer >= enough)
            left = bw_time_max(left, states[i]->left_ns);
    }
    return left;
}

static unsigned votes_for(const struct redis_state *lock, const struct redis_state *const *states,
                          unsigned count)
{
    unsigned same = 0;
    for (unsigned i = 0; i < count; i++)
        same += same_lock(lock, states[i]);
    return same;
}

/* Finds the lock that most instances have, and their number. If two locks are equally frequent, the
 * one whose side record is present wins. */
static const struct redis_state *most_locked(const struct redis_state *const *states,
                                             unsigned count, unsigned *most)
{
    const struct redis_state *best = states[0];
    *most = votes_for(best, states, count);
    for (unsigned i = 1; i < count; i++) {
        unsigned votes = votes_for(states[i], states, count);
        if (votes > *most || (votes == *most && is_known(states[i]) && !is_known(best))) {
            best = states[i];
            *most = votes;
        }
    }
    return best;
}

/* Finds the newest side record; of two with the same n, the one of this lock. */
static const struct redis_state *newest_of(const struct redis_state *const *states, unsigned count,
                                           const char *lock)
{
    const struct redis_state *newest = states[0];
    for (unsigned i = 1; i < count; i++)
        if (states[i]->n > newest->n ||
            (states[i]->n == newest->n && strcmp(states[i]->owner, lock) == 0))
            newest = states[i];
    return newest;
}

void redis_state_merge(struct redis_state *out, const struct redis_state *const *states,
                       unsigned count, unsigned total)
{
    unsigned majority = total / 2 + 1, votes;
    unsigned silent = BW_BUG(redlock_forgets_silent_instances) ? 0 : total - count;
    const struct redis_state *lock = most_locked(states, count, &votes);
    bool held = votes > 0 && (votes + silent >= majority || BW_BUG(redlock_believes_a_minority));
    struct redis_state merged = *newest_of(states, count, held ? lock->lock : "");
    merged.locked = held;
    merged.uncertain = held && votes < majority;
    merged.endless = held && lock->endless;
    merged.left_ns = held ? time_left(lock, states, count, majority - silent) : 0;
    if (held) {
        memcpy(merged.lock, lock->lock, sizeof merged.lock);
        merged.lock_hash = lock->lock_hash;
    }
    *out = merged;
}

/* ---- lock values ---- */

void redis_lock_value(char lock[REDIS_LOCK_MAX + 1], const char *candidate, uint64_t request,
                      uint64_t nonce)
{
    snprintf(lock, REDIS_LOCK_MAX + 1, "%s:%016" PRIx64 ":%016" PRIx64, candidate, request, nonce);
}

/* Splits a lock value that Bellwether wrote. Returns the length of the candidate id and the
 * request, or 0 if the value is a foreign client's. */
static size_t split_lock(const char *lock, uint64_t *request)
{
    size_t length = strlen(lock);
    const char *tail = lock + length - TAIL;
    if (length <= TAIL || length - TAIL > BW_CANDIDATE_ID_MAX || tail[0] != ':' ||
        tail[HEX_DIGITS + 1] != ':' || strspn(tail + 1, "0123456789abcdef") != HEX_DIGITS ||
        strspn(tail + HEX_DIGITS + 2, "0123456789abcdef") != HEX_DIGITS)
        return 0;
    *request = strtoull(tail + 1, NULL, 16);
    return length - TAIL;
}

bool redis_lock_is(const struct redis_state *state, const char *candidate, uint64_t nonce)
{
    char expected[REDIS_LOCK_MAX + 1];
    uint64_t request;
    if (!state->locked || split_lock(state->lock, &request) == 0)
        return false;
    redis_lock_value(expected, candidate, request, nonce);
    return strcmp(state->lock, expected) == 0;
}

bool redis_lock_is_ours(const char *lock, uint64_t nonce)
{
    uint64_t request;
    size_t length = split_lock(lock, &request);
    return length && strtoull(lock + length + HEX_DIGITS + 2, NULL, 16) == nonce;
}

/* Names the holder of a lock that the side record does not describe. */
static void name_foreign_holder(const char *lock, char name[BW_CANDIDATE_ID_MAX + 1],
                                uint64_t *request)
{
    *request = 0;
    size_t length = split_lock(lock, request);
    if (length == 0)
        length = strnlen(lock, BW_CANDIDATE_ID_MAX);
    memcpy(name, lock, length);
    name[length] = '\0';
    if (length == 0)
        snprintf(name, BW_CANDIDATE_ID_MAX + 1, "unknown");
}

void redis_state_follow(struct redis_state *state, const struct redis_state *before)
{
    uint64_t request;
    if (state->locked && !is_known(state))
        name_foreign_holder(state->lock, state->foreign_holder, &request);
    else if (!state->locked && strcmp(state->owner, before->owner) == 0)
        memcpy(state->foreign_holder, before->foreign_holder, sizeof state->foreign_holder);
}

/* ---- what readers see ---- */

static uint64_t version_of(const struct redis_state *state)
{
    if (!state->locked && state->n == 0)
        return 0;
    uint64_t hash = mix(MIX_START, state->owner, strlen(state->owner));
    hash = mix(hash, &state->n, sizeof state->n);
    if (state->locked)
        hash = mix(hash, &state->lock_hash, sizeof state->lock_hash);
    return hash ? hash : 1;
}

static void replace_holder(struct bw_store_record *record, const char *holder, uint64_t request)
{
    snprintf(record->holder, sizeof record->holder, "%s", holder);
    record->request = request;
    record->clean = false;
    record->ttl_ns = 0;
    record->value[0] = record->containment[0] = '\0';
}

void redis_state_present(const struct redis_state *state, struct bw_store_record *record)
{
    char name[BW_CANDIDATE_ID_MAX + 1];
    uint64_t request;
    *record = state->kept;
    record->version = version_of(state);
    record->token = state->token;
    record->held = state->locked;
    record->clean = !state->kept.held && state->kept.clean;
    record->left_ns = state->endless ? BW_TIME_NEVER : state->left_ns;
    if (state->locked && !is_known(state)) {
        name_foreign_holder(state->lock, name, &request);
        replace_holder(record, name, request);
    } else if (!state->locked && state->foreign_holder[0]) {
        replace_holder(record, state->foreign_holder, 0);
    }
    bw_record_present(record);
}

void redis_state_take(const struct redis_state *state, const struct bw_store_request *request,
                      struct bw_store_record *record)
{
    *record = state->kept;
    record->version = 1;
    /* The foreign client held the lock after the recorded leader. The end of its work is
     * not confirmed. */
    if (state->foreign_holder[0]) {
        struct bw_store_request foreign_holder = {.candidate = state->foreign_holder};
        bw_record_acquire(record, &foreign_holder);
    }
    bw_record_acquire(record, request);
}
