/* The options of `sim run`: the table, its own setters, and the checks of combinations. */
#include "cli/sim/run.h"

#include "core/base/parse_values.h"
#include "core/lease/derive.h"
#include "sim/faults/antipattern.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define RUNS_MAX 10000000.0

static const char *word_order(unsigned i)
{
    static const char *const words[] = {"sorted", "reverse", "random", NULL};
    return words[i];
}

static const char *word_on_off(unsigned i)
{
    static const char *const words[] = {"on", "off", NULL};
    return words[i];
}

static const char *word_rank(unsigned i)
{
    static const char *const words[] = {"id", "stability", NULL};
    return words[i];
}

static int set_word(const struct bw_option *option, const char *value, unsigned *out, char *why)
{
    for (unsigned i = 0; option->word(i); i++)
        if (strcmp(option->word(i), value) == 0) {
            *out = i;
            return 0;
        }
    return bw_unknown_word(why, option->name, value, option->word);
}

static int set_order(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_sim_run_options *o = target;
    unsigned i = 0;
    if (set_word(option, value, &i, why) != 0)
        return -1;
    o->config.order = (enum bw_sim_order)i;
    return 0;
}

static int set_rank(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_sim_run_options *o = target;
    unsigned i = 0;
    if (set_word(option, value, &i, why) != 0)
        return -1;
    o->config.rank = i ? BW_RANK_STABILITY : BW_RANK_ID;
    return 0;
}

static int set_pre_vote(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_sim_run_options *o = target;
    unsigned i = 0;
    if (set_word(option, value, &i, why) != 0)
        return -1;
    o->config.pre_vote_off = i == 1;
    return 0;
}

static int set_initiator(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_sim_run_options *o = target;
    struct bw_node_list *list = &o->initiators;
    (void)option;
    list->count = 0;
    if (strcmp(value, "all") == 0) {
        o->config.initiator = BW_INITIATOR_ALL;
        return 0;
    }
    if (bw_text_nodes(value, strlen(value), list->at, BW_ELECTOR_MEMBERS_MAX, &list->count) != 0) {
        snprintf(why, BW_WHY,
                 "invalid node '%.60s': expected a node id from 1, a list such as 1,3, or all",
                 value);
        return -1;
    }
    o->config.initiator = list->at[0];
    return 0;
}

static int set_quorum(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_sim_run_options *o = target;
    uint64_t quorum = 0;
    (void)option;
    if (value && (bw_text_number(value, strlen(value), UINT32_MAX, &quorum) != 0 || quorum == 0)) {
        snprintf(why, BW_WHY,
                 "invalid quorum '%.60s': expected a number of members, or --quorum alone for a "
                 "majority",
                 value);
        return -1;
    }
    o->config.guard = true;
    o->config.quorum = (uint32_t)quorum;
    return 0;
}

static int set_detector(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_sim_run_options *o = target;
    o->detector_given = true;
    return bw_set_detector(option, target, value, why);
}

static int set_algorithm(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_sim_run_options *o = target;
    const struct bw_elector_ops *anti = bw_antipattern_find(value);
    if (!anti && strcmp(value, "none") != 0)
        return bw_set_algorithm(option, target, value, why);
    o->config.algorithm = anti; /* none: only the detector runs */
    return 0;
}

static int set_fault(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_sim_run_options *o = target;
    return bw_script_flag(&o->script, option->name, value, why) == 0 ? 0 : -1;
}

_Static_assert(offsetof(struct bw_sim_config, timeout_max) ==
                   offsetof(struct bw_sim_config, timeout_min) + sizeof(bw_time),
               "bw_set_range fills both");

#define AT(field)     .offset = offsetof(struct bw_sim_run_options, field)
#define CONFIG(field) .offset = offsetof(struct bw_sim_run_options, config.field)
#define FAULT(word, shape, text)                                                                   \
    {                                                                                              \
        word, shape, text, .set = set_fault                                                        \
    }

