/* Who contends. A candidate is listed as long as its process lives: each process that enters one
 * keeps a byte of the file `@alive` locked, and the byte's number stands in its candidates' rows.
 * Locks need no renewal and know no reused process ids; rows of another boot are dead by
 * themselves. Order is the order of entering; it tells, it does not bind: candidates race. */
#include "core/base/bug.h"
#include "store/sqlite/work.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct view {
    struct bw_sqlite_worker *worker;
    int alive_fd; /* another description of the file: sees our own locks too */
    struct bw_sqlite_candidate *at;
    size_t count, cap;
    bool keep; /* collect the living; else the dead */
};

static bool lives(const struct view *view, const struct bw_sqlite_candidate *candidate)
{
    const struct bw_sqlite_place *self = &view->worker->place;
    return view->alive_fd >= 0 && strcmp(candidate->boot, self->boot) == 0 &&
           bw_sqlite_lock_held(view->alive_fd, candidate->alive);
}

static int collect(void *context, const struct bw_sqlite_candidate *candidate)
{
    struct view *view = context;
    if (lives(view, candidate) != view->keep)
        return 0;
    if (view->count == view->cap) {
        size_t cap = view->cap ? view->cap * 2 : 8;
        struct bw_sqlite_candidate *at = realloc(view->at, cap * sizeof *at);
        if (!at)
            return SQLITE_NOMEM;
        view->at = at;
        view->cap = cap;
    }
    view->at[view->count++] = *candidate;
    return 0;
}

static int gather(struct bw_sqlite_worker *worker, const char *election, bool keep,
                  struct view *view)
{
    *view = (struct view){.worker = worker,
                          .alive_fd = bw_sqlite_side_look(&worker->paths, BW_SQLITE_ALIVE),
                          .keep = keep};
    int result = bw_sqlite_db_candidates(&worker->db, election, view, collect);
    if (view->alive_fd >= 0)
        close(view->alive_fd);
    return result;
}

/* Our own byte, taken at the first need. */
static bool be_alive(struct bw_sqlite_worker *worker)
{
    if (worker->alive_fd >= 0)
        return true;
    int fd = bw_sqlite_side_open(&worker->paths, BW_SQLITE_ALIVE);
    for (int tries = 0; fd >= 0 && tries < 16; tries++) {
        worker->alive = bw_rng_next(&worker->db.rng) & INT64_MAX >> 1;
        if (bw_sqlite_lock_take(fd, worker->alive) == 0) {
            worker->alive_fd = fd;
            return true;
        }
    }
    if (fd >= 0)
        close(fd);
    return false;
}

static int bury(struct bw_sqlite_worker *worker, const char *election)
{
    struct view dead;
    int result = gather(worker, election, false, &dead);
    for (size_t i = 0; i < dead.count && result == 0; i++)
        result = bw_sqlite_db_leave(&worker->db, election, dead.at[i].shown.id, dead.at[i].alive);
    free(dead.at);
    return result;
}

/* Is there room for this candidate, and is it the only process with its id? */
static int admit(struct bw_sqlite_worker *worker, const struct bw_store_request *request,
                 enum bw_sqlite_entrance *out)
{
    struct view living = {0};
    int result = gather(worker, request->election, true, &living);
    *out = living.count >= BW_SQLITE_CANDIDATES_MAX ? BW_SQLITE_FULL : BW_SQLITE_ADMITTED;
    for (size_t i = 0; i < living.count; i++)
        if (strcmp(living.at[i].shown.id, request->candidate) == 0)
            *out = living.at[i].alive == worker->alive || BW_BUG(store_enters_over_the_living)
                       ? BW_SQLITE_ADMITTED
                       : BW_SQLITE_DUPLICATE;
    free(living.at);
    return result;
}

int bw_sqlite_enter(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task,
                    enum bw_sqlite_entrance *out)
{
    const struct bw_store_request *request = &task->request;
    struct bw_sqlite_candidate candidate = {0};
    if (!be_alive(worker))
        return SQLITE_CANTOPEN;
    int result = bury(worker, request->election);
    if (result == 0)
        result = admit(worker, request, out);
    if (result || *out != BW_SQLITE_ADMITTED)
        return result;
    snprintf(candidate.shown.id, sizeof candidate.shown.id, "%s", request->candidate);
    snprintf(candidate.shown.value, sizeof candidate.shown.value, "%s",
             request->value ? request->value : "");
    snprintf(candidate.boot, sizeof candidate.boot, "%s", worker->place.boot);
    candidate.shown.priority = request->priority;
    candidate.alive = worker->alive;
    return bw_sqlite_db_enter(&worker->db, request->election, &candidate);
}

int bw_sqlite_list_candidates(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task)
{
    struct bw_sqlite_row row;
    struct bw_sqlite_mark mark;
    bool lock_free;
    struct view living;
    const char *election = task->request.election;
    int result = bw_sqlite_look(worker, election, &row, &mark, &lock_free);
    if (result)
        return result;
    result = gather(worker, election, true, &living);
    struct bw_candidate *shown = calloc(living.count + 1, sizeof *shown);
    if (result == 0 && !shown)
        result = SQLITE_NOMEM;
    for (size_t i = 0; i < living.count && result == 0; i++) {
        shown[i] = living.at[i].shown;
        shown[i].holder = row.record.held && strcmp(shown[i].id, row.record.holder) == 0;
    }
    free(living.at);
    if (result) {
        free(shown);
        return result;
    }
    task->reply->candidates = shown; /* freed with the task */
    task->reply->count = (uint32_t)living.count;
    return 0;
}
