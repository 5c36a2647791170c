/* `bellwether recover`: the five steps after a split brain, on any store.
 *
 *   1 stop       asks the holder to transfer leadership to this recovery, or waits until its
 *                lease expires; kills what earlier holders left on this host; raises the
 *                registers of guarded files to this recovery's token and closes them, so that
 *                every other writer is rejected
 *   2 compare    a hook reports the data of each side
 *   3 reconcile  a hook makes the sides agree; they are compared again
 *   4 re-elect   opens the registers and releases leadership; a candidate acquires it
 *   5 resume     checks that the registers accept the new leader's token
 *
 * From step 1 to step 4 the recovery itself leads the election, by the same lease rules as any
 * candidate. So no candidate works on sides that differ. If the recovery fails or dies in between,
 * the registers stay closed. It can be run again from the start: every step detects what is already
 * done. */
#include "cli/commands.h"
#include "cli/election/record_print.h"
#include "cli/election/recover_hook.h"
#include "cli/guard/guard.h"
#include "core/base/parse_values.h"
#include "core/lease/derive.h"
#include "fence/guard.h"
#include "os/clock.h"
#include "run/supervisor/cleanup.h"

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
    const char *dead[DEAD_MAX]; /* holders whose work the operator has confirmed dead */
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
    struct bw_cleanup cleanup;
    struct bw_store_record before, after;
    char id[BW_CANDIDATE_ID_MAX + 1];
    char line[1024]; /* the step's result */
};

