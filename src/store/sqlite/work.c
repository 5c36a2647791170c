/* The worker's side: one job, one transaction, and what becomes of its requests when that fails.
 *
 * Nothing is answered before the commit is known. A failure before the commit has changed nothing:
 * UNAVAILABLE. A commit that failed on its way to the disk may yet turn up in the log when it is
 * recovered: UNKNOWN, and the connection is opened anew before anything else is said. */
#include "store/sqlite/work.h"

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

static int open_bell(struct bw_sqlite_worker *worker)
{
    if (worker->bell_fd >= 0)
        close(worker->bell_fd);
    worker->bell_fd = bw_sqlite_side_open(&worker->paths, BW_SQLITE_BELL);
    return worker->bell_fd < 0 ? BW_EIO : 0;
}

/* Everybody who watches the directory hears it. A lost bell costs a watcher its speed, nothing
 * else.
 */
static void ring(struct bw_sqlite_worker *worker)
{
    struct stat st;
    if (fstat(worker->bell_fd, &st) != 0 || st.st_nlink == 0)
        open_bell(worker);
    (void)!pwrite(worker->bell_fd, "", 1, 0);
}

static int open_side_files(struct bw_sqlite_worker *worker, char *why)
{
    if (open_bell(worker) != 0)
        return bw_store_say(why, bw_sqlite_error_of(errno),
                            "cannot open %s.locks/" BW_SQLITE_BELL ": %s", worker->paths.shown,
                            strerror(errno));
    struct flock probe = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
    if (fcntl(worker->bell_fd, F_OFD_GETLK, &probe) != 0)
        return bw_store_say(why, BW_EUNSUPPORTED, "%s: this file system has no locks: %s",
                            worker->paths.shown, strerror(errno));
    return 0;
}

int bw_sqlite_worker_open(struct bw_sqlite_worker *worker, const char *url, char *why)
{
    uint64_t seed = 0;
    memset(worker, 0, sizeof *worker);
    worker->bell_fd = worker->alive_fd = -1;
    bw_sqlite_claims_init(&worker->claims);
    int error = bw_sqlite_paths_open(&worker->paths, url, why);
    if (error)
        return error;
    bw_sqlite_place_read(&worker->place);
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        seed = (uint64_t)bw_sqlite_now() ^ (uint64_t)getpid() << 32;
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
        if (worker->bell_fd >= 0)
            close(worker->bell_fd);
    }
    return error;
}

/* Locks of leaderships that were not released stay: their work may still run in this process. */
void bw_sqlite_worker_close(struct bw_sqlite_worker *worker)
{
    if (worker->db.handle)
        bw_sqlite_db_close(&worker->db);
    if (worker->bell_fd >= 0)
        close(worker->bell_fd);
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
    return op != BW_STORE_READ && op != BW_STORE_WATCH && op != BW_STORE_LIST;
}

/* The database may have been moved, removed or put back under us. Only the file at the path counts:
 * others will open that one. */
static int ensure_open(struct bw_sqlite_worker *worker, char *why)
{
    if (worker->db.handle && bw_sqlite_paths_check(&worker->paths, why) == 0)
        return 0;
    if (worker->db.handle)
        bw_sqlite_db_close(&worker->db);
    worker->seen_known = false;
    struct bw_sqlite_paths now;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", worker->paths.db);
    if (access(path, F_OK) != 0) /* never created again behind the users' back */
        return bw_store_say(why, BW_EIO, "the database is gone: %s: %s", worker->paths.shown,
                            strerror(errno));
    int error = bw_sqlite_paths_open(&now, path, why);
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
    if (!task->reply)
        task->reply = malloc(sizeof *task->reply);
    else
        free((void *)task->reply->candidates);
    if (!task->reply)
        return;
    memset(task->reply, 0, sizeof *task->reply);
    task->reply->id = task->request.id;
    task->reply->op = task->request.op;
    task->reply->outcome = outcome;
    task->reply->error = error;
    snprintf(task->reply->why, sizeof task->reply->why, "%s", why);
}

/* All requests of the job, answered or not, share its fate. */
static void fail_all(struct bw_sqlite_job *job, bool in_doubt, int error, const char *why)
{
    for (struct bw_sqlite_task *task = job->done.first; task; task = task->next)
        fail(task,
             in_doubt && writes(task->request.op) ? BW_OUTCOME_UNKNOWN : BW_OUTCOME_UNAVAILABLE,
             error, why);
    struct bw_sqlite_task *task;
    while ((task = bw_sqlite_list_take(&job->tasks))) {
        fail(task, BW_OUTCOME_UNAVAILABLE, error, why);
        bw_sqlite_list_add(&job->done, task);
    }
}

/* Does one of the acquisitions need a synced commit? Asked before anything is changed, because
 * SQLite cannot change its mind inside a transaction. */
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

/* SQLite's lock is no queue: whoever takes it again at once, time after time, leaves the others
 * hardly a moment in which to find it free. */
static void let_others(const struct bw_sqlite_worker *worker, const struct bw_sqlite_job *job)
{
    bw_time pause = worker->others_until - bw_sqlite_now();
    if (pause <= 0 || pause > BW_SQLITE_BREATH_NS || job->urgent || !is_writing(job))
        return;
    nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
}

static int begin(struct bw_sqlite_worker *worker, const struct bw_sqlite_job *job)
{
    bool write = is_writing(job), sync = worker->insist;
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
    worker->insist = false;
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
    return result ? result : bw_sqlite_watches_look(worker, job);
}

static void give_up(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job, int result,
                    bool committing)
{
    char why[BW_WHY_MAX + 1];
    int error = bw_sqlite_db_explain(&worker->db, result, why);
    bool in_doubt = committing && (result & 0xff) == SQLITE_IOERR;
    bw_sqlite_db_rollback(&worker->db);
    bw_sqlite_entries_settle(worker, in_doubt ? BW_SQLITE_IN_DOUBT : BW_SQLITE_ROLLED_BACK);
    fail_all(job, in_doubt, error, why);
    if (bw_sqlite_db_broken(result))
        bw_sqlite_db_close(&worker->db);
}

static void transact(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job)
{
    uint64_t seen = worker->seen;
    bool seen_known = worker->seen_known, committing = false;
    worker->changed = false;
    let_others(worker, job);
    int result = begin(worker, job);
    bw_time begun = bw_sqlite_now();
    if (result == 0)
        result = carry_out(worker, job);
    if (result == 0) {
        committing = true;
        result = bw_sqlite_db_commit(&worker->db);
    }
    bw_time ended = bw_sqlite_now();
    if (ended - begun > BW_SQLITE_LONG_NS)
        worker->others_until = ended + BW_SQLITE_BREATH_NS;
    if (result) {
        worker->seen = seen;
        worker->seen_known = seen_known && worker->seen_known;
        give_up(worker, job, result, committing);
        return;
    }
    bw_sqlite_entries_settle(worker, BW_SQLITE_COMMITTED);
    if (worker->changed)
        ring(worker);
}

/* The work of these is dead, whether or not the database could be told. */
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
    if (error) { /* who only waits is told, too: a holder wants to know at once */
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
