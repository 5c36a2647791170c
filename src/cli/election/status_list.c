/* Lists the elections of a store; see status_list.h. The names come in one request, then the record
 * and the candidates of each election are read. So the lines are not one snapshot. */
#include "cli/election/status_list.h"

#include "cli/election/record_print.h"
#include "core/base/parse_values.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The widths of the columns; a longer text moves the rest of its line. */
#define LINE "%-24s  %-20s  %8s  %9s  %10s  %9s\n"

struct line {
    const char *election;
    struct bw_store_record record;
    uint32_t candidates; /* in client->candidates */
    bool listed;         /* the store lists candidates */
    struct bw_age age;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct bw_election_name *)a)->text,
                  ((const struct bw_election_name *)b)->text);
}

static int ask(struct bw_client *client, enum bw_store_op op, const char *election)
{
    struct bw_store_request request = bw_client_request(client, op);
    request.election = election;
    int code = bw_client_ask(client, &request);
    if (code == BW_GO_ON && client->reply.outcome != BW_OUTCOME_DONE)
        return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "%s", client->reply.why);
    return code;
}

static int read_line(struct bw_client *client, struct line *line)
{
    line->listed = client->ops->traits & BW_STORE_LISTS;
    int code = ask(client, BW_STORE_READ, line->election);
    line->record = client->reply.record;
    if (code != BW_GO_ON || !line->listed)
        return code;
    code = ask(client, BW_STORE_LIST, line->election);
    line->candidates = client->reply.count;
    return code;
}

static void print_line(const struct line *line)
{
    const struct bw_store_record *record = &line->record;
    char token[24] = "-", left[BW_SPAN_TEXT] = "-", count[16] = "-", age[BW_AGE_TEXT];
    if (record->token != BW_TOKEN_NONE)
        snprintf(token, sizeof token, "%" PRIu64, record->token);
    if (record->held && record->left_ns == 0)
        snprintf(left, sizeof left, "expired");
    else if (record->held && record->left_ns != BW_TIME_NEVER)
        bw_span_round(left, record->left_ns);
    if (line->listed)
        snprintf(count, sizeof count, "%u", line->candidates);
    printf(LINE, bw_shown(line->election), record->held ? bw_shown(record->holder) : "none", token,
           left, count, bw_age_text(age, &line->age));
}

static json_t *json_of(const struct bw_client *client, const struct line *line)
{
    json_t *value = bw_json_record(line->election, &line->record);
    bw_age_json(value, &line->age);
    if (line->listed)
        json_object_set_new(value, "candidates",
                            bw_json_candidates(client->candidates, line->candidates));
    return value;
}

/* Prints the elections. A name that occurs twice is printed once; an election that was removed
 * meanwhile is left out. */
static int print_all(struct bw_client *client, const struct bw_ages *ages, uint32_t count,
                     json_t *list)
{
    const struct bw_election_name *names = client->elections;
    int code = BW_GO_ON;
    if (!list && count > 0)
        printf(LINE, "ELECTION", "LEADER", "TOKEN", "LEFT", "CANDIDATES", "AGE");
    for (uint32_t i = 0; i < count && code == BW_GO_ON; i++) {
        struct line line = {.election = names[i].text};
        if (i > 0 && strcmp(names[i].text, names[i - 1].text) == 0)
            continue;
        code = read_line(client, &line);
        if (code != BW_GO_ON || (line.record.version == 0 && line.candidates == 0))
            continue;
        line.age = bw_ages_find(ages, line.election, &line.record);
        if (list)
            json_array_append_new(list, json_of(client, &line));
        else
            print_line(&line);
    }
    return code;
}

int bw_status_list(struct bw_client *client, const struct bw_ages *ages)
{
    if (!(client->ops->traits & BW_STORE_NAMES))
        return bw_client_fail(client, BW_EXIT_USAGE,
                              "cannot list the elections: store %s keeps no list of them; give "
                              "--election NAME",
                              client->ops->scheme);
    int code = ask(client, BW_STORE_ELECTIONS, "");
    if (code != BW_GO_ON)
        return code;
    uint32_t count = client->reply.count;
    if (count > 1)
        qsort(client->elections, count, sizeof *client->elections, compare_names);
    json_t *list = client->look->json ? json_array() : NULL;
    code = print_all(client, ages, count, list);
    if (!list && code == BW_GO_ON && count == 0)
        printf("no elections in %s\n", client->look->shown);
    if (list && code == BW_GO_ON)
        bw_json_line(list);
    else
        json_decref(list);
    return code == BW_GO_ON ? BW_EXIT_OK : code;
}
