/* The options of `sim run`: the table, the setters only it needs, and what must fit together. */
#include "cli/sim/run.h"

#include "core/base/text.h"
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
    struct bw_run_options *o = target;
    unsigned i = 0;
    if (set_word(option, value, &i, why) != 0)
        return -1;
    o->config.order = (enum bw_sim_order)i;
    return 0;
}

static int set_rank(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_run_options *o = target;
    unsigned i = 0;
    if (set_word(option, value, &i, why) != 0)
        return -1;
    o->config.rank = i ? BW_RANK_STABILITY : BW_RANK_ID;
    return 0;
}

static int set_pre_vote(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_run_options *o = target;
    unsigned i = 0;
    if (set_word(option, value, &i, why) != 0)
        return -1;
    o->config.pre_vote_off = i == 1;
    return 0;
}

static int set_initiator(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_run_options *o = target;
    struct bw_node_list *list = &o->initiators;
    (void)option;
    list->count = 0;
    if (strcmp(value, "all") == 0) {
        o->config.initiator = BW_INITIATOR_ALL;
        return 0;
    }
    if (bw_text_nodes(value, strlen(value), list->at, BW_ELECTOR_MEMBERS_MAX, &list->count) != 0) {
        snprintf(why, BW_WHY,
                 "'%.60s' is no node; a node is a number from 1, several are 1,3, or 'all'", value);
        return -1;
    }
    o->config.initiator = list->at[0];
    return 0;
}

static int set_quorum(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_run_options *o = target;
    uint64_t quorum = 0;
    (void)option;
    if (value && (bw_text_number(value, strlen(value), UINT32_MAX, &quorum) != 0 || quorum == 0)) {
        snprintf(why, BW_WHY,
                 "'%.60s' is no quorum; a number of members, or --quorum alone for a majority",
                 value);
        return -1;
    }
    o->config.guard = true;
    o->config.quorum = (uint32_t)quorum;
    return 0;
}

static int set_detector(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_run_options *o = target;
    o->detector_given = true;
    return bw_set_detector(option, target, value, why);
}

static int set_algorithm(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_run_options *o = target;
    const struct bw_elector_ops *anti = bw_antipattern_find(value);
    if (!anti && strcmp(value, "none") != 0)
        return bw_set_algorithm(option, target, value, why);
    o->config.algorithm = anti; /* none: only the detector runs */
    return 0;
}

static int set_fault(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_run_options *o = target;
    return bw_script_flag(&o->script, option->name, value, why) == 0 ? 0 : -1;
}

_Static_assert(offsetof(struct bw_sim_config, timeout_max) ==
                   offsetof(struct bw_sim_config, timeout_min) + sizeof(bw_time),
               "bw_set_range fills both");

#define AT(field)     .offset = offsetof(struct bw_run_options, field)
#define CONFIG(field) .offset = offsetof(struct bw_run_options, config.field)
#define FAULT(word, shape, text)                                                                   \
    {                                                                                              \
        word, shape, text, .set = set_fault                                                        \
    }

