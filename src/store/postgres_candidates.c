/* Who contends, on PostgreSQL. A candidate is listed while its process refreshes its row; by the
 * server's clock, which is good enough for a list and is asked nothing else. */
#include "store/postgres.h"

#include <stdio.h>
#include <stdlib.h>

#define REFRESH_MS 10000u /* a row counts for 45 s */

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
        bw_job_fail(job, BW_OUTCOME_UNAVAILABLE, BW_EMALFORMED,
                    "the server's answer makes no sense");
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

static void on_refresh(uv_timer_t *timer)
{
    struct bw_store *store = timer->data;
    struct bw_pg_task *task = store->link.state == BW_PG_READY ? bw_pg_task_new(NULL, NULL) : NULL;
    if (!task)
        return;
    task->statement = BW_PG_REFRESH;
    bw_pg_queue_add(store, task);
    bw_pg_batch_send(store);
}

void bw_pg_refresh_start(struct bw_store *store)
{
    if (!uv_is_active((uv_handle_t *)&store->refresh))
        uv_timer_start(&store->refresh, on_refresh, REFRESH_MS, REFRESH_MS);
}
