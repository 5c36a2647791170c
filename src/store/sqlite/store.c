/* `sqlite:PATH`, the embedded store: the part that runs on the loop.
 *
 * Model: processes and users of one host, also in containers, share a directory on a local file
 * system. Any process may be killed or stopped at any instant, the host may lose power, clocks may
 * be set.
 *
 * Guarantees:
 * - one holder at a time, according to the record
 * - tokens that only grow
 * - a version that changes with every change of the record
 * - watchers learn of a release or a proved death without polling
 *
 * Not guaranteed: anything across hosts; progress while another process is stopped in the middle of
 * a transaction (it holds the database's lock: requests are then UNAVAILABLE).
 *
 * The requests of one loop turn go to one worker thread as one job and form one transaction. The
 * loop therefore never waits for a disk, and ten thousand renewals need ten commits. Requests that
 * arrive while a job runs wait for the next job. Renewals and releases come first in it: a
 * leadership depends on the former, and other candidates wait for the latter. */
#include "store/sqlite/sqlite.h"

#include "os/clock.h"
#include "store/sqlite/wakeup.h"
#include "store/sqlite/worker.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TABLE_BUCKETS   4096u
#define WORKER_STACK    ((size_t)256 * 1024)
#define TTL_MIN_NS      (10 * BW_MS)
#define WAKEUP_RETRY_NS BW_SEC /* interval to retry if change notifications cannot be opened */

struct bw_sqlite {
    uv_loop_t *loop;
    struct bw_store_options options;
    uv_idle_t flush;  /* runs at the end of a turn in which a request arrived */
    uv_async_t back;  /* the worker has finished a job, or has exited */
    uv_timer_t again; /* poll again */
    uv_poll_t wakeup;
    int wakeup_fd; /* -1: none, then `again` polls */
    char dir[PATH_MAX + 8], db[PATH_MAX];
    bool closing, sweep, read_all, changes;
    unsigned handles;                    /* loop handles not closed yet */
    struct bw_sqlite_list urgent, queue; /* to be submitted */
    uint32_t outstanding, watches;
    struct bw_sqlite_task *table[TABLE_BUCKETS]; /* hash table by request id */
    struct bw_sqlite_job *job;                   /* being filled, or at the worker */
    /* collects changed lock files while the other job is at the worker */
    struct bw_sqlite_job *next;
    bool working;
    uv_thread_t thread;
    uv_mutex_t mutex; /* guards the four flags below */
    uv_cond_t wake;
    bool handed, returned, quit, gone;
    struct bw_sqlite_worker worker;
};

static struct bw_sqlite *self_of(struct bw_store *store)
{
    return (struct bw_sqlite *)(void *)store;
}

static void work(void *context)
{
    struct bw_sqlite *self = context;
    uv_mutex_lock(&self->mutex);
    for (;;) {
        while (!self->handed && !self->quit)
            uv_cond_wait(&self->wake, &self->mutex);
        if (!self->handed)
            break;
        self->handed = false;
        uv_mutex_unlock(&self->mutex);
        bw_sqlite_work(&self->worker, self->job);
        uv_mutex_lock(&self->mutex);
        self->returned = true;
        uv_async_send(&self->back);
        uv_mutex_unlock(&self->mutex);
        bw_sqlite_db_tidy(&self->worker.db);
        uv_mutex_lock(&self->mutex);
    }
    uv_mutex_unlock(&self->mutex);
    if (self->worker.db.handle) /* may checkpoint and sync: must not run on the loop */
        bw_sqlite_db_close(&self->worker.db);
    uv_mutex_lock(&self->mutex);
    self->gone = true;
    uv_async_send(&self->back);
    uv_mutex_unlock(&self->mutex);
}

