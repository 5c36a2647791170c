/* Requests that wait for news: a record that changed, or a holder that is proved dead.
 *
 * Changes are found by version: every change gives its row the next number of the whole database,
 * so one look at the numbers above the last one seen finds them all. A death changes no row. It is
 * looked for when the holder's lock file has news; the kernel tells of the last close a moment
 * before it drops the lock, so a lock that is still there is looked at again a few times, soon. */
#include "store/sqlite/work.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS           6u            /* after the news of a close ... */
#define FIRST_LOOK_NS   (BW_MS / 2)   /* ... at 0.5, 1.5, 3.5, ... ms */
#define RETELL_MIN_NS   (100 * BW_MS) /* a death that nobody acts on is told again, not at once */
#define POLL_DEFAULT_NS BW_SEC        /* where nobody holds */

static void look_later(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry, bw_time at)
{
    if (entry->look_at == 0 || at < entry->look_at)
        entry->look_at = at;
    worker->looking = true;
}

/* Does a free lock prove that the holder in this row is dead? A reader's row may be history: since
 * its transaction began the holder may have released in good order, which frees the lock behind the
 * commit. If a later transaction still sees the row, nobody has released it. */
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
    look_later(worker, entry, bw_sqlite_now());
    return false;
}

static bool may_tell_death(struct bw_sqlite_worker *worker, struct bw_sqlite_entry *entry,
                           const struct bw_sqlite_row *row)
{
    bw_time now = bw_sqlite_now();
    bw_time pause = bw_time_max(row->record.ttl_ns / 3, RETELL_MIN_NS);
    if (entry->told_version == row->record.version && now < bw_time_add(entry->told_at, pause)) {
        look_later(worker, entry, bw_time_add(entry->told_at, pause));
        return false;
    }
    entry->told_version = row->record.version;
    entry->told_at = now;
    return true;
}

/* The row moved on: what was told of its holder's death is history. */
static void forget_death(struct bw_sqlite_entry *entry, const struct bw_sqlite_row *row)
{
    if (entry && entry->told_version != row->record.version)
        entry->told_version = 0;
}

static void note_ttl(struct bw_sqlite_worker *worker, const struct bw_sqlite_row *row)
{
    bw_time ttl = row->record.held ? row->record.ttl_ns : 3 * POLL_DEFAULT_NS;
    if (worker->shortest_ttl == 0 || ttl < worker->shortest_ttl)
        worker->shortest_ttl = ttl;
}

int bw_sqlite_watch(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                    struct bw_sqlite_task *task)
{
    struct bw_sqlite_row row;
    struct bw_sqlite_mark mark;
    bool lock_free;
    const char *election = task->request.election;
    int result = bw_sqlite_look(worker, election, &row, &mark, &lock_free);
    if (result)
        return result;
    struct bw_sqlite_entry *entry = bw_sqlite_entry_get(worker, election);
    bool news = row.record.version != task->request.version;
    forget_death(entry, &row);
    if (!entry && !news)
        return SQLITE_NOMEM;
    bool dead = proves_death(worker, entry, &row, lock_free);
    if (!news && dead)
        news = may_tell_death(worker, entry, &row);
    if (news) {
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

/* Answer those watches of an entry for whom the row is news. */
static void answer_watches(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                           struct bw_sqlite_entry *entry, const struct bw_sqlite_row *row,
                           bool lock_free)
{
    forget_death(entry, row);
    bool dead = proves_death(worker, entry, row, lock_free);
    bool tell_death = dead && may_tell_death(worker, entry, row);
    struct bw_sqlite_task **at = &entry->watches;
    while (*at) {
        struct bw_sqlite_task *task = *at;
        if (task->request.version == row->record.version && !tell_death) {
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

/* `news`: the lock file was written to or closed. */
static int look(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job,
                struct bw_sqlite_entry *entry, bool news)
{
    struct bw_sqlite_row row;
    struct bw_sqlite_mark mark;
    bool lock_free;
    entry->look_at = 0;
    int result = bw_sqlite_look(worker, entry->name, &row, &mark, &lock_free);
    if (result)
        return result;
    answer_watches(worker, job, entry, &row, lock_free);
    bool ours = entry->fd >= 0 && entry->token == row.record.token;
    bool waits =
        row.record.held && !ours && !lock_free && bw_sqlite_same_place(&row, &worker->place);
    bool unsaved = mark.released && mark.token == row.record.token && entry->watches;
    if (news)
        entry->looks = LOOKS;
    if (entry->looks > 0 && (waits || unsaved) && entry->watches) {
        bw_time pause = FIRST_LOOK_NS << (LOOKS - entry->looks);
        look_later(worker, entry, bw_sqlite_now() + pause);
        entry->looks--;
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
    if (changes->count == changes->cap) {
        size_t cap = changes->cap ? changes->cap * 2 : 16;
        struct bw_sqlite_entry **at = realloc(changes->at, cap * sizeof(struct bw_sqlite_entry *));
        if (!at)
            return SQLITE_NOMEM;
        changes->at = at;
        changes->cap = cap;
    }
    changes->at[changes->count++] = entry;
    return 0;
}

static int look_at_changes(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job)
{
    struct changes changes = {.worker = worker, .last = worker->seen};
    int result = bw_sqlite_db_changed(&worker->db, worker->seen, &changes, collect);
    for (size_t i = 0; i < changes.count && result == 0; i++)
        result = look(worker, job, changes.at[i], false);
    free(changes.at);
    if (result == 0)
        worker->seen = changes.last;
    return result;
}

/* All entries for which something is due, or all that have watches. */
static int look_around(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job, bool all)
{
    bw_time now = bw_sqlite_now();
    int result = 0;
    worker->looking = false;
    for (uint32_t i = 0; i < worker->bucket_count && result == 0; i++)
        for (struct bw_sqlite_entry *entry = worker->buckets[i], *next; entry; entry = next) {
            next = entry->chain;
            bool due = entry->look_at != 0 && now >= entry->look_at;
            if (entry->watches && (due || all) && result == 0)
                result = look(worker, job, entry, all);
            else if (entry->look_at != 0)
                worker->looking = true;
        }
    return result;
}

int bw_sqlite_watches_look(struct bw_sqlite_worker *worker, struct bw_sqlite_job *job)
{
    if (worker->watch_count == 0) {
        worker->seen_known = false;
        worker->shortest_ttl = 0;
        return 0;
    }
    bool all = job->look_all || !worker->seen_known;
    int result = 0;
    if (!worker->seen_known)
        result = bw_sqlite_db_last_version(&worker->db, &worker->seen);
    worker->seen_known = result == 0;
    if (all)
        worker->shortest_ttl = 0;
    if (result == 0)
        result = look_at_changes(worker, job);
    for (unsigned i = 0; i < job->names && result == 0; i++) {
        struct bw_sqlite_entry *entry = bw_sqlite_entry_find(worker, job->name[i]);
        if (entry && entry->watches)
            result = look(worker, job, entry, true);
    }
    if (result == 0 && (all || worker->looking))
        result = look_around(worker, job, all);
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
    bw_time next = BW_TIME_NEVER, now = bw_sqlite_now();
    for (uint32_t i = 0; worker->looking && i < worker->bucket_count; i++)
        for (struct bw_sqlite_entry *entry = worker->buckets[i]; entry; entry = entry->chain)
            if (entry->look_at != 0 && entry->watches)
                next = bw_time_min(next, entry->look_at);
    return next == BW_TIME_NEVER ? 0 : bw_time_max(next - now, 1);
}
