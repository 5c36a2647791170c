/* One request inside a transaction: load, decide (rules.c), lock, save, answer. */
#include "store/sqlite/worker.h"

#include "core/base/bug.h"
#include "os/clock.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads the mark and the state of the lock. Our own lock needs no test: we hold it. */
static void inspect(struct bw_sqlite_worker *worker, const char *election,
                    const struct bw_sqlite_row *row, struct bw_sqlite_mark *mark, bool *lock_free)
{
    struct bw_sqlite_entry *entry = bw_sqlite_entry_find(worker, election);
    if (entry && entry->fd >= 0 && entry->token == row->record.token) {
        bw_sqlite_mark_read(entry->fd, mark);
        *lock_free = false;
    } else if (entry && entry->fresh_fd >= 0 && entry->fresh_token == row->record.token) {
        *mark = (struct bw_sqlite_mark){.token = entry->fresh_token};
        *lock_free = false;
    } else {
        bw_sqlite_inspect(&worker->paths, row, election, &worker->place, mark, lock_free);
    }
}

static int save(struct bw_sqlite_worker *worker, const char *election, struct bw_sqlite_row *row,
                enum bw_sqlite_change change)
{
    worker->changed = true;
    return bw_sqlite_db_save(&worker->db, election, row, change);
}

/* Saves a guardian's release. If another writer was faster, this reader cannot write now: it
 * reports what it sees, under the current version, and a watch reads again soon. */
static int save_fold(struct bw_sqlite_worker *worker, const char *election,
                     struct bw_sqlite_row *row)
{
    uint64_t version = row->record.version;
    bool changed = worker->changed;
    if (worker->paths.readonly)
        return 0; /* a process that may write saves it; watch.c reports it */
    int result = save(worker, election, row, BW_SQLITE_ALL);
    if ((result & 0xff) != SQLITE_BUSY)
        return result;
    row->record.version = version;
    worker->changed = changed;
    return 0;
}

int bw_sqlite_read(struct bw_sqlite_worker *worker, const char *election, struct bw_sqlite_row *row,
                   struct bw_sqlite_mark *mark, bool *lock_free)
{
    int result = bw_sqlite_db_load(&worker->db, election, row);
    if (result)
        return result;
    inspect(worker, election, row, mark, lock_free);
    if (bw_sqlite_fold(row, mark))
        result = save_fold(worker, election, row);
    if (result == 0)
        bw_sqlite_entry_outdated(worker, election, row);
    return result;
}

void bw_sqlite_answer(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                      struct bw_sqlite_task *task, enum bw_outcome outcome,
                      const struct bw_sqlite_row *row, bool lock_free)
{
    if (task->reply) {
        task->reply->outcome = outcome;
        if (row)
            bw_sqlite_present(row, &worker->place, lock_free, bw_clock_boot(),
                              &task->reply->record);
    }
    bw_sqlite_list_add(&job->done, task);
}

static void explain(struct bw_sqlite_task *task, int error, const char *why, const char *detail)
{
    task->reply->error = error;
    snprintf(task->reply->why, sizeof task->reply->why, "%s%s%s", why, detail ? ": " : "",
             detail ? detail : "");
}

static struct bw_sqlite_verdict decide(struct bw_sqlite_worker *worker,
                                       const struct bw_store_request *request,
                                       struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark)
{
    switch (request->op) {
    case BW_STORE_ACQUIRE:
        return bw_sqlite_acquire(row, request, &worker->place, mark, bw_clock_boot());
    case BW_STORE_RENEW:
        return bw_sqlite_renew(row, request, bw_clock_boot());
    case BW_STORE_RELEASE:
        return bw_sqlite_release(row, request);
    case BW_STORE_NOTE:
        return bw_sqlite_note(row, request);
    default: /* read-only */
        return (struct bw_sqlite_verdict){.outcome = BW_OUTCOME_DONE};
    }
}

static void explain_lock_failure(struct bw_sqlite_task *task, int error)
{
    bool short_of = bw_sqlite_error_of(error) == BW_ENOMEM;
    explain(task, short_of ? BW_ELIMIT : BW_EIO, "cannot lock the election's file",
            strerror(error));
}

