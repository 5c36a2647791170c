/* `bellwether guard`: fencing of files and tables from the shell. */
#include "cli/guard/guard.h"

#include "cli/commands.h"
#include "fence/guard.h"
#include "fence/split_brain_event.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* names the descriptor that holds the lock, for the guarded command */
#define HELD_FD "BELLWETHER_GUARD_FD"

struct guard_options {
    bw_token token;
    bw_time lock_wait_ns;
    uint32_t stale_code;
    const char *metrics;
    bool json;
};

#define GUARD_TOKEN                                                                                \
    {                                                                                              \
        .name = "token", .form = "N",                                                              \
        .help =                                                                                    \
            "token of the leadership (default: $BELLWETHER_TOKEN, which `bellwether run` sets)",   \
        .set = bw_set_u64, .offset = offsetof(struct guard_options, token)                         \
    }
#define GUARD_STALE                                                                                \
    {                                                                                              \
        .name = "stale-code", .form = "N", .help = "exit code for a stale token (default: 77)",    \
        .set = bw_set_u32, .low = 1, .high = 255,                                                  \
        .offset = offsetof(struct guard_options, stale_code)                                       \
    }
#define GUARD_METRICS                                                                              \
    {                                                                                              \
        .name = "metrics-file", .form = "FILE",                                                    \
        .help = "count rejections in this file, in Prometheus' text format; use one file per "     \
                "PATH (default: none)",                                                            \
        .set = bw_set_text, .offset = offsetof(struct guard_options, metrics)                      \
    }
#define GUARD_JSON                                                                                 \
    {                                                                                              \
        .name = "json",                                                                            \
        .help = "print JSON (default: text, but JSON for events if stderr is not a terminal)",     \
        .set = bw_set_switch, .offset = offsetof(struct guard_options, json)                       \
    }

static const struct bw_option file_options[] = {
    GUARD_TOKEN,
    {.name = "lock-wait",
     .form = "D",
     .help = "maximum time to wait until other guarded commands end; 0: do not wait (default: no "
             "limit)",
     .set = bw_set_duration,
     .offset = offsetof(struct guard_options, lock_wait_ns)},
    GUARD_STALE,
    GUARD_METRICS,
    GUARD_JSON,
    {.name = NULL},
};
static const struct bw_option check_options[] = {
    GUARD_TOKEN, GUARD_STALE, GUARD_METRICS, GUARD_JSON, {.name = NULL},
};
static const struct bw_option show_options[] = {GUARD_JSON, {.name = NULL}};

int bw_guard_exit_code(int error)
{
    switch (error) {
    case BW_EINVAL:
    case BW_ENOTOKEN:
        return BW_EXIT_USAGE;
    case BW_EDAMAGED:
    case BW_EVERSION:
        return BW_EXIT_DAMAGED;
    case BW_EBUSY:
        return BW_EXIT_LATE;
    case BW_ESTALE:
        return BW_EXIT_STALE;
    default:
        return BW_EXIT_IO;
    }
}

/* Prints one line with the name of the error, so that scripts can distinguish errors without the
 * exit code. */
static int complain(const struct bw_cli_command *command, int error, const char *why)
{
    fprintf(stderr, "%s: %s: %s\n", command->path, bw_error_name(error), why);
    return bw_guard_exit_code(error);
}

static int refuse(const struct bw_cli_command *command, struct bw_guard *guard,
                  const struct guard_options *options, const struct bw_guard_verdict *verdict,
                  const char *path, int error, const char *why)
{
    int code = complain(command, error, why);
    if (error != BW_ESTALE)
        return code;
    char trouble[BW_GUARD_WHY_MAX + 1];
    bw_guard_report(stderr, verdict, path, options->json || !isatty(STDERR_FILENO));
    if (options->metrics && bw_guard_count(guard, options->metrics, trouble) != 0)
        fprintf(stderr, "%s: --metrics-file: %s\n", command->path, trouble);
    return (int)options->stale_code;
}

