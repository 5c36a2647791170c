/* The store client of status, observe, resign, transfer, candidates and recover. */
#include "cli/store/client.h"

#include "cli/run/run.h"
#include "cli/store/quorum.h"
#include "os/clock.h"
#include "os/loop.h"
#include "store/sqlite/files.h"

#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define AGAIN_NS (100 * BW_MS) /* retry interval while the store is unavailable */
#define EARLY_NS (500 * BW_MS) /* a read without an answer for this long: is there a quorum? */
#define POLL_NS  BW_SEC        /* poll interval for stores that cannot notify */

/* ---- options ---- */

static const char *own_id(void)
{
    static char text[BW_CANDIDATE_ID_MAX + 1];
    char host[HOST_NAME_MAX + 1] = "";
    const struct passwd *user = getpwuid(geteuid());
    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "%.30s@%.30s", user ? user->pw_name : "unknown", host);
    return text;
}

int bw_look_store(const struct bw_cli_command *command, struct bw_look *look)
{
    static struct bw_job_options job; /* holds the texts that `look` points to */
    bw_job_options_init(&job);
    job.config.store = look->store;
    job.store_file = look->store_file;
    look->is_default = !look->store && !look->store_file;
    int code = bw_job_options_store(command, &job);
    look->store = job.config.store;
    look->shown = job.config.store_shown;
    return code;
}

/* Takes the election from the operand, which precedes the environment and the config file. */
static int take_operand(const struct bw_cli_command *command, const struct bw_parsed *parsed,
                        struct bw_look *look)
{
    const struct bw_option *option = bw_options_find(command, "election", strlen("election"));
    const char *operand = parsed->operands_count > 0 ? parsed->operands[0] : NULL;
    if (!operand || !option || bw_options_find(command, "to", strlen("to")))
        return BW_GO_ON;
    if (parsed->operands_count > 1)
        return bw_usage_error(command, "unexpected argument '%.60s' after the election",
                              parsed->operands[1]);
    if (parsed->given[option - command->options] && strcmp(look->election, operand) != 0)
        return bw_usage_error(command, "two elections: '%.60s' and --election %.60s; give one",
                              operand, look->election);
    look->election = operand;
    return BW_GO_ON;
}

int bw_look_parse(const struct bw_cli_command *command, int argc, char **argv, struct bw_look *look,
                  struct bw_parsed *parsed)
{
    look->timeout_ns = 5 * BW_SEC;
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "-w") == 0)
            argv[i] = (char *)"--wait";
    int code = bw_options_parse(command, argc, argv, look, parsed);
    if (code != BW_GO_ON)
        return code;
    if (!look->id)
        look->id = own_id();
    if (strlen(look->id) > BW_CANDIDATE_ID_MAX)
        return bw_usage_error(command, "invalid --id: longer than %u bytes", BW_CANDIDATE_ID_MAX);
    code = take_operand(command, parsed, look);
    if (code != BW_GO_ON)
        return code;
    if (!look->election && look->all)
        return bw_look_store(command, look);
    if (!look->election)
        return bw_usage_error(command, "missing option: --election NAME; see '%s --help'",
                              command->path);
    size_t length = strlen(look->election);
    if (length > BW_ELECTION_NAME_MAX || strchr(look->election, '/'))
        return bw_usage_error(
            command, "invalid election name '%.60s': expected at most %u bytes without '/'",
            look->election, BW_ELECTION_NAME_MAX);
    return bw_look_store(command, look);
}

/* ---- open and close ---- */

int bw_client_fail(const struct bw_client *client, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", client->command->path);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return code;
}

static int compare_spans(const void *a, const void *b)
{
    bw_time left = *(const bw_time *)a, right = *(const bw_time *)b;
    return (left > right) - (left < right);
}

bw_time bw_client_median(bw_time *spans, size_t count)
{
    qsort(spans, count, sizeof *spans, compare_spans);
    return spans[count / 2];
}

static void keep_candidates(struct bw_client *client, const struct bw_store_reply *reply)
{
    free(client->candidates);
    client->candidates = calloc(reply->count + 1, sizeof *client->candidates);
    if (client->candidates && reply->count)
        memcpy(client->candidates, reply->candidates, reply->count * sizeof *reply->candidates);
    client->reply.candidates = client->candidates;
    if (!client->candidates)
        client->reply.count = 0;
}

static void keep_elections(struct bw_client *client, const struct bw_store_reply *reply)
{
    free(client->elections);
    client->elections = calloc(reply->count + 1, sizeof *client->elections);
    if (client->elections && reply->count)
        memcpy(client->elections, reply->elections, reply->count * sizeof *reply->elections);
    client->reply.elections = client->elections;
    if (!client->elections)
        client->reply.count = 0;
}

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    struct bw_client *client = context;
    if (client->on_reply)
        client->on_reply(client->context, reply);
    if (reply->id != client->awaited)
        return;
    client->reply = *reply;
    client->answered = true;
    if (reply->op == BW_STORE_LIST)
        keep_candidates(client, reply);
    if (reply->op == BW_STORE_ELECTIONS)
        keep_elections(client, reply);
}