const struct bw_option bw_run_options_table[] = {
    {.help = "algorithm and nodes"},
    {"algorithm", "A",
     "election algorithm: bully, bully-notify, bully-next-in-line, bully-candidates, ring-list, "
     "ring-max, ring-chang-roberts, ring-hirschberg-sinclair, invitation, lowest-id, stable, raft, "
     "lease or registry (default: bully)",
     .set = set_algorithm, CONFIG(algorithm), .word = bw_word_algorithm},
    {"detector", "NAME",
     "failure detector: ping, deadline, phi, phi-logistic, phi-exponential, phi+deadline, nfd, "
     "swim, gossip, heartbeat or none (default: deadline; none with --initiator and for raft, "
     "stable and lease, which have their own timers)",
     .set = set_detector, CONFIG(detector), .word = bw_word_detector},
    {"nodes", "N", "number of nodes, with the ids 1..N (default: 5)", .set = bw_set_u32,
     CONFIG(nodes), .low = 1, .high = BW_DETECTOR_MEMBERS_MAX},
    {"elections", "N", "number of elections that share one detector (default: 1)",
     .set = bw_set_u32, CONFIG(elections), .low = 1, .high = BW_ELECTIONS_MAX},
    {"spare", "N", "number of further ids that can join later (default: 0)", .set = bw_set_u32,
     CONFIG(spare), .high = BW_ELECTOR_MEMBERS_MAX},
    {.help = "settings of the algorithm"},
    {"quorum", "[N]",
     "guard the algorithm with timed promises of N members, so that two leaders never act at once "
     "(default: off; N: a majority)",
     .set = set_quorum},
    {"promise", "D", "--quorum: duration of a promise (default: from latency and period)",
     .set = bw_set_duration, CONFIG(promise_ns), .low = 1},
    {"rank", "id|stability",
     "bully: rank by id, or by stability, which lowers the rank of nodes that flap (default: id)",
     .set = set_rank, .word = word_rank},
    {"candidates", "ID,...",
     "bully-candidates: nodes that can lead; the others are ordinary (default: all)",
     .set = bw_set_nodes, AT(candidates)},
    {"alternatives", "ID,...",
     "bully-next-in-line: the leader's list of successors, best first (default: by rank)",
     .set = bw_set_nodes, AT(alternatives)},
    {"order", "WORD",
     "rings: order of the nodes: sorted, reverse or random by the seed (default: sorted)",
     .set = set_order, .word = word_order},
    {"no-announce", NULL,
     "rings: skip the announcement lap, so that only the winner knows the leader (default: "
     "announce)",
     .set = bw_set_switch, CONFIG(no_announce)},
    {"pre-vote", "on|off", "raft: ask for pre-votes before raising the term (default: on)",
     .set = set_pre_vote, .word = word_on_off},
    {"timeout", "D..D",
     "range of the election and suspicion timeouts (default: from latency and period)",
     .set = bw_set_range, CONFIG(timeout_min)},
    {"fresh-timers", NULL,
     "raft: restart every follower's election timer when the leader crashes (default: off)",
     .set = bw_set_switch, CONFIG(fresh_timers)},
    {"period", "D", "interval of heartbeats and probes (default: 100ms)", .set = bw_set_duration,
     CONFIG(period_ns), .low = 1},
    {"indirect", "K", "swim: number of members asked to probe indirectly (default: 3)",
     .set = bw_set_u32, CONFIG(indirect), .high = 64},
    BW_LEASE_OPTIONS(struct bw_sim_run_options, config.lease),
    {.help = "simulated network, clocks and work"},
    {"latency", "D|D..D|exp:MIN+MEAN", "latency of a message (default: 1ms..5ms)",
     .set = bw_set_latency, CONFIG(latency)},
    {"loss", "P", "probability that a message is lost, as 0.1 or 10% (default: 0)",
     .set = bw_set_chance, CONFIG(loss)},
    {"duplicate", "P", "probability that a message arrives twice (default: 0)",
     .set = bw_set_chance, CONFIG(duplicate)},
    {"reorder", "P", "probability that a message is delayed once more (default: 0)",
     .set = bw_set_chance, CONFIG(reorder)},
    {"drift", "P", "draw clock rates from 1 +- P (default: 0)", .set = bw_set_chance, CONFIG(drift),
     .high = 0.5},
    {"drift-bound", "P", "drift that the electors assume (default: 1%)", .set = bw_set_chance,
     CONFIG(drift_bound), .high = 0.5},
    {"hint", NULL, "report a crash to the other nodes as a closed connection (default: off)",
     .set = bw_set_switch, CONFIG(transport_hints)},
    {"datagrams", NULL,
     "drop messages to a dead node silently (default: the sender sees a failure)",
     .set = bw_set_switch, AT(datagrams)},
    {"codec", NULL, "encode and decode every message (default: off)", .set = bw_set_switch,
     CONFIG(codec)},
    {"work", "D",
     "interval at which a leader that may act writes to the guarded resource; 0: never (default: "
     "100ms)",
     .set = bw_set_duration, CONFIG(work_ns)},
    {"no-fencing", NULL,
     "let the resource accept every token, to show the damage (default: it checks tokens)",
     .set = bw_set_switch, CONFIG(fencing_off)},
    {.help = "start and end"},
    {"initiator", "ID,...|all",
     "nodes that start the election; the others wait (default: each node decides by itself)",
     .set = set_initiator},
    {"crashed", "ID,...", "nodes that are dead from the start (default: none)", .set = bw_set_nodes,
     AT(crashed)},
    {"until", "D",
     "virtual time to run (default: until all nodes agree and every fault has happened and was "
     "noticed)",
     .set = bw_set_duration, CONFIG(until)},
    {"limit", "D", "without --until: maximum virtual time (default: 10m)", .set = bw_set_duration,
     CONFIG(limit), .low = 1},
    {"runs", "R", "number of runs, with seeds S, S+1, ... (default: 1)", .set = bw_set_u32,
     AT(runs), .low = 1, .high = RUNS_MAX},
    {"seed", "S", "seed, which determines the whole run (default: 1)", .set = bw_set_u64,
     CONFIG(seed)},
    {.help = "faults (each can be repeated; ID can be 'leader' for crash, pause, leave, disk-fail; "
             "default: none)"},
    {"script", "FILE", "file with settings and events, one per line; - is stdin (default: none)",
     .set = bw_set_text, AT(script_path)},
    FAULT("crash", "ID@T[..T2]",
          "crash the node, which loses what was not durable; restart it at T2 (default: none)"),
    FAULT("restart", "ID@T", "restart the node with its durable state (default: none)"),
    FAULT("pause", "ID@T1..T2",
          "stop the node from running, as by SIGSTOP or a paused VM (default: none)"),
    FAULT("partition", "1,2,3/4,5@T1..T2",
          "split the network into groups that cannot communicate (default: none)"),
    FAULT("cut", "FROM>TO@T1..T2", "lose all messages in this direction (default: none)"),
    FAULT("join", "ID@T", "start a new member (default: none)"),
    FAULT("leave", "ID@T",
          "stop the node cleanly, which transfers leadership first (default: none)"),
    FAULT("transfer", "ID@T", "ask the leader to transfer leadership to ID (default: none)"),
    FAULT("disk-fail", "ID@T", "fail the node's next durable write (default: none)"),
    FAULT("store-down", "T1..T2",
          "lease: make the store unavailable, as its model fails (default: never)"),
    {.help = "output"},
    {"json", NULL, "print one JSON object (default: text)", .set = bw_set_switch, AT(json)},
    {"svg", "FILE",
     "write a picture of the first run: lanes, leaders, messages, faults (default: none)",
     .set = bw_set_text, AT(svg_path)},
    {"trace", "FILE", "write one line per event; - is stdout (default: none)", .set = bw_set_text,
     AT(trace_path)},
    {"check", NULL,
     "check the algorithm's guarantees during the run; exit with 1 on a violation (default: off)",
     .set = bw_set_switch, AT(check)},
    {"story", NULL, "print what happened in sentences, for one run (default: off)",
     .set = bw_set_switch, AT(story)},
    {"no-timeline", NULL, "omit the text timeline (default: print it)", .set = bw_set_switch,
     AT(no_timeline)},
    {0},
};

