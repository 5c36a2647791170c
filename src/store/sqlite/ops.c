/* One request inside a transaction: load, decide (rules.c), lock, save, answer. */
#include "store/sqlite/work.h"

#include "core/base/bug.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the lock file tells. Our own lock needs no looking for: we hold it. */
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

/* A reader overtaken by a writer cannot write now: it says what it sees, under the version that
 * stands, and a watch looks again soon. */
static int save_fold(struct bw_sqlite_worker *worker, const char *election,
                     struct bw_sqlite_row *row)
{
    uint64_t version = row->record.version;
    bool changed = worker->changed;
    int result = save(worker, election, row, BW_SQLITE_ALL);
    if ((result & 0xff) != SQLITE_BUSY)
        return result;
    row->record.version = version;
    worker->changed = changed;
    return 0;
}

int bw_sqlite_look(struct bw_sqlite_worker *worker, const char *election, struct bw_sqlite_row *row,
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
            bw_sqlite_present(row, &worker->place, lock_free, bw_sqlite_now(),
                              &task->reply->record);
    }
    bw_sqlite_list_add(&job->done, task);
}

static void say(struct bw_sqlite_task *task, int error, const char *why, const char *detail)
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
        return bw_sqlite_acquire(row, request, &worker->place, mark, bw_sqlite_now());
    case BW_STORE_RENEW:
        return bw_sqlite_renew(row, request, bw_sqlite_now());
    case BW_STORE_RELEASE:
        return bw_sqlite_release(row, request);
    case BW_STORE_NOTE:
        return bw_sqlite_note(row, request);
    default: /* read only */
        return (struct bw_sqlite_verdict){.outcome = BW_OUTCOME_DONE};
    }
}

static void say_no_lock(struct bw_sqlite_task *task, int error)
{
    bool short_of = bw_sqlite_error_of(error) == BW_ENOMEM;
    say(task, short_of ? BW_ELIMIT : BW_EIO, "cannot lock the election's file", strerror(error));
}

/* The mark knows a later leadership than the database, and somebody looks after it. */
static bool is_marked(struct bw_sqlite_worker *worker, const char *election,
                      const struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark)
{
    char file[BW_SQLITE_FILE_MAX + 1];
    if (mark->token <= row->record.token || mark->released)
        return false;
    bw_sqlite_file_name(election, file);
    int fd = bw_sqlite_side_look(&worker->paths, file);
    bool held = fd < 0 || bw_sqlite_lock_held(fd, mark->token); /* in doubt: held */
    if (fd >= 0)
        close(fd);
    return held;
}

/* Looked at once per transaction: nobody can begin to claim the old database now (claim.c).
 */
static int look_for_claims(struct bw_sqlite_worker *worker, bool *claimed)
{
    int error = 0;
    if (worker->claims_seen_in != worker->transactions)
        error = bw_sqlite_claims_look(&worker->paths, &worker->claimed_elsewhere);
    if (error == 0)
        worker->claims_seen_in = worker->transactions;
    *claimed = worker->claimed_elsewhere;
    return error;
}

/* The database was removed or replaced under a living holder. It has noticed by file events, and
 * ends its work. */
static bool unknown_holder(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task,
                           const struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark)
{
    bool claimed;
    int error = look_for_claims(worker, &claimed);
    if (error) { /* in doubt nobody leads */
        say_no_lock(task, error);
        return true;
    }
    bool led = claimed || is_marked(worker, task->request.election, row, mark);
    if (led)
        say(task, BW_EBUSY,
            "the database was removed or replaced while somebody leads; waiting for that leader "
            "to stop",
            NULL);
    return led;
}

/* A leader whose database was replaced has ended its work: the next one's token goes on behind. */
static void leave_token(struct bw_sqlite_worker *worker, const struct bw_store_request *request,
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

/* A new leadership needs its lock, a mark that was read (it may know higher tokens than the
 * database), and a disk that knows its tokens. True if it has all three. */
static bool secure(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task,
                   struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark,
                   enum bw_sqlite_change change)
{
    if (mark->unread && !BW_BUG(store_ignores_unread_marks)) {
        say_no_lock(task, mark->unread);
        return false;
    }
    if (change == BW_SQLITE_SYNC && !worker->db.full) {
        worker->insist = true;
        say(task, BW_EBUSY, "the token counter must be synced first; ask again", NULL);
        return false;
    }
    row->pid = getpid();
    int error = bw_sqlite_claim_take(&worker->claims, &worker->paths);
    if (error == ESTALE) {
        say(task, BW_EBUSY, "the database was removed or replaced just now", NULL);
        return false;
    }
    if (error == 0 && (error = bw_sqlite_entry_lock(worker, task->request.election, row)) != 0)
        bw_sqlite_claim_drop(&worker->claims);
    if (error)
        say_no_lock(task, error);
    return error == 0;
}

static int change_row(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                      struct bw_sqlite_task *task)
{
    struct bw_sqlite_row row, before;
    struct bw_sqlite_mark mark;
    bool lock_free;
    const char *election = task->request.election;
    int result = bw_sqlite_look(worker, election, &row, &mark, &lock_free);
    if (result)
        return result;
    before = row;
    struct bw_sqlite_verdict verdict = decide(worker, &task->request, &row, &mark);
    bool took = task->request.op == BW_STORE_ACQUIRE && verdict.change != BW_SQLITE_SAME;
    if (task->request.op == BW_STORE_RELEASE && verdict.outcome == BW_OUTCOME_REFUSED)
        leave_token(worker, &task->request, &before, &mark);
    if (took && (unknown_holder(worker, task, &before, &mark) ||
                 !secure(worker, task, &row, &mark, verdict.change))) {
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
        say(task, verdict.error, verdict.why, NULL);
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
    else if (worker->alive_fd >= 0) /* else this process has entered nobody */
        result =
            bw_sqlite_db_leave(&worker->db, request->election, request->candidate, worker->alive);
    if (result == 0)
        result = bw_sqlite_look(worker, request->election, &row, &mark, &lock_free);
    if (result)
        return result;
    if (entrance == BW_SQLITE_FULL)
        say(task, BW_ELIMIT, "too many candidates", NULL);
    else if (entrance == BW_SQLITE_DUPLICATE)
        say(task, BW_EBUSY, "another process has entered a candidate with this id", NULL);
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
        say(task, BW_ENOMEM, "no memory for the list of candidates", NULL);
        bw_sqlite_answer(worker, job, task, BW_OUTCOME_UNAVAILABLE, NULL, false);
        return 0;
    }
    if (result == 0)
        bw_sqlite_answer(worker, job, task, BW_OUTCOME_DONE, NULL, false);
    return result;
}

int bw_sqlite_execute(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                      struct bw_sqlite_task *task)
{
    task->reply = calloc(1, sizeof *task->reply);
    if (!task->reply || atomic_load(&task->cancelled)) { /* nothing happens without a reply */
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
    default:
        return change_row(worker, job, task);
    }
}
