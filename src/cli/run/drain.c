/* `bellwether drain` and `undrain`: take this host out of all elections, and put it back. The files
 * that they write are described in run/drain/drain.h. */
#include "run/drain/drain.h"
#include "cli/commands.h"
#include "cli/election/record_print.h"
#include "core/base/parse_values.h"
#include "os/clock.h"

#include <errno.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXIT_LATE 75 /* as resign and transfer */
#define POLL_NS   (50 * BW_MS)

struct drain_options {
    const char *directory, *reason;
    bw_time wait_ns;
    bool status, json;
};

#define DRAIN_DIR                                                                                  \
    {                                                                                              \
        .name = "drain-dir", .form = "DIR",                                                        \
        .help = "directory that the candidates of this host watch (default: " BW_DRAIN_DIR ")",    \
        .set = bw_set_text, .offset = offsetof(struct drain_options, directory)                    \
    }
#define DRAIN_JSON                                                                                 \
    {                                                                                              \
        .name = "json", .help = "print JSON (default: text)", .set = bw_set_switch,                \
        .offset = offsetof(struct drain_options, json)                                             \
    }

static const struct bw_option drain_rows[] = {
    {.name = "wait",
     .form = "D",
     .help = "maximum time to wait until no candidate of this host leads or contends; 0: do not "
             "wait (default: 60s)",
     .set = bw_set_duration,
     .offset = offsetof(struct drain_options, wait_ns)},
    {.name = "reason",
     .form = "TEXT",
     .help = "text to show in --status (default: empty)",
     .set = bw_set_text,
     .offset = offsetof(struct drain_options, reason)},
    {.name = "status",
     .help = "change nothing; show whether this host is drained, and which candidates still "
             "contend or lead (default: off)",
     .set = bw_set_switch,
     .offset = offsetof(struct drain_options, status)},
    DRAIN_DIR,
    DRAIN_JSON,
    {.name = NULL},
};

static const struct bw_option undrain_rows[] = {DRAIN_DIR, DRAIN_JSON, {.name = NULL}};

struct found {
    int drained; /* 1: yes */
    char line[BW_DRAIN_LINE];
    pid_t pids[BW_DRAIN_CANDIDATES_MAX];
    int count;
};

static int fail(const struct bw_cli_command *command, const char *why)
{
    fprintf(stderr, "%s: %s\n", command->path, why);
    return BW_EXIT_IO;
}

static int look(const struct bw_cli_command *command, const char *directory, struct found *found)
{
    char why[BW_DRAIN_WHY];
    found->drained = bw_drain_read(directory, found->line, why);
    found->count = found->drained < 0 ? -1 : bw_drain_candidates(directory, found->pids, why);
    return found->count < 0 ? fail(command, why) : BW_GO_ON;
}

static json_t *pid_list(const struct found *found)
{
    json_t *list = json_array();
    for (int i = 0; i < found->count; i++)
        json_array_append_new(list, json_integer(found->pids[i]));
    return list;
}

static void print_json(const struct found *found)
{
    json_t *about = json_loads(found->line, 0, NULL), *out = json_object();
    if (json_is_object(about))
        json_object_update(out, about);
    json_object_set_new(out, "drained", json_boolean(found->drained));
    json_object_set_new(out, "candidates", pid_list(found));
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(about);
    json_decref(out);
}

static const char *field(const json_t *about, const char *name)
{
    const char *text = json_string_value(json_object_get(about, name));
    return text ? bw_shown(text) : "";
}

static void print_text(const struct found *found)
{
    json_t *about = json_loads(found->line, 0, NULL);
    const char *time = field(about, "time"), *by = field(about, "by"),
               *reason = field(about, "reason");
    if (found->drained)
        printf("drained%s%s%s%s%s%s\n", time[0] ? " since " : "", time, by[0] ? " by " : "", by,
               reason[0] ? ": " : "", reason);
    else
        printf("not drained\n");
    for (int i = 0; i < found->count; i++)
        printf("process %d %s\n", (int)found->pids[i],
               found->drained ? "has not handed over yet" : "contends or leads");
    json_decref(about);
}

static void print_found(const struct drain_options *given, const struct found *found)
{
    if (given->json)
        print_json(found);
    else
        print_text(found);
}

static int show(const struct bw_cli_command *command, const struct drain_options *given)
{
    static struct found found;
    int code = look(command, given->directory, &found);
    if (code != BW_GO_ON)
        return code;
    print_found(given, &found);
    return found.drained ? BW_EXIT_OK : BW_EXIT_FAILED;
}

