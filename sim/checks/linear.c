/* Searches a linearization; see linear.h. */
#include "sim/checks/linear.h"

#include "core/base/error.h"

#include <stdlib.h>
#include <string.h>

struct state { /* state of one key */
    uint64_t value;
    int64_t version, lease;
};

struct turn { /* a known change with a revision */
    int64_t revision;
    uint32_t at;
};

struct frame {          /* one operation that has its place in the order */
    struct state state; /* before it */
    struct state base;  /* before the unknown operations that lead to it */
    struct state last;  /* before the last of these */
    uint32_t cursor;    /* the next candidate to try here */
    uint32_t taken;
    uint32_t first;   /* first known operation without a place */
    uint32_t turn;    /* number of the placed changes with a revision */
    int64_t revision; /* of the last one; 0: none */
    uint64_t hash;
    bool chain; /* the last placed operation is an unknown one */
};

struct search {
    const struct bw_linear_op *known, *unknown; /* each sorted by call time */
    uint32_t known_count, unknown_count;
    bool *placed; /* flags of the known operations, then of the unknown ones */
    struct frame *frames;
    uint32_t depth, known_placed;
    uint64_t *seen; /* hashes of (placed operations, state) */
    uint32_t seen_count, seen_cap;
    bool versions;      /* some operation reads or compares versions */
    struct turn *turns; /* sorted by revision */
    uint32_t turn_count;
    bool ordered; /* tries only orders that fit the revisions */
    uint32_t best, stuck;
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t state_hash(const struct state *s)
{
    return mix(s->value + mix((uint64_t)s->version + mix((uint64_t)s->lease + 1)));
}

static void put(const struct search *search, struct state *s, const struct bw_linear_op *op)
{
    *s = (struct state){
        .value = op->value, .version = search->versions ? s->version + 1 : 0, .lease = op->lease};
}

static bool changes(const struct bw_linear_op *op)
{
    return op->kind == BW_LINEAR_PUT ||
           ((op->kind == BW_LINEAR_DELETE || op->kind == BW_LINEAR_CAS) && op->done_known &&
            op->done);
}

/* Do the revisions permit this known operation at this place? Changes come in the order of their
 * revisions, and all others after the last change whose revision is not higher than theirs. */
static bool follows(const struct search *s, const struct frame *f, const struct bw_linear_op *op)
{
    const struct turn *next = f->turn < s->turn_count ? &s->turns[f->turn] : NULL;
    if (!s->ordered || !op->revision)
        return true;
    if (changes(op))
        return next && op == &s->known[next->at];
    return op->revision >= f->revision && (!next || op->revision < next->revision);
}

/* Applies the operation. Returns false if its response does not fit the state. */
static bool apply(const struct search *search, struct state *s, const struct bw_linear_op *op)
{
    bool done_known = op->outcome == BW_LINEAR_OK && op->done_known, holds;
    switch (op->kind) {
    case BW_LINEAR_PUT:
        put(search, s, op);
        return true;
    case BW_LINEAR_GET:
        return s->value == op->value &&
               (op->version == BW_LINEAR_NO_VERSION || s->version == op->version);
    case BW_LINEAR_DELETE:
        holds = s->value != BW_LINEAR_ABSENT;
        *s = (struct state){0};
        return !done_known || holds == op->done;
    case BW_LINEAR_CAS:
        holds = op->version == BW_LINEAR_NO_VERSION ? s->value == op->expect
                                                    : s->version == op->version;
        if (holds)
            put(search, s, op);
        return !done_known || holds == op->done;
    case BW_LINEAR_END:
        if (s->lease == op->lease && s->value != BW_LINEAR_ABSENT)
            *s = (struct state){0};
        return true;
    }
    return false;
}

static bool same(const struct state *a, const struct state *b)
{
    return a->value == b->value && a->version == b->version && a->lease == b->lease;
}

/* Returns whether an unknown operation is needed here: the next known response does not fit without
 * it, or the effect of the next operation depends on it. Otherwise it could come later as well. */
static bool chain_serves(const struct search *s, const struct frame *f,
                         const struct bw_linear_op *op, const struct state *after)
{
    struct state without = op->outcome == BW_LINEAR_UNKNOWN ? f->last : f->base;
    if (!f->chain || s->versions || !apply(s, &without, op))
        return true;
    bool looks = same(after, &f->state) && same(&without, &f->base);
    return !looks && !same(&without, after);
}

/* Remembers a visited state. Returns 1 if it is new, 0 if it was visited before, -1 without
 * memory. */
static int remember(struct search *s, uint64_t hash)
{
    if (s->seen_count * 2 >= s->seen_cap) {
        uint32_t cap = s->seen_cap ? s->seen_cap * 2 : 1024;
        uint64_t *larger = calloc(cap, sizeof *larger);
        if (!larger)
            return -1;
        for (uint32_t i = 0; i < s->seen_cap; i++) {
            uint32_t at = (uint32_t)s->seen[i] & (cap - 1);
            while (s->seen[i] && larger[at])
                at = (at + 1) & (cap - 1);
            if (s->seen[i])
                larger[at] = s->seen[i];
        }
        free(s->seen);
        s->seen = larger;
        s->seen_cap = cap;
    }
    hash += hash == 0;
    uint32_t at = (uint32_t)hash & (s->seen_cap - 1);
    for (; s->seen[at]; at = (at + 1) & (s->seen_cap - 1))
        if (s->seen[at] == hash)
            return 0;
    s->seen[at] = hash;
    s->seen_count++;
    return 1;
}

/* Returns the first return time of the remaining operations. An operation that was called later
 * cannot come next. */
static bw_time bound_of(const struct search *s, uint32_t first)
{
    bw_time bound = BW_TIME_NEVER;
    for (uint32_t i = first; i < s->known_count && s->known[i].call <= bound; i++)
        if (!s->placed[i])
            bound = bw_time_min(bound, s->known[i].back);
    return bound;
}

/* Returns the next candidate from `cursor` on, or known_count + unknown_count if there is none. */
static uint32_t candidate(const struct search *s, uint32_t cursor, bw_time bound)
{
    uint32_t all = s->known_count + s->unknown_count;
    for (; cursor < s->known_count && s->known[cursor].call <= bound; cursor++)
        if (!s->placed[cursor])
            return cursor;
    if (cursor < s->known_count)
        cursor = s->known_count;
    for (; cursor < all && s->unknown[cursor - s->known_count].call <= bound; cursor++)
        if (!s->placed[cursor])
            return cursor;
    return all;
}

static void place(struct search *s, uint32_t at, const struct state *after, uint64_t hash)
{
    struct frame *f = &s->frames[s->depth], *next = f + 1;
    bool unknown = at >= s->known_count;
    bool marks = !unknown && s->known[at].revision && changes(&s->known[at]);
    f->taken = at;
    s->placed[at] = true;
    s->known_placed += !unknown;
    *next = (struct frame){.state = *after,
                           .base = unknown ? (f->chain ? f->base : f->state) : *after,
                           .last = f->state,
                           .first = f->first,
                           .turn = f->turn + marks,
                           .revision = marks ? s->known[at].revision : f->revision,
                           .hash = hash,
                           .chain = unknown};
    while (next->first < s->known_count && s->placed[next->first])
        next->first++;
    next->cursor = next->first;
    s->depth++;
    if (s->known_placed > s->best || s->best == 0) {
        s->best = s->known_placed;
        s->stuck = next->first;
    }
}

static void take_back(struct search *s)
{
    struct frame *f = &s->frames[--s->depth];
    s->placed[f->taken] = false;
    s->known_placed -= f->taken < s->known_count;
}

/* Returns a read-only operation whose response fits now. It can always come first: any valid order
 * stays valid with it at the front. */
static uint32_t read_only(const struct search *s, const struct frame *f, bw_time bound)
{
    uint32_t at = f->first;
    for (; (at = candidate(s, at, bound)) < s->known_count; at++) {
        struct state after = f->state;
        if (follows(s, f, &s->known[at]) && apply(s, &after, &s->known[at]) &&
            same(&after, &f->state))
            return at;
    }
    return s->known_count;
}

/* Advances by one operation or backtracks by one. Returns 1 if all have a place, 0 to continue,
 * negative if there is no order or on an error. */
static int search_step(struct search *s)
{
    struct frame *f = &s->frames[s->depth];
    bw_time bound = bound_of(s, f->first);
    uint32_t all = s->known_count + s->unknown_count, at;
    if (f->cursor == f->first && !f->chain && (at = read_only(s, f, bound)) < s->known_count) {
        f->cursor = all;
        place(s, at, &f->state, f->hash ^ mix(at + 1));
        return s->known_placed == s->known_count;
    }
    while ((at = candidate(s, f->cursor, bound)) < all) {
        bool unknown = at >= s->known_count;
        const struct bw_linear_op *op = unknown ? &s->unknown[at - s->known_count] : &s->known[at];
        struct state after = f->state;
        f->cursor = at + 1;
        bool fits = (unknown || follows(s, f, op)) && apply(s, &after, op);
        if (!fits || (unknown && same(&after, &f->state)) || !chain_serves(s, f, op, &after))
            continue;
        uint64_t hash = f->hash ^ mix(at + 1);
        uint64_t way =
            mix(state_hash(f->chain ? &f->base : &f->state) ^ mix(state_hash(&f->state)));
        int fresh = remember(s, hash ^ state_hash(&after) ^ (unknown ? way : 0));
        if (fresh < 0)
            return BW_ENOMEM;
        if (fresh) {
            place(s, at, &after, hash);
            return s->known_placed == s->known_count;
        }
    }
    if (s->depth == 0)
        return BW_ELOST;
    take_back(s);
    return 0;
}

static int by_outcome(const void *a, const void *b)
{
    const struct bw_linear_op *x = a, *y = b;
    bool ux = x->outcome == BW_LINEAR_UNKNOWN, uy = y->outcome == BW_LINEAR_UNKNOWN;
    if (ux != uy)
        return ux ? 1 : -1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static int by_key(const void *a, const void *b)
{
    const struct bw_linear_op *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return by_outcome(a, b);
}

static int by_revision(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    return (x->revision > y->revision) - (x->revision < y->revision);
}

static void search_open(struct search *s, struct bw_linear_op *ops, uint32_t count)
{
    uint32_t known = 0;
    for (uint32_t i = 0; i < count; i++) {
        known += ops[i].outcome != BW_LINEAR_UNKNOWN;
        s->versions |= (ops[i].kind == BW_LINEAR_GET || ops[i].kind == BW_LINEAR_CAS) &&
                       ops[i].version != BW_LINEAR_NO_VERSION;
    }
    s->known = ops;
    s->unknown = ops + known;
    s->known_count = known;
    s->unknown_count = count - known;
    for (uint32_t i = 0; s->turns && i < known; i++)
        if (ops[i].revision && changes(&ops[i]))
            s->turns[s->turn_count++] = (struct turn){ops[i].revision, i};
    if (s->turn_count)
        qsort(s->turns, s->turn_count, sizeof *s->turns, by_revision);
}

/* Returns 1 if there is an order, 0 if none was found within the bound, BW_ELOST if there is none,
 * or BW_ENOMEM. */
static int search_run(struct search *s, bool ordered, uint32_t steps)
{
    int done = 0;
    while (s->depth > 0)
        take_back(s);
    if (s->seen)
        memset(s->seen, 0, s->seen_cap * sizeof *s->seen);
    memset(s->frames, 0, sizeof *s->frames);
    s->seen_count = s->best = s->stuck = 0;
    s->ordered = ordered;
    for (uint32_t i = 0; done == 0 && i < steps; i++)
        done = search_step(s);
    return done;
}

static int judge(struct bw_linear_op *ops, uint32_t count, uint32_t steps,
                 struct bw_linear_verdict *verdict)
{
    struct frame *frames = calloc(count + 1u, sizeof *frames);
    bool *placed = calloc(count + 1u, sizeof *placed);
    struct turn *turns = calloc(count + 1u, sizeof *turns);
    struct search s = {.frames = frames, .placed = placed, .turns = turns};
    int done = frames && placed && turns ? 0 : BW_ENOMEM;
    search_open(&s, ops, count);
    bool any = !done && s.known_count;
    if (any && s.turn_count)
        done = search_run(&s, true, steps);
    if (any && done <= 0 && done != BW_ENOMEM)
        done = search_run(&s, false, steps);
    if (done == BW_ELOST && verdict->judgement != BW_LINEAR_WRONG) {
        const struct bw_linear_op *stuck = &ops[s.stuck < s.known_count ? s.stuck : 0];
        *verdict = (struct bw_linear_verdict){.judgement = BW_LINEAR_WRONG,
                                              .undecided = verdict->undecided,
                                              .key = ops[0].key,
                                              .placed = s.best,
                                              .known = s.known_count,
                                              .stuck_line = stuck->line,
                                              .stuck_client = stuck->client};
    }
    verdict->undecided += any && done == 0;
    free(turns);
    free(placed);
    free(frames);
    free(s.seen);
    return done == BW_ENOMEM ? BW_ENOMEM : 0;
}

/* Drops operations without effect: failed ones, and reads without a response. */
static uint32_t drop_void(struct bw_linear_op *ops, uint32_t count)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool silent = ops[i].kind == BW_LINEAR_GET && ops[i].outcome == BW_LINEAR_UNKNOWN;
        if (ops[i].outcome != BW_LINEAR_FAIL && !silent)
            ops[kept++] = ops[i];
    }
    return kept;
}

