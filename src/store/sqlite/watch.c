/* WATCH requests: they wait for a changed record or for a holder that is proved dead.
 *
 * Changes are found by version. Every change gives its row the next version of the whole database,
 * so one query for versions above the last one seen finds all changes.
 *
 * A death changes no row. The worker tests the holder's lock when the lock file has an event. The
 * kernel reports the last close shortly before it drops the lock. If the lock is still held, the
 * worker tests it again a few times, soon. */
#include "os/clock.h"
#include "os/grow.h"
#include "store/sqlite/worker.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#define TESTS           6u            /* tests after a close event ... */
#define FIRST_TEST_NS   (BW_MS / 2)   /* ... at 0.5, 1.5, 3.5, ... ms */
#define REPORT_AGAIN_NS (100 * BW_MS) /* minimum interval between two reports of the same death */
#define POLL_DEFAULT_NS BW_SEC        /* poll interval if there is no holder */
#define MARKED          (1ull << 63)  /* no saved version has this bit: SQLite has signed numbers */

static void test_later(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry, bw_time at)
{
    if (entry->test_at == 0 || at < entry->test_at)
        entry->test_at = at;
    worker->test_pending = true;
}

/* Does a free lock prove that the holder in this row is dead? A reader's row may be outdated: since
 * its transaction began, the holder may have released properly, which frees the lock after the
 * commit. If a later transaction still reads the same row, the holder has not released. */
static bool proves_death(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry,
                         const struct bw_sqlite_row *row, bool lock_free)
{
    if (!lock_free || !row->record.held || !entry || !bw_sqlite_lock_proves(row))
        return false;
    if (worker->writing)
        return true;
    if (entry->free_version == row->record.version && entry->free_in != worker->transactions)
        return true;
    entry->free_version = row->record.version;
    entry->free_in = worker->transactions;
    test_later(worker, entry, bw_clock_boot());
    return false;
}

static bool may_report_death(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry,
                             const struct bw_sqlite_row *row)
{
    bw_time now = bw_clock_boot();
    bw_time pause = bw_time_max(row->record.ttl_ns / 3, REPORT_AGAIN_NS);
    if (entry->death_version == row->record.version &&
        now < bw_time_add(entry->death_reported_at, pause)) {
        test_later(worker, entry, bw_time_add(entry->death_reported_at, pause));
        return false;
    }
    entry->death_version = row->record.version;
    entry->death_reported_at = now;
    return true;
}

/* The row has changed: a death reported for its earlier version no longer counts. */
static void forget_death(struct bw_sqlite_entry *entry, const struct bw_sqlite_row *row)
{
    if (entry && entry->death_version != row->record.version)
        entry->death_version = 0;
}

static void note_ttl(struct bw_sqlite_worker *worker, const struct bw_sqlite_row *row)
{
    bw_time ttl = row->record.held ? row->record.ttl_ns : 3 * POLL_DEFAULT_NS;
    if (worker->shortest_ttl == 0 || ttl < worker->shortest_ttl)
        worker->shortest_ttl = ttl;
}

static bool is_marked_released(const struct bw_sqlite_row *row, const struct bw_sqlite_mark *mark)
{
    return mark->released && mark->token == row->record.token;
}

/* Reads the row for a watch. A process without write permission cannot save a guardian's release,
 * so the saved version stays. Its watches see a version of their own: they are answered once. */
static int read_row(struct bw_sqlite_worker *worker, const char *election,
                    struct bw_sqlite_row *row, struct bw_sqlite_mark *mark, bool *lock_free)
{
    int result = bw_sqlite_read(worker, election, row, mark, lock_free);
    if (result == 0 && worker->paths.readonly && is_marked_released(row, mark))
        row->record.version |= MARKED;
    return result;
}

int bw_sqlite_watch(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                    struct bw_sqlite_task *task)
{
    struct bw_sqlite_row row;
    struct bw_sqlite_mark mark;
    bool lock_free;
    const char *election = task->request.election;
    int result = read_row(worker, election, &row, &mark, &lock_free);
    if (result)
        return result;
    struct bw_sqlite_entry *entry = bw_sqlite_entry_get(worker, election);
    bool changed = row.record.version != task->request.version;
    forget_death(entry, &row);
    if (!entry && !changed)
        return SQLITE_NOMEM;
    bool dead = proves_death(worker, entry, &row, lock_free);
    if (!changed && dead)
        changed = may_report_death(worker, entry, &row);
    if (changed) {
        bw_sqlite_answer(worker, job, task, BW_OUTCOME_DONE, &row, dead);
        if (entry)
            bw_sqlite_entry_tidy(worker, entry);
        return 0;
    }
    if (!worker->seen_known) {
        result = bw_sqlite_db_last_version(&worker->db, &worker->seen);
        if (result)
            return result;
        worker->seen_known = true;
    }
    note_ttl(worker, &row);
    task->next = entry->watches;
    entry->watches = task;
    worker->watch_count++;
    return 0;
}

