/* Candidate entries on PostgreSQL. A candidate is listed while its process renews its entry. The
 * process also enters it on a new server or one that lost the entry. The server's clock decides
 * which entries are recent; it decides nothing else. */
#include "store/postgres/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFRESH_MS 10000u /* an entry counts for 45 s */

static void copy_candidate(struct bw_candidate *out, const PGresult *result, int row)
{
    snprintf(out->id, sizeof out->id, "%s", PQgetvalue(result, row, 0));
    snprintf(out->value, sizeof out->value, "%s", PQgetvalue(result, row, 1));
    out->priority = (int32_t)strtol(PQgetvalue(result, row, 2), NULL, 10);
    out->holder = PQgetvalue(result, row, 3)[0] == 't';
}

void bw_pg_list_answer(struct bw_job *job, const PGresult *result)
{
    int count = PQntuples(result);
    if (PQnfields(result) != 4 || count < 0 || (unsigned)count > BW_PG_LISTED_MAX) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EMALFORMED, "unexpected reply from the server");
        return;
    }
    struct bw_candidate *list = calloc((size_t)count + 1, sizeof *list);
    if (!list) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for the candidates");
        return;
    }
    for (int i = 0; i < count; i++)
        copy_candidate(&list[i], result, i);
    bw_job_list(job, list, (uint32_t)count);
    free(list);
}

void bw_pg_names_answer(struct bw_job *job, const PGresult *result)
{
    int count = PQntuples(result);
    if (PQnfields(result) != 1 || count < 0 || (unsigned)count > BW_STORE_NAMES_MAX) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EMALFORMED, "unexpected reply from the server");
        return;
    }
    struct bw_election_name *names = calloc((size_t)count + 1, sizeof *names);
    if (!names) {
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory for the elections");
        return;
    }
    for (int i = 0; i < count; i++)
        snprintf(names[i].text, sizeof names[i].text, "%s", PQgetvalue(result, i, 0));
    bw_job_elections(job, names, (uint32_t)count);
    free(names);
}

/* ---- entries of this process ---- */

static struct bw_pg_entered *copy_entered(const struct bw_store_request *request)
{
    const char *value = request->value ? request->value : "";
    size_t election = strlen(request->election) + 1, id = strlen(request->candidate) + 1;
    struct bw_pg_entered *entered = calloc(1, sizeof *entered + election + id + strlen(value) + 1);
    if (!entered)
        return NULL;
    entered->priority = request->priority;
    entered->election = memcpy(entered->text, request->election, election);
    entered->id = memcpy(entered->text + election, request->candidate, id);
    entered->value = strcpy(entered->text + election + id, value);
    return entered;
}

void bw_pg_entered_done(struct bw_pg_entered *entered)
{
    entered->pending = false;
    if (entered->gone)
        free(entered);
}

void bw_pg_leave(struct bw_store *store, const struct bw_store_request *request)
{
    struct bw_pg_entered **at = &store->entered;
    while (*at && (strcmp((*at)->election, request->election) != 0 ||
                   strcmp((*at)->id, request->candidate) != 0))
        at = &(*at)->next;
    struct bw_pg_entered *found = *at;
    if (!found)
        return;
    *at = found->next;
    found->gone = true;
    if (!found->pending)
        free(found);
}

static void on_refresh(uv_timer_t *timer)
{
    bw_pg_enter_again(timer->data);
}

/* If memory is exhausted, the entry is not renewed and expires. */
void bw_pg_enter(struct bw_store *store, const struct bw_store_request *request)
{
    bw_pg_leave(store, request);
    struct bw_pg_entered *entered = copy_entered(request);
    if (!entered)
        return;
    entered->next = store->entered;
    store->entered = entered;
    if (!uv_is_active((uv_handle_t *)&store->refresh))
        uv_timer_start(&store->refresh, on_refresh, REFRESH_MS, REFRESH_MS);
}

void bw_pg_enter_again(struct bw_store *store)
{
    for (struct bw_pg_entered *at = store->entered; at; at = at->next) {
        if (at->pending || store->link.state != BW_PG_READY)
            continue;
        struct bw_pg_row *row = bw_pg_row_get(store, at->election);
        struct bw_pg_task *task = row ? bw_pg_task_new(NULL, row) : NULL;
        if (!task)
            return;
        at->pending = true;
        task->entered = at;
        bw_pg_queue_add(store, task);
    }
    bw_pg_batch_send(store);
}

void bw_pg_entered_free(struct bw_store *store)
{
    while (store->entered) {
        struct bw_pg_entered *next = store->entered->next;
        free(store->entered);
        store->entered = next;
    }
}