static void on_timer(uv_timer_t *timer)
{
    ((struct bw_client *)timer->data)->late = true;
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    ((struct bw_client *)handle->data)->interrupted = true;
}

static int start_loop(struct bw_client *client)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    int error = bw_loop_init(&client->loop);
    if (error)
        return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "cannot start an event loop: %s",
                              strerror(-error));
    uv_timer_init(&client->loop, &client->timer);
    client->timer.data = client;
    for (int i = 0; i < 2; i++) {
        uv_signal_init(&client->loop, &client->signals[i]);
        client->signals[i].data = client;
        uv_signal_start(&client->signals[i], on_signal, numbers[i]);
        uv_unref((uv_handle_t *)&client->signals[i]);
    }
    return BW_GO_ON;
}

/* Returns whether the store is missing. A command that only reads must not create it. */
static bool is_absent(const struct bw_store_ops *ops, const char *url)
{
    return strcmp(ops->scheme, "sqlite") == 0 && access(bw_sqlite_path(url), F_OK) != 0;
}

int bw_client_open(struct bw_client *client, const struct bw_cli_command *command,
                   const struct bw_look *look)
{
    char why[BW_WHY_MAX + 1] = "";
    memset(client, 0, sizeof *client);
    client->command = command;
    client->look = look;
    client->ops = bw_store_find(look->store, why);
    if (!client->ops)
        return bw_usage_error(command, "--store: %s", why);
    if (!look->creates && is_absent(client->ops, look->store))
        return bw_client_fail(client, BW_EXIT_NONE, "no store at %s", look->shown);
    if (getrandom(&client->next_id, sizeof client->next_id, 0) != sizeof client->next_id)
        client->next_id = (uint64_t)bw_clock_boot();
    client->next_id |= 1;
    int code = start_loop(client);
    if (code != BW_GO_ON)
        return code;
    struct bw_store_options options = {
        .context = client, .reads_only = look->reads_only, .reply = on_reply};
    int error = client->ops->open(&client->store, look->store, &client->loop, &options, why);
    if (error == 0)
        return BW_GO_ON;
    bw_client_close(client);
    /* as in `run`: a store that must be changed first */
    return bw_client_fail(
        client, bw_run_store_error_is_permanent(error) ? BW_EXIT_USAGE : BW_EXIT_UNAVAILABLE, "%s",
        why);
}

void bw_client_close(struct bw_client *client)
{
    if (client->store)
        client->ops->close(client->store);
    client->store = NULL;
    uv_close((uv_handle_t *)&client->timer, NULL);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&client->signals[i], NULL);
    while (uv_run(&client->loop, UV_RUN_DEFAULT) != 0)
        ;
    uv_loop_close(&client->loop);
    free(client->candidates);
    client->candidates = NULL;
    free(client->elections);
    client->elections = NULL;
}

/* ---- asking ---- */

struct bw_store_request bw_client_request(struct bw_client *client, enum bw_store_op op)
{
    return (struct bw_store_request){
        .op = op, .id = client->next_id++, .election = client->look->election};
}

