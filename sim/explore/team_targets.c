/* The targets raft, raft-reconfigure and guard: sizes, budgets and scripted prefixes; and the
 * elector that stands for all electors under the guard. */
#include "core/base/error.h"
#include "sim/explore/targets.h"
#include "sim/explore/team.h"

#include <string.h>

#define TICKS BW_TEAM_TICK

/* ---- an elector that names any node ---- */

struct oracle {
    uint64_t leader;
};

static size_t oracle_bytes(const struct bw_elector_config *config)
{
    (void)config;
    return sizeof(struct oracle);
}

static uint32_t oracle_actions_max(const struct bw_elector_config *config)
{
    (void)config;
    return 2;
}

static int oracle_init(void *memory, const struct bw_elector_config *config)
{
    struct oracle *oracle = memory;
    (void)config;
    oracle->leader = BW_NODE_NONE;
    return 0;
}

static void oracle_step(void *self, const struct bw_event *event, struct bw_actions *actions)
{
    struct oracle *oracle = self;
    if (event->kind == BW_EVENT_COMMAND && event->command.kind == BW_COMMAND_CAMPAIGN)
        oracle->leader = event->command.node;
    else if (event->kind == BW_EVENT_COMMAND)
        oracle->leader = BW_NODE_NONE;
    else
        return;
    bw_actions_announce(actions, &(struct bw_announcement){.leader = (bw_node)oracle->leader});
}

static bw_time oracle_deadline(const void *self)
{
    (void)self;
    return BW_TIME_NEVER;
}

static void oracle_status(const void *self, struct bw_elector_status *out)
{
    const struct oracle *oracle = self;
    *out = (struct bw_elector_status){.leader = (bw_node)oracle->leader, .state = "oracle"};
}

static void oracle_digest(const void *self, struct bw_digest *out)
{
    bw_digest_add(out, ((const struct oracle *)self)->leader);
}

const struct bw_elector_ops bw_team_oracle = {
    .name = "oracle",
    .promise = "Names any node as leader, at any time.",
    .traits = BW_TRAIT_MAY_SPLIT | BW_TRAIT_GUARDABLE,
    .bytes = oracle_bytes,
    .actions_max = oracle_actions_max,
    .init = oracle_init,
    .step = oracle_step,
    .deadline = oracle_deadline,
    .status = oracle_status,
    .digest = oracle_digest,
};

/* The oracle is the innermost part of the guard's block, at its end. */
bw_node bw_team_named(const struct bw_team *team, bw_node id)
{
    struct bw_digest digest = {.at = (uint64_t[256]){0}, .cap = 256};
    team->settings->ops->digest(bw_instance_elector(team->instance[id - 1], 0), &digest);
    return (bw_node)digest.at[digest.count - 1];
}

/* ---- settings ---- */

#define VERB(name) (1u << BW_TEAM_##name)
#define FLOW                                                                                       \
    (VERB(ADVANCE) | VERB(TIMEOUT) | VERB(DELIVER) | VERB(PERSIST) | VERB(RESTART) | VERB(LOSE) |  \
     VERB(CRASH))

static const char *const cold[] = {NULL};

/* Node 1 leads term 1 and acts; node 3 knows nothing of it yet. */
static const char *const elected[] = {
    "timeout 1", "deliver 1>2 0", "deliver 2>1 0", "deliver 1>2 0",
    "persist 1", "persist 2",     "deliver 2>1 0", NULL};

/* Node 1 acts; node 2 leads term 2 and waits for the window of node 1 to end. */
static const char *const deposed[] = {
    "timeout 1",     "deliver 1>2 0", "deliver 2>1 0", "deliver 1>2 0", "persist 1", "persist 2",
    "deliver 2>1 0", "deliver 1>3 0", "persist 3",     "deliver 3>1 0", "suspect 2", "suspect 3",
    "timeout 2",     "deliver 2>3 0", "deliver 3>2 0", "deliver 2>3 0", NULL};