void bw_run_options_init(struct bw_sim_run_options *options)
{
    memset(options, 0, sizeof *options);
    bw_sim_defaults(&options->config);
    options->config.lease.ttl_ns = 0; /* not set: derive_lease */
    options->config.lease.kill_after_ns = -1;
    bw_script_init(&options->script);
    if (options->config.work_ns == 0)
        options->config.work_ns = 100 * BW_MS;
    options->config.seed = 1;
    options->runs = 1;
}

void bw_run_options_deinit(struct bw_sim_run_options *options)
{
    bw_script_deinit(&options->script);
}

/* ---- checks of combinations ---- */

/* Returns whether the command line sets the option. */
static bool was_given(const struct bw_sim_run_options *o, const char *name)
{
    for (size_t i = 0; i < sizeof bw_run_options_table / sizeof *bw_run_options_table; i++)
        if (bw_run_options_table[i].name && strcmp(bw_run_options_table[i].name, name) == 0)
            return o->parsed->given[i];
    return false;
}

static const char *word_target(unsigned i)
{
    return bw_explore_at(i) ? bw_explore_at(i)->name : NULL;
}

/* The settings of a trace of `sim explore`. Returns 1 if `s` is one of them, 0 if not, or -1 with
 * the reason in `why`. */
static int set_explore(struct bw_sim_run_options *o, const struct bw_script_setting *s, char *why)
{
    uint64_t number;
    const char *value = s->value ? s->value : "";
    if (strcmp(s->name, "explore") == 0) {
        o->explore = bw_explore_find(value);
        return o->explore ? 1 : bw_unknown_word(why, "target", value, word_target);
    }
    bool links = strcmp(s->name, "links") == 0;
    uint32_t most = links ? BW_EXPLORE_LINKS_MAX : BW_EXPLORE_UNLIMITED;
    if (!o->explore || (!links && strcmp(s->name, "delays") != 0))
        return 0;
    if (bw_text_number(value, strlen(value), most, &number) != 0 || number == 0) {
        snprintf(why, BW_WHY, "invalid %s '%.40s': expected a number from 1 to %u", s->name, value,
                 most);
        return -1;
    }
    *(links ? &o->explore_options.links : &o->explore_options.delays) = (uint32_t)number;
    return 1;
}

