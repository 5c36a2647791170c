/* ELECTIONS: the names of the elections of the table, by Scan in pages.
 *
 *   NAME             the lock of any client
 *   NAME/bellwether  the counter: an election of Bellwether, also without a lock
 *
 * Only keys are transferred, but DynamoDB reads, and charges for, the whole table. */
#include "store/dynamodb/state.h"

#include <string.h>

static void on_page(void *context, const struct bw_http_answer *answer);

static void read_page(struct dynamodb_work *work, json_t *after)
{
    bw_dynamodb_set_time(work, 0); /* for this page; the caller limits the whole scan */
    bw_dynamodb_ask(work, "Scan", bw_dynamodb_scan(bw_dynamodb_store(work)->settings.table, after),
                    on_page);
}

static int add_names(struct bw_names *names, const json_t *items)
{
    size_t index;
    const json_t *item;
    int error = 0;
    json_array_foreach(items, index, item)
    {
        const char *key = json_string_value(json_object_get(json_object_get(item, "key"), "S"));
        if (key && error == 0)
            error = bw_names_add(names, key, bw_dynamodb_name_length(key));
    }
    return error;
}

static void take_page(struct dynamodb_work *work, const json_t *page)
{
    json_t *after = json_object_get(page, "LastEvaluatedKey");
    const json_t *items = json_object_get(page, "Items");
    if (!json_is_array(items))
        bw_dynamodb_fail_with(work, BW_OUTCOME_UNAVAILABLE, BW_EMALFORMED,
                              "cannot list the elections: unexpected reply from DynamoDB");
    else if (add_names(&work->names, items) != 0)
        bw_dynamodb_fail_with(work, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM,
                              "cannot list the elections: out of memory");
    else if (json_object_size(after) > 0 && !work->names.full)
        read_page(work, after);
    else
        bw_dynamodb_answer_names(work);
}

static void on_page(void *context, const struct bw_http_answer *answer)
{
    struct dynamodb_work *work = context;
    char type[DYNAMODB_TYPE_MAX + 1];
    work->call = NULL;
    bw_dynamodb_type(answer->body, answer->length, type, sizeof type);
    if (bw_dynamodb_end(answer) == DYNAMODB_GOOD) {
        json_t *page = json_loadb(answer->body, answer->length, 0, NULL);
        take_page(work, page);
        json_decref(page);
    } else if (strcmp(type, "AccessDeniedException") == 0) {
        bw_dynamodb_refuse(work, BW_EDENIED,
                           "cannot list the elections: DynamoDB denied access "
                           "(AccessDeniedException); allow dynamodb:Scan on the table, or give "
                           "--election NAME");
    } else {
        bw_dynamodb_fail(work, answer, false);
    }
}

void bw_dynamodb_elections(struct dynamodb_work *work)
{
    read_page(work, NULL);
}