static const char *const *const raft_prefixes[] = {elected, deposed, cold, NULL};

static const struct bw_team_settings raft_settings = {
    .target = &bw_explore_raft,
    .ops = &bw_elect_raft,
    .raft = true,
    .nodes = 3,
    .voters = 3,
    .period = 2 * TICKS,
    .timeout = 4 * TICKS,
    .promise = 4 * TICKS,
    .links = 1,
    .faults = 2,
    .delays = 2,
    .verbs = FLOW | VERB(SUSPECT) | VERB(TRANSFER) | VERB(DUPLICATE) | VERB(KILL) | VERB(DEAD),
    .prefixes = raft_prefixes,
};

#define ELECT_FIRST                                                                                \
    "timeout 1", "deliver 1>2 0", "deliver 2>1 0", "deliver 1>2 0", "deliver 2>1 0",               \
        "deliver 1>3 0", "deliver 3>1 0"
#define ELECT_SECOND                                                                               \
    "suspect 2", "suspect 3", "timeout 2", "deliver 2>3 0", "deliver 3>2 0", "deliver 2>3 0",      \
        "deliver 3>2 0", "deliver 2>4 0", "deliver 4>2 0", "deliver 2>4 0", "deliver 4>2 0",       \
        "deliver 2>5 0", "deliver 5>2 0", "deliver 2>5 0", "deliver 5>2 0"
#define SPREAD(from, x, y, z)                                                                      \
    "deliver " from ">" x " 0", "deliver " x ">" from " 0", "deliver " from ">" y " 0",            \
        "deliver " y ">" from " 0", "deliver " from ">" z " 0", "deliver " z ">" from " 0"

/* Node 1 acts and is stopped; node 2 leads term 2 and waits for the window of node 1. It promotes
 * nodes 4 and 5, which promised nothing to node 1, and removes node 1. */
static const char *const replaced[] = {ELECT_FIRST,
                                       "pause 1",
                                       ELECT_SECOND,
                                       "promote 2 4",
                                       SPREAD("2", "3", "4", "5"),
                                       "promote 2 5",
                                       SPREAD("2", "3", "4", "5"),
                                       "remove 2 1",
                                       SPREAD("2", "3", "4", "5"),
                                       NULL};

/* The same, and node 3 is removed too: nobody but node 2 promised anything to node 1. */
static const char *const renewed[] = {ELECT_FIRST,
                                      "pause 1",
                                      ELECT_SECOND,
                                      "promote 2 4",
                                      SPREAD("2", "3", "4", "5"),
                                      "promote 2 5",
                                      SPREAD("2", "3", "4", "5"),
                                      "remove 2 1",
                                      SPREAD("2", "3", "4", "5"),
                                      "remove 2 3",
                                      "deliver 2>4 0",
                                      "deliver 4>2 0",
                                      "deliver 2>5 0",
                                      "deliver 5>2 0",
                                      NULL};

/* Node 1 acts, leads and is not stopped; nodes 4 and 5 vote, node 3 does not. */
static const char *const widened[] = {"timeout 1",  "settle",      "promote 1 4",
                                      "settle",     "promote 1 5", "settle",
                                      "remove 1 3", "settle",      NULL};

static const char *const *const reconfigure_prefixes[] = {replaced, renewed, widened, NULL};

/* Node 1 holds the leadership. Few faults, more elections. */
static const char *const holds[] = {"name 1 1", "settle", "budget 1 4", NULL};
static const char *const *const guard_prefixes[] = {cold, holds, NULL};

static const struct bw_team_settings reconfigure_settings = {
    .target = &bw_explore_raft_reconfigure,
    .ops = &bw_elect_raft,
    .raft = true,
    .nodes = 5,
    .voters = 3,
    .period = 2 * TICKS,
    .timeout = 4 * TICKS,
    .promise = 10 * TICKS,
    .links = 1,
    .eager = true,
    .faults = 1,
    .delays = 1,
    .changes = 1,
    .verbs = FLOW | VERB(SUSPECT) | VERB(ADD) | VERB(PROMOTE) | VERB(REMOVE) | VERB(RESIGN) |
             VERB(PAUSE),
    .prefixes = reconfigure_prefixes,
};

