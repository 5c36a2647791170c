/* ELECTIONS: the names of the elections whose blobs are in the container, by List Blobs in pages.
 *
 * A URL that names a blob has one election. Its name is not stored, so it is listed under the last
 * part of the blob's name. */
#include "store/azure/state.h"

#include <stdio.h>
#include <string.h>

static void on_page(void *context, const struct bw_http_answer *answer);

static void read_page(struct azure_work *work, const char *marker)
{
    struct azure_call call = {.verb = "GET", .list_after = marker};
    bw_azure_set_time(work, 0); /* for this page; the caller limits the whole list */
    bw_azure_ask(work, &call, on_page);
}

static void take_page(struct azure_work *work, const struct bw_http_answer *answer)
{
    char marker[AZURE_MARKER_MAX + 1];
    int error = bw_azure_list_parse(answer->body, answer->length, &work->names, marker);
    if (error)
        bw_azure_fail_with(work, BW_OUTCOME_UNAVAILABLE, error, "cannot list the elections: %s",
                           error == BW_ENOMEM ? "out of memory" : "unexpected reply from Azure");
    else if (marker[0] && !work->names.full)
        read_page(work, marker);
    else
        bw_azure_answer_names(work);
}

static void on_page(void *context, const struct bw_http_answer *answer)
{
    struct azure_work *work = context;
    const char *code = bw_azure_code(answer);
    char why[BW_WHY_MAX + 1];
    work->call = NULL;
    if (answer->status == 200) {
        take_page(work, answer);
    } else if (answer->status == 404) { /* there is no container yet */
        bw_azure_answer_names(work);
    } else if (answer->status == 403 && strncmp(code, "Authorization", 13) == 0) {
        snprintf(why, sizeof why,
                 "cannot list the elections: Azure denied List Blobs (%.60s); give the right list "
                 "(l) on the container, or --election NAME",
                 code);
        bw_azure_refuse(work, BW_EDENIED, why);
    } else {
        bw_azure_fail(work, answer, false);
    }
}

void bw_azure_elections(struct azure_work *work)
{
    const char *fixed = bw_azure_store(work)->settings.blob, *slash = strrchr(fixed, '/');
    const char *name = slash ? slash + 1 : fixed;
    if (!fixed[0])
        read_page(work, "");
    else if (bw_names_add(&work->names, name, strlen(name)) == 0)
        bw_azure_answer_names(work);
    else
        bw_azure_fail_with(work, BW_OUTCOME_UNAVAILABLE, BW_ENOMEM, "no memory left");
}
