/* `bellwether recover`: the five steps after a split brain, on any store.
 *
 *   1 stop       the holder is asked to hand over to this recovery, or its lease is waited out;
 * what earlier holders left on this host is ended; the registers of guarded files are raised to
 * this recovery's token and closed: whoever else still acts is rejected 2 compare    a hook says
 * what each side holds 3 reconcile  a hook makes them agree; they are compared again 4 re-elect
 * registers are opened, the leadership is let go, one candidate takes it 5 resume     the new
 * leader's token is one that the registers accept
 *
 * The recovery leads the election itself from 1 to 4, by the same lease rules as any candidate, so
 * nobody works on sides that differ. If it fails or dies between, the registers stay closed, and it
 * may be run again from the start: every step finds what is already done. */
#include "cli/commands.h"
#include "cli/guard/guard.h"
#include "cli/look/record_print.h"
#include "cli/look/recover_hook.h"
#include "fence/guard.h"
#include "run/supervisor/clear.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 16u
#define DEAD_MAX  16u

struct recover_options {
    struct bw_look look;
    const char *files[FILES_MAX];
    uint32_t file_count;
    const char *dead[DEAD_MAX]; /* holders whose work the operator has seen dead */
    uint32_t dead_count;
    const char *on_compare, *on_reconcile;
    bw_time wait_ns, ttl_ns, hook_limit_ns;
};

struct recover {
    struct recover_options options;
    struct bw_client client;
    struct bw_lead lead;
    struct bw_guard *guards[FILES_MAX];
    struct bw_sides sides;
    struct bw_hook_result hook;
    struct bw_clearing clearing;
    struct bw_store_record before, after;
    char id[BW_CANDIDATE_ID_MAX + 1];
    char line[1024]; /* the step's result */
};

static int set_file(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct recover_options *options = target;
    if (*value == '\0' || options->file_count == FILES_MAX) {
        snprintf(why, BW_WHY, "%s; write %s", *value ? "too many of them" : "is empty",
                 option->form);
        return -1;
    }
    options->files[options->file_count++] = value;
    return 0;
}

static int set_dead(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct recover_options *options = target;
    if (*value == '\0' || options->dead_count == DEAD_MAX) {
        snprintf(why, BW_WHY, "%s; write %s", *value ? "too many of them" : "is empty",
                 option->form);
        return -1;
    }
    options->dead[options->dead_count++] = value;
    return 0;
}

#define AT(field) offsetof(struct recover_options, field)

static const struct bw_option options_table[] = {
    BW_LOOK_STORE,
    BW_LOOK_STORE_FILE,
    BW_LOOK_ELECTION,
    {.name = "token-file",
     .form = "PATH",
     .help = "a guarded file whose register is closed meanwhile; may be given again",
     .set = set_file},
    {.name = "settle",
     .form = "ID",
     .help = "you have seen that the owed work of this earlier holder is dead; may be given again",
     .set = set_dead},
    {.name = "on-compare",
     .form = "CMD",
     .help = "prints what each side holds, a line each: NAME TOKEN DIGEST",
     .set = bw_set_text,
     .offset = AT(on_compare)},
    {.name = "on-reconcile",
     .form = "CMD",
     .help = "makes the sides agree; reads those lines from standard input",
     .set = bw_set_text,
     .offset = AT(on_reconcile)},
    {.name = "hook-limit",
     .form = "D",
     .help = "how long each hook may take (1h)",
     .set = bw_set_duration,
     .low = 1,
     .offset = AT(hook_limit_ns)},
    {.name = "wait",
     .form = "D",
     .help = "-w: how long to wait for the old leader to stop, and for the new one (1m)",
     .set = bw_set_duration,
     .low = 1,
     .offset = AT(wait_ns)},
    {.name = "ttl",
     .form = "D",
     .help = "of the lease under which the recovery leads (default: 10s, or the store's minimum)",
     .set = bw_set_duration,
     .low = 1,
     .offset = AT(ttl_ns)},
    BW_LOOK_JSON,
    BW_LOOK_TIMEOUT,
    {.name = NULL},
};

__attribute__((format(printf, 3, 4))) static int say(struct recover *r, int error,
                                                     const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->line, sizeof r->line, format, arguments);
    va_end(arguments);
    return error;
}

