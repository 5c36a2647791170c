/* See age.h. */
#include "cli/history/age.h"

#include "cli/history/files.h"
#include "cli/options/wall_time.h"
#include "core/base/parse_values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bw_ages_init(struct bw_ages *ages, const char *directory)
{
    struct bw_past_files files = {0};
    *ages = (struct bw_ages){.now = bw_wall_now()};
    if (bw_past_read_directory(&ages->lines, directory, NULL, &files) != 0)
        return;
    long found = bw_past_derive(&ages->lines, &ages->past);
    ages->count = found > 0 ? (size_t)found : 0;
}

void bw_ages_deinit(struct bw_ages *ages)
{
    free(ages->past);
    bw_past_deinit(&ages->lines);
    *ages = (struct bw_ages){0};
}

/* True if the row is the leadership of the record. A history does not name its store, so the
 * request decides where both know it. Without a token and a request, the row must be the newest one
 * of its election, and its end unknown. */
static bool is_leadership(const struct bw_past *past, bool newest,
                          const struct bw_store_record *record)
{
    char request[24];
    const char *known = past->first->request;
    bool named = record->request != 0 && known[0] && strcmp(known, "0") != 0;
    snprintf(request, sizeof request, "%" PRIx64, record->request);
    if (strcmp(past->first->leader, record->holder) != 0 || past->first->token != record->token)
        return false;
    if (named)
        return strcmp(known, request) == 0;
    return record->token != BW_TOKEN_NONE || (newest && past->to == BW_TIME_NEVER);
}

struct bw_age bw_ages_find(const struct bw_ages *ages, const char *election,
                           const struct bw_store_record *record)
{
    bool newest = true;
    for (size_t i = ages->count; record->held && i > 0; i--) {
        const struct bw_past *past = &ages->past[i - 1];
        if (strcmp(past->first->election, election) != 0)
            continue;
        if (is_leadership(past, newest, record))
            return (struct bw_age){.span = bw_time_max(ages->now - past->from, 0),
                                   .is_minimum = past->is_found};
        newest = false;
    }
    return (struct bw_age){.span = BW_TIME_NEVER};
}

const char *bw_age_text(char out[BW_AGE_TEXT], const struct bw_age *age)
{
    char span[BW_SPAN_TEXT];
    if (age->span == BW_TIME_NEVER)
        return strcpy(out, "-");
    snprintf(out, BW_AGE_TEXT, "%s%s", age->is_minimum ? ">" : "", bw_span_round(span, age->span));
    return out;
}

void bw_age_json(json_t *object, const struct bw_age *age)
{
    bool known = age->span != BW_TIME_NEVER;
    json_object_set_new(object, "age_ms", known ? json_integer(age->span / BW_MS) : json_null());
    json_object_set_new(object, "age_is_minimum", json_boolean(age->is_minimum));
}
