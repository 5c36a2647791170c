/* The state of all checkers in one block: windows, terms, tokens, views, suspicions, committed
 * entries. */
#include "sim/checks/invariants.h"

#include "core/base/arena.h"
#include "sim/checks/promises.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Remembered terms and committed entries per election. A node can no longer claim an older term. */
#define TERMS   ((size_t)1024)
#define ENTRIES ((size_t)16384)
/* Bound for events in flight per ordered pair of nodes, timers included. */
#define PENDING_PER_LINK 512u
/* Minimum time between two faults for the move checks. In this time every election that lost or
 * moved its leader gets another one. */
#define IDLE_NS (20 * BW_SEC)
/* A node must not move an election to a node that returned one within this time. The nodes
 * themselves wait longer. */
#define BACK BW_SEC
/* Moves allowed above the share: a node other than the planned successor may have won. */
#define MOVES_SLACK 1u
/* Leadership has settled this long after the last fault. Later each node may still lead once: an
 * adaptive detector may need longer to notice that a node died. */
#define SETTLED_NS (10 * BW_SEC)

struct window { /* when a node may act, on the world's clock */
    bw_time from, until;
    bw_term term;
};

/* Work that acts although its node does not lead: the process was killed, or the host is still
 * ending the work. */
struct orphan {
    bw_time from, until;
    bool foreign; /* another process runs under the id of its node now */
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
    bool member;     /* configured or joined, and has not left */
    bool departing;  /* leaves or is being removed; its process may still run */
    bool ordinary;   /* never leads */
    bool unable;     /* its host is drained or unhealthy */
    bw_time started; /* its last start */
    bw_time joined;  /* when it joined; 0: before the run, or it has restarted since */
    bw_time moved;   /* when it last moved an election away; 0: not in this incarnation */
};

struct gift {   /* an election that a node moves to another */
    bw_node to; /* the receiver; NONE: no move, or the giver leads the election again */
    bool gone;  /* the giver no longer leads it */
};