static int parse(const struct bw_cli_command *command, int argc, char **argv,
                 struct guard_options *options, struct bw_parsed *parsed)
{
    *options = (struct guard_options){.lock_wait_ns = BW_TIME_NEVER, .stale_code = BW_EXIT_STALE};
    int code = bw_options_parse(command, argc, argv, options, parsed);
    if (code != BW_GO_ON)
        return code;
    if (parsed->operands_count == 0)
        return bw_usage_error(command, "missing PATH; usage: %s PATH", command->path);
    return BW_GO_ON;
}

/* ---- file ---- */

static void adopt_lock(struct bw_guard *guard)
{
    const char *text = getenv(HELD_FD);
    char *end;
    long fd = text && *text ? strtol(text, &end, 10) : -1;
    if (fd > 2 && fd < INT_MAX && *end == '\0')
        bw_guard_adopt(guard, (int)fd);
}

/* Replaces this process by the command, which inherits the lock. So no parent process can die
 * before the command and release the lock early. */
static int become(const struct bw_cli_command *command, struct bw_guard *guard,
                  const struct guard_options *options, char **argv)
{
    char text[32];
    int fd = bw_guard_fd(guard);
    snprintf(text, sizeof text, "%d", fd);
    setenv(HELD_FD, text, 1);
    snprintf(text, sizeof text, "%" PRIu64, options->token);
    setenv("BELLWETHER_TOKEN", text, 1);
    fcntl(fd, F_SETFD, 0);
    execvp(argv[0], argv);
    int error = errno;
    fprintf(stderr, "%s: %s: %s\n", command->path, argv[0], strerror(error));
    return error == ENOENT ? 127 : 126;
}

