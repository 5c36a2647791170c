/* The worker: carries out one job as one transaction, and answers its requests if that fails.
 *
 * No request is answered before the commit is known. A failure before the commit has changed
 * nothing: UNAVAILABLE. A commit that failed with an I/O error may still appear when the log is
 * recovered: UNKNOWN, and the worker opens the connection again before it answers anything else. */
#include "store/sqlite/worker.h"
#include "os/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int open_wakeup(struct bw_sqlite_worker *worker)
{
    if (worker->wakeup_fd >= 0)
        close(worker->wakeup_fd);
    worker->wakeup_fd = worker->paths.readonly
                            ? bw_sqlite_side_open_readonly(&worker->paths, BW_SQLITE_WAKEUP)
                            : bw_sqlite_side_open(&worker->paths, BW_SQLITE_WAKEUP);
    return worker->wakeup_fd < 0 ? BW_EIO : 0;
}

/* Wakes all processes that watch the directory. A lost wake-up only delays a watcher. */
static void wake_watchers(struct bw_sqlite_worker *worker)
{
    struct stat st;
    if (fstat(worker->wakeup_fd, &st) != 0 || st.st_nlink == 0)
        open_wakeup(worker);
    (void)!pwrite(worker->wakeup_fd, "", 1, 0);
}

static int open_side_files(struct bw_sqlite_worker *worker, char *why)
{
    if (open_wakeup(worker) != 0)
        return bw_store_explain(why, bw_sqlite_error_of(errno),
                                "cannot open %s.locks/" BW_SQLITE_WAKEUP ": %s",
                                worker->paths.shown, strerror(errno));
    struct flock probe = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
    if (fcntl(worker->wakeup_fd, F_OFD_GETLK, &probe) != 0)
        return bw_store_explain(why, BW_EUNSUPPORTED,
                                "cannot use %s: its file system does not support locks: %s",
                                worker->paths.shown, strerror(errno));
    return 0;
}

int bw_sqlite_worker_open(struct bw_sqlite_worker *worker, const char *url,
                          enum bw_sqlite_access wanted, char *why)
{
    uint64_t seed = 0;
    memset(worker, 0, sizeof *worker);
    worker->wakeup_fd = worker->alive_fd = -1;
    bw_sqlite_claims_init(&worker->claims);
    int error = bw_sqlite_paths_open(&worker->paths, url, wanted, why);
    if (error)
        return error;
    bw_sqlite_place_read(&worker->place);
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        seed = (uint64_t)bw_clock_boot() ^ (uint64_t)getpid() << 32;
    bw_rng_init(&worker->db.rng, seed);
    worker->db.paths = &worker->paths;
    worker->db.stop = &worker->stop;
    worker->db.busy_ns = BW_SQLITE_BUSY_NS;
    error = bw_sqlite_db_open(&worker->db, why);
    if (!error)
        error = open_side_files(worker, why);
    if (!error && uv_mutex_init(&worker->mutex) != 0)
        error = BW_ENOMEM;
    if (error) {
        if (worker->db.handle)
            bw_sqlite_db_close(&worker->db);
        if (worker->wakeup_fd >= 0)
            close(worker->wakeup_fd);
    }
    return error;
}

/* Keeps the locks of leaderships that were not released: their work may still run in this
 * process. */
void bw_sqlite_worker_close(struct bw_sqlite_worker *worker)
{
    if (worker->db.handle)
        bw_sqlite_db_close(&worker->db);
    if (worker->wakeup_fd >= 0)
        close(worker->wakeup_fd);
    if (worker->alive_fd >= 0)
        close(worker->alive_fd);
    bw_sqlite_claims_close(&worker->claims);
    for (uint32_t i = 0; i < worker->bucket_count; i++)
        while (worker->buckets[i]) {
            struct bw_sqlite_entry *entry = worker->buckets[i];
            worker->buckets[i] = entry->chain;
            free(entry);
        }
    free(worker->buckets);
    uv_mutex_destroy(&worker->mutex);
}