/* True if the mark has a higher token than the database and a process still supervises that
 * leadership. */
static bool is_marked(struct bw_sqlite_worker *worker, const char *election,
                      const struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark)
{
    char file[BW_SQLITE_FILE_MAX + 1];
    if (mark->token <= row->record.token || mark->released)
        return false;
    bw_sqlite_file_name(election, file);
    int fd = bw_sqlite_side_open_readonly(&worker->paths, file);
    bool held = fd < 0 || bw_sqlite_lock_held(fd, mark->token); /* unknown: assume held */
    if (fd >= 0)
        close(fd);
    return held;
}

/* Checks once per transaction: after it has begun, no process can begin to claim the old database
 * (claim.c). */
static int check_claims(struct bw_sqlite_worker *worker, bool *claimed)
{
    int error = 0;
    if (worker->claims_seen_in != worker->transactions)
        error = bw_sqlite_claims_check(&worker->paths, &worker->claimed_elsewhere);
    if (error == 0)
        worker->claims_seen_in = worker->transactions;
    *claimed = worker->claimed_elsewhere;
    return error;
}

/* True if the database was removed or replaced while a leader runs. That leader notices by file
 * events and stops its work. */
static bool is_led_elsewhere(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task,
                             const struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark)
{
    bool claimed;
    int error = check_claims(worker, &claimed);
    if (error) { /* unknown: do not acquire */
        explain_lock_failure(task, error);
        return true;
    }
    bool led = claimed || is_marked(worker, task->request.election, row, mark);
    if (led)
        explain(task, BW_EBUSY,
                "the database was removed or replaced while a leader runs; waiting for that leader "
                "to stop",
                NULL);
    return led;
}

/* A leader whose database was replaced has stopped its work. Writes its token into the mark, so
 * that the next token is higher. */
static void save_token(struct bw_sqlite_worker *worker, const struct bw_store_request *request,
                       const struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark)
{
    char file[BW_SQLITE_FILE_MAX + 1];
    if (request->token <= row->record.token || request->token <= mark->token)
        return;
    bw_sqlite_file_name(request->election, file);
    int fd = bw_sqlite_side_open(&worker->paths, file);
    if (fd < 0)
        return;
    bw_sqlite_mark_write(fd, &(struct bw_sqlite_mark){.token = request->token, .released = true});
    close(fd);
}

/* Prepares a new leadership. It needs a lock, a readable mark (which may have a higher token than
 * the database), and tokens that are reserved on disk. Returns true if it has all three. */
static bool prepare_leadership(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task,
                               struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark,
                               enum bw_sqlite_change change)
{
    if (mark->unread && !BW_BUG(store_ignores_unread_marks)) {
        explain_lock_failure(task, mark->unread);
        return false;
    }
    if (change == BW_SQLITE_SYNC && !worker->db.full) {
        worker->force_sync = true;
        explain(task, BW_EBUSY, "the token counter must be synced to disk first; try again", NULL);
        return false;
    }
    row->pid = getpid();
    int error = bw_sqlite_claim_take(&worker->claims, &worker->paths);
    if (error == ESTALE) {
        explain(task, BW_EBUSY, "the database was removed or replaced just now", NULL);
        return false;
    }
    if (error == 0 && (error = bw_sqlite_entry_lock(worker, task->request.election, row)) != 0)
        bw_sqlite_claim_drop(&worker->claims);
    if (error)
        explain_lock_failure(task, error);
    return error == 0;
}