static int read_script(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                       struct bw_sim_run_options *o)
{
    char why[BW_WHY];
    bool standard = strcmp(o->script_path, "-") == 0;
    const char *name = standard ? "standard input" : o->script_path;
    FILE *file = standard ? stdin : fopen(o->script_path, "r");
    if (!file)
        return bw_usage_error(command, "cannot read --script %.200s: %s", o->script_path,
                              strerror(errno));
    int error = bw_script_read(&o->script, file, name, why);
    if (!standard)
        fclose(file);
    if (error != 0)
        return bw_usage_error(command, "%s", why);
    for (uint32_t i = 0; i < o->script.settings_count; i++) {
        const struct bw_script_setting *s = &o->script.settings[i];
        if (strcmp(s->name, "script") == 0)
            return bw_usage_error(command, "%s:%u: a script cannot include another script", name,
                                  s->place.line);
        int taken = set_explore(o, s, why);
        if (taken < 0 ||
            (taken == 0 && bw_options_set(command, parsed, o, s->name, s->value, why) != 0))
            return bw_usage_error(command, "%s:%u: %s", name, s->place.line, why);
    }
    if (o->script.steps_count > 0 && !o->explore)
        return bw_usage_error(command, "%s:%u: a 'do' line needs the setting 'explore TARGET'",
                              name, o->script.step_places[0].line);
    return BW_GO_ON;
}

/* Reports a setting that conflicts with others, and the place where it was set. */
__attribute__((format(printf, 4, 5))) static int refuse(const struct bw_cli_command *command,
                                                        const struct bw_sim_run_options *o,
                                                        const char *name, const char *format, ...)
{
    char text[BW_WHY];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (uint32_t i = o->script.settings_count; i-- > 0 && !was_given(o, name);) {
        const struct bw_script_setting *s = &o->script.settings[i];
        if (strcmp(s->name, name) == 0)
            return bw_usage_error(command, "%s:%u: %s: %s", s->place.source, s->place.line, name,
                                  text);
    }
    return bw_usage_error(command, "--%s: %s", name, text);
}

static int check_list(const struct bw_cli_command *command, const struct bw_sim_run_options *o,
                      const char *name, const struct bw_node_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i] > o->config.nodes)
            return refuse(command, o, name, "node %u does not exist; the nodes are 1..%u",
                          list->at[i], o->config.nodes);
    return BW_GO_ON;
}