const struct bw_option bw_run_options_table[] = {
    {.help = "who elects whom"},
    {"algorithm", "A",
     "bully (default), bully-notify, bully-next-in-line, bully-candidates, "
     "ring-list, ring-max, ring-chang-roberts, ring-hirschberg-sinclair, invitation, lowest-id, "
     "stable, raft, lease or registry",
     .set = set_algorithm, CONFIG(algorithm), .word = bw_word_algorithm},
    {"detector", "D",
     "ping, deadline (default), phi, phi-logistic, phi-exponential, phi+deadline, "
     "nfd, swim, gossip, heartbeat or none; none is the default with --initiator and for "
     "algorithms "
     "that have timers of their own (raft, stable, lease)",
     .set = set_detector, CONFIG(detector), .word = bw_word_detector},
    {"nodes", "N", "how many (default 5); their ids are 1..N", .set = bw_set_u32, CONFIG(nodes),
     .low = 1, .high = BW_DETECTOR_MEMBERS_MAX},
    {"elections", "N", "elections held side by side on one detector (default 1)", .set = bw_set_u32,
     CONFIG(elections), .low = 1, .high = BW_ELECTIONS_MAX},
    {"spare", "N", "further ids that may join later", .set = bw_set_u32, CONFIG(spare),
     .high = BW_ELECTOR_MEMBERS_MAX},
    {.help = "how they elect"},
    {"quorum", "[N]",
     "guard the algorithm by timed promises of N members (default: a majority), so "
     "that no two ever lead at once",
     .set = set_quorum},
    {"promise", "D", "how long such a promise binds", .set = bw_set_duration, CONFIG(promise_ns),
     .low = 1},
    {"rank", "id|stability", "bully: by id (default), or those that flap stand back",
     .set = set_rank, .word = word_rank},
    {"candidates", "ID,...", "bully-candidates: who may lead; the others are ordinary",
     .set = bw_set_nodes, AT(candidates)},
    {"alternatives", "ID,...", "bully-next-in-line: the leader's list, best first",
     .set = bw_set_nodes, AT(alternatives)},
    {"order", "WORD", "rings: sorted (default), reverse or random by the seed", .set = set_order,
     .word = word_order},
    {"no-announce", NULL, "rings: no announcement lap; only the winner knows", .set = bw_set_switch,
     CONFIG(no_announce)},
    {"pre-vote", "on|off", "raft: ask before raising the term (default on)", .set = set_pre_vote,
     .word = word_on_off},
    {"timeout", "D..D", "election and suspicion time-outs; default: follow from latency and period",
     .set = bw_set_range, CONFIG(timeout_min)},
    {"fresh-timers", NULL, "raft: at the leader's crash every follower's timer starts anew",
     .set = bw_set_switch, CONFIG(fresh_timers)},
    {"period", "D", "heartbeats and probes (default 100ms)", .set = bw_set_duration,
     CONFIG(period_ns), .low = 1},
    {"indirect", "K", "swim: members asked to probe for us (default 3)", .set = bw_set_u32,
     CONFIG(indirect), .high = 64},
    BW_LEASE_OPTIONS(struct bw_run_options, config.lease),
    {.help = "the world"},
    {"latency", "D|D..D|exp:MIN+MEAN", "of a message (default 1ms..5ms)", .set = bw_set_latency,
     CONFIG(latency)},
    {"loss", "P", "chance that a message is lost, as 0.1 or 10%", .set = bw_set_chance,
     CONFIG(loss)},
    {"duplicate", "P", "chance that it arrives twice", .set = bw_set_chance, CONFIG(duplicate)},
    {"reorder", "P", "chance that it is delayed once more", .set = bw_set_chance, CONFIG(reorder)},
    {"drift", "P", "clock rates are drawn from 1 +- P", .set = bw_set_chance, CONFIG(drift),
     .high = 0.5},
    {"drift-bound", "P", "what the electors are told of it (default 1%)", .set = bw_set_chance,
     CONFIG(drift_bound), .high = 0.5},
    {"hint", NULL, "a crash is seen by the others as a closed connection", .set = bw_set_switch,
     CONFIG(transport_hints)},
    {"datagrams", NULL, "a send to a dead node is silent (default: it comes back as failed)",
     .set = bw_set_switch, AT(datagrams)},
    {"codec", NULL, "every message goes through encode and decode", .set = bw_set_switch,
     CONFIG(codec)},
    {"work", "D", "a leader that may act writes to the guarded resource this often; 0: never",
     .set = bw_set_duration, CONFIG(work_ns)},
    {"no-fencing", NULL, "the resource checks no tokens (what goes wrong then)",
     .set = bw_set_switch, CONFIG(fencing_off)},
    {.help = "how it starts and ends"},
    {"initiator", "ID,...|all", "all are quiet at first and these start the election",
     .set = set_initiator},
    {"crashed", "ID,...", "dead from the start", .set = bw_set_nodes, AT(crashed)},
    {"until", "D",
     "virtual time to run; default: until all agree, every fault has happened and was noticed",
     .set = bw_set_duration, CONFIG(until)},
    {"limit", "D", "without --until: give up here (default 10m)", .set = bw_set_duration,
     CONFIG(limit), .low = 1},
    {"runs", "R", "repeat with seeds S, S+1, ... (default 1)", .set = bw_set_u32, AT(runs),
     .low = 1, .high = RUNS_MAX},
    {"seed", "S", "a run is a function of its seed (default 1)", .set = bw_set_u64, CONFIG(seed)},
    {.help =
         "faults (each may be given often; ID may be 'leader' for crash, pause, leave, disk-fail)"},
    {"script", "FILE", "settings and events, one per line; - reads standard input",
     .set = bw_set_text, AT(script_path)},
    FAULT("crash", "ID@T[..T2]", "loses all that was not durable; T2: restarts"),
    FAULT("restart", "ID@T", "comes back with what was durable"),
    FAULT("pause", "ID@T1..T2", "stops running, as by SIGSTOP or a paused VM"),
    FAULT("partition", "1,2,3/4,5@T1..T2", "groups that cannot talk to each other"),
    FAULT("cut", "FROM>TO@T1..T2", "that one direction is lost"),
    FAULT("join", "ID@T", "a new member starts"),
    FAULT("leave", "ID@T", "stops in good order and hands over"),
    FAULT("transfer", "ID@T", "whoever leads is asked to hand over to ID"),
    FAULT("disk-fail", "ID@T", "the next durable write fails"),
    FAULT("store-down", "T1..T2", "lease: the store is away, as its model goes away"),
    {.help = "output"},
    {"json", NULL, "one JSON object", .set = bw_set_switch, AT(json)},
    {"svg", "FILE", "a picture: lanes, leaders, messages, faults (of the first run)",
     .set = bw_set_text, AT(svg_path)},
    {"trace", "FILE", "one line per event; - is standard output", .set = bw_set_text,
     AT(trace_path)},
    {"check", NULL, "let the checkers watch what the algorithm promises; a violation exits 1",
     .set = bw_set_switch, AT(check)},
    {"story", NULL, "tell what happened in sentences (of one run)", .set = bw_set_switch,
     AT(story)},
    {"no-timeline", NULL, "leave the text timeline out", .set = bw_set_switch, AT(no_timeline)},
    {0},
};