static int change_row(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                      struct bw_sqlite_task *task)
{
    struct bw_sqlite_row row, before;
    struct bw_sqlite_mark mark;
    bool lock_free;
    const char *election = task->request.election;
    int result = bw_sqlite_read(worker, election, &row, &mark, &lock_free);
    if (result)
        return result;
    before = row;
    struct bw_sqlite_verdict verdict = decide(worker, &task->request, &row, &mark);
    bool took = task->request.op == BW_STORE_ACQUIRE && verdict.change != BW_SQLITE_SAME;
    if (task->request.op == BW_STORE_RELEASE && verdict.outcome == BW_OUTCOME_REFUSED)
        save_token(worker, &task->request, &before, &mark);
    if (took && (is_led_elsewhere(worker, task, &before, &mark) ||
                 !prepare_leadership(worker, task, &row, &mark, verdict.change))) {
        bw_sqlite_answer(worker, job, task, BW_OUTCOME_UNAVAILABLE, &before, lock_free);
        return 0;
    }
    if (verdict.change != BW_SQLITE_SAME) {
        result = save(worker, election, &row, verdict.change);
        bw_sqlite_entry_outdated(worker, election, &row);
    }
    if (result)
        return result;
    if (verdict.why)
        explain(task, verdict.error, verdict.why, NULL);
    bw_sqlite_answer(worker, job, task, verdict.outcome, &row, lock_free && !took);
    return 0;
}

static int change_candidates(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                             struct bw_sqlite_task *task)
{
    struct bw_sqlite_row row;
    struct bw_sqlite_mark mark;
    bool lock_free;
    enum bw_sqlite_entrance entrance = BW_SQLITE_ADMITTED;
    const struct bw_store_request *request = &task->request;
    int result = 0;
    if (request->op == BW_STORE_ENTER)
        result = bw_sqlite_enter(worker, task, &entrance);
    else if (worker->alive_fd >= 0) /* -1: this process has entered no candidate */
        result =
            bw_sqlite_db_leave(&worker->db, request->election, request->candidate, worker->alive);
    if (result == 0)
        result = bw_sqlite_read(worker, request->election, &row, &mark, &lock_free);
    if (result)
        return result;
    if (entrance == BW_SQLITE_FULL)
        explain(task, BW_ELIMIT, "too many candidates", NULL);
    else if (entrance == BW_SQLITE_DUPLICATE)
        explain(task, BW_EBUSY, "another process has already entered a candidate with this id",
                NULL);
    bw_sqlite_answer(worker, job, task,
                     entrance == BW_SQLITE_ADMITTED ? BW_OUTCOME_DONE : BW_OUTCOME_REFUSED, &row,
                     lock_free);
    return 0;
}

static int list(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                struct bw_sqlite_task *task)
{
    int result = bw_sqlite_list_candidates(worker, task);
    if (result == SQLITE_NOMEM) {
        explain(task, BW_ENOMEM, "no memory for the list of candidates", NULL);
        bw_sqlite_answer(worker, job, task, BW_OUTCOME_UNAVAILABLE, NULL, false);
        return 0;
    }
    if (result == 0)
        bw_sqlite_answer(worker, job, task, BW_OUTCOME_DONE, NULL, false);
    return result;
}

static int list_elections(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                          struct bw_sqlite_task *task)
{
    struct bw_election_name *names;
    int result = bw_sqlite_db_elections(&worker->db, &names, &task->reply->count);
    task->reply->elections = names; /* freed with the task */
    if (result == 0)
        bw_sqlite_answer(worker, job, task, BW_OUTCOME_DONE, NULL, false);
    return result;
}

int bw_sqlite_execute(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                      struct bw_sqlite_task *task)
{
    task->reply = calloc(1, sizeof *task->reply);
    /* without a reply, nothing is carried out */
    if (!task->reply || atomic_load(&task->cancelled)) {
        bw_sqlite_list_add(&job->done, task);
        return 0;
    }
    task->reply->id = task->request.id;
    task->reply->op = task->request.op;
    switch (task->request.op) {
    case BW_STORE_WATCH:
        return bw_sqlite_watch(worker, job, task);
    case BW_STORE_ENTER:
    case BW_STORE_LEAVE:
        return change_candidates(worker, job, task);
    case BW_STORE_LIST:
        return list(worker, job, task);
    case BW_STORE_ELECTIONS:
        return list_elections(worker, job, task);
    default:
        return change_row(worker, job, task);
    }
}