struct bw_checker {
    unsigned checks;
    uint32_t slots, elections; /* slots: highest id + 1 */
    struct node_row *nodes;
    bw_node *views;               /* [election][node]: the leader it names */
    struct window *windows;       /* [election][node] */
    struct orphan *orphans;       /* [election][node] */
    struct bw_promises *promises; /* quorum guard, or NULL */
    /* the last fault was a transfer to this node; NONE: it was another fault */
    bw_node transfer_to;
    bw_time last_fault;
    uint32_t successions; /* leaderships that began long after the last fault */
    bool peer_rules, log;
    bw_token *highest;         /* [election]: highest token so far of a leader that may act */
    bw_time *highest_from;     /* [election]: start of its window; NEVER: it ended before that */
    bw_node *highest_holder;   /* [election] */
    struct term_row *terms;    /* [election][TERMS] */
    struct entry_row *entries; /* [election][ENTRIES] */
    uint8_t *suspected;        /* [node][suspected node] */
    struct spread {
        bw_time period_ns, faulted_at;
        double drift;
        bool known;         /* `before` holds the leaders in the idle time before the last fault */
        uint32_t kept;      /* number of live members at that time */
        bw_node *before;    /* [election] */
        struct gift *given; /* [election][node] */
        bw_time *back;      /* [node][receiver]: when a moved election came back; 0: expired */
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

/* Checks a leader's window against work without a leader. */
static void check_orphans(struct bw_checker *c, bw_time at, bw_node node, uint32_t election)
{
    const struct window *mine = &c->windows[(size_t)election * c->slots + node];
    for (bw_node other = 1; other < c->slots; other++) {
        const struct orphan *orphan = &c->orphans[(size_t)election * c->slots + other];
        bw_time from = bw_time_max(mine->from, orphan->from);
        bw_time until = bw_time_min(bw_time_min(mine->until, at), orphan->until);
        if ((other != node || orphan->foreign) && from < until)
            violate(c, at,
                    "node %u could act at %.6f s (term %llu) while work of node %u was running",
                    node, seconds(from), (unsigned long long)mine->term, other);
    }
}

/* Checks the windows [from, until) that overlap by now. */
static void check_exclusion(struct bw_checker *c, bw_time at, bw_node node, uint32_t election)
{
    struct window *row = &c->windows[(size_t)election * c->slots];
    struct window mine = row[node];
    mine.until = bw_time_min(mine.until, at);
    check_orphans(c, at, node, election);
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

/* Checks that the window that begins later has the larger token, unless both belong to the same
 * leadership. */
static void check_token(struct bw_checker *c, bw_time at, bw_node node, uint32_t election,
                        bw_token token)
{
    bw_time from = c->windows[election * c->slots + node].from;
    bool again = token == c->highest[election] && c->highest_holder[election] == node;
    if (token <= c->highest[election] && !again && from >= c->highest_from[election])
        violate(c, at, "node %u may act with token %llu although node %u had the token %llu before",
                node, (unsigned long long)token, c->highest_holder[election],
                (unsigned long long)c->highest[election]);
    if (token <= c->highest[election])
        return;
    c->highest[election] = token;
    c->highest_from[election] = from;
    c->highest_holder[election] = node;
}

/* Ends a leadership now. */
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
    if (first || window->until < from) { /* otherwise an extension of the running window */
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

/* A member that is able to lead exists. */
static bool any_able(const struct bw_checker *c)
{
    for (bw_node node = 1; node < c->slots; node++)
        if (c->nodes[node].live && !c->nodes[node].ordinary && !c->nodes[node].unable)
            return true;
    return false;
}

/* Node `node` begins to lead. */
static void check_succession(struct bw_checker *c, bw_time at, bw_node node)
{
    if (!(c->checks & BW_CHECK_ABLE) || at - c->last_fault < SETTLED_NS || !any_able(c))
        return;
    if (++c->successions > c->slots)
        violate(c, at,
                "leadership passes on without end: node %u is the %u. leader without a fault", node,
                c->successions);
}

static void announced(void *context, bw_time at, bw_node node, uint32_t election,
                      const struct bw_announcement *a, bw_time act_from, bw_time act_until)
{
    struct bw_checker *c = context;
    bool begins = a->leader == node && c->views[election * c->slots + node] != node;
    c->views[election * c->slots + node] = a->leader;
    if (begins)
        check_succession(c, at, node);
    if (a->leader != node) {
        close_window(c, at, node, election);
        return;
    }
    if (c->checks & BW_CHECK_ONE_PER_TERM)
        check_term(c, at, node, election, a->term);
    if (c->promises && act_until > at &&
        bw_promises_missing(c->promises, node, election, act_until))
        violate(c, at, "node %u may act until %.6f s without promises of a majority", node,
                seconds(act_until));
    open_window(c, at, node, election, a, act_from, act_until);
}

static void suspected(void *context, bw_time at, bw_node node, bw_node target, bool suspect,
                      double level)
{
    struct bw_checker *c = context;
    (void)at;
    (void)level;
    if (c->spread.back)
        c->spread.back[node * c->slots + target] = 0; /* the receiver is judged from scratch */
    if (c->suspected)
        c->suspected[node * c->slots + target] = suspect;
}

/* Detectors forget members that leave. A paused node may suspect a member that has left and
 * returned, and learn of that only afterwards. */
static void traced(void *context, bw_time at, bw_node node, const struct bw_trace_note *note)
{
    struct bw_checker *c = context;
    (void)at;
    if (note->code == BW_TRACE_MEMBER_LEFT && node < c->slots && note->node < c->slots)
        c->suspected[node * c->slots + note->node] = false;
}

void bw_checker_lingers(struct bw_checker *c, bw_node node, uint32_t election, bw_time at,
                        bw_time until)
{
    struct orphan *orphan = &c->orphans[election * c->slots + node];
    const struct window *window = &c->windows[election * c->slots + node];
    if (until && (window->from > at || window->until <= at)) /* it does not act now */
        return;
    if (until > at && until > orphan->until)
        *orphan = (struct orphan){.from = at, .until = until};
    else if (!until && !orphan->foreign)
        *orphan = (struct orphan){0};
}

/* The work that the host of `node` started is dead. */
static void end_orphans(struct bw_checker *c, bw_node node)
{
    for (uint32_t e = 0; e < c->elections; e++)
        if (!c->orphans[e * c->slots + node].foreign)
            c->orphans[e * c->slots + node] = (struct orphan){0};
}

/* The process of `node` dies, its work does not. */
static void leave_orphans(struct bw_checker *c, bw_time at, bw_node node)
{
    for (uint32_t e = 0; e < c->elections; e++) {
        const struct window *window = &c->windows[e * c->slots + node];
        if (window->from <= at)
            bw_checker_lingers(c, node, e, at, window->until);
    }
}

/* A new process begins under the id of one whose work may still act. */
static void disown_orphans(struct bw_checker *c, bw_node node)
{
    for (uint32_t e = 0; e < c->elections; e++)
        c->orphans[e * c->slots + node].foreign = true;
}

/* Ends a process: it follows no leader, does not act and suspects no node. */
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

/* Returns the node that claims to lead the election. */
static bw_node leader_of(const struct bw_checker *c, uint32_t election)
{
    for (bw_node node = 1; node < c->slots; node++)
        if (c->views[election * c->slots + node] == node)
            return node;
    return BW_NODE_NONE;
}

/* After a single fault in an idle time, elections of live leaders stay, except for a joining node's
 * share. */
static void check_moves(struct bw_checker *c, bw_time at)
{
    uint32_t changed = 0, share = c->elections / (c->spread.kept ? c->spread.kept : 1) + 1;
    for (uint32_t e = 0; e < c->elections; e++)
        changed += may_lead(c, c->spread.before[e]) && leader_of(c, e) != c->spread.before[e];
    if (changed > share + MOVES_SLACK)
        violate(c, at, "%u elections moved from one live node to another, more than a share of %u",
                changed, share);
}

/* Called at a fault or at the end: checks the moves if the time before was idle. */
static void check_idle_moves(struct bw_checker *c, bw_time at)
{
    bool idle = at - c->spread.faulted_at >= IDLE_NS;
    if (!(c->checks & BW_CHECK_SPREAD))
        return;
    if (idle && c->spread.known)
        check_moves(c, at);
    c->spread.known = idle;
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
    const struct node_row *receiver = &c->nodes[to];
    double fastest = 1 + c->spread.drift;
    if (!(c->checks & BW_CHECK_MOVES))
        return;
    if (from->moved && (double)(at - from->moved) * fastest < (double)c->spread.period_ns - 1)
        violate(c, at, "node %u moves two elections within a period", node);
    from->moved = at;
    bw_time back = c->spread.back[node * c->slots + to];
    if (back && at - back < BACK)
        violate(c, at, "node %u moves an election to %u, which returned one at %.3f s", node, to,
                seconds(back));
    c->spread.given[election * c->slots + node] = (struct gift){.to = to};
    bool came = receiver->joined && receiver->joined > from->started;
    if (came && (double)(at - receiver->joined) * fastest < (double)promise)
        violate(c, at, "node %u moves an election to %u, which joined only at %.3f s", node, to,
                seconds(receiver->joined));
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
        violate(c, at, "at the end one node leads %u elections, another %u", least, most);
}

static void begin_process(struct bw_checker *c, bw_time at, const struct bw_sim_fault *fault,
                          bw_node node)
{
    bool joins = fault->kind == BW_FAULT_JOIN;
    bool stays = joins || !c->nodes[node].departing;
    c->nodes[node] = (struct node_row){.live = stays,
                                       .member = stays,
                                       .departing = !stays,
                                       .ordinary = c->nodes[node].ordinary,
                                       .unable = c->nodes[node].unable,
                                       .started = at,
                                       .joined = joins ? at : 0};
    if (joins && c->log) /* other members return to their host, which ends the work that it finds */
        disown_orphans(c, node);
    else
        end_orphans(c, node);
    for (bw_node other = 1; joins && c->suspected && other < c->slots; other++)
        c->suspected[other * c->slots + node] = false; /* detectors forget members that leave */
}

static void faulted(void *context, bw_time at, const struct bw_sim_fault *fault, bw_node node)
{
    struct bw_checker *c = context;
    if (node >= c->slots)
        return; /* a store */
    check_idle_moves(c, at);
    c->transfer_to = fault->kind == BW_FAULT_TRANSFER ? fault->peer : BW_NODE_NONE;
    c->last_fault = at;
    c->successions = 0;
    switch (fault->kind) {
    case BW_FAULT_CRASH:
        end_process(c, at, node);
        end_orphans(c, node);
        break;
    case BW_FAULT_KILL:
        leave_orphans(c, at, node);
        end_process(c, at, node);
        break;
    case BW_FAULT_LEAVE:
    case BW_FAULT_REMOVE:
        if (!c->peer_rules)
            end_process(c, at, node);
        c->nodes[node].member = c->nodes[node].live = false;
        c->nodes[node].departing = c->peer_rules;
        break;
    case BW_FAULT_WIPE:
        if (c->log && c->peer_rules) { /* it takes no part until it has joined again */
            c->nodes[node].departing = true;
            c->nodes[node].member = false;
        }
        break;
    case BW_FAULT_UNABLE:
    case BW_FAULT_ABLE:
        c->nodes[node].unable = fault->kind == BW_FAULT_UNABLE;
        break;
    case BW_FAULT_RESTART:
    case BW_FAULT_JOIN:
        begin_process(c, at, fault, node);
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
        violate(c, at, "node %u applies an entry at index %llu that differs from the committed one",
                node, (unsigned long long)index);
    if (row->index < index)
        *row = (struct entry_row){.index = index, .hash = hash};
}

static void sent(void *context, bw_time at, const struct bw_message *msg, bw_time arrives)
{
    struct bw_checker *c = context;
    (void)arrives;
    bw_promises_sent(c->promises, at, msg);
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
    c->orphans = bw_arena_take(arena, elections * slots * sizeof *c->orphans);
    c->highest = bw_arena_take(arena, elections * sizeof *c->highest);
    c->highest_from = bw_arena_take(arena, elections * sizeof *c->highest_from);
    c->highest_holder = bw_arena_take(arena, elections * sizeof *c->highest_holder);
    c->terms = bw_arena_take(arena, elections * TERMS * sizeof *c->terms);
    c->entries = log ? bw_arena_take(arena, elections * ENTRIES * sizeof *c->entries) : NULL;
    c->suspected = detector ? bw_arena_take(arena, slots * slots) : NULL;
    c->promises = config->checks & BW_CHECK_PROMISES ? bw_promises_take(arena, config) : NULL;
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
    c->peer_rules = config->peer_rules;
    c->log = bw_sim_is_raft(config->algorithm);
    if (c->promises)
        bw_promises_init(c->promises, config);
    c->spread.period_ns = config->period_ns;
    c->spread.drift = config->drift_bound;
    for (bw_node node = 1; config->candidates_count && node < c->slots; node++)
        c->nodes[node].ordinary = true;
    for (uint32_t i = 0; i < config->candidates_count; i++)
        c->nodes[config->candidates[i]].ordinary = false;
    for (uint32_t i = 0; i < config->crashed_count; i++)
        c->nodes[config->crashed[i]].live = false;
    c->observer = (struct bw_sim_observer){.context = c,
                                           .sent = c->promises ? sent : NULL,
                                           .announced = announced,
                                           .faulted = faulted,
                                           .suspected = c->suspected ? suspected : NULL,
                                           .traced = c->suspected ? traced : NULL,
                                           .wrote = wrote,
                                           .committed = c->entries ? committed : NULL};
    return c;
}

const struct bw_sim_observer *bw_checker_observer(const struct bw_checker *checker)
{
    return &checker->observer;
}

/* After a transfer in an idle time, the named successor leads. */
static void check_transfer(struct bw_checker *c, bw_time at)
{
    bw_node to = c->transfer_to, leader = leader_of(c, 0);
    bool possible = to && may_lead(c, to) && !c->nodes[to].unable;
    if ((c->checks & BW_CHECK_TRANSFER) && possible && leader && leader != to)
        violate(c, at, "at the end node %u leads, although leadership was transferred to node %u",
                leader, to);
}

static void check_agreement(struct bw_checker *c, bw_time at, uint32_t election)
{
    const bw_node *views = &c->views[(size_t)election * c->slots];
    bw_node leader = BW_NODE_NONE;
    for (bw_node node = 1; node < c->slots; node++) {
        if (!c->nodes[node].live)
            continue;
        if (views[node] == BW_NODE_NONE || !c->nodes[views[node]].live)
            violate(c, at, "at the end node %u follows %s (%u)", node,
                    views[node] ? "a dead leader" : "no leader", views[node]);
        else if (views[views[node]] != views[node])
            violate(c, at, "at the end node %u follows %u, which itself follows %u", node,
                    views[node], views[views[node]]);
        else if (leader && views[node] != leader)
            violate(c, at, "at the end node %u follows %u, another node follows %u", node,
                    views[node], leader);
        leader = views[node];
    }
    if ((c->checks & BW_CHECK_ABLE) && leader && c->nodes[leader].unable)
        violate(c, at, "at the end node %u leads, although it is unable to lead", leader);
    struct window window = c->windows[election * c->slots + leader];
    if ((c->checks & BW_CHECK_LIVENESS) && leader && !(window.from <= at && at < window.until))
        violate(c, at, "at the end leader %u may not act", leader);
}

static void check_detector(struct bw_checker *c, bw_time at, bw_node node)
{
    for (bw_node target = 1; target < c->slots; target++) {
        bool suspects = c->suspected[node * c->slots + target];
        if (target == node || !c->nodes[target].member)
            continue;
        if (suspects == c->nodes[target].live)
            violate(c, at, "at the end node %u %s the %s node %u", node,
                    suspects ? "suspects" : "does not suspect",
                    c->nodes[target].live ? "live" : "dead", target);
    }
}

void bw_checker_finish(struct bw_checker *c, bw_time at)
{
    for (uint32_t e = 0; e < c->elections; e++) {
        if (c->checks & BW_CHECK_EXCLUSION)
            for (bw_node node = 1; node < c->slots; node++)
                check_exclusion(c, at, node, e);
        if ((c->checks & BW_CHECK_AGREEMENT) && any_able(c)) /* otherwise each resigns in turn */
            check_agreement(c, at, e);
    }
    check_transfer(c, at);
    check_idle_moves(c, at);
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
