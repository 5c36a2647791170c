/* Checks before the election that the programs `bellwether run` needs exist, so that a missing
 * program does not surface only during a failover. */
#include "cli/run/run.h"

#include "os/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int check_file(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno == EACCES ? 126 : 127;
    return S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? BW_GO_ON : 126;
}

static int search(const char *name)
{
    const char *path = getenv("PATH");
    int best = 127;
    char file[BW_JOB_TEXT];
    path = path ? path : "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t length = strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/%s", length ? (int)length : 1, length ? path : ".", name);
        int code = check_file(file);
        if (code == BW_GO_ON)
            return code;
        best = code == 126 ? code : best;
        if (path[length] == '\0')
            return best;
        path += length + 1;
    }
}

int bw_job_check_command(const struct bw_cli_command *command, const char *name)
{
    int code = strchr(name, '/') ? check_file(name) : search(name);
    if (code != BW_GO_ON)
        bw_print_line(BW_PRIORITY_ERROR, "%s: %.200s: %s", command->path, name,
                      code == 127 ? "command not found" : "not executable");
    return code;
}

/* ---- fencing ---- */

static int read_fence_file(const struct bw_cli_command *command, struct bw_job_options *options)
{
    FILE *file = fopen(options->fence_file, "re");
    if (!file)
        return bw_usage_error(command, "cannot read --fence-file %s: %s", options->fence_file,
                              strerror(errno));
    size_t got = fread(options->fence_text, 1, sizeof options->fence_text - 1, file);
    bool whole = feof(file) != 0;
    fclose(file);
    options->fence_text[got] = '\0';
    options->config.fence_input = options->fence_text;
    if (!whole)
        return bw_usage_error(command, "cannot read --fence-file %s: longer than %zu bytes",
                              options->fence_file, sizeof options->fence_text - 1);
    return BW_GO_ON;
}

/* Runs a shell script with one argument and without input or output. Returns true for exit code
 * 0. */
static bool shell_succeeds(const char *script, const char *argument)
{
    char *argv[] = {"sh", "-c", (char *)script, "sh", (char *)argument, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    int error = posix_spawnp(&pid, "sh", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    while (!error && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return !error && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Extracts the program at the start of a shell command, if it can be found without parsing shell
 * syntax: "/sbin/off --now". */
static bool first_word(const char *line, char *out, size_t size)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    line += strspn(line, " \t\n");
    size_t length = strspn(line, plain);
    bool whole = line[length] == '\0' || strchr(" \t\n;&|", line[length]);
    if (length == 0 || length >= size || !whole)
        return false;
    memcpy(out, line, length);
    out[length] = '\0';
    return true;
}

static int check_stonith(const struct bw_cli_command *command, const char *line)
{
    char word[256];
    if (!shell_succeeds("exec sh -n -c \"$1\"", line))
        return bw_usage_error(command, "invalid --stonith '%.80s': shell syntax error", line);
    if (first_word(line, word, sizeof word) && !shell_succeeds("command -v -- \"$1\"", word))
        return bw_usage_error(
            command, "invalid --stonith: command %.100s not found or not executable", word);
    return BW_GO_ON;
}

int bw_job_check_fencing(const struct bw_cli_command *command, struct bw_job_options *options)
{
    const struct bw_run_config *config = &options->config;
    char program[128];
    if (config->stonith && config->fence_agent)
        return bw_usage_error(command,
                              "--stonith and --fence-agent conflict; give only one of them");
    if (config->stonith)
        return check_stonith(command, config->stonith);
    if (config->fence_agent) {
        bw_run_fence_program(config->fence_agent, program, sizeof program);
        int code = strchr(program, '/') ? check_file(program) : search(program);
        if (code != BW_GO_ON)
            return bw_usage_error(command, "--fence-agent %.60s: %s %s", config->fence_agent,
                                  program, code == 127 ? "not found" : "is not executable");
    }
    return options->fence_file ? read_fence_file(command, options) : BW_GO_ON;
}