static int check_initiator(const struct bw_cli_command *command, const struct bw_sim_run_options *o)
{
    const struct bw_sim_config *c = &o->config;
    if (c->initiator == BW_INITIATOR_NONE || c->initiator == BW_INITIATOR_ALL)
        return BW_GO_ON;
    int code = check_list(command, o, "initiator", &o->initiators);
    for (uint32_t i = 0; code == BW_GO_ON && i < o->crashed.count; i++)
        for (uint32_t k = 0; code == BW_GO_ON && k < o->initiators.count; k++)
            if (o->crashed.at[i] == o->initiators.at[k])
                code = refuse(command, o, "initiator", "node %u is crashed; give a live node",
                              o->crashed.at[i]);
    return code;
}

static int check_group(const struct bw_cli_command *command, const struct bw_sim_run_options *o)
{
    const struct bw_sim_config *c = &o->config;
    uint32_t most = bw_sim_is_raft(c->algorithm) ? BW_RAFT_MEMBERS_MAX : BW_ELECTOR_MEMBERS_MAX;
    if (c->algorithm && c->nodes + c->spare > most)
        return refuse(command, o, "nodes", "%u is too many for %s: expected 1 to %u",
                      c->nodes + c->spare, c->algorithm->name, most);
    if (!c->algorithm && c->until == 0 && c->faults_count == 0)
        return refuse(
            command, o, "algorithm",
            "algorithm none elects no leader, so the run would not end: add --until or a fault");
    if (o->candidates.count && c->algorithm != &bw_elect_bully_candidates)
        return refuse(command, o, "candidates", "only bully-candidates has candidates, not %s",
                      c->algorithm ? c->algorithm->name : "none");
    if (o->alternatives.count && c->algorithm != &bw_elect_bully_next)
        return refuse(command, o, "alternatives",
                      "only bully-next-in-line has alternatives, not %s",
                      c->algorithm ? c->algorithm->name : "none");
    int code = check_list(command, o, "crashed", &o->crashed);
    if (code == BW_GO_ON)
        code = check_list(command, o, "candidates", &o->candidates);
    if (code == BW_GO_ON)
        code = check_list(command, o, "alternatives", &o->alternatives);
    if (code == BW_GO_ON && o->crashed.count >= c->nodes)
        code = refuse(command, o, "crashed", "all %u nodes are crashed; leave one alive", c->nodes);
    return code == BW_GO_ON ? check_initiator(command, o) : code;
}

static int check_quorum(const struct bw_cli_command *command, struct bw_sim_run_options *o)
{
    struct bw_sim_config *c = &o->config;
    uint32_t majority = c->nodes / 2 + 1;
    if (!c->guard)
        return BW_GO_ON;
    if (!c->algorithm)
        return refuse(command, o, "quorum",
                      "there is no algorithm to guard; choose one with --algorithm");
    if (c->quorum > c->nodes)
        return refuse(command, o, "quorum", "%u exceeds the group of %u: expected %u to %u",
                      c->quorum, c->nodes, majority, c->nodes);
    if (c->quorum && c->quorum < majority)
        return refuse(command, o, "quorum", "%u of %u is not a majority: expected %u to %u",
                      c->quorum, c->nodes, majority, c->nodes);
    if (c->algorithm->traits & BW_TRAIT_GUARDABLE)
        return BW_GO_ON;
    if (c->algorithm->traits & BW_TRAIT_MAY_SPLIT)
        return refuse(command, o, "quorum", "not supported for %s, which never elects two leaders",
                      c->algorithm->name);
    return refuse(command, o, "quorum", "not needed for %s, which never elects two leaders",
                  c->algorithm->name);
}

static bool is_ring(const struct bw_sim_config *c)
{
    return c->algorithm && strncmp(c->algorithm->name, "ring-", 5) == 0;
}

static bool is_bully(const struct bw_sim_config *c)
{
    return c->algorithm && strncmp(c->algorithm->name, "bully", 5) == 0;
}

static bool is_raft(const struct bw_sim_config *c)
{
    return bw_sim_is_raft(c->algorithm);
}

static bool is_swim(const struct bw_sim_config *c)
{
    return c->detector == &bw_detect_swim;
}

static bool is_guarded(const struct bw_sim_config *c)
{
    bool anti = c->algorithm && strncmp(c->algorithm->name, "anti-", 5) == 0;
    return c->guard || anti;
}