static bool is_done(void *context)
{
    const struct bw_lead *lead = context;
    return lead->elected || lead->stopped;
}

/* ---- 1 stop ---- */

static bool seen_dead(const struct recover *r, const char *id, size_t length)
{
    for (uint32_t i = 0; i < r->options.dead_count; i++)
        if (strlen(r->options.dead[i]) == length && memcmp(r->options.dead[i], id, length) == 0)
            return true;
    return false;
}

/* Lines of owed work that nobody here can judge, and nobody has seen dead; run/supervisor/clear.h
 * has ended all the others. */
static unsigned unconfirmed(const struct recover *r)
{
    const char *owed = r->lead.record.owed;
    unsigned count = 0;
    while (*owed) {
        struct bw_contain contain;
        char name[BW_CONTAINMENT_MAX + 1] = "";
        size_t line = strcspn(owed, "\n"), id = strcspn(owed, "\t\n");
        if (id < line)
            snprintf(name, sizeof name, "%.*s", (int)(line - id - 1), owed + id + 1);
        bool elsewhere = name[0] && bw_contain_find(&contain, name) == BW_CONTAIN_ELSEWHERE;
        count += (elsewhere || *owed == '*') && !seen_dead(r, owed, id);
        owed += line + (owed[line] == '\n');
    }
    return count;
}

struct clear_wait {
    struct recover *r;
    enum bw_clearing_state state;
};

static bool is_clear(void *context)
{
    struct clear_wait *wait = context;
    if (wait->state == BW_CLEARING_BUSY)
        wait->state = bw_clearing_step(&wait->r->clearing, bw_client_now());
    return wait->state != BW_CLEARING_BUSY || wait->r->lead.losing;
}

/* All of it is confirmed dead: the record says so, for whoever comes next. */
static int settle(struct recover *r)
{
    if (r->lead.record.owed[0] && !bw_lead_settle(&r->lead, r->options.ttl_ns / 3))
        return say(r, BW_EIO, "the store did not take it that all owed work is dead");
    return 0;
}

static int clear_owed(struct recover *r)
{
    struct bw_log log;
    struct clear_wait wait = {.r = r, .state = BW_CLEARING_BUSY};
    struct bw_lead *lead = &r->lead;
    bw_log_init(&log, BW_LOG_AUTO, STDERR_FILENO, r->options.look.election, r->id);
    bw_clearing_begin(&r->clearing, lead->record.owed, lead->previous,
                      lead->previous_clean ? "" : lead->previous_containment, r->options.ttl_ns / 6,
                      &log);
    bw_time until = bw_client_now() + r->options.ttl_ns / 3;
    while (!is_clear(&wait) && bw_client_now() < until && !r->client.interrupted)
        bw_lead_run(lead, bw_client_now() + BW_MS, is_clear, &wait);
    if (wait.state != BW_CLEARING_DONE)
        return say(r, BW_EIO, "work of an earlier holder is still there and does not die");
    unsigned left = unconfirmed(r);
    if (left == 0)
        return settle(r);
    if (r->options.file_count == 0)
        return say(r, BW_EUNSUPPORTED,
                   "%u earlier holders are elsewhere, their work is not confirmed dead, and no "
                   "register rejects them: stop them and give --settle ID of each, or --token-file",
                   left);
    return 0;
}

static int close_registers(struct recover *r)
{
    char why[BW_GUARD_WHY_MAX + 1];
    if (r->options.file_count > 0 && r->lead.token == BW_TOKEN_NONE)
        return say(r, BW_ENOTOKEN, "%s: gives no token: nothing can be fenced by it",
                   r->client.ops->scheme);
    for (uint32_t i = 0; i < r->options.file_count; i++) {
        int error = bw_guard_open(&r->guards[i], r->options.files[i], why);
        if (error == 0)
            error = bw_guard_shut(r->guards[i], r->lead.token, why);
        if (error == BW_ESTALE)
            return say(r, error,
                       "%s; the store's counter is behind, as after losing its newest writes", why);
        if (error)
            return say(r, error, "%s", why);
    }
    return 0;
}