void bw_run_options_init(struct bw_run_options *options)
{
    memset(options, 0, sizeof *options);
    bw_sim_defaults(&options->config);
    bw_script_init(&options->script);
    if (options->config.work_ns == 0)
        options->config.work_ns = 100 * BW_MS;
    options->config.seed = 1;
    options->runs = 1;
}

void bw_run_options_deinit(struct bw_run_options *options)
{
    bw_script_deinit(&options->script);
}

/* ---- what belongs together ---- */

/* Whether the option stood on the command line. */
static bool was_given(const struct bw_run_options *o, const char *name)
{
    for (size_t i = 0; i < sizeof bw_run_options_table / sizeof *bw_run_options_table; i++)
        if (bw_run_options_table[i].name && strcmp(bw_run_options_table[i].name, name) == 0)
            return o->parsed->given[i];
    return false;
}

static int read_script(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                       struct bw_run_options *o)
{
    char why[BW_WHY];
    bool standard = strcmp(o->script_path, "-") == 0;
    const char *name = standard ? "standard input" : o->script_path;
    FILE *file = standard ? stdin : fopen(o->script_path, "r");
    if (!file)
        return bw_usage_error(command, "--script: %.200s: %s", o->script_path, strerror(errno));
    int error = bw_script_read(&o->script, file, name, why);
    if (!standard)
        fclose(file);
    if (error != 0)
        return bw_usage_error(command, "%s", why);
    for (uint32_t i = 0; i < o->script.settings_count; i++) {
        const struct bw_script_setting *s = &o->script.settings[i];
        if (strcmp(s->name, "script") == 0)
            return bw_usage_error(command, "%s:%u: a script cannot call another", name,
                                  s->place.line);
        if (bw_options_set(command, parsed, o, s->name, s->value, why) != 0)
            return bw_usage_error(command, "%s:%u: %s", name, s->place.line, why);
    }
    return BW_GO_ON;
}

/* A setting that does not fit the others, with the place where it was made. */
__attribute__((format(printf, 4, 5))) static int misfit(const struct bw_cli_command *command,
                                                        const struct bw_run_options *o,
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

static int check_list(const struct bw_cli_command *command, const struct bw_run_options *o,
                      const char *name, const struct bw_node_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i] > o->config.nodes)
            return misfit(command, o, name, "node %u does not exist; the nodes are 1..%u",
                          list->at[i], o->config.nodes);
    return BW_GO_ON;
}

static int check_initiator(const struct bw_cli_command *command, const struct bw_run_options *o)
{
    const struct bw_sim_config *c = &o->config;
    if (c->initiator == BW_INITIATOR_NONE || c->initiator == BW_INITIATOR_ALL)
        return BW_GO_ON;
    int code = check_list(command, o, "initiator", &o->initiators);
    for (uint32_t i = 0; code == BW_GO_ON && i < o->crashed.count; i++)
        for (uint32_t k = 0; code == BW_GO_ON && k < o->initiators.count; k++)
            if (o->crashed.at[i] == o->initiators.at[k])
                code = misfit(command, o, "initiator", "node %u is crashed; name a live one",
                              o->crashed.at[i]);
    return code;
}

