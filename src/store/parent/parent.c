/* Client side of the launcher's store; see parent.h. */
#include "store/parent/parent.h"

#include "core/base/parse_values.h"
#include "store/kit/job.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TTL_MIN_NS (100 * BW_MS)

struct bw_store {
    struct bw_store_options options;
    struct bw_jobs jobs;
    uv_poll_t poll;
    int fd, notices_fd, notices_socket;
    unsigned handles;
    bool gone;
    struct bw_death_notice *notices;
    struct bw_parent_request ask;
    struct bw_parent_message message;
};

/* ---- messages from the launcher ---- */

static void on_reply(struct bw_store *store)
{
    struct bw_store_reply *reply = &store->message.reply;
    struct bw_job *job = bw_jobs_find(&store->jobs, reply->id);
    reply->why[BW_WHY_MAX] = '\0';
    if (!job)
        return;
    if (reply->outcome == BW_OUTCOME_DONE && reply->op != BW_STORE_LIST)
        bw_job_done(job, &reply->record);
    else if (reply->outcome == BW_OUTCOME_REFUSED)
        bw_job_refuse(job, &reply->record, reply->error, "%s", reply->why);
    else
        bw_job_fail(
            job, reply->outcome == BW_OUTCOME_UNKNOWN ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE,
            reply->error, "%s", reply->why);
}

static void keep(int *place, int fd)
{
    if (*place >= 0)
        close(*place);
    *place = fd;
}

static void on_message(struct bw_store *store, int passed[2])
{
    struct bw_parent_message *message = &store->message;
    const struct bw_store_options *o = &store->options;
    message->event[sizeof message->event - 1] = message->line[sizeof message->line - 1] = '\0';
    switch (message->kind) {
    case BW_PARENT_REPLY:
        on_reply(store);
        break;
    case BW_PARENT_EVENT:
        if (o->event)
            o->event(o->context, message->event, message->line);
        break;
    case BW_PARENT_ENDED:
        if (o->ended)
            o->ended(o->context, message->error, message->line);
        break;
    case BW_PARENT_DEATH_NOTICES:
        keep(&store->notices_fd, passed[0]);
        keep(&store->notices_socket, passed[1]);
        passed[0] = passed[1] = -1;
        if (o->notices_changed)
            o->notices_changed(o->context, "");
        break;
    }
}

static void on_launcher_gone(struct bw_store *store)
{
    struct bw_job *next = NULL;
    store->gone = true;
    uv_poll_stop(&store->poll);
    for (struct bw_job *job = store->jobs.first; job; job = next) {
        next = job->next;
        bw_job_fail(job, BW_OUTCOME_UNKNOWN, BW_EIO, "the launcher exited");
    }
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    struct bw_store *store = handle->data;
    int passed[2], got;
    (void)status;
    (void)events;
    while ((got = bw_parent_receive(store->fd, &store->message, sizeof store->message, passed)) >
           0) {
        on_message(store, passed);
        for (int i = 0; i < 2; i++)
            if (passed[i] >= 0)
                close(passed[i]);
    }
    if (got < 0)
        on_launcher_gone(store);
}

/* ---- requests to the launcher ---- */

static void copy(char *to, size_t size, const char *from, bool *has)
{
    *has = from != NULL;
    snprintf(to, size, "%s", from ? from : "");
}

static int parent_request(struct bw_store *store, const struct bw_store_request *request)
{
    struct bw_parent_request *ask = &store->ask;
    bool always;
    if (bw_store_request_check(request, TTL_MIN_NS) != 0)
        return BW_EINVAL;
    struct bw_job *job = bw_jobs_add(&store->jobs, request);
    if (!job)
        return BW_ELIMIT;
    memset(ask, 0, sizeof *ask);
    ask->request = *request;
    copy(ask->election, sizeof ask->election, request->election, &always);
    copy(ask->candidate, sizeof ask->candidate, request->candidate, &ask->has_candidate);
    copy(ask->value, sizeof ask->value, request->value, &ask->has_value);
    copy(ask->containment, sizeof ask->containment, request->containment, &ask->has_containment);
    if (store->gone || !bw_parent_send(store->fd, ask, sizeof *ask, -1, -1))
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EIO, "the launcher does not answer");
    return 0;
}