/* Blocks all signals in the worker: the program's own threads handle them. */
static int start_thread(struct bw_sqlite *self)
{
    sigset_t all, before;
    uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE, .stack_size = WORKER_STACK};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = uv_thread_create_ex(&self->thread, &options, work, self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void job_clear(struct bw_sqlite_job *job)
{
    bw_sqlite_list_init(&job->tasks);
    bw_sqlite_list_init(&job->done);
    job->names = 0;
    job->read_all = job->sweep = false;
    job->again_ns = job->poll_ns = 0;
}

static void update_ref(struct bw_sqlite *self)
{
    uv_handle_t *handle = (uv_handle_t *)&self->back;
    if (self->outstanding > 0 || self->closing)
        uv_ref(handle);
    else
        uv_unref(handle);
}

static void submit(struct bw_sqlite *self)
{
    bool asked = self->urgent.first || self->queue.first;
    bool wanted = asked || self->sweep || self->read_all || self->changes;
    if (self->working || self->closing || !wanted)
        return;
    struct bw_sqlite_job *job = self->next;
    self->next = self->job;
    self->job = job;
    job->urgent = self->urgent.first != NULL;
    for (unsigned i = 0; i < BW_SQLITE_JOB_MAX && (self->urgent.first || self->queue.first); i++) {
        struct bw_sqlite_list *from = self->urgent.first ? &self->urgent : &self->queue;
        bw_sqlite_list_add(&job->tasks, bw_sqlite_list_take(from));
    }
    job->sweep = self->sweep;
    job->read_all = self->read_all;
    self->sweep = self->read_all = self->changes = false;
    self->working = true;
    uv_mutex_lock(&self->mutex);
    self->handed = true;
    uv_cond_signal(&self->wake);
    uv_mutex_unlock(&self->mutex);
}

static void on_flush(uv_idle_t *handle)
{
    uv_idle_stop(handle);
    submit(handle->data);
}

static void submit_soon(struct bw_sqlite *self)
{
    if (!self->working && !self->closing)
        uv_idle_start(&self->flush, on_flush);
}

static void on_lock_file(void *context, const char *election)
{
    struct bw_sqlite *self = context;
    struct bw_sqlite_job *next = self->next;
    if (next->names == BW_SQLITE_NAMES_MAX) {
        self->read_all = true;
        return;
    }
    if (next->names > 0 && strcmp(next->name[next->names - 1], election) == 0)
        return; /* written and closed: one change */
    strncpy(next->name[next->names], election, BW_ELECTION_NAME_MAX + 1);
    next->names++;
}

static void on_wakeup_closed(uv_handle_t *handle);

static void close_wakeup(struct bw_sqlite *self)
{
    if (self->wakeup_fd < 0)
        return;
    uv_poll_stop(&self->wakeup);
    uv_close((uv_handle_t *)&self->wakeup, on_wakeup_closed);
}

static void on_wakeup(uv_poll_t *handle, int status, int events)
{
    struct bw_sqlite *self = handle->data;
    struct bw_sqlite_changes changes;
    (void)events;
    bw_sqlite_wakeup_read(self->wakeup_fd, &changes, self, on_lock_file);
    if (changes.broken || status < 0)
        close_wakeup(self);
    if (self->watches == 0) { /* no watches */
        self->next->names = 0;
        return;
    }
    self->changes = self->changes || changes.any;
    self->read_all = self->read_all || changes.lost;
    submit_soon(self);
}

static void open_wakeup(struct bw_sqlite *self)
{
    if (self->wakeup_fd >= 0 || self->closing)
        return;
    int fd = bw_sqlite_wakeup_open(self->dir, self->db);
    if (fd < 0 || uv_poll_init(self->loop, &self->wakeup, fd) != 0) {
        if (fd >= 0)
            close(fd);
        return;
    }
    self->wakeup_fd = fd;
    self->wakeup.data = self;
    self->handles++;
    uv_poll_start(&self->wakeup, UV_READABLE, on_wakeup);
    uv_unref((uv_handle_t *)&self->wakeup);
    self->read_all = true; /* changes may have been missed meanwhile */
}

static void on_again(uv_timer_t *handle)
{
    struct bw_sqlite *self = handle->data;
    if (self->wakeup_fd < 0) {
        open_wakeup(self);
        self->read_all = true;
    }
    self->changes = true;
    submit_soon(self);
}

/* Starts the timer if the worker wants to read again, or if there are no change notifications. */
static void arm(struct bw_sqlite *self, const struct bw_sqlite_job *job)
{
    bw_time wait = job->again_ns;
    if (self->wakeup_fd < 0 && job->poll_ns > 0) {
        bw_time poll = job->poll_ns - job->poll_ns / 5; /* between 4/5 and 5/5 of the interval */
        poll += (bw_time)((uint64_t)bw_clock_boot() % (uint64_t)(job->poll_ns / 5 + 1));
        poll = bw_time_min(poll, WAKEUP_RETRY_NS);
        wait = wait == 0 ? poll : bw_time_min(wait, poll);
    }
    if (wait == 0)
        return;
    uint64_t wait_ms = (uint64_t)((wait + BW_MS - 1) / BW_MS);
    uv_update_time(self->loop);
    if (!uv_is_active((uv_handle_t *)&self->again) || uv_timer_get_due_in(&self->again) > wait_ms)
        uv_timer_start(&self->again, on_again, wait_ms, 0);
}

static struct bw_sqlite_task **bucket(struct bw_sqlite *self, uint64_t id)
{
    return &self->table[(id ^ id >> 32) % TABLE_BUCKETS];
}

static struct bw_sqlite_task **slot(struct bw_sqlite *self, uint64_t id)
{
    struct bw_sqlite_task **at = bucket(self, id);
    while (*at && (*at)->request.id != id)
        at = &(*at)->chain;
    return at;
}

static void reply(struct bw_sqlite *self, const struct bw_sqlite_task *task)
{
    if (task->reply) {
        self->options.reply(self->options.context, task->reply);
        return;
    }
    struct bw_store_reply no_memory = {.id = task->request.id,
                                       .op = task->request.op,
                                       .outcome = BW_OUTCOME_UNAVAILABLE,
                                       .error = BW_ENOMEM,
                                       .why = "out of memory"};
    self->options.reply(self->options.context, &no_memory);
}

static void take_out(struct bw_sqlite *self, struct bw_sqlite_task *task)
{
    struct bw_sqlite_task **at = bucket(self, task->request.id);
    while (*at != task)
        at = &(*at)->chain;
    *at = task->chain;
    self->outstanding--;
    self->watches -= task->request.op == BW_STORE_WATCH;
}

/* The reply callback may send requests, cancel and close. */
static void deliver(struct bw_sqlite *self, struct bw_sqlite_job *job)
{
    struct bw_sqlite_task *task;
    while ((task = bw_sqlite_list_take(&job->done))) {
        take_out(self, task);
        if (!self->closing && !atomic_load(&task->cancelled))
            reply(self, task);
        bw_sqlite_task_free(task);
    }
    update_ref(self);
}

static void finish_close(struct bw_sqlite *self);

static void on_back(uv_async_t *handle)
{
    struct bw_sqlite *self = handle->data;
    uv_mutex_lock(&self->mutex);
    bool returned = self->returned, gone = self->gone;
    self->returned = false;
    uv_mutex_unlock(&self->mutex);
    if (returned) {
        deliver(self, self->job);
        arm(self, self->job);
        job_clear(self->job);
        self->working = false;
        submit(self);
    }
    if (gone)
        finish_close(self);
}

static void free_self(struct bw_sqlite *self)
{
    free(self->job);
    free(self->next);
    free(self);
}

static void on_closed(uv_handle_t *handle)
{
    struct bw_sqlite *self = handle->data;
    if (--self->handles == 0)
        free_self(self);
}

static void on_wakeup_closed(uv_handle_t *handle)
{
    struct bw_sqlite *self = handle->data;
    if (self->wakeup_fd >= 0)
        close(self->wakeup_fd);
    self->wakeup_fd = -1;
    if (--self->handles == 0) {
        free_self(self);
        return;
    }
    if (!self->closing) { /* poll until notifications can be opened again */
        self->read_all = true;
        submit_soon(self);
    }
}

/* The worker thread has exited: closes the rest on the loop. */
static void finish_close(struct bw_sqlite *self)
{
    struct bw_sqlite_job rest;
    uv_thread_join(&self->thread);
    bw_sqlite_list_init(&rest.done);
    bw_sqlite_watches_sweep(&self->worker, &rest, true);
    deliver(self, &rest);
    for (struct bw_sqlite_task *task; (task = bw_sqlite_list_take(&self->urgent));)
        bw_sqlite_list_add(&rest.done, task);
    for (struct bw_sqlite_task *task; (task = bw_sqlite_list_take(&self->queue));)
        bw_sqlite_list_add(&rest.done, task);
    deliver(self, &rest);
    bw_sqlite_worker_close(&self->worker);
    uv_mutex_destroy(&self->mutex);
    uv_cond_destroy(&self->wake);
    uv_close((uv_handle_t *)&self->flush, on_closed);
    uv_close((uv_handle_t *)&self->again, on_closed);
    uv_close((uv_handle_t *)&self->back, on_closed);
    if (self->wakeup_fd >= 0 && !uv_is_closing((uv_handle_t *)&self->wakeup))
        close_wakeup(self);
}

static void sqlite_close(struct bw_store *store)
{
    struct bw_sqlite *self = self_of(store);
    if (self->closing)
        return;
    self->closing = true;
    uv_idle_stop(&self->flush);
    uv_timer_stop(&self->again);
    update_ref(self);
    atomic_store(&self->worker.stop, true);
    uv_mutex_lock(&self->mutex);
    self->quit = true;
    uv_cond_signal(&self->wake);
    uv_mutex_unlock(&self->mutex);
}

/* Returns 0 or a negative errno. */
static int start(struct bw_sqlite *self)
{
    int error = uv_async_init(self->loop, &self->back, on_back);
    if (error)
        return error;
    self->back.data = self;
    self->handles = 1;
    uv_mutex_init(&self->mutex);
    uv_cond_init(&self->wake);
    error = start_thread(self);
    if (error) {
        uv_close((uv_handle_t *)&self->back, on_closed);
        return error;
    }
    uv_idle_init(self->loop, &self->flush);
    uv_timer_init(self->loop, &self->again);
    uv_unref((uv_handle_t *)&self->again);
    self->flush.data = self->again.data = self;
    self->handles = 3;
    update_ref(self);
    return 0;
}

static struct bw_sqlite *new_self(uv_loop_t *loop, const struct bw_store_options *options)
{
    struct bw_sqlite *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->job = calloc(1, sizeof *self->job);
    self->next = calloc(1, sizeof *self->next);
    if (!self->job || !self->next) {
        free_self(self);
        return NULL;
    }
    self->loop = loop;
    self->options = *options;
    self->wakeup_fd = -1;
    job_clear(self->job);
    job_clear(self->next);
    bw_sqlite_list_init(&self->urgent);
    bw_sqlite_list_init(&self->queue);
    return self;
}

static int sqlite_open(struct bw_store **out, const char *url, struct uv_loop_s *loop,
                       const struct bw_store_options *options, char *why)
{
    struct bw_sqlite *self = new_self(loop, options);
    enum bw_sqlite_access wanted = options->reads_only ? BW_SQLITE_READS : BW_SQLITE_WRITES;
    int error = self ? bw_sqlite_worker_open(&self->worker, url, wanted, why) : BW_ENOMEM;
    if (!self || error) {
        if (self)
            free_self(self);
        else
            snprintf(why, BW_WHY_MAX + 1, "cannot open the store: out of memory");
        return error;
    }
    snprintf(self->dir, sizeof self->dir, "%s", self->worker.paths.dir);
    snprintf(self->db, sizeof self->db, "%s", self->worker.paths.db);
    error = start(self);
    if (error) {
        snprintf(why, BW_WHY_MAX + 1, "cannot start a thread for the store: %s", strerror(-error));
        bw_sqlite_worker_close(&self->worker);
        if (self->handles == 0)
            free_self(self);
        return BW_ENOMEM;
    }
    *out = (struct bw_store *)(void *)self;
    return 0;
}

static int sqlite_request(struct bw_store *store, const struct bw_store_request *request)
{
    struct bw_sqlite *self = self_of(store);
    if (self->closing || *slot(self, request->id))
        return BW_EINVAL;
    if (!bw_store_asks_names(request) && bw_store_request_check(request, TTL_MIN_NS) != 0)
        return BW_EINVAL;
    if (self->outstanding >= BW_SQLITE_REQUESTS_MAX)
        return BW_ELIMIT;
    struct bw_sqlite_task *task = bw_sqlite_task_new(request);
    if (!task)
        return BW_ELIMIT;
    *slot(self, request->id) = task;
    self->outstanding++;
    bool urgent = request->op == BW_STORE_RENEW || request->op == BW_STORE_RELEASE;
    bw_sqlite_list_add(urgent ? &self->urgent : &self->queue, task);
    if (request->op == BW_STORE_WATCH) {
        self->watches++;
        open_wakeup(self); /* before the first read, so that no change is missed */
    }
    update_ref(self);
    submit_soon(self);
    return 0;
}

static void sqlite_cancel(struct bw_store *store, uint64_t id)
{
    struct bw_sqlite *self = self_of(store);
    struct bw_sqlite_task *task = *slot(self, id);
    if (!task)
        return;
    atomic_store(&task->cancelled, true);
    if (task->request.op == BW_STORE_WATCH) {
        self->sweep = true;
        submit_soon(self);
    }
}

int bw_store_sqlite_lock_fd(struct bw_store *store, const char *election)
{
    return bw_sqlite_entry_fd(&self_of(store)->worker, election);
}

static int hold(struct bw_store *store, const char *election, unsigned char proof[BW_HOLD_PROOF])
{
    memset(proof, 0, BW_HOLD_PROOF); /* a lock needs no proof */
    return bw_store_sqlite_lock_fd(store, election);
}

static bool sqlite_about(struct bw_store *store, char *about)
{
    (void)store;
    snprintf(about, BW_WHY_MAX + 1, "SQLite %s, part of this process", sqlite3_libversion());
    return true;
}

const struct bw_store_ops bw_store_sqlite = {
    .scheme = "sqlite",
    .traits = BW_STORE_TOKEN | BW_STORE_OBSERVED | BW_STORE_NOTIFIES | BW_STORE_LISTS |
              BW_STORE_PROVES_DEATH | BW_STORE_NOTES | BW_STORE_WALL | BW_STORE_LATE_RELEASE |
              BW_STORE_NAMES,
    .ttl_min_ns = TTL_MIN_NS,
    .ttl_unit_ns = 1,
    .summary = "one host, no server: survives crashes, reboots and clock changes; candidates race",
    .open = sqlite_open,
    .request = sqlite_request,
    .cancel = sqlite_cancel,
    .close = sqlite_close,
    .hold = hold,
    .about = sqlite_about,
};
