/* The books of all checkers in one block: windows, terms, tokens, views, suspicions, committed
 * entries. */
#include "sim/checks/check.h"

#include "core/base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Per election: terms and committed entries remembered; older terms can no longer be claimed anew.
 */
#define TERMS   ((size_t)1024)
#define ENTRIES ((size_t)16384)
/* Events in flight for each ordered pair of nodes, timers included. */
#define PENDING_PER_LINK 512u
/* Between two faults: so long, and elections that lost a leader or gave it away have another. */
#define CALM        (20 * BW_SEC)
#define BACK        BW_SEC /* less than a giver waits */
#define MOVES_SLACK 1u     /* somebody else than the heir may have won */

struct window { /* when a node may act, in the world's time */
    bw_time from, until;
    bw_term term;
};

struct term_row {
    bw_term term;
    bw_node leader;
};

struct entry_row {
    bw_index index;
    uint64_t hash;
};

struct node_row {
    bool live;
    bool member;             /* configured or joined, and not left */
    bool ordinary;           /* never leads */
    bw_time started, joined; /* its last start; when it came, 0: before all or started since */
    bw_time moved;           /* when it last gave something away; 0: not in this life */
};

struct gift {   /* what a node hands over */
    bw_node to; /* none: nothing, or it is led here again */
    bool gone;  /* the giver leads it no more */
};

struct bw_checker {
    unsigned checks;
    uint32_t slots, elections; /* slots: highest id + 1 */
    struct node_row *nodes;
    bw_node *views;         /* [election][node]: whom it names */
    struct window *windows; /* [election][node] */
    bw_token *highest;      /* [election]: highest token that may act so far */
    bw_time *highest_from;  /* [election]: when its window begins; NEVER: it did not come to that */
    bw_node *highest_holder;   /* [election] */
    struct term_row *terms;    /* [election][TERMS] */
    struct entry_row *entries; /* [election][ENTRIES] */
    uint8_t *suspected;        /* [node][whom] */
    struct spread {
        bw_time period_ns, faulted_at;
        double drift;
        bool known;         /* `before` is who led all that time before the last fault */
        uint32_t kept;      /* live members then */
        bw_node *before;    /* [election] */
        struct gift *given; /* [election][node] */
        bw_time *back;      /* [node][whom]: when something given came back; 0: forgotten */
    } spread;
    struct bw_sim_observer observer;
    bw_time found_at;
    char found[200];
};