static int take_lead(struct recover *r)
{
    if (r->options.ttl_ns == 0)
        r->options.ttl_ns = bw_store_ttl_default(r->client.ops);
    struct bw_lease_terms terms = {
        .ttl_ns = r->options.ttl_ns,
        .drift_ppm = 10000,
        .kill_after_ns = bw_time_min(2 * BW_SEC, r->options.ttl_ns / 5),
        .margin_ns = bw_time_min(bw_time_max(r->options.ttl_ns / 20, 50 * BW_MS), BW_SEC)};
    bw_time until = bw_time_add(bw_client_now(), r->options.wait_ns);
    char why[BW_WHY_MAX + 1];
    if (bw_store_ttl_check(r->client.ops, r->options.ttl_ns, why) != 0)
        return say(r, BW_EINVAL, "--ttl: %s", why);
    if (bw_lease_check(&terms) != BW_LEASE_RULE_NONE)
        return say(r, BW_EINVAL, "--ttl: is too short");
    if (r->before.held && (r->client.ops->traits & BW_STORE_NOTES) &&
        bw_client_note(&r->client, BW_NOTE_TRANSFER, r->id) != BW_GO_ON)
        return say(r, BW_EIO, "the leader could not be asked to hand over");
    int error = bw_lead_open(&r->lead, &r->client, &terms);
    if (error)
        return say(r, error, "%s", bw_error_text(error));
    if (!bw_lead_run(&r->lead, until, is_done, &r->lead) || !r->lead.elected)
        return say(r, BW_EBUSY, "%s still leads: it did not hand over in time",
                   bw_shown(r->before.holder));
    return 0;
}

static void set_environment(const struct recover *r)
{
    char token[24];
    snprintf(token, sizeof token, "%" PRIu64, r->lead.token);
    setenv("BELLWETHER_ELECTION", r->options.look.election, 1);
    setenv("BELLWETHER_ID", r->id, 1);
    setenv("BELLWETHER_STORE", r->options.look.shown, 1);
    setenv("BELLWETHER_TOKEN", token, 1);
}

static int stop_leaders(struct recover *r)
{
    int error = take_lead(r);
    if (error == 0)
        error = close_registers(r);
    if (error == 0)
        error = clear_owed(r);
    if (error)
        return error;
    set_environment(r);
    return say(r, 0, "%s%s; this recovery leads with token %" PRIu64 "; registers closed: %u",
               r->before.held ? bw_shown(r->before.holder) : "nobody led",
               r->before.held ? " has stopped" : "", r->lead.token, r->options.file_count);
}

/* ---- 2 compare, 3 reconcile ---- */

static int read_sides(struct recover *r)
{
    char why[BW_WHY_MAX + 1];
    uint32_t wrong;
    int error =
        bw_hook_run(&r->lead, r->options.on_compare, "", r->options.hook_limit_ns, &r->hook, why);
    if (error)
        return say(r, error, "%s", why);
    error = bw_sides_parse(r->hook.text, &r->sides, &wrong);
    if (error)
        return say(r, error, "line %u of the hook is not NAME TOKEN DIGEST", wrong);
    if (r->sides.count == 0)
        return say(r, BW_EMALFORMED, "the hook named no side");
    bw_token highest = bw_sides_highest(&r->sides);
    if (r->lead.token != BW_TOKEN_NONE && highest > r->lead.token)
        return say(r, BW_ESTALE,
                   "a side has seen token %" PRIu64 ", the store is only at %" PRIu64
                   ": its counter is behind, as after losing its newest writes",
                   highest, r->lead.token);
    return 0;
}

static int compare_sides(struct recover *r)
{
    if (!r->options.on_compare)
        return say(r, 0, "skipped: no --on-compare");
    int error = read_sides(r);
    if (error)
        return error;
    int used = snprintf(r->line, sizeof r->line, "%u sides %s:", r->sides.count,
                        bw_sides_agree(&r->sides) ? "agree" : "differ");
    for (uint32_t i = 0; i < r->sides.count && used < (int)sizeof r->line; i++)
        used += snprintf(r->line + used, sizeof r->line - (size_t)used,
                         "%s %s token %" PRIu64 " %s", i ? "," : "", bw_shown(r->sides.at[i].name),
                         r->sides.at[i].token, bw_shown(r->sides.at[i].digest));
    return 0;
}

