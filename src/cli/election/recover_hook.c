/* Runs the hooks of a recovery; see recover_hook.h. */
#include "cli/election/recover_hook.h"
#include "os/clock.h"

#include <signal.h>
#include <string.h>

struct hook {
    struct bw_lead *lead;
    struct bw_hook_result *result;
    uv_process_t process;
    uv_pipe_t in, out;
    uv_write_t write;
    size_t used;
    bool exited, read, closed;
    char spare[4096];
    unsigned open; /* open handles */
};

static void on_exit_of(uv_process_t *process, int64_t status, int signal)
{
    struct hook *hook = process->data;
    hook->exited = true;
    hook->result->status = signal ? 128 + signal : (int)status;
    kill(-process->pid, SIGKILL); /* remaining processes must not continue without leadership */
}

static void on_buffer(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    struct hook *hook = handle->data;
    (void)size;
    *buffer = uv_buf_init(hook->spare, sizeof hook->spare);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct hook *hook = stream->data;
    if (count < 0) {
        hook->read = true;
        uv_read_stop(stream);
        return;
    }
    size_t space = BW_SIDES_TEXT_MAX - hook->used, length = (size_t)count;
    if (length > space) {
        hook->result->overflowed = true;
        length = space;
    }
    memcpy(hook->result->text + hook->used, buffer->base, length);
    hook->used += length;
    hook->result->text[hook->used] = '\0';
}

static void on_close(uv_handle_t *handle)
{
    struct hook *hook = handle->data;
    hook->closed = --hook->open == 0;
}

static void on_written(uv_write_t *write, int status)
{
    struct hook *hook = write->data;
    (void)status; /* a hook may ignore its input */
    if (!uv_is_closing((uv_handle_t *)&hook->in))
        uv_close((uv_handle_t *)&hook->in, on_close);
}

static int spawn(struct hook *hook, const char *command, const char *input)
{
    uv_loop_t *loop = &hook->lead->client->loop;
    char *arguments[] = {(char *)"sh", (char *)"-c", (char *)command, NULL};
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&hook->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&hook->out},
        {.flags = UV_INHERIT_FD, .data.fd = 2}};
    uv_process_options_t options = {.file = "/bin/sh",
                                    .args = arguments,
                                    .exit_cb = on_exit_of,
                                    .flags = UV_PROCESS_DETACHED,
                                    .stdio_count = 3,
                                    .stdio = stdio};
    uv_pipe_init(loop, &hook->in, 0);
    uv_pipe_init(loop, &hook->out, 0);
    hook->in.data = hook->out.data = hook->process.data = hook->write.data = hook;
    hook->open = 3;
    int error = uv_spawn(loop, &hook->process, &options);
    if (error)
        return error;
    uv_buf_t buffer = uv_buf_init((char *)input, (unsigned)strlen(input));
    uv_read_start((uv_stream_t *)&hook->out, on_buffer, on_read);
    uv_write(&hook->write, (uv_stream_t *)&hook->in, &buffer, 1, on_written);
    return 0;
}

static bool is_over(void *context)
{
    struct hook *hook = context;
    return (hook->exited && hook->read) || (hook->lead->losing && hook->lead->busy);
}

static bool is_dead(void *context)
{
    struct hook *hook = context;
    return hook->exited && hook->read;
}

static bool is_closed(void *context)
{
    return ((struct hook *)context)->closed;
}

/* Ends the hook: SIGTERM, then SIGKILL after two seconds, or earlier if the lease's kill deadline
 * comes first. */
static void end(struct hook *hook)
{
    struct bw_lead *lead = hook->lead;
    bool interrupted = lead->client->interrupted;
    lead->client->interrupted = false;
    bw_time until = bw_clock_boot() + 2 * BW_SEC;
    kill(-hook->process.pid, SIGTERM);
    bw_lead_run(lead, bw_time_min(until, lead->schedule.kill), is_dead, hook);
    if (!is_dead(hook)) {
        kill(-hook->process.pid, SIGKILL);
        bw_lead_run(lead, BW_TIME_NEVER, is_dead, hook);
    }
    lead->client->interrupted = lead->client->interrupted || interrupted;
}

static void tidy(struct hook *hook)
{
    bool interrupted = hook->lead->client->interrupted;
    uv_handle_t *handles[] = {(uv_handle_t *)&hook->in, (uv_handle_t *)&hook->out,
                              (uv_handle_t *)&hook->process};
    for (unsigned i = 0; i < 3; i++)
        if (!uv_is_closing(handles[i]))
            uv_close(handles[i], on_close);
    hook->lead->client->interrupted = false;
    bw_lead_run(hook->lead, BW_TIME_NEVER, is_closed, hook);
    hook->lead->client->interrupted = interrupted;
}

static int judge(const struct hook *hook, bool ended, char *why)
{
    const struct bw_lead *lead = hook->lead;
    const char *text = NULL;
    if (!ended && lead->losing)
        text = bw_lease_loss_name(lead->reason);
    if (text)
        snprintf(why, BW_WHY_MAX + 1, "leadership was lost while the hook ran: %s", text);
    else if (!ended)
        snprintf(why, BW_WHY_MAX + 1, "the hook exceeded its time limit (--hook-limit)");
    else if (hook->result->status != 0)
        snprintf(why, BW_WHY_MAX + 1, "the hook ended with exit code %d", hook->result->status);
    else if (hook->result->overflowed)
        snprintf(why, BW_WHY_MAX + 1, "the hook printed more than %u bytes", BW_SIDES_TEXT_MAX);
    else
        return 0;
    return BW_EIO;
}

int bw_hook_run(struct bw_lead *lead, const char *command, const char *input, bw_time limit_ns,
                struct bw_hook_result *result, char *why)
{
    struct hook hook = {.lead = lead, .result = result};
    memset(result, 0, sizeof *result);
    result->status = -1;
    lead->busy = true;
    int error = spawn(&hook, command, input);
    bool ended = false;
    if (error) {
        snprintf(why, BW_WHY_MAX + 1, "cannot start the hook: %s", uv_strerror(error));
    } else {
        bw_lead_run(lead, bw_time_add(bw_clock_boot(), limit_ns), is_over, &hook);
        ended = is_dead(&hook);
        if (!ended)
            end(&hook);
    }
    lead->busy = false;
    tidy(&hook);
    return error ? BW_EIO : judge(&hook, ended, why);
}