static int run_file(const struct bw_cli_command *command, int argc, char **argv)
{
    struct guard_options options;
    struct bw_parsed parsed;
    struct bw_guard *guard;
    struct bw_guard_verdict verdict;
    char why[BW_GUARD_WHY_MAX + 1];
    int code = parse(command, argc, argv, &options, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (parsed.operands_count < 2)
        return bw_usage_error(command, "missing command; usage: %s PATH -- COMMAND", command->path);
    const char *path = parsed.operands[0];
    parsed.operands[parsed.operands_count] = NULL; /* in bounds: argv ended here or later */
    int error = bw_guard_open(&guard, path, why);
    if (error)
        return complain(command, error, why);
    adopt_lock(guard);
    int64_t wait_ms =
        options.lock_wait_ns == BW_TIME_NEVER ? -1 : (options.lock_wait_ns + BW_MS - 1) / BW_MS;
    error = bw_guard_hold(guard, options.token, wait_ms, &verdict, why);
    code = error ? refuse(command, guard, &options, &verdict, path, error, why)
                 : become(command, guard, &options, parsed.operands + 1);
    bw_guard_close(guard);
    return code;
}

/* ---- check, show ---- */

static void print_state(const struct guard_options *options, const char *path,
                        const struct bw_guard_state *state)
{
    if (options->json)
        printf("{\"highest\":%" PRIu64 ",\"closed\":%s}\n", state->highest,
               state->closed ? "true" : "false");
    else if (state->highest == BW_TOKEN_NONE)
        printf("%s: no token seen yet\n", path);
    else
        printf("%s: highest token %" PRIu64 "%s\n", path, state->highest,
               state->closed ? ", closed by a recovery" : "");
}

/* Returns whether PATH has no guard yet. `show` must not create one. */
static bool is_unborn(const char *path)
{
    char side[PATH_MAX];
    struct stat st;
    snprintf(side, sizeof side, "%s.guard.lock", path);
    return lstat(side, &st) != 0 && errno == ENOENT;
}

static int look_at(const struct bw_cli_command *command, int argc, char **argv, bool only_look)
{
    struct guard_options options;
    struct bw_parsed parsed;
    struct bw_guard *guard;
    struct bw_guard_verdict verdict;
    struct bw_guard_state state;
    char why[BW_GUARD_WHY_MAX + 1];
    int code = parse(command, argc, argv, &options, &parsed);
    if (code != BW_GO_ON)
        return code;
    const char *path = parsed.operands[0];
    if (parsed.operands_count > 1)
        return bw_usage_error(command, "unexpected argument '%.60s': expected one PATH",
                              parsed.operands[1]);
    if (only_look && is_unborn(path)) {
        print_state(&options, path, &(struct bw_guard_state){0});
        return BW_EXIT_OK;
    }
    int error = bw_guard_open(&guard, path, why);
    if (error)
        return complain(command, error, why);
    if (only_look)
        error = bw_guard_read(guard, &state, why);
    else
        error = bw_guard_check(guard, options.token, &verdict, why);
    if (error)
        code = only_look ? complain(command, error, why)
                         : refuse(command, guard, &options, &verdict, path, error, why);
    else
        code = BW_EXIT_OK;
    if (!error && only_look)
        print_state(&options, path, &state);
    bw_guard_close(guard);
    return code;
}

static int run_check(const struct bw_cli_command *command, int argc, char **argv)
{
    return look_at(command, argc, argv, false);
}

static int run_show(const struct bw_cli_command *command, int argc, char **argv)
{
    return look_at(command, argc, argv, true);
}

/* ---- tables ---- */

static const struct bw_cli_command command_file = {
    .name = "file",
    .path = "bellwether guard file",
    .usage = "PATH [--token N] -- COMMAND [ARGUMENT...]",
    .about = "run a command that writes PATH, unless PATH has seen a newer token",
    .text =
        "Raises the register PATH.guard to the token before the command starts. The command holds "
        "a\n"
        "lock on PATH.guard.lock until it and its children have ended, so commands of two leaders\n"
        "never overlap. PATH itself is not touched.\n"
        "Exit code: that of the command; 77 stale token (see --stale-code); 64 no token or "
        "invalid\n"
        "usage; 65 the register is damaged; 74 it cannot be read or written; 75 other guarded\n"
        "commands did not end in time, or a recovery is in progress; 126, 127 the command cannot "
        "be\n"
        "executed.\n",
    .options = file_options,
    .operand = bw_any_word,
    .run = run_file,
};

static const struct bw_cli_command command_check = {
    .name = "check",
    .path = "bellwether guard check",
    .usage = "PATH [--token N]",
    .about = "accept the token and raise the register, or refuse it",
    .text = "For scripts that write by themselves. Another leader may be elected between the check "
            "and\n"
            "the write, so prefer `bellwether guard file`. Exit code: 0 accepted; 77 stale token;\n"
            "64, 65, 74, 75 as for `guard file`.\n",
    .options = check_options,
    .operand = bw_any_word,
    .run = run_check,
};

static const struct bw_cli_command command_show = {
    .name = "show",
    .path = "bellwether guard show",
    .usage = "PATH [--json]",
    .about = "print the highest token that PATH has seen; changes nothing",
    .text = "Exit code: 0; 65 the register is damaged; 74 it cannot be read.\n",
    .options = show_options,
    .operand = bw_any_word,
    .run = run_show,
};

static const struct bw_cli_command *const subs[] = {&command_file, &command_check, &command_show,
                                                    &bw_command_guard_print, NULL};

const struct bw_cli_command bw_command_guard = {
    .name = "guard",
    .path = "bellwether guard",
    .usage = "COMMAND [options]",
    .about = "refuse writes of former leaders, by tokens, for files and tables",
    .text =
        "A leader that was paused can resume and write after another one took over. The storage\n"
        "must refuse such a write: it remembers the highest token and rejects older ones.\n",
    .subs = subs,
    .run = bw_command_dispatch,
};