static void pause_ns(bw_time span)
{
    struct timespec left = {.tv_sec = span / BW_SEC, .tv_nsec = span % BW_SEC};
    nanosleep(&left, NULL);
}

/* Waits until no candidate contends or leads. */
static int wait_for_all(const struct bw_cli_command *command, const struct drain_options *given,
                        bw_time from)
{
    static struct found found;
    bw_time until = bw_time_add(bw_clock_boot(), given->wait_ns);
    for (;;) {
        int code = look(command, given->directory, &found);
        if (code != BW_GO_ON)
            return code;
        bw_time now = bw_clock_boot();
        bool gone = now >= from && found.count == 0;
        bool undrained = now >= from && !found.drained; /* by another command */
        if (gone || undrained || now >= until) {
            print_found(given, &found);
            bool good = found.drained && (gone || given->wait_ns == 0);
            return good ? BW_EXIT_OK : EXIT_LATE;
        }
        pause_ns(bw_time_min(POLL_NS, until - now));
    }
}

static const char *user_name(char *out, size_t size)
{
    const struct passwd *user = getpwuid(geteuid());
    if (user)
        snprintf(out, size, "%s", user->pw_name);
    else
        snprintf(out, size, "uid %u", (unsigned)geteuid());
    return out;
}

static int run_drain(const struct bw_cli_command *command, int argc, char **argv)
{
    struct drain_options given = {.directory = BW_DRAIN_DIR, .reason = "", .wait_ns = 60 * BW_SEC};
    struct bw_parsed parsed;
    char why[BW_DRAIN_WHY], by[64];
    bw_time unseen_ns = 0;
    int code = bw_options_parse(command, argc, argv, &given, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (given.status)
        return show(command, &given);
    int error =
        bw_drain_set(given.directory, user_name(by, sizeof by), given.reason, &unseen_ns, why);
    if (error == -EINVAL)
        return bw_usage_error(command, "%s", why);
    if (error)
        return fail(command, why);
    /* Candidates find a new directory with their next look. */
    return wait_for_all(command, &given, bw_clock_boot() + unseen_ns);
}

static int run_undrain(const struct bw_cli_command *command, int argc, char **argv)
{
    struct drain_options given = {.directory = BW_DRAIN_DIR};
    struct bw_parsed parsed;
    char why[BW_DRAIN_WHY], line[BW_DRAIN_LINE];
    int code = bw_options_parse(command, argc, argv, &given, &parsed);
    if (code != BW_GO_ON)
        return code;
    /* A file that cannot be read is removed too: the candidates obey it. */
    int before = bw_drain_read(given.directory, line, why);
    if (bw_drain_clear(given.directory, why) != 0)
        return fail(command, why);
    if (given.json)
        printf("{\"drained\":false,\"was_drained\":%s}\n", before ? "true" : "false");
    else
        printf("%s\n", before ? "undrained: the candidates of this host contend again"
                              : "this host was not drained");
    return BW_EXIT_OK;
}

const struct bw_cli_command bw_command_drain = {
    .name = "drain",
    .path = "bellwether drain",
    .usage = "[--wait D] [--reason TEXT] [--drain-dir DIR] [--json]\n"
             "       bellwether drain --status [--drain-dir DIR] [--json]",
    .about = "hand over everything that this host leads; it does not contend until undrain",
    .text =
        "Each `run` and `peer` of this host steps down as after `resign`: its work ends, then it\n"
        "releases its leadership. It stays in place and does not contend, also after a restart\n"
        "of the process or the host, until `bellwether undrain`. A drained peer still votes.\n"
        "Exit code: 0 drained, and no candidate of this host leads or contends (with --wait 0:\n"
        "drained); 1 not drained (--status); 64 invalid usage; 74 the directory cannot be read\n"
        "or written; 75 drained, but a candidate has not handed over in time.\n",
    .options = drain_rows,
    .run = run_drain,
};

const struct bw_cli_command bw_command_undrain = {
    .name = "undrain",
    .path = "bellwether undrain",
    .usage = "[--drain-dir DIR] [--json]",
    .about = "let the candidates of this host contend again, after bellwether drain",
    .text = "Candidates notice it within a second. A leader elsewhere keeps its leadership.\n"
            "Exit code: 0 not drained any more; 74 the directory cannot be written.\n",
    .options = undrain_rows,
    .run = run_undrain,
};