static bool writes(enum bw_store_op op)
{
    return op != BW_STORE_READ && op != BW_STORE_WATCH && op != BW_STORE_LIST &&
           op != BW_STORE_ELECTIONS;
}

/* The database may have been moved, removed or restored from a copy. Only the file at the path
 * counts, because other processes will open that one. */
static int ensure_open(struct bw_sqlite_worker *worker, char *why)
{
    if (bw_sqlite_paths_check(&worker->paths, why) == 0 && bw_sqlite_db_is_current(&worker->db))
        return 0;
    if (worker->db.handle)
        bw_sqlite_db_close(&worker->db);
    worker->seen_known = false;
    struct bw_sqlite_paths now;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", worker->paths.db);
    if (access(path, F_OK) != 0) /* never create it again silently */
        return bw_store_explain(why, BW_EIO, "cannot find the database %s: %s", worker->paths.shown,
                                strerror(errno));
    enum bw_sqlite_access wanted = worker->paths.readonly ? BW_SQLITE_READS : BW_SQLITE_WRITES;
    int error = bw_sqlite_paths_open(&now, path, wanted, why);
    if (error)
        return error;
    if (now.ino != worker->paths.ino && worker->alive_fd >= 0) {
        close(worker->alive_fd);
        worker->alive_fd = -1;
    }
    worker->paths = now;
    error = bw_sqlite_db_open(&worker->db, why);
    return error ? error : open_side_files(worker, why);
}

static void fail(struct bw_sqlite_task *task, enum bw_outcome outcome, int error, const char *why)
{
    if (task->reply) {
        free((void *)task->reply->candidates);
        free((void *)task->reply->elections);
    } else {
        task->reply = malloc(sizeof *task->reply);
    }
    if (!task->reply)
        return;
    memset(task->reply, 0, sizeof *task->reply);
    task->reply->id = task->request.id;
    task->reply->op = task->request.op;
    task->reply->outcome = outcome;
    task->reply->error = error;
    snprintf(task->reply->why, sizeof task->reply->why, "%s", why);
}

/* All requests of the job fail together, whether they were already decided or not. */
static void fail_all(struct bw_sqlite_job *job, bool uncertain, int error, const char *why)
{
    for (struct bw_sqlite_task *task = job->done.first; task; task = task->next)
        fail(task,
             uncertain && writes(task->request.op) ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE,
             error, why);
    struct bw_sqlite_task *task;
    while ((task = bw_sqlite_list_take(&job->tasks))) {
        fail(task, BW_OUTCOME_UNAVAILABLE, error, why);
        bw_sqlite_list_add(&job->done, task);
    }
}

/* Does one of the ACQUIREs need a synced commit? Tested before any change, because SQLite cannot
 * change this setting inside a transaction. */
static int needs_sync(struct bw_sqlite_worker *worker, const struct bw_sqlite_job *job, bool *sync)
{
    struct bw_sqlite_row row;
    for (struct bw_sqlite_task *task = job->tasks.first; task && !*sync; task = task->next) {
        if (task->request.op != BW_STORE_ACQUIRE)
            continue;
        int result = bw_sqlite_db_load(&worker->db, task->request.election, &row);
        if (result)
            return result;
        *sync = !worker->place.boot[0] || row.record.token >= row.reserved ||
                strcmp(row.reserved_boot, worker->place.boot) != 0;
    }
    return 0;
}

static bool is_writing(const struct bw_sqlite_job *job)
{
    for (const struct bw_sqlite_task *task = job->tasks.first; task; task = task->next)
        if (writes(task->request.op))
            return true;
    return false;
}

/* SQLite's lock has no queue: a process that takes it again and again immediately leaves the others
 * hardly any moment in which it is free. */
static void yield_to_others(const struct bw_sqlite_worker *worker, const struct bw_sqlite_job *job)
{
    bw_time pause = worker->others_until - bw_clock_boot();
    if (pause <= 0 || pause > BW_SQLITE_YIELD_NS || job->urgent || !is_writing(job))
        return;
    nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
}