static int reconcile_sides(struct recover *r)
{
    char why[BW_WHY_MAX + 1], text[BW_SIDES_TEXT_MAX + 1];
    bool known = r->options.on_compare;
    if (known && bw_sides_agree(&r->sides))
        return say(r, 0, "nothing to do: they agree");
    if (!r->options.on_reconcile && !known)
        return say(r, 0, "skipped: no --on-reconcile");
    if (!r->options.on_reconcile)
        return say(r, BW_EINVAL, "the sides differ and there is no --on-reconcile");
    memcpy(text, r->hook.text, sizeof text);
    int error = bw_hook_run(&r->lead, r->options.on_reconcile, text, r->options.hook_limit_ns,
                            &r->hook, why);
    if (error)
        return say(r, error, "%s", why);
    if (known && (error = read_sides(r)) != 0)
        return error;
    if (known && !bw_sides_agree(&r->sides))
        return say(r, BW_EIO, "the sides still differ");
    return say(r, 0, known ? "done; compared again: they agree" : "done");
}

/* ---- 4 re-elect, 5 resume ---- */

static int open_registers(struct recover *r)
{
    char why[BW_GUARD_WHY_MAX + 1];
    for (uint32_t i = 0; i < r->options.file_count; i++) {
        int error = bw_guard_reopen(r->guards[i], r->lead.token, why);
        if (error)
            return say(r, error, "%s", why);
    }
    return 0;
}

/* Somebody else than this recovery leads. */
static bool has_successor(const struct recover *r)
{
    return r->after.held && strcmp(r->after.holder, r->id) != 0;
}

/* -1: cannot tell. */
static int count_candidates(struct recover *r)
{
    struct bw_store_request request = bw_client_request(&r->client, BW_STORE_LIST);
    if (!(r->client.ops->traits & BW_STORE_LISTS) ||
        bw_client_ask(&r->client, &request) != BW_GO_ON)
        return -1;
    return (int)r->client.reply.count;
}

static int await_successor(struct recover *r)
{
    bw_time until = bw_time_add(bw_client_now(), r->options.wait_ns);
    while (!has_successor(r)) {
        enum bw_wait end = bw_client_news(&r->client, r->after.version, until);
        if (end == BW_WAIT_ANSWERED && r->client.reply.outcome == BW_OUTCOME_DONE)
            r->after = r->client.reply.record;
        else if (end == BW_WAIT_ANSWERED && bw_client_now() < until)
            bw_client_pause(&r->client, 100 * BW_MS);
        else if (end != BW_WAIT_ANSWERED || bw_client_now() >= until)
            return say(r, BW_EBUSY, "no candidate has taken the lead in time");
        if (r->client.interrupted)
            return say(r, BW_EBUSY, "interrupted");
    }
    return 0;
}

static int re_elect(struct recover *r)
{
    if (r->lead.losing)
        return say(r, BW_ENOTLEADER, "leadership was lost: %s", bw_lease_loss_name(r->lead.reason));
    int error = open_registers(r);
    if (error)
        return error;
    bw_lead_stop(&r->lead);
    if (!r->lead.released)
        return say(r, BW_EIO, "the leadership could not be let go; it ends with its lease");
    if (bw_client_read(&r->client) != BW_GO_ON)
        return say(r, BW_EIO, "the store does not answer");
    r->after = r->client.reply.record;
    if (!has_successor(r) && count_candidates(r) == 0)
        return say(r, 0, "nobody contends now; the first candidate to come leads");
    error = await_successor(r);
    if (error)
        return error;
    return say(r, 0, "%s leads%s", bw_shown(r->after.holder), bw_with_token(r->after.token));
}

static int resume(struct recover *r)
{
    char why[BW_GUARD_WHY_MAX + 1];
    for (uint32_t i = 0; i < r->options.file_count; i++) {
        struct bw_guard_state state;
        int error = bw_guard_read(r->guards[i], &state, why);
        if (error)
            return say(r, error, "%s", why);
        if (state.closed || (has_successor(r) && r->after.token < state.highest))
            return say(r, BW_ESTALE,
                       "%s accepts tokens from %" PRIu64 " on, the leader has %" PRIu64,
                       r->options.files[i], state.highest, r->after.token);
    }
    return say(r, 0, "writes with tokens from %" PRIu64 " on are accepted",
               has_successor(r) ? r->after.token : r->lead.token);
}