/* Waits until the reply or a signal arrives, at most until the time `until`. */
static enum bw_wait wait_until(struct bw_client *client, bw_time until)
{
    while (!client->answered && !client->interrupted) {
        bw_time left = until == BW_TIME_NEVER ? 3600 * BW_SEC : until - bw_clock_boot();
        if (left <= 0)
            return BW_WAIT_LATE;
        uv_update_time(&client->loop);
        uv_timer_start(&client->timer, on_timer, (uint64_t)((left + BW_MS - 1) / BW_MS), 0);
        uv_run(&client->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&client->timer);
    return client->answered ? BW_WAIT_ANSWERED : BW_WAIT_INTERRUPTED;
}

struct bw_store_reply bw_client_not_sent(const struct bw_store_request *request, int error)
{
    enum bw_outcome outcome = error == BW_ELIMIT ? BW_OUTCOME_UNAVAILABLE : BW_OUTCOME_REFUSED;
    struct bw_store_reply reply = {
        .id = request->id, .op = request->op, .outcome = outcome, .error = error};
    snprintf(reply.why, sizeof reply.why, "%s",
             error == BW_ELIMIT ? "cannot send a request: out of memory or too many requests"
                                : bw_error_text(error));
    return reply;
}

static enum bw_wait send_and_wait(struct bw_client *client, const struct bw_store_request *request,
                                  bw_time until)
{
    client->answered = false;
    client->awaited = request->id;
    int error = client->ops->request(client->store, request);
    if (error) {
        client->reply = bw_client_not_sent(request, error);
        return BW_WAIT_ANSWERED;
    }
    enum bw_wait end = wait_until(client, until);
    if (end != BW_WAIT_ANSWERED)
        client->ops->cancel(client->store, request->id);
    client->awaited = 0;
    return end;
}

enum bw_wait bw_client_pause(struct bw_client *client, bw_time span_ns)
{
    client->answered = false;
    client->awaited = 0;
    return wait_until(client, bw_time_add(bw_clock_boot(), span_ns));
}

static bool only_reads(enum bw_store_op op)
{
    return op == BW_STORE_READ || op == BW_STORE_LIST || op == BW_STORE_ELECTIONS;
}

/* The first attempt of a read ends early, so that a lost quorum is reported at once. `end` is how
 * the attempt ended. Returns true if the store has no quorum; the line is in client->reply.why. */
static bool has_no_quorum(struct bw_client *client, enum bw_wait end)
{
    char line[BW_WHY_MAX + 1];
    enum bw_outcome outcome = client->reply.outcome;
    bool failed = end == BW_WAIT_LATE || (end == BW_WAIT_ANSWERED && outcome != BW_OUTCOME_DONE &&
                                          outcome != BW_OUTCOME_REFUSED);
    if (!failed || !bw_quorum_is_lost(client->look->store, line))
        return false;
    memcpy(client->reply.why, line, sizeof line);
    return true;
}

int bw_client_ask(struct bw_client *client, const struct bw_store_request *request)
{
    bw_time until = bw_time_add(bw_clock_boot(), client->look->timeout_ns);
    client->reply.why[0] = '\0';
    for (bool first = only_reads(request->op);; first = false) {
        bw_time early = bw_time_min(until, bw_clock_boot() + EARLY_NS);
        enum bw_wait end = send_and_wait(client, request, first ? early : until);
        if (first && has_no_quorum(client, end))
            return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "%s", client->reply.why);
        if (first && end == BW_WAIT_LATE && bw_clock_boot() < until)
            continue;
        if (end == BW_WAIT_INTERRUPTED)
            return BW_EXIT_INTERRUPTED;
        if (end == BW_WAIT_LATE && client->reply.why[0]) /* the earlier reason is more precise */
            return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "%s", client->reply.why);
        if (end == BW_WAIT_LATE)
            return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "no response from %s in time",
                                  client->look->shown);
        enum bw_outcome outcome = client->reply.outcome;
        if (outcome == BW_OUTCOME_DONE || outcome == BW_OUTCOME_REFUSED)
            return BW_GO_ON;
        if (bw_clock_boot() + AGAIN_NS >= until)
            return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "%s", client->reply.why);
        if (bw_client_pause(client, AGAIN_NS) == BW_WAIT_INTERRUPTED)
            return BW_EXIT_INTERRUPTED;
    }
}

int bw_client_read(struct bw_client *client)
{
    struct bw_store_request request = bw_client_request(client, BW_STORE_READ);
    int code = bw_client_ask(client, &request);
    if (code != BW_GO_ON)
        return code;
    if (client->reply.outcome != BW_OUTCOME_DONE)
        return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "%s", client->reply.why);
    if (client->reply.record.version == 0)
        return bw_client_fail(client, BW_EXIT_NONE, "no election '%s' in %s",
                              client->look->election, client->look->shown);
    return BW_GO_ON;
}

int bw_client_note(struct bw_client *client, enum bw_note_kind kind, const char *to)
{
    struct bw_store_request request = bw_client_request(client, BW_STORE_NOTE);
    if (!(client->ops->traits & BW_STORE_NOTES))
        return bw_client_fail(
            client, BW_EXIT_UNAVAILABLE,
            "store %s does not support notes to the leader; stop the leader on its own machine",
            client->ops->scheme);
    request.note.kind = kind;
    snprintf(request.note.from, sizeof request.note.from, "%s", client->look->id);
    snprintf(request.note.to, sizeof request.note.to, "%s", to);
    int code = bw_client_ask(client, &request);
    if (code == BW_GO_ON && client->reply.outcome != BW_OUTCOME_DONE)
        return bw_client_fail(client, BW_EXIT_FAILED, "%s", client->reply.why);
    return code;
}

enum bw_wait bw_client_wait_change(struct bw_client *client, uint64_t version, bw_time until)
{
    struct bw_store_request request = bw_client_request(client, BW_STORE_WATCH);
    request.version = version;
    if (client->ops->traits & BW_STORE_NOTIFIES)
        return send_and_wait(client, &request, until);
    for (;;) {
        bw_time pause = bw_time_min(POLL_NS, until - bw_clock_boot());
        enum bw_wait end = bw_client_pause(client, bw_time_max(pause, 0));
        if (end == BW_WAIT_INTERRUPTED)
            return end;
        request = bw_client_request(client, BW_STORE_READ);
        end = send_and_wait(client, &request, bw_clock_boot() + client->look->timeout_ns);
        if (end != BW_WAIT_ANSWERED || client->reply.outcome != BW_OUTCOME_DONE ||
            client->reply.record.version != version)
            return end;
        if (bw_clock_boot() >= until)
            return BW_WAIT_LATE;
    }
}