static int begin(struct bw_sqlite_worker *worker, const struct bw_sqlite_job *job)
{
    bool write = is_writing(job), sync = worker->force_sync;
    worker->transactions++;
    worker->writing = write;
    int result = bw_sqlite_db_sync(&worker->db, sync);
    if (result == 0)
        result = bw_sqlite_db_begin(&worker->db, write);
    if (result == 0 && write && !sync)
        result = needs_sync(worker, job, &sync);
    if (result == 0 && sync && !worker->db.full) {
        bw_sqlite_db_rollback(&worker->db);
        result = bw_sqlite_db_sync(&worker->db, true);
        if (result == 0)
            result = bw_sqlite_db_begin(&worker->db, write);
    }
    worker->force_sync = false;
    return result;
}

static int carry_out(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job)
{
    struct bw_sqlite_task *task;
    int result = 0;
    while (result == 0 && (task = bw_sqlite_list_take(&job->tasks))) {
        result = bw_sqlite_execute(worker, job, task);
        if (result)
            bw_sqlite_list_add(&job->done, task);
    }
    return result ? result : bw_sqlite_watches_read(worker, job);
}

static void roll_back(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job, int result,
                      bool committing)
{
    char why[BW_WHY_MAX + 1];
    int error = bw_sqlite_db_explain(&worker->db, result, why);
    bool uncertain = committing && (result & 0xff) == SQLITE_IOERR;
    bw_sqlite_db_rollback(&worker->db);
    bw_sqlite_entries_settle(worker, uncertain ? BW_SQLITE_UNCERTAIN : BW_SQLITE_ROLLED_BACK);
    fail_all(job, uncertain, error, why);
    if (bw_sqlite_db_broken(result))
        bw_sqlite_db_close(&worker->db);
}

static void transact(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job)
{
    uint64_t seen = worker->seen;
    bool seen_known = worker->seen_known, committing = false;
    worker->changed = false;
    yield_to_others(worker, job);
    int result = begin(worker, job);
    bw_time begun = bw_clock_boot();
    if (result == 0)
        result = carry_out(worker, job);
    if (result == 0) {
        committing = true;
        result = bw_sqlite_db_commit(&worker->db);
    }
    bw_time ended = bw_clock_boot();
    if (ended - begun > BW_SQLITE_LONG_NS)
        worker->others_until = ended + BW_SQLITE_YIELD_NS;
    if (result) {
        worker->seen = seen;
        worker->seen_known = seen_known && worker->seen_known;
        roll_back(worker, job, result, committing);
        return;
    }
    bw_sqlite_entries_settle(worker, BW_SQLITE_COMMITTED);
    if (worker->changed)
        wake_watchers(worker);
}

/* A clean RELEASE confirms that the work is dead, whether or not the database could be written. */
static void drop_claims(struct bw_sqlite_worker *worker, const struct bw_sqlite_job *job)
{
    for (const struct bw_sqlite_task *task = job->done.first; task; task = task->next)
        if (task->request.op == BW_STORE_RELEASE && task->request.clean)
            bw_sqlite_entry_unclaim(worker, task->request.election, task->request.token);
}

void bw_sqlite_work(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job)
{
    char why[BW_WHY_MAX + 1] = "";
    if (job->sweep)
        bw_sqlite_watches_sweep(worker, job, false);
    int error = ensure_open(worker, why);
    if (error) { /* watches fail too: a holder must know immediately */
        bw_sqlite_watches_sweep(worker, job, true);
        fail_all(job, false, error, why);
    } else {
        transact(worker, job);
    }
    drop_claims(worker, job);
    job->again_ns = bw_sqlite_watches_next(worker);
    bw_time poll = bw_time_max(worker->shortest_ttl / 3, 10 * BW_MS);
    job->poll_ns = worker->watch_count == 0 ? 0 : worker->shortest_ttl ? poll : BW_SEC;
}
