/* Fences holders that cannot be examined from here, by a shell command or a fence agent. If fencing
 * fails, the error shows the last line of the agent's output, which usually names the cause (a
 * wrong password or plug). */
#include "run/supervisor/state.h"

#include "os/clock.h"
#include "run/contain/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Keeps the last line that is not empty, and replaces control characters. */
static void record_output(struct supervisor *s, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte == '\n' || byte == '\r') {
            s->fence_line_ended = true;
            continue;
        }
        if (s->fence_line_ended)
            s->fence_line_length = 0;
        s->fence_line_ended = false;
        if (s->fence_line_length + 1 < sizeof s->fence_last_line)
            s->fence_last_line[s->fence_line_length++] =
                byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
        s->fence_last_line[s->fence_line_length] = '\0';
    }
}

static void read_output(struct supervisor *s)
{
    char bytes[1024];
    ssize_t got;
    while (s->fence_fd >= 0 && (got = read(s->fence_fd, bytes, sizeof bytes)) > 0)
        record_output(s, bytes, (size_t)got);
}

static void on_output(uv_poll_t *handle, int status, int events)
{
    (void)events;
    read_output(handle->data);
    if (status < 0)
        uv_poll_stop(handle);
}

static void on_closed(uv_handle_t *handle)
{
    struct supervisor *s = handle->data;
    close(s->fence_fd);
    close(s->fence_write);
    s->fence_fd = -1;
}

void bw_supervisor_fence_close(struct supervisor *s)
{
    if (s->fence_fd >= 0 && !uv_is_closing((uv_handle_t *)&s->fence_output))
        uv_close((uv_handle_t *)&s->fence_output, on_closed);
}

/* Creates one pipe for all agents, when the first one starts. */
static bool make_pipe(struct supervisor *s)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    fcntl(ends[1], F_SETFL, 0); /* the agent blocks if we read slowly */
    if (uv_poll_init(&s->loop, &s->fence_output, ends[0]) != 0) {
        close(ends[0]);
        close(ends[1]);
        return false;
    }
    s->fence_fd = ends[0];
    s->fence_write = ends[1];
    s->fence_output.data = s;
    uv_poll_start(&s->fence_output, UV_READABLE, on_output);
    return true;
}

/* Returns the end of the pipe for the agent's output; -1: its output goes to our standard error. */
static int open_output(struct supervisor *s)
{
    bool open = s->fence_fd >= 0 || make_pipe(s);
    read_output(s); /* drain the output of the previous agent */
    s->fence_last_line[0] = '\0';
    s->fence_line_length = 0;
    s->fence_line_ended = false;
    return open ? s->fence_write : -1;
}

static void log_failed(struct supervisor *s)
{
    struct bw_log_field fields[] = {
        {"holder", s->cleanup.holder, 0}, {"said", s->fence_last_line, 0}, BW_LOG_END};
    bw_log_event(&s->log, BW_LOG_ERROR, "fence-failed", fields,
                 "cannot fence earlier holder '%s'%s%s", s->cleanup.holder,
                 s->fence_last_line[0] ? ": " : "", s->fence_last_line);
}

static void on_fenced(void *context, bool good)
{
    struct supervisor *s = context;
    struct bw_log_field fields[] = {{"holder", s->cleanup.holder, 0}, BW_LOG_END};
    read_output(s);
    s->fencing = false;
    if (!s->cleaning_up)
        return; /* stepped down in the meantime */
    if (!good) {
        log_failed(s);
        bw_supervisor_cleanup_failed(s);
        return;
    }
    bw_log_event(&s->log, BW_LOG_INFO, "fenced", fields, "earlier holder '%s' is fenced",
                 s->cleanup.holder);
    bw_cleanup_fenced(&s->cleanup);
    bw_supervisor_cleanup(s, bw_clock_boot());
}

/* Starts the agent. Agents read key=value lines from standard input. */
void bw_supervisor_fence(struct supervisor *s)
{
    static char program[128], input[4096];
    char target[BW_CANDIDATE_ID_MAX + 40];
    struct bw_hook_environment environment;
    const struct bw_run_config *config = s->config;
    struct bw_child_order order = {.shell = config->stonith,
                                   .limit_ns = config->fence_within_ns,
                                   .done = on_fenced,
                                   .context = s};
    if (s->fencing)
        return;
    if (!config->stonith) {
        bw_run_fence_program(config->fence_agent, program, sizeof program);
        snprintf(input, sizeof input, "action=off\nplug=%s\nport=%s\n%.3500s\n", s->cleanup.holder,
                 s->cleanup.holder, config->fence_input ? config->fence_input : "");
        order.program = program;
        order.input = input;
    }
    bw_supervisor_hook_environment(&environment, "fence", s->cleanup.holder, "", s->token, "");
    snprintf(target, sizeof target, "BELLWETHER_FENCE=%s", s->cleanup.holder);
    order.entries[5] = target;
    order.output = open_output(s);
    s->fencing = bw_supervisor_start(s, &order, &environment) == 0;
    if (!s->fencing)
        bw_supervisor_cleanup_failed(s);
}

void bw_run_fence_program(const char *agent, char *out, size_t size)
{
    bool whole = strncmp(agent, "fence_", 6) == 0;
    snprintf(out, size, "%s%.100s", whole ? "" : "fence_", agent);
}