static void parent_cancel(struct bw_store *store, uint64_t id)
{
    bw_jobs_cancel(&store->jobs, id);
    memset(&store->ask, 0, sizeof store->ask);
    store->ask.cancel = true;
    store->ask.request.id = id;
    (void)bw_parent_send(store->fd, &store->ask, sizeof store->ask, -1, -1);
}

static bool parent_death_notices(struct bw_store *store, const char *election,
                                 struct bw_death_notices *out)
{
    struct stat status;
    (void)election;
    if (store->notices_fd < 0 || store->notices_socket < 0 ||
        fstat(store->notices_fd, &status) != 0 || status.st_size <= 0 ||
        status.st_size > (off_t)(BW_DEATH_NOTICES_MAX * sizeof *store->notices))
        return false;
    if (!store->notices)
        store->notices = calloc(BW_DEATH_NOTICES_MAX, sizeof *store->notices);
    if (!store->notices ||
        pread(store->notices_fd, store->notices, (size_t)status.st_size, 0) != status.st_size)
        return false;
    *out =
        (struct bw_death_notices){.rows = store->notices,
                                  .count = (uint32_t)((size_t)status.st_size / sizeof *out->rows),
                                  .socket = store->notices_socket};
    return true;
}

/* The socket on which the guardian confirms that the work is dead. */
static int parent_hold(struct bw_store *store, const char *election,
                       unsigned char proof[BW_HOLD_PROOF])
{
    (void)election;
    memset(proof, 0, BW_HOLD_PROOF); /* no other process has this socket */
    return store->gone ? -1 : store->fd;
}

/* ---- opening and closing ---- */

static void one_closed(struct bw_store *store)
{
    if (--store->handles > 0)
        return;
    keep(&store->notices_fd, -1);
    keep(&store->notices_socket, -1);
    close(store->fd);
    free(store->notices);
    free(store);
}

static void on_jobs_closed(struct bw_jobs *jobs)
{
    one_closed(jobs->context);
}

static void on_poll_closed(uv_handle_t *handle)
{
    one_closed(handle->data);
}

static int parent_open(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                       const struct bw_store_options *options, char *why)
{
    const char *number = url + sizeof BW_PARENT_SCHEME - 1;
    uint64_t fd = 0;
    struct bw_store *store = calloc(1, sizeof *store);
    bool good = store && bw_text_number(number, strcspn(number, ":"), 1u << 20, &fd) == 0 &&
                fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0 &&
                uv_poll_init(loop, &store->poll, (int)fd) == 0;
    if (!good) {
        free(store);
        return bw_store_explain(
            why, BW_EINVAL,
            "invalid store URL: parent: is internal; a launcher sets it for its supervisors");
    }
    store->options = *options;
    store->fd = (int)fd;
    store->notices_fd = store->notices_socket = -1;
    store->poll.data = store;
    store->handles = 2;
    if (bw_jobs_open(&store->jobs, loop, options, NULL, store) != 0) {
        store->handles--;
        uv_close((uv_handle_t *)&store->poll, on_poll_closed);
        return bw_store_explain(why, BW_ENOMEM, "out of memory");
    }
    uv_poll_start(&store->poll, UV_READABLE, on_readable);
    *out = store;
    return 0;
}

static void parent_close(struct bw_store *store)
{
    bw_jobs_close(&store->jobs, on_jobs_closed);
    uv_close((uv_handle_t *)&store->poll, on_poll_closed);
}

#define PARENT_OPS(more)                                                                           \
    {                                                                                              \
        .scheme = "parent",                                                                        \
        .traits =                                                                                  \
            BW_STORE_QUEUE | BW_STORE_NOTIFIES | BW_STORE_NOTES | BW_STORE_LATE_RELEASE | (more),  \
        .ttl_min_ns = TTL_MIN_NS, .ttl_unit_ns = BW_MS, .summary = "the store of our launcher",    \
        .open = parent_open, .request = parent_request, .cancel = parent_cancel,                   \
        .close = parent_close, .hold = parent_hold, .death_notices = parent_death_notices,         \
    }

static const struct bw_store_ops with_token = PARENT_OPS(BW_STORE_TOKEN);
static const struct bw_store_ops without_token = PARENT_OPS(0);

const struct bw_store_ops *bw_store_parent_find(const char *url)
{
    const char *token = strchr(url + sizeof BW_PARENT_SCHEME - 1, ':');
    return token && token[1] == '1' ? &with_token : &without_token;
}