static void violate(struct bw_checker *c, bw_time at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void violate(struct bw_checker *c, bw_time at, const char *format, ...)
{
    if (c->found[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->found, sizeof c->found, format, arguments);
    va_end(arguments);
    c->found_at = at;
}

static double seconds(bw_time t)
{
    return (double)t / (double)BW_SEC;
}

/* Windows [from, until) that have overlapped by now. */
static void check_exclusion(struct bw_checker *c, bw_time at, bw_node node, uint32_t election)
{
    struct window *row = &c->windows[(size_t)election * c->slots];
    struct window mine = row[node];
    mine.until = bw_time_min(mine.until, at);
    for (bw_node other = 1; other < c->slots; other++) {
        bw_time from = bw_time_max(mine.from, row[other].from);
        bw_time until = bw_time_min(mine.until, bw_time_min(row[other].until, at));
        if (other != node && from < until)
            violate(c, at, "nodes %u and %u could both act at %.6f s (terms %llu and %llu)", node,
                    other, seconds(from), (unsigned long long)mine.term,
                    (unsigned long long)row[other].term);
    }
}

static void check_term(struct bw_checker *c, bw_time at, bw_node node, uint32_t election,
                       bw_term term)
{
    struct term_row *row = &c->terms[election * TERMS + term % TERMS];
    if (row->term == term && row->leader != node)
        violate(c, at, "nodes %u and %u both lead term %llu", row->leader, node,
                (unsigned long long)term);
    if (row->term < term)
        *row = (struct term_row){.term = term, .leader = node};
}

/* Of two windows the one that begins later has the larger token, unless it is the same
 * leadership's. */
static void check_token(struct bw_checker *c, bw_time at, bw_node node, uint32_t election,
                        bw_token token)
{
    bw_time from = c->windows[election * c->slots + node].from;
    bool again = token == c->highest[election] && c->highest_holder[election] == node;
    if (token <= c->highest[election] && !again && from >= c->highest_from[election])
        violate(c, at, "node %u may act with token %llu after node %u had %llu", node,
                (unsigned long long)token, c->highest_holder[election],
                (unsigned long long)c->highest[election]);
    if (token <= c->highest[election])
        return;
    c->highest[election] = token;
    c->highest_from[election] = from;
    c->highest_holder[election] = node;
}

/* A leadership ends here and now. */
static void close_window(struct bw_checker *c, bw_time at, bw_node node, uint32_t election)
{
    struct window *window = &c->windows[election * c->slots + node];
    bool never_began = window->from > at && c->highest_holder[election] == node;
    window->until = bw_time_min(window->until, at);
    if (never_began)
        c->highest_from[election] = BW_TIME_NEVER;
    if (c->checks & BW_CHECK_EXCLUSION)
        check_exclusion(c, at, node, election);
    *window = (struct window){0};
}

static void open_window(struct bw_checker *c, bw_time at, bw_node node, uint32_t election,
                        const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    struct window *window = &c->windows[election * c->slots + node];
    bool first = window->until == 0 || window->term != a->term;
    bw_time from = bw_time_max(at, act_from);
    if (first || window->until < from) { /* else: an extension of the running window */
        close_window(c, at, node, election);
        if (from >= act_until)
            return;
        *window = (struct window){.from = from, .until = act_until, .term = a->term};
        if (c->checks & BW_CHECK_TOKENS)
            check_token(c, at, node, election, a->token);
    }
    window->until = act_until;
    if (c->checks & BW_CHECK_EXCLUSION)
        check_exclusion(c, at, node, election);
}

static void announced(void *context, bw_time at, bw_node node, uint32_t election,
                      const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    struct bw_checker *c = context;
    c->views[election * c->slots + node] = a->leader;
    if (a->leader != node) {
        close_window(c, at, node, election);
        return;
    }
    if (c->checks & BW_CHECK_ONE_PER_TERM)
        check_term(c, at, node, election, a->term);
    open_window(c, at, node, election, a, act_from, act_until);
}

static void suspected(void *context, bw_time at, bw_node node, bw_node whom, bool suspect,
                      double level)
{
    struct bw_checker *c = context;
    (void)at;
    (void)level;
    if (c->spread.back)
        c->spread.back[node * c->slots + whom] = 0; /* it is judged anew */
    if (c->suspected)
        c->suspected[node * c->slots + whom] = suspect;
}

/* A process ends: it names nobody, acts no more and suspects nobody. */
static void end_process(struct bw_checker *c, bw_time at, bw_node node)
{
    for (uint32_t e = 0; e < c->elections; e++) {
        close_window(c, at, node, e);
        c->views[e * c->slots + node] = BW_NODE_NONE;
        if (c->spread.given)
            c->spread.given[e * c->slots + node] = (struct gift){0};
    }
    if (c->spread.back)
        memset(&c->spread.back[(size_t)node * c->slots], 0, c->slots * sizeof *c->spread.back);
    c->nodes[node].live = false;
    if (c->suspected)
        memset(&c->suspected[(size_t)node * c->slots], 0, c->slots);
}

/* ---- many elections, spread over the members ---- */

static bool may_lead(const struct bw_checker *c, bw_node node)
{
    return c->nodes[node].live && !c->nodes[node].ordinary;
}

/* Who leads it by its own word. */
static bw_node leader_of(const struct bw_checker *c, uint32_t election)
{
    for (bw_node node = 1; node < c->slots; node++)
        if (c->views[election * c->slots + node] == node)
            return node;
    return BW_NODE_NONE;
}

/* After a single fault in the calm, what the living led stays but for a newcomer's share. */
static void check_moves(struct bw_checker *c, bw_time at)
{
    uint32_t changed = 0, share = c->elections / (c->spread.kept ? c->spread.kept : 1) + 1;
    for (uint32_t e = 0; e < c->elections; e++)
        changed += may_lead(c, c->spread.before[e]) && leader_of(c, e) != c->spread.before[e];
    if (changed > share + MOVES_SLACK)
        violate(c, at, "%u elections went from one who lives to another, more than a share of %u",
                changed, share);
}

/* A fault comes, or the end: was it calm until now? */
static void look_at_moves(struct bw_checker *c, bw_time at)
{
    bool calm = at - c->spread.faulted_at >= CALM;
    if (!(c->checks & BW_CHECK_SPREAD))
        return;
    if (calm && c->spread.known)
        check_moves(c, at);
    c->spread.known = calm;
    c->spread.faulted_at = at;
    c->spread.kept = 0;
    for (bw_node node = 1; node < c->slots; node++)
        c->spread.kept += may_lead(c, node);
    for (uint32_t e = 0; e < c->elections; e++)
        c->spread.before[e] = leader_of(c, e);
}

void bw_checker_moved(struct bw_checker *c, bw_time at, bw_node node, uint32_t election, bw_node to,
                      bw_time promise)
{
    struct node_row *from = &c->nodes[node];
    const struct node_row *heir = &c->nodes[to];
    double fastest = 1 + c->spread.drift;
    if (!(c->checks & BW_CHECK_MOVES))
        return;
    if (from->moved && (double)(at - from->moved) * fastest < (double)c->spread.period_ns - 1)
        violate(c, at, "node %u moves two elections within a period", node);
    from->moved = at;
    bw_time back = c->spread.back[node * c->slots + to];
    if (back && at - back < BACK)
        violate(c, at, "node %u gives something to %u, which did not keep it at %.3f s", node, to,
                seconds(back));
    c->spread.given[election * c->slots + node] = (struct gift){.to = to};
    bool came = heir->joined && heir->joined > from->started;
    if (came && (double)(at - heir->joined) * fastest < (double)promise)
        violate(c, at, "node %u gives something to %u, which came only at %.3f s", node, to,
                seconds(heir->joined));
}

void bw_checker_decided(struct bw_checker *c, bw_time at, bw_node node, uint32_t election,
                        bw_node leader)
{
    if (!(c->checks & BW_CHECK_MOVES))
        return;
    struct gift *given = &c->spread.given[election * c->slots + node];
    if (leader != node) {
        given->gone = true;
    } else if (given->gone && given->to) {
        c->spread.back[node * c->slots + given->to] = at;
        *given = (struct gift){0};
    }
}

static void check_loads(struct bw_checker *c, bw_time at)
{
    uint32_t least = UINT32_MAX, most = 0;
    for (bw_node node = 1; node < c->slots; node++) {
        uint32_t load = 0;
        for (uint32_t e = 0; e < c->elections; e++)
            load += c->views[e * c->slots + node] == node;
        if (!may_lead(c, node))
            continue;
        least = load < least ? load : least;
        most = load > most ? load : most;
    }
    if (least != UINT32_MAX && most - least > 1)
        violate(c, at, "at the end one leads %u elections, another %u", least, most);
}

static void faulted(void *context, bw_time at, const struct bw_sim_fault *fault, bw_node node)
{
    struct bw_checker *c = context;
    if (node >= c->slots)
        return; /* a store */
    look_at_moves(c, at);
    switch (fault->kind) {
    case BW_FAULT_CRASH:
        end_process(c, at, node);
        break;
    case BW_FAULT_LEAVE:
        end_process(c, at, node);
        c->nodes[node].member = false;
        break;
    case BW_FAULT_RESTART:
    case BW_FAULT_JOIN:
        c->nodes[node] = (struct node_row){.live = true,
                                           .member = true,
                                           .ordinary = c->nodes[node].ordinary,
                                           .started = at,
                                           .joined = fault->kind == BW_FAULT_JOIN ? at : 0};
        break;
    default:
        break;
    }
}

static void wrote(void *context, bw_time at, bw_node node, bw_token token, bool accepted,
                  bool stale)
{
    struct bw_checker *c = context;
    if ((c->checks & BW_CHECK_STALE) && accepted && stale)
        violate(c, at, "a stale write of node %u with token %llu was accepted", node,
                (unsigned long long)token);
}

static void committed(void *context, bw_time at, bw_node node, uint32_t election, bw_index index,
                      uint64_t hash)
{
    struct bw_checker *c = context;
    struct entry_row *row = &c->entries[election * ENTRIES + index % ENTRIES];
    if (row->index == index && row->hash != hash)
        violate(c, at, "node %u applies another entry at index %llu than was committed before",
                node, (unsigned long long)index);
    if (row->index < index)
        *row = (struct entry_row){.index = index, .hash = hash};
}

static void lay_out(struct bw_checker *c, struct bw_arena *arena,
                    const struct bw_sim_config *config)
{
    size_t slots = config->nodes + config->spare + 1, elections = config->elections;
    bool log = config->checks & BW_CHECK_LOG, detector = config->checks & BW_CHECK_DETECTOR;
    bool moves = config->checks & BW_CHECK_MOVES;
    c->nodes = bw_arena_take(arena, slots * sizeof *c->nodes);
    c->views = bw_arena_take(arena, elections * slots * sizeof *c->views);
    c->windows = bw_arena_take(arena, elections * slots * sizeof *c->windows);
    c->highest = bw_arena_take(arena, elections * sizeof *c->highest);
    c->highest_from = bw_arena_take(arena, elections * sizeof *c->highest_from);
    c->highest_holder = bw_arena_take(arena, elections * sizeof *c->highest_holder);
    c->terms = bw_arena_take(arena, elections * TERMS * sizeof *c->terms);
    c->entries = log ? bw_arena_take(arena, elections * ENTRIES * sizeof *c->entries) : NULL;
    c->suspected = detector ? bw_arena_take(arena, slots * slots) : NULL;
    c->spread.given =
        moves ? bw_arena_take(arena, elections * slots * sizeof *c->spread.given) : NULL;
    c->spread.back = moves ? bw_arena_take(arena, slots * slots * sizeof *c->spread.back) : NULL;
    c->spread.before = bw_arena_take(arena, elections * sizeof *c->spread.before);
}

size_t bw_checker_bytes(const struct bw_sim_config *config)
{
    struct bw_checker scratch;
    struct bw_arena measure = {0};
    bw_arena_take(&measure, sizeof scratch);
    lay_out(&scratch, &measure, config);
    return measure.used;
}

struct bw_checker *bw_checker_init(void *memory, const struct bw_sim_config *config)
{
    struct bw_arena arena = {.at = memory, .cap = bw_checker_bytes(config)};
    memset(memory, 0, arena.cap);
    struct bw_checker *c = bw_arena_take(&arena, sizeof *c);
    lay_out(c, &arena, config);
    c->checks = config->checks;
    c->slots = config->nodes + config->spare + 1;
    c->elections = config->elections;
    for (bw_node node = 1; node <= config->nodes; node++)
        c->nodes[node] = (struct node_row){.live = true, .member = true};
    c->spread.period_ns = config->period_ns;
    c->spread.drift = config->drift_bound;
    for (bw_node node = 1; config->candidates_count && node < c->slots; node++)
        c->nodes[node].ordinary = true;
    for (uint32_t i = 0; i < config->candidates_count; i++)
        c->nodes[config->candidates[i]].ordinary = false;
    for (uint32_t i = 0; i < config->crashed_count; i++)
        c->nodes[config->crashed[i]].live = false;
    c->observer = (struct bw_sim_observer){.context = c,
                                           .announced = announced,
                                           .faulted = faulted,
                                           .suspected = c->suspected ? suspected : NULL,
                                           .wrote = wrote,
                                           .committed = c->entries ? committed : NULL};
    return c;
}

const struct bw_sim_observer *bw_checker_observer(const struct bw_checker *checker)
{
    return &checker->observer;
}

static void check_agreement(struct bw_checker *c, bw_time at, uint32_t election)
{
    const bw_node *views = &c->views[(size_t)election * c->slots];
    bw_node leader = BW_NODE_NONE;
    for (bw_node node = 1; node < c->slots; node++) {
        if (!c->nodes[node].live)
            continue;
        if (views[node] == BW_NODE_NONE || !c->nodes[views[node]].live)
            violate(c, at, "at the end node %u names %s (%u)", node,
                    views[node] ? "a dead leader" : "no leader", views[node]);
        else if (views[views[node]] != views[node])
            violate(c, at, "at the end node %u names %u, which itself names %u", node, views[node],
                    views[views[node]]);
        else if (leader && views[node] != leader)
            violate(c, at, "at the end node %u names %u, another names %u", node, views[node],
                    leader);
        leader = views[node];
    }
    struct window window = c->windows[election * c->slots + leader];
    if ((c->checks & BW_CHECK_LIVENESS) && leader && !(window.from <= at && at < window.until))
        violate(c, at, "at the end leader %u may not act", leader);
}

static void check_detector(struct bw_checker *c, bw_time at, bw_node node)
{
    for (bw_node whom = 1; whom < c->slots; whom++) {
        bool suspects = c->suspected[node * c->slots + whom];
        if (whom == node || !c->nodes[whom].member)
            continue;
        if (suspects == c->nodes[whom].live)
            violate(c, at, "at the end node %u %s the %s node %u", node,
                    suspects ? "suspects" : "does not suspect",
                    c->nodes[whom].live ? "live" : "dead", whom);
    }
}

void bw_checker_finish(struct bw_checker *c, bw_time at)
{
    for (uint32_t e = 0; e < c->elections; e++) {
        if (c->checks & BW_CHECK_EXCLUSION)
            for (bw_node node = 1; node < c->slots; node++)
                check_exclusion(c, at, node, e);
        if (c->checks & BW_CHECK_AGREEMENT)
            check_agreement(c, at, e);
    }
    look_at_moves(c, at);
    if (c->checks & BW_CHECK_SPREAD)
        check_loads(c, at);
    for (bw_node node = 1; c->suspected && node < c->slots; node++)
        if (c->nodes[node].live)
            check_detector(c, at, node);
}

void bw_checker_pending(struct bw_checker *c, bw_time at, uint64_t pending)
{
    uint64_t bound = (uint64_t)c->slots * c->slots * PENDING_PER_LINK * c->elections;
    if ((c->checks & BW_CHECK_MEMORY) && pending > bound)
        violate(c, at, "%llu events are pending, more than the bound %llu",
                (unsigned long long)pending, (unsigned long long)bound);
}

const char *bw_checker_violation(const struct bw_checker *checker, bw_time *at)
{
    *at = checker->found_at;
    return checker->found[0] ? checker->found : NULL;
}