int bw_linear_check(struct bw_linear_op *ops, uint32_t count, uint32_t steps,
                    struct bw_linear_verdict *verdict)
{
    memset(verdict, 0, sizeof *verdict);
    if (count > BW_LINEAR_OPS_MAX)
        return BW_ELIMIT;
    count = drop_void(ops, count);
    if (count)
        qsort(ops, count, sizeof *ops, by_key);
    int error = 0;
    for (uint32_t i = 0, n; i < count && !error; i += n) {
        for (n = 1; i + n < count && ops[i + n].key == ops[i].key;)
            n++;
        error = judge(ops + i, n, steps ? steps : BW_LINEAR_STEPS, verdict);
    }
    if (verdict->judgement == BW_LINEAR_RIGHT && verdict->undecided)
        verdict->judgement = BW_LINEAR_UNDECIDED;
    return error;
}

/* ── revisions ── */

struct mark {
    bw_time at;
    int64_t revision;
};

static int by_time(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_call(const void *a, const void *b)
{
    const struct bw_linear_op *x = a, *y = b;
    return (x->call > y->call) - (x->call < y->call);
}

int bw_linear_revisions(struct bw_linear_op *ops, uint32_t count, uint32_t *line)
{
    struct mark *known = malloc((count + 1u) * sizeof *known);
    uint32_t marks = 0, passed = 0;
    int64_t least = 0;
    *line = 0;
    if (!known)
        return BW_ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        if (ops[i].outcome == BW_LINEAR_OK && ops[i].revision)
            known[marks++] = (struct mark){ops[i].back, ops[i].revision};
    qsort(known, marks, sizeof *known, by_time);
    if (count)
        qsort(ops, count, sizeof *ops, by_call);
    for (uint32_t i = 0; i < count && *line == 0; i++) {
        for (; passed < marks && known[passed].at < ops[i].call; passed++)
            least = known[passed].revision > least ? known[passed].revision : least;
        if (ops[i].outcome == BW_LINEAR_OK && ops[i].revision &&
            ops[i].revision < least + changes(&ops[i]))
            *line = ops[i].line ? ops[i].line : 1;
    }
    free(known);
    return 0;
}
