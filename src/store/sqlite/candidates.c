/* The list of candidates.
 *
 * - A candidate is listed while its process runs. Each process that enters a candidate keeps one
 *   byte of the file `@alive` locked, and its candidates' rows hold that byte's offset.
 * - Such a lock needs no renewal and is immune to reused process ids. Rows of another boot are
 *   dead.
 * - Candidates are listed in the order in which they entered. The order is only informative:
 *   candidates race. */
#include "core/base/bug.h"
#include "os/grow.h"
#include "store/sqlite/worker.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct view {
    struct bw_sqlite_worker *worker;
    int alive_fd; /* a second open file description, which also sees our own locks */
    struct bw_sqlite_candidate *at;
    size_t count, cap;
    bool want_running; /* true: collect running candidates; false: dead ones */
};

static bool is_running(const struct view *view, const struct bw_sqlite_candidate *candidate)
{
    const struct bw_sqlite_place *self = &view->worker->place;
    return view->alive_fd >= 0 && strcmp(candidate->boot, self->boot) == 0 &&
           bw_sqlite_lock_held(view->alive_fd, candidate->alive);
}

static int collect(void *context, const struct bw_sqlite_candidate *candidate)
{
    struct view *view = context;
    if (is_running(view, candidate) != view->want_running)
        return 0;
    if (!bw_grow(&view->at, &view->cap, view->count + 1, 8, sizeof *view->at))
        return SQLITE_NOMEM;
    view->at[view->count++] = *candidate;
    return 0;
}

static int gather(struct bw_sqlite_worker *worker, const char *election, bool want_running,
                  struct view *view)
{
    *view = (struct view){.worker = worker,
                          .alive_fd = bw_sqlite_side_open_readonly(&worker->paths, BW_SQLITE_ALIVE),
                          .want_running = want_running};
    int result = bw_sqlite_db_candidates(&worker->db, election, view, collect);
    if (view->alive_fd >= 0)
        close(view->alive_fd);
    return result;
}

/* Locks our own byte, when it is first needed. */
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

static int remove_dead(struct bw_sqlite_worker *worker, const char *election)
{
    struct view dead;
    int result = gather(worker, election, false, &dead);
    for (size_t i = 0; i < dead.count && result == 0; i++)
        result = bw_sqlite_db_leave(&worker->db, election, dead.at[i].shown.id, dead.at[i].alive);
    free(dead.at);
    return result;
}

/* Is there space for this candidate, and is its id not used by another process? */
static int admit(struct bw_sqlite_worker *worker, const struct bw_store_request *request,
                 enum bw_sqlite_entrance *out)
{
    struct view running = {0};
    int result = gather(worker, request->election, true, &running);
    *out = running.count >= BW_SQLITE_CANDIDATES_MAX ? BW_SQLITE_FULL : BW_SQLITE_ADMITTED;
    for (size_t i = 0; i < running.count; i++)
        if (strcmp(running.at[i].shown.id, request->candidate) == 0)
            *out =
                running.at[i].alive == worker->alive || BW_BUG(store_joins_over_a_running_candidate)
                    ? BW_SQLITE_ADMITTED
                    : BW_SQLITE_DUPLICATE;
    free(running.at);
    return result;
}

int bw_sqlite_enter(struct bw_sqlite_worker *worker, struct bw_sqlite_task *task,
                    enum bw_sqlite_entrance *out)
{
    const struct bw_store_request *request = &task->request;
    struct bw_sqlite_candidate candidate = {0};
    if (!be_alive(worker))
        return SQLITE_CANTOPEN;
    int result = remove_dead(worker, request->election);
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
    struct view running;
    const char *election = task->request.election;
    int result = bw_sqlite_read(worker, election, &row, &mark, &lock_free);
    if (result)
        return result;
    result = gather(worker, election, true, &running);
    struct bw_candidate *shown = calloc(running.count + 1, sizeof *shown);
    if (result == 0 && !shown)
        result = SQLITE_NOMEM;
    for (size_t i = 0; i < running.count && result == 0; i++) {
        shown[i] = running.at[i].shown;
        shown[i].holder = row.record.held && strcmp(shown[i].id, row.record.holder) == 0;
    }
    free(running.at);
    if (result) {
        free(shown);
        return result;
    }
    task->reply->candidates = shown; /* freed with the task */
    task->reply->count = (uint32_t)running.count;
    return 0;
}