static const struct bw_team_settings guard_settings = {
    .target = &bw_explore_guard,
    .ops = &bw_elect_guard,
    .prefixes = guard_prefixes,
    .nodes = 3,
    .voters = 3,
    .period = 6 * TICKS,
    .timeout = 6 * TICKS,
    .promise = 6 * TICKS,
    .links = 1,
    .faults = 2,
    .delays = 2,
    .changes = 3,
    .verbs =
        FLOW | VERB(NAME) | VERB(LEAVE) | VERB(DUPLICATE) | VERB(RESIGN) | VERB(KILL) | VERB(DEAD),
};

/* ---- targets ---- */

static uint32_t links_of(const struct bw_team_settings *settings,
                         const struct bw_explore_options *options)
{
    return options->links ? options->links : settings->links;
}

#define TEAM_FUNCTIONS                                                                             \
    .verbs = bw_team_verbs, .verbs_count = BW_TEAM_VERBS, .spans = bw_team_spans,                  \
    .choices = bw_team_choices, .apply = bw_team_apply, .digest = bw_team_digest,                  \
    .describe = bw_team_describe

static size_t raft_bytes(const struct bw_explore_options *options)
{
    return bw_team_bytes(&raft_settings, links_of(&raft_settings, options));
}

static const char *raft_begin(void *state, const struct bw_explore_options *options, char *why)
{
    return bw_team_begin(state, &raft_settings, options, why);
}

const struct bw_explore_target bw_explore_raft = {
    .name = "raft",
    .about = "Raft elections, logs and windows (src/core/elect/raft)",
    .bounds = "3 voters; 2 of: crash, suspicion, transfer, duplicate, confirmed death; 2 delays",
    .depth = 11,
    .bytes = raft_bytes,
    .begin = raft_begin,
    TEAM_FUNCTIONS,
};

static size_t raft_reconfigure_bytes(const struct bw_explore_options *options)
{
    return bw_team_bytes(&reconfigure_settings, links_of(&reconfigure_settings, options));
}

static const char *raft_reconfigure_begin(void *state, const struct bw_explore_options *options,
                                          char *why)
{
    return bw_team_begin(state, &reconfigure_settings, options, why);
}

const struct bw_explore_target bw_explore_raft_reconfigure = {
    .name = "raft-reconfigure",
    .about = "Raft membership changes while a deposed leader still acts",
    .bounds =
        "3 voters, 2 spares; 3 or 4 scripted changes and 1 free one; 1 stopped leader in 2 of "
        "3 scripts; 1 of: crash, stopped leader, suspicion, resignation; 1 delay or loss; "
        "promises of 2.5 timeouts",
    .depth = 14,
    .bytes = raft_reconfigure_bytes,
    .begin = raft_reconfigure_begin,
    TEAM_FUNCTIONS,
};

static size_t guard_bytes(const struct bw_explore_options *options)
{
    return bw_team_bytes(&guard_settings, links_of(&guard_settings, options));
}

static const char *guard_begin(void *state, const struct bw_explore_options *options, char *why)
{
    return bw_team_begin(state, &guard_settings, options, why);
}

const struct bw_explore_target bw_explore_guard = {
    .name = "guard",
    .about = "the quorum guard over an elector that names any node (src/core/elect/quorum_guard.c)",
    .bounds =
        "3 members; 3 names, 2 of: crash, leave, resignation, duplicate, confirmed death; after an "
        "election 4 names, 1 of these; 2 delays",
    .depth = 9,
    .bytes = guard_bytes,
    .begin = guard_begin,
    TEAM_FUNCTIONS,
};