static int set_file(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct recover_options *options = target;
    if (*value == '\0' || options->file_count == FILES_MAX) {
        snprintf(why, BW_WHY, "%s; expected %s", *value ? "given too often" : "must not be empty",
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
        snprintf(why, BW_WHY, "%s; expected %s", *value ? "given too often" : "must not be empty",
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
     .help = "guarded file whose register is closed during the recovery; can be repeated (default: "
             "none)",
     .set = set_file},
    {.name = "settle",
     .form = "ID",
     .help = "confirm that the work of this earlier holder is dead, after you checked it; can be "
             "repeated (default: none)",
     .set = set_dead},
    {.name = "on-compare",
     .form = "CMD",
     .help = "command that prints the data of each side, one line per side: NAME TOKEN DIGEST "
             "(default: skip the comparison)",
     .set = bw_set_text,
     .offset = AT(on_compare)},
    {.name = "on-reconcile",
     .form = "CMD",
     .help = "command that makes the sides agree; it reads those lines from stdin (default: skip "
             "the reconciliation)",
     .set = bw_set_text,
     .offset = AT(on_reconcile)},
    {.name = "hook-limit",
     .form = "D",
     .help = "maximum run time of each hook (default: 1h)",
     .set = bw_set_duration,
     .low = 1,
     .offset = AT(hook_limit_ns)},
    {.name = "wait",
     .form = "D",
     .help = "maximum time to wait until the old leader stops, and until a new one leads; also -w "
             "(default: 1m)",
     .set = bw_set_duration,
     .low = 1,
     .offset = AT(wait_ns)},
    {.name = "ttl",
     .form = "D",
     .help =
         "TTL of the lease under which the recovery leads (default: 10s, or the store's minimum)",
     .set = bw_set_duration,
     .low = 1,
     .offset = AT(ttl_ns)},
    BW_LOOK_JSON,
    BW_LOOK_TIMEOUT,
    {.name = NULL},
};

__attribute__((format(printf, 3, 4))) static int set_result(struct recover *r, int error,
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

/* Counts the lines of unconfirmed work that is on other hosts and that the operator has not
 * confirmed dead. run/supervisor/cleanup.h has killed the work on this host. */
static unsigned unconfirmed(const struct recover *r)
{
    const char *unconfirmed = r->lead.record.unconfirmed;
    unsigned count = 0;
    while (*unconfirmed) {
        struct bw_contain contain;
        char name[BW_CONTAINMENT_MAX + 1] = "";
        size_t line = strcspn(unconfirmed, "\n"), id = strcspn(unconfirmed, "\t\n");
        if (id < line)
            snprintf(name, sizeof name, "%.*s", (int)(line - id - 1), unconfirmed + id + 1);
        bool elsewhere = name[0] && bw_contain_find(&contain, name) == BW_CONTAIN_ELSEWHERE;
        count += (elsewhere || *unconfirmed == '*') && !seen_dead(r, unconfirmed, id);
        unconfirmed += line + (unconfirmed[line] == '\n');
    }
    return count;
}

struct clear_wait {
    struct recover *r;
    enum bw_cleanup_state state;
};

static bool is_clear(void *context)
{
    struct clear_wait *wait = context;
    if (wait->state == BW_CLEANUP_BUSY)
        wait->state = bw_cleanup_step(&wait->r->cleanup, bw_clock_boot());
    return wait->state != BW_CLEANUP_BUSY || wait->r->lead.losing;
}

/* Records that all earlier work is confirmed dead, for the next leader. */
static int settle(struct recover *r)
{
    if (r->lead.record.unconfirmed[0] && !bw_lead_settle(&r->lead, r->options.ttl_ns / 3))
        return set_result(r, BW_EIO, "cannot record in the store that earlier work is dead");
    return 0;
}

static int clear_owed(struct recover *r)
{
    struct bw_log log;
    struct clear_wait wait = {.r = r, .state = BW_CLEANUP_BUSY};
    struct bw_lead *lead = &r->lead;
    bw_log_init(&log, BW_LOG_AUTO, STDERR_FILENO, r->options.look.election, r->id);
    bw_cleanup_begin(&r->cleanup, lead->record.unconfirmed, lead->previous,
                     lead->previous_clean ? "" : lead->previous_containment, r->options.ttl_ns / 6,
                     &log);
    bw_time until = bw_clock_boot() + r->options.ttl_ns / 3;
    while (!is_clear(&wait) && bw_clock_boot() < until && !r->client.interrupted)
        bw_lead_run(lead, bw_clock_boot() + BW_MS, is_clear, &wait);
    if (wait.state != BW_CLEANUP_DONE)
        return set_result(r, BW_EIO, "work of an earlier holder on this host does not die");
    unsigned left = unconfirmed(r);
    if (left == 0)
        return settle(r);
    if (r->options.file_count == 0)
        return set_result(
            r, BW_EUNSUPPORTED,
            "%u earlier holders are on other hosts, and their work is not confirmed dead: stop it "
            "and give --settle ID for each holder, or fence it with --token-file",
            left);
    return 0;
}

static int close_registers(struct recover *r)
{
    char why[BW_GUARD_WHY_MAX + 1];
    if (r->options.file_count > 0 && r->lead.token == BW_TOKEN_NONE)
        return set_result(r, BW_ENOTOKEN, "cannot fence: store %s provides no tokens",
                          r->client.ops->scheme);
    for (uint32_t i = 0; i < r->options.file_count; i++) {
        int error = bw_guard_open(&r->guards[i], r->options.files[i], why);
        if (error == 0)
            error = bw_guard_shut(r->guards[i], r->lead.token, why);
        if (error == BW_ESTALE)
            return set_result(
                r, error,
                "%s; the store's token counter is behind: it may have lost its newest writes", why);
        if (error)
            return set_result(r, error, "%s", why);
    }
    return 0;
}

static int take_lead(struct recover *r)
{
    struct bw_lease_terms terms;
    struct bw_lease_given given = {.ttl_ns = r->options.ttl_ns,
                                   .kill_after_ns = -1,
                                   .kill_default_ns = 2 * BW_SEC,
                                   .drift_ppm = 10000,
                                   .ttl_default_ns = bw_store_ttl_default(r->client.ops)};
    bw_lease_derive(&terms, &given);
    r->options.ttl_ns = terms.ttl_ns;
    bw_time until = bw_time_add(bw_clock_boot(), r->options.wait_ns);
    char why[BW_WHY_MAX + 1], least[BW_SPAN_TEXT];
    if (bw_store_ttl_check(r->client.ops, r->options.ttl_ns, why) != 0)
        return set_result(r, BW_EINVAL, "--ttl: %s", why);
    if (bw_lease_check(&terms) != BW_LEASE_RULE_NONE)
        return set_result(r, BW_EINVAL, "use --ttl %s or more",
                          bw_span_exact(least, bw_lease_ttl_needed(&terms)));
    if (r->before.held && (r->client.ops->traits & BW_STORE_NOTES) &&
        bw_client_note(&r->client, BW_NOTE_TRANSFER, r->id) != BW_GO_ON)
        return set_result(r, BW_EIO, "cannot ask the leader to transfer leadership");
    int error = bw_lead_open(&r->lead, &r->client, &terms);
    if (error)
        return set_result(r, error, "%s", bw_error_text(error));
    if (!bw_lead_run(&r->lead, until, is_done, &r->lead) || !r->lead.elected)
        return set_result(r, BW_EBUSY,
                          "%s still leads: it did not transfer leadership in time (--wait)",
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
    return set_result(r, 0,
                      "%s%s; this recovery leads with token %" PRIu64 "; registers closed: %u",
                      r->before.held ? bw_shown(r->before.holder) : "there was no leader",
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
        return set_result(r, error, "%s", why);
    error = bw_sides_parse(r->hook.text, &r->sides, &wrong);
    if (error)
        return set_result(r, error,
                          "invalid line %u of the --on-compare hook: expected NAME TOKEN DIGEST",
                          wrong);
    if (r->sides.count == 0)
        return set_result(r, BW_EMALFORMED, "the --on-compare hook printed no side");
    bw_token highest = bw_sides_highest(&r->sides);
    if (r->lead.token != BW_TOKEN_NONE && highest > r->lead.token)
        return set_result(
            r, BW_ESTALE,
            "a side has seen token %" PRIu64 ", but the store is only at %" PRIu64
            ": the store's token counter is behind; it may have lost its newest writes",
            highest, r->lead.token);
    return 0;
}

static int compare_sides(struct recover *r)
{
    if (!r->options.on_compare)
        return set_result(r, 0, "skipped: no --on-compare");
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
        return set_result(r, 0, "nothing to do: the sides agree");
    if (!r->options.on_reconcile && !known)
        return set_result(r, 0, "skipped: no --on-reconcile");
    if (!r->options.on_reconcile)
        return set_result(r, BW_EINVAL, "the sides differ; give --on-reconcile");
    memcpy(text, r->hook.text, sizeof text);
    int error = bw_hook_run(&r->lead, r->options.on_reconcile, text, r->options.hook_limit_ns,
                            &r->hook, why);
    if (error)
        return set_result(r, error, "%s", why);
    if (known && (error = read_sides(r)) != 0)
        return error;
    if (known && !bw_sides_agree(&r->sides))
        return set_result(r, BW_EIO, "the sides still differ");
    return set_result(r, 0, known ? "done; compared again: the sides agree" : "done");
}

/* ---- 4 re-elect, 5 resume ---- */

static int open_registers(struct recover *r)
{
    char why[BW_GUARD_WHY_MAX + 1];
    for (uint32_t i = 0; i < r->options.file_count; i++) {
        int error = bw_guard_reopen(r->guards[i], r->lead.token, why);
        if (error)
            return set_result(r, error, "%s", why);
    }
    return 0;
}

/* Returns whether a candidate other than this recovery leads. */
static bool has_successor(const struct recover *r)
{
    return r->after.held && strcmp(r->after.holder, r->id) != 0;
}

/* Returns the number of candidates, or -1 if it is unknown. */
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
    bw_time until = bw_time_add(bw_clock_boot(), r->options.wait_ns);
    while (!has_successor(r)) {
        enum bw_wait end = bw_client_wait_change(&r->client, r->after.version, until);
        if (end == BW_WAIT_ANSWERED && r->client.reply.outcome == BW_OUTCOME_DONE)
            r->after = r->client.reply.record;
        else if (end == BW_WAIT_ANSWERED && bw_clock_boot() < until)
            bw_client_pause(&r->client, 100 * BW_MS);
        else if (end != BW_WAIT_ANSWERED || bw_clock_boot() >= until)
            return set_result(r, BW_EBUSY, "no candidate acquired leadership in time (--wait)");
        if (r->client.interrupted)
            return set_result(r, BW_EBUSY, "interrupted");
    }
    return 0;
}

static int re_elect(struct recover *r)
{
    if (r->lead.losing)
        return set_result(r, BW_ENOTLEADER, "leadership was lost: %s",
                          bw_lease_loss_name(r->lead.reason));
    int error = open_registers(r);
    if (error)
        return error;
    bw_lead_stop(&r->lead);
    if (!r->lead.released)
        return set_result(r, BW_EIO, "cannot release leadership; it ends when the lease expires");
    if (bw_client_read(&r->client) != BW_GO_ON)
        return set_result(r, BW_EIO, "no response from the store");
    r->after = r->client.reply.record;
    if (!has_successor(r) && count_candidates(r) == 0)
        return set_result(r, 0, "no candidates now; the next candidate that starts will lead");
    error = await_successor(r);
    if (error)
        return error;
    return set_result(r, 0, "%s leads%s", bw_shown(r->after.holder), bw_with_token(r->after.token));
}

static int resume(struct recover *r)
{
    char why[BW_GUARD_WHY_MAX + 1];
    for (uint32_t i = 0; i < r->options.file_count; i++) {
        struct bw_guard_state state;
        int error = bw_guard_read(r->guards[i], &state, why);
        if (error)
            return set_result(r, error, "%s", why);
        if (state.closed || (has_successor(r) && r->after.token < state.highest))
            return set_result(r, BW_ESTALE,
                              "%s accepts tokens from %" PRIu64 " on, but the leader has %" PRIu64,
                              r->options.files[i], state.highest, r->after.token);
    }
    return set_result(r, 0, "writes with tokens from %" PRIu64 " on are accepted",
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
            error = set_result(r, BW_EBUSY, "interrupted");
        report(r, i + 1, steps[i].name, error);
        if (error) {
            fprintf(stderr, "%s: step %u failed%s; fix the cause and run it again\n",
                    r->client.command->path, i + 1,
                    r->options.file_count && i < 3
                        ? " and guarded files that were closed stay closed"
                        : "");
            return r->client.interrupted ? BW_EXIT_INTERRUPTED : BW_EXIT_FAILED;
        }
    }
    return BW_EXIT_OK;
}

/* The first --settle ID without a line in the record; NULL: each has one. */
static const char *without_line(const struct recover *r)
{
    for (uint32_t i = 0; i < r->options.dead_count; i++) {
        const char *id = r->options.dead[i];
        size_t length = strlen(id);
        bool found = !r->before.held && !r->before.clean && strcmp(r->before.holder, id) == 0;
        for (const char *line = r->before.unconfirmed; *line && !found;) {
            found = strncmp(line, id, length) == 0 && line[length] == '\t';
            line += strcspn(line, "\n");
            line += *line == '\n';
        }
        if (!found)
            return id;
    }
    return NULL;
}

/* With --settle alone, the recovery only removes entries. It does not stop a leader for an entry
 * that does not exist. Returns BW_GO_ON or an exit code. */
static int check_settle(struct recover *r)
{
    const struct recover_options *options = &r->options;
    bool alone = options->dead_count > 0 && options->file_count == 0 && !options->on_compare &&
                 !options->on_reconcile;
    const char *id = alone ? without_line(r) : NULL;
    if (!id)
        return BW_GO_ON;
    if (r->before.unconfirmed[0] || (!r->before.held && !r->before.clean))
        return bw_client_fail(&r->client, BW_EXIT_FAILED,
                              "--settle %s: no unconfirmed work of this holder; nothing was "
                              "changed; see bellwether status",
                              bw_shown(id));
    if (options->look.json)
        bw_json_line(json_pack("{s:s, s:s}", "result", "ok", "detail",
                               "no work is unconfirmed; nothing was changed"));
    else
        printf("no work is unconfirmed; nothing was changed\n");
    return BW_EXIT_OK;
}

static int recover(struct recover *r)
{
    int code = bw_client_read(&r->client);
    if (code != BW_GO_ON)
        return code;
    r->before = r->client.reply.record;
    code = check_settle(r);
    if (code != BW_GO_ON)
        return code;
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
    r.options.look.id = r.id;
    signal(SIGPIPE, SIG_IGN); /* a hook need not read its input; its exit code decides */
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
    .usage = "NAME | --election NAME [--store URL | --store-file FILE]\n"
             "                          [--token-file PATH] [--on-compare CMD] [--on-reconcile "
             "CMD] [--settle ID]",
    .about = "recover from a split brain: stop, compare, reconcile, re-elect, resume",
    .text = "The recovery itself leads the election until the sides agree. Meanwhile guarded files "
            "accept\n"
            "only its token (BELLWETHER_TOKEN in the hooks). Every step prints its result. A "
            "failed step\n"
            "ends the recovery and leaves guarded files closed. You can run it again at any time.\n"
            "--settle ID counts unconfirmed work on other hosts (see bellwether status) as dead: "
            "give it\n"
            "only for work that you have seen dead. Alone, it changes nothing if no work of ID is\n"
            "unconfirmed; otherwise the current leader stops its work, as in every recovery.\n"
            "`recover NAME` is short for `recover --election NAME`.\n"
            "Exit code: 0; 1 a step failed; 64 invalid usage; 66 no such store or election; 69 the "
            "store\n"
            "is unreachable; 130 interrupted.\n",
    .options = options_table,
    .operand = bw_any_word,
    .run = run,
};