/* Refuses options that have no effect with the chosen algorithm or detector. */
static int check_fits(const struct bw_cli_command *command, const struct bw_sim_run_options *o)
{
    static const struct {
        const char *name, *whose;
        bool (*fits)(const struct bw_sim_config *c);
    } rows[] = {{"order", "needs a ring algorithm", is_ring},
                {"no-announce", "needs a ring algorithm", is_ring},
                {"rank", "needs a bully algorithm", is_bully},
                {"pre-vote", "needs --algorithm raft", is_raft},
                {"fresh-timers", "needs --algorithm raft", is_raft},
                {"indirect", "needs --detector swim", is_swim},
                {"promise", "needs --quorum", is_guarded}};
    const struct bw_sim_config *c = &o->config;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (was_given(o, rows[i].name) && !rows[i].fits(c))
            return refuse(command, o, rows[i].name, "%s", rows[i].whose);
    if (c->no_announce && c->faults_count > 0 && c->until == 0)
        return refuse(
            command, o, "no-announce",
            "only the winner knows the leader, so the other nodes never agree; give --until");
    return BW_GO_ON;
}

/* Refuses settings and faults of leases for other algorithms. */
static int check_lease(const struct bw_cli_command *command, const struct bw_sim_run_options *o)
{
    if (bw_sim_is_lease(o->config.algorithm))
        return BW_GO_ON;
    for (unsigned i = 0; bw_lease_options[i]; i++)
        if (was_given(o, bw_lease_options[i]))
            return refuse(command, o, bw_lease_options[i], "needs --algorithm lease");
    return BW_GO_ON;
}

/* Derives the terms of the lease that were not set, as `bellwether run` does: --ttl and
 * --kill-after each work alone. */
static void derive_lease(struct bw_sim_config *c)
{
    struct bw_sim_lease *lease = &c->lease;
    struct bw_sim_config defaults;
    struct bw_lease_terms terms;
    bw_sim_defaults(&defaults);
    struct bw_lease_given given = {.ttl_ns = lease->ttl_ns,
                                   .kill_after_ns = lease->kill_after_ns,
                                   .kill_default_ns = defaults.lease.kill_after_ns,
                                   .margin_ns = lease->margin_ns,
                                   .uncertainty_ns = lease->uncertainty_ns,
                                   .drift_ppm = (uint32_t)(c->drift_bound * 1e6 + 0.5),
                                   .ttl_default_ns = defaults.lease.ttl_ns};
    bw_lease_derive(&terms, &given);
    lease->ttl_ns = terms.ttl_ns;
    lease->kill_after_ns = terms.kill_after_ns;
}

static void follow_defaults(struct bw_sim_run_options *o)
{
    struct bw_sim_config *c = &o->config;
    derive_lease(c);
    if (bw_sim_is_lease(c->algorithm))
        c->algorithm = bw_sim_lease_ops(c->lease.store);
    bool own = c->algorithm && (c->algorithm->traits & BW_TRAIT_OWN_TIMERS);
    if (!o->detector_given)
        c->detector = own || c->initiator != BW_INITIATOR_NONE ? NULL : &bw_detect_deadline;
    c->transport_reports = !o->datagrams;
    c->initiators = o->initiators.at;
    c->initiators_count = o->initiators.count;
    c->crashed = o->crashed.at;
    c->crashed_count = o->crashed.count;
    c->candidates = o->candidates.count ? o->candidates.at : NULL;
    c->candidates_count = o->candidates.count;
    c->alternatives = o->alternatives.count ? o->alternatives.at : NULL;
    c->alternatives_count = o->alternatives.count;
}

int bw_run_options_finish(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                          struct bw_sim_run_options *options)
{
    char why[BW_WHY];
    options->parsed = parsed;
    int code = options->script_path ? read_script(command, parsed, options) : BW_GO_ON;
    if (code != BW_GO_ON || options->explore)
        return code;
    if (bw_script_finish(&options->script, &options->config, why) != 0)
        return bw_usage_error(command, "%s", why);
    code = check_group(command, options);
    if (code == BW_GO_ON)
        code = check_quorum(command, options);
    if (code == BW_GO_ON)
        code = check_lease(command, options);
    if (code != BW_GO_ON)
        return code;
    follow_defaults(options);
    return check_fits(command, options);
}

const char *bw_run_detector_name(const struct bw_sim_config *config)
{
    return config->detector ? config->detector->name : "none";
}
