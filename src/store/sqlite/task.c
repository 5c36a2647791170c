/* Requests on their way between the loop and the worker. Each is one block of memory, in one list
 * at a time. */
#include "store/sqlite/worker.h"

#include <stdlib.h>
#include <string.h>

struct bw_sqlite_task *bw_sqlite_task_new(const struct bw_store_request *request)
{
    const char *from[] = {request->election, request->candidate, request->value,
                          request->containment};
    size_t size = 0;
    for (unsigned i = 0; i < 4; i++)
        size += from[i] ? strlen(from[i]) + 1 : 0;
    struct bw_sqlite_task *task = calloc(1, sizeof *task + size);
    if (!task)
        return NULL;
    task->request = *request;
    const char **to[] = {&task->request.election, &task->request.candidate, &task->request.value,
                         &task->request.containment};
    char *at = task->text;
    for (unsigned i = 0; i < 4; i++)
        if (from[i]) {
            size_t length = strlen(from[i]) + 1;
            *to[i] = memcpy(at, from[i], length);
            at += length;
        }
    return task;
}

void bw_sqlite_list_init(struct bw_sqlite_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

void bw_sqlite_list_add(struct bw_sqlite_list *list, struct bw_sqlite_task *task)
{
    task->next = NULL;
    *list->end = task;
    list->end = &task->next;
}

struct bw_sqlite_task *bw_sqlite_list_take(struct bw_sqlite_list *list)
{
    struct bw_sqlite_task *task = list->first;
    if (task && !(list->first = task->next))
        list->end = &list->first;
    return task;
}

void bw_sqlite_task_free(struct bw_sqlite_task *task)
{
    if (task->reply) {
        free((void *)task->reply->candidates);
        free((void *)task->reply->elections);
    }
    free(task->reply);
    free(task);
}
