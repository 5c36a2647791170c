/* Fencing holders that cannot be seen from here, by a shell line or by a fence agent. What it says
 * last is shown when it fails: agents tell there what is wrong with a password or a plug. */
#include "run/supervisor/state.h"

#include "run/contain/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Keeps the last line that has anything in it; what is not printable is not ours to print. */
static void listen_to(struct supervisor *s, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte == '\n' || byte == '\r') {
            s->fence_line_over = true;
            continue;
        }
        if (s->fence_line_over)
            s->fence_said_count = 0;
        s->fence_line_over = false;
        if (s->fence_said_count + 1 < sizeof s->fence_said)
            s->fence_said[s->fence_said_count++] = byte < 0x20 || byte == 0x7f ? '?' : (char)byte;
        s->fence_said[s->fence_said_count] = '\0';
    }
}

static void read_output(struct supervisor *s)
{
    char bytes[1024];
    ssize_t got;
    while (s->fence_fd >= 0 && (got = read(s->fence_fd, bytes, sizeof bytes)) > 0)
        listen_to(s, bytes, (size_t)got);
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

/* One pipe for all of them, opened with the first. */
static bool make_pipe(struct supervisor *s)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    fcntl(ends[1], F_SETFL, 0); /* the agent waits, should we be slow */
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

/* The end for the agent to write to; -1: what it says goes where ours goes. */
static int open_output(struct supervisor *s)
{
    bool open = s->fence_fd >= 0 || make_pipe(s);
    read_output(s); /* what the one before has left */
    s->fence_said[0] = '\0';
    s->fence_said_count = 0;
    s->fence_line_over = false;
    return open ? s->fence_write : -1;
}

static void say_failed(struct supervisor *s)
{
    struct bw_log_field fields[] = {
        {"holder", s->clearing.holder, 0}, {"said", s->fence_said, 0}, BW_LOG_END};
    bw_log_event(&s->log, BW_LOG_ERROR, "fence-failed", fields,
                 "cannot fence earlier holder '%s'%s%s", s->clearing.holder,
                 s->fence_said[0] ? ": " : "", s->fence_said);
}

static void on_fenced(void *context, bool good)
{
    struct supervisor *s = context;
    struct bw_log_field fields[] = {{"holder", s->clearing.holder, 0}, BW_LOG_END};
    read_output(s);
    s->fencing = false;
    if (!s->clearing_now)
        return; /* stepped down meanwhile */
    if (!good) {
        say_failed(s);
        bw_supervisor_cannot_clear(s);
        return;
    }
    bw_log_event(&s->log, BW_LOG_INFO, "fenced", fields, "earlier holder '%s' is fenced",
                 s->clearing.holder);
    bw_clearing_fenced(&s->clearing);
    bw_supervisor_clear(s, bw_run_now());
}

/* The agents' own interface: key=value lines on standard input. */
void bw_supervisor_fence(struct supervisor *s)
{
    static char program[128], input[4096];
    char target[BW_CANDIDATE_ID_MAX + 40];
    struct bw_hook_words words;
    const struct bw_run_config *config = s->config;
    struct bw_child_order order = {.shell = config->stonith,
                                   .limit_ns = config->fence_within_ns,
                                   .done = on_fenced,
                                   .context = s};
    if (s->fencing)
        return;
    if (!config->stonith) {
        bw_run_fence_program(config->fence_agent, program, sizeof program);
        snprintf(input, sizeof input, "action=off\nplug=%s\nport=%s\n%.3500s\n", s->clearing.holder,
                 s->clearing.holder, config->fence_input ? config->fence_input : "");
        order.program = program;
        order.input = input;
    }
    bw_supervisor_words(&words, "fence", s->clearing.holder, "", s->token, "");
    snprintf(target, sizeof target, "BELLWETHER_FENCE=%s", s->clearing.holder);
    order.entries[5] = target;
    order.output = open_output(s);
    s->fencing = bw_supervisor_start(s, &order, &words) == 0;
    if (!s->fencing)
        bw_supervisor_cannot_clear(s);
}

void bw_run_fence_program(const char *agent, char *out, size_t size)
{
    bool whole = strncmp(agent, "fence_", 6) == 0;
    snprintf(out, size, "%s%.100s", whole ? "" : "fence_", agent);
}