/* ---- the five ---- */

static void report(const struct recover *r, unsigned number, const char *name, int error)
{
    if (r->options.look.json) {
        bw_json_line(json_pack("{s:i, s:s, s:s, s:o, s:s}", "step", (int)number, "name", name,
                               "result", error ? "failed" : "ok", "error",
                               error ? json_string(bw_error_name(error)) : json_null(), "detail",
                               r->line));
        return;
    }
    printf("%u/5 %-10s %-7s %s\n", number, name, error ? "FAILED" : "ok", bw_shown(r->line));
    fflush(stdout);
}

static int run_steps(struct recover *r)
{
    static const struct {
        const char *name;
        int (*run)(struct recover *r);
    } steps[] = {{"stop", stop_leaders},
                 {"compare", compare_sides},
                 {"reconcile", reconcile_sides},
                 {"re-elect", re_elect},
                 {"resume", resume}};
    for (unsigned i = 0; i < 5; i++) {
        int error = steps[i].run(r);
        if (r->client.interrupted && error == 0 && i < 3)
            error = say(r, BW_EBUSY, "interrupted");
        report(r, i + 1, steps[i].name, error);
        if (error) {
            fprintf(stderr, "%s: stopped at step %u%s; run it again when that is mended\n",
                    r->client.command->path, i + 1,
                    r->options.file_count && i < 3 ? ", guarded files that were closed stay closed"
                                                   : "");
            return r->client.interrupted ? BW_EXIT_INTERRUPTED : BW_EXIT_FAILED;
        }
    }
    return BW_EXIT_OK;
}

static int recover(struct recover *r)
{
    int code = bw_client_read(&r->client);
    if (code != BW_GO_ON)
        return code;
    r->before = r->client.reply.record;
    code = run_steps(r);
    if (r->lead.lease) {
        bw_lead_stop(&r->lead);
        bw_lead_close(&r->lead);
    }
    for (uint32_t i = 0; i < r->options.file_count; i++)
        bw_guard_close(r->guards[i]);
    return code;
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    static struct recover r;
    struct bw_parsed parsed;
    char host[40] = "";
    r.options = (struct recover_options){.wait_ns = 60 * BW_SEC, .hook_limit_ns = 3600 * BW_SEC};
    gethostname(host, sizeof host - 1);
    snprintf(r.id, sizeof r.id, "recover-%s-%d", host, (int)getpid());
    int code = bw_look_parse(command, argc, argv, &r.options.look, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (parsed.operands_count > 1)
        return bw_usage_error(command, "'%.60s': one election only", parsed.operands[1]);
    if (parsed.operands_count == 1)
        r.options.look.election = parsed.operands[0];
    r.options.look.id = r.id;
    signal(SIGPIPE, SIG_IGN); /* a hook need not read its input: its exit code decides */
    code = bw_client_open(&r.client, command, &r.options.look);
    if (code != BW_GO_ON)
        return code;
    code = recover(&r);
    bw_client_close(&r.client);
    return code;
}

const struct bw_cli_command bw_command_recover = {
    .name = "recover",
    .path = "bellwether recover",
    .usage = "ELECTION [--store URL | --store-file FILE] [--token-file PATH] [--on-compare CMD]\n"
             "                          [--on-reconcile CMD] [--settle ID]",
    .about = "the five steps after a split brain: stop, compare, reconcile, re-elect, resume",
    .text =
        "With --settle ID work that is owed (bellwether status) and out of reach counts as dead: "
        "say\n"
        "so only of what you have seen dead.\n"
        "The recovery leads the election itself until the sides agree; guarded files accept only\n"
        "its own token meanwhile (BELLWETHER_TOKEN of the hooks). Every step prints its result;\n"
        "a failed one ends it, with guarded files closed. It may be run again at any time.\n"
        "Exit code: 0; 1 a step failed; 64 usage; 66 no such store or election; 69 the store\n"
        "cannot be reached; 130 interrupted.\n",
    .options = options_table,
    .operand = bw_any_word,
    .run = run,
};