static int check_group(const struct bw_cli_command *command, const struct bw_run_options *o)
{
    const struct bw_sim_config *c = &o->config;
    uint32_t most = bw_sim_is_raft(c->algorithm) ? BW_RAFT_MEMBERS_MAX : BW_ELECTOR_MEMBERS_MAX;
    if (c->algorithm && c->nodes + c->spare > most)
        return misfit(command, o, "nodes", "%u are too many for %s; from 1 to %u",
                      c->nodes + c->spare, c->algorithm->name, most);
    if (!c->algorithm && c->until == 0 && c->faults_count == 0)
        return misfit(command, o, "algorithm",
                      "none: nobody will ever agree; say --until when it ends, or what fails");
    if (o->candidates.count && c->algorithm != &bw_elect_bully_candidates)
        return misfit(command, o, "candidates", "only bully-candidates knows candidates; not %s",
                      c->algorithm ? c->algorithm->name : "none");
    if (o->alternatives.count && c->algorithm != &bw_elect_bully_next)
        return misfit(command, o, "alternatives", "only bully-next-in-line has them; not %s",
                      c->algorithm ? c->algorithm->name : "none");
    int code = check_list(command, o, "crashed", &o->crashed);
    if (code == BW_GO_ON)
        code = check_list(command, o, "candidates", &o->candidates);
    if (code == BW_GO_ON)
        code = check_list(command, o, "alternatives", &o->alternatives);
    if (code == BW_GO_ON && o->crashed.count >= c->nodes)
        code = misfit(command, o, "crashed", "names all %u nodes; leave one alive", c->nodes);
    return code == BW_GO_ON ? check_initiator(command, o) : code;
}

static int check_quorum(const struct bw_cli_command *command, struct bw_run_options *o)
{
    struct bw_sim_config *c = &o->config;
    uint32_t majority = c->nodes / 2 + 1;
    if (!c->guard)
        return BW_GO_ON;
    if (!c->algorithm)
        return misfit(command, o, "quorum", "there is no algorithm to guard; choose one");
    if (c->quorum > c->nodes)
        return misfit(command, o, "quorum", "%u is larger than the group of %u; from %u to %u",
                      c->quorum, c->nodes, majority, c->nodes);
    if (c->quorum && c->quorum < majority)
        return misfit(command, o, "quorum", "%u of %u is no majority; from %u to %u", c->quorum,
                      c->nodes, majority, c->nodes);
    if (c->algorithm->traits & BW_TRAIT_GUARDABLE)
        return BW_GO_ON;
    if (c->algorithm->traits & BW_TRAIT_MAY_SPLIT)
        return misfit(command, o, "quorum", "%s cannot be guarded; raft never splits",
                      c->algorithm->name);
    return misfit(command, o, "quorum", "%s needs none: it does not split", c->algorithm->name);
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

/* What would change nothing was meant for something else. */
static int check_fits(const struct bw_cli_command *command, const struct bw_run_options *o)
{
    static const struct {
        const char *name, *whose;
        bool (*fits)(const struct bw_sim_config *c);
    } rows[] = {{"order", "is for rings", is_ring},
                {"no-announce", "is for rings", is_ring},
                {"rank", "is for bully and its kin", is_bully},
                {"pre-vote", "is for raft", is_raft},
                {"fresh-timers", "is for raft", is_raft},
                {"indirect", "is for --detector swim", is_swim},
                {"promise", "is for --quorum", is_guarded}};
    const struct bw_sim_config *c = &o->config;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (was_given(o, rows[i].name) && !rows[i].fits(c))
            return misfit(command, o, rows[i].name, "%s", rows[i].whose);
    if (c->no_announce && c->faults_count > 0 && c->until == 0)
        return misfit(
            command, o, "no-announce",
            "nobody but the winner knows who leads, so nobody notices what happens to it; "
            "say --until when it ends");
    return BW_GO_ON;
}

/* Settings and faults of leases mean nothing elsewhere. */
static int check_lease(const struct bw_cli_command *command, const struct bw_run_options *o)
{
    if (bw_sim_is_lease(o->config.algorithm))
        return BW_GO_ON;
    for (unsigned i = 0; bw_lease_options[i]; i++)
        if (was_given(o, bw_lease_options[i]))
            return misfit(command, o, bw_lease_options[i], "is for --algorithm lease");
    return BW_GO_ON;
}

static void follow_defaults(struct bw_run_options *o)
{
    struct bw_sim_config *c = &o->config;
    if (bw_sim_is_lease(c->algorithm))
        c->algorithm = bw_sim_lease_ops(c->lease.store);
    bool own = c->algorithm && (c->algorithm->traits & BW_TRAIT_OWN_TIMERS);
    if (!o->detector_given)
        c->detector = own || c->initiator != BW_INITIATOR_NONE ? NULL : &bw_detect_deadline;
    c->transport_tells = !o->datagrams;
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
                          struct bw_run_options *options)
{
    char why[BW_WHY];
    options->parsed = parsed;
    int code = options->script_path ? read_script(command, parsed, options) : BW_GO_ON;
    if (code != BW_GO_ON)
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