/* Answers those watches of an entry for which the row has changed. */
static void answer_watches(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                           struct bw_sqlite_entry *entry, const struct bw_sqlite_row *row,
                           bool lock_free)
{
    forget_death(entry, row);
    bool dead = proves_death(worker, entry, row, lock_free);
    bool report_death = dead && may_report_death(worker, entry, row);
    struct bw_sqlite_task **at = &entry->watches;
    while (*at) {
        struct bw_sqlite_task *task = *at;
        if (task->request.version == row->record.version && !report_death) {
            at = &task->next;
            continue;
        }
        *at = task->next;
        worker->watch_count--;
        bw_sqlite_answer(worker, job, task, BW_OUTCOME_DONE, row, dead);
    }
    if (entry->watches)
        note_ttl(worker, row);
}

/* `event`: the lock file was written to or closed. */
static int read_entry(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                      struct bw_sqlite_entry *entry, bool event)
{
    struct bw_sqlite_row row;
    struct bw_sqlite_mark mark;
    bool lock_free;
    entry->test_at = 0;
    int result = read_row(worker, entry->name, &row, &mark, &lock_free);
    if (result)
        return result;
    answer_watches(worker, job, entry, &row, lock_free);
    bool ours = entry->fd >= 0 && entry->token == row.record.token;
    bool waits =
        row.record.held && !ours && !lock_free && bw_sqlite_same_place(&row, &worker->place);
    bool unsaved = is_marked_released(&row, &mark);
    if (event)
        entry->tests_left = TESTS;
    if (entry->tests_left > 0 && (waits || unsaved) && entry->watches) {
        bw_time pause = FIRST_TEST_NS << (TESTS - entry->tests_left);
        test_later(worker, entry, bw_clock_boot() + pause);
        entry->tests_left--;
    }
    bw_sqlite_entry_tidy(worker, entry);
    return 0;
}

struct changes {
    struct bw_sqlite_worker *worker;
    struct bw_sqlite_entry **at;
    size_t count, cap;
    uint64_t last;
};

static int collect(void *context, const char *election, struct bw_sqlite_row *row)
{
    struct changes *changes = context;
    changes->last = row->record.version;
    struct bw_sqlite_entry *entry = bw_sqlite_entry_find(changes->worker, election);
    if (!entry || !entry->watches)
        return 0;
    if (!bw_grow(&changes->at, &changes->cap, changes->count + 1, 16,
                 sizeof(struct bw_sqlite_entry *)))
        return SQLITE_NOMEM;
    changes->at[changes->count++] = entry;
    return 0;
}

static int read_changes(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job)
{
    struct changes changes = {.worker = worker, .last = worker->seen};
    int result = bw_sqlite_db_changed(&worker->db, worker->seen, &changes, collect);
    for (size_t i = 0; i < changes.count && result == 0; i++)
        result = read_entry(worker, job, changes.at[i], false);
    free(changes.at);
    if (result == 0)
        worker->seen = changes.last;
    return result;
}

/* Reads all entries that are due, or all entries with watches. */
static int read_due(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job, bool all)
{
    bw_time now = bw_clock_boot();
    int result = 0;
    worker->test_pending = false;
    for (uint32_t i = 0; i < worker->bucket_count && result == 0; i++)
        for (struct bw_sqlite_entry *entry = worker->buckets[i], *next; entry; entry = next) {
            next = entry->chain;
            bool due = entry->test_at != 0 && now >= entry->test_at;
            if (entry->watches && (due || all) && result == 0)
                result = read_entry(worker, job, entry, all);
            else if (entry->test_at != 0)
                worker->test_pending = true;
        }
    return result;
}

int bw_sqlite_watches_read(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job)
{
    if (worker->watch_count == 0) {
        worker->seen_known = false;
        worker->shortest_ttl = 0;
        return 0;
    }
    bool all = job->read_all || !worker->seen_known;
    int result = 0;
    if (!worker->seen_known)
        result = bw_sqlite_db_last_version(&worker->db, &worker->seen);
    worker->seen_known = result == 0;
    if (all)
        worker->shortest_ttl = 0;
    if (result == 0)
        result = read_changes(worker, job);
    for (unsigned i = 0; i < job->names && result == 0; i++) {
        struct bw_sqlite_entry *entry = bw_sqlite_entry_find(worker, job->name[i]);
        if (entry && entry->watches)
            result = read_entry(worker, job, entry, true);
    }
    if (result == 0 && (all || worker->test_pending))
        result = read_due(worker, job, all);
    return result;
}

void bw_sqlite_watches_sweep(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job, bool all)
{
    for (uint32_t i = 0; i < worker->bucket_count; i++)
        for (struct bw_sqlite_entry *entry = worker->buckets[i], *next; entry; entry = next) {
            next = entry->chain;
            struct bw_sqlite_task **at = &entry->watches;
            while (*at) {
                struct bw_sqlite_task *task = *at;
                if (!all && !atomic_load(&task->cancelled)) {
                    at = &task->next;
                    continue;
                }
                *at = task->next;
                worker->watch_count--;
                bw_sqlite_list_add(&job->done, task);
            }
            bw_sqlite_entry_tidy(worker, entry);
        }
}

bw_time bw_sqlite_watches_next(struct bw_sqlite_worker *worker)
{
    bw_time next = BW_TIME_NEVER, now = bw_clock_boot();
    for (uint32_t i = 0; worker->test_pending && i < worker->bucket_count; i++)
        for (struct bw_sqlite_entry *entry = worker->buckets[i]; entry; entry = entry->chain)
            if (entry->test_at != 0 && entry->watches)
                next = bw_time_min(next, entry->test_at);
    return next == BW_TIME_NEVER ? 0 : bw_time_max(next - now, 1);
}
