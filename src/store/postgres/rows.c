/* Cache of rows. A cached row only saves a round trip: a write compares its version at the server,
 * and no request is refused without asking the server. If the server loses a leadership, the cached
 * row keeps it while a request or watch uses the row. */
#include "store/postgres/state.h"

#include "store/kit/record.h"
#include "store/kit/record_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u

/* ---- the cache ---- */

static struct bw_pg_row **bucket_of(struct bw_store *store, const char *election)
{
    uint32_t hash = 2166136261u;
    for (const unsigned char *at = (const unsigned char *)election; *at; at++)
        hash = (hash ^ *at) * 16777619u;
    return &store->buckets[hash % BUCKETS];
}

static void unlink_row(struct bw_store *store, struct bw_pg_row *row)
{
    *(row->newer ? &row->newer->older : &store->newest) = row->older;
    *(row->older ? &row->older->newer : &store->oldest) = row->newer;
}

static void link_newest(struct bw_store *store, struct bw_pg_row *row)
{
    row->newer = NULL;
    row->older = store->newest;
    *(store->newest ? &store->newest->newer : &store->oldest) = row;
    store->newest = row;
}

static void free_row(struct bw_pg_row *row)
{
    free(row->record);
    free(row->note);
    free(row->lost_record);
    free(row);
}

/* Frees the oldest unused row if there are too many. The number of used rows is limited by their
 * users. */
static void evict_row(struct bw_store *store)
{
    struct bw_pg_row *row = store->oldest;
    if (store->row_count < BW_PG_ROWS_MAX)
        return;
    for (unsigned i = 0; row && row->users && i < 64; i++)
        row = row->newer;
    if (!row || row->users)
        return;
    struct bw_pg_row **at = bucket_of(store, row->election);
    while (*at != row)
        at = &(*at)->chain;
    *at = row->chain;
    unlink_row(store, row);
    store->row_count--;
    free_row(row);
}

struct bw_pg_row *bw_pg_row_find(struct bw_store *store, const char *election)
{
    struct bw_pg_row *row = store->buckets ? *bucket_of(store, election) : NULL;
    while (row && strcmp(row->election, election) != 0)
        row = row->chain;
    return row;
}

struct bw_pg_row *bw_pg_row_get(struct bw_store *store, const char *election)
{
    if (!store->buckets && !(store->buckets = calloc(BUCKETS, sizeof(struct bw_pg_row *))))
        return NULL;
    struct bw_pg_row *row = bw_pg_row_find(store, election);
    if (row) {
        unlink_row(store, row);
        link_newest(store, row);
        return row;
    }
    evict_row(store);
    struct bw_pg_row **bucket = bucket_of(store, election);
    row = calloc(1, sizeof *row + strlen(election) + 1);
    if (!row)
        return NULL;
    memcpy(row->election, election, strlen(election) + 1);
    row->chain = *bucket;
    *bucket = row;
    link_newest(store, row);
    store->row_count++;
    return row;
}

void bw_pg_row_use(struct bw_pg_row *row)
{
    row->users++;
}

void bw_pg_row_leave(struct bw_store *store, struct bw_pg_row *row)
{
    row->users--;
    if (row->users == 0 && store->row_count > BW_PG_ROWS_MAX)
        evict_row(store);
}

void bw_pg_rows_free(struct bw_store *store)
{
    for (struct bw_pg_row *row = store->newest, *older; row; row = older) {
        older = row->older;
        free_row(row);
    }
    store->newest = store->oldest = NULL;
    free(store->buckets);
    store->buckets = NULL;
}

/* ---- contents of a row ---- */

void bw_pg_present(struct bw_store_record *record)
{
    bw_record_present(record);
    record->left_ns = record->held ? BW_TIME_NEVER : 0;
}

static int unpack(const struct bw_pg_row *row, struct bw_store_record *record)
{
    *record = (struct bw_store_record){.version = row->version};
    if (row->version == 0)
        return 0;
    int error = bw_record_unpack(row->record, strlen(row->record), record);
    if (error == 0)
        error = bw_note_unpack(row->note, strlen(row->note), &record->note);
    record->version = row->version;
    record->token = row->token;
    return error;
}

int bw_pg_row_record(const struct bw_pg_row *row, struct bw_store_record *record)
{
    int error = unpack(row, record);
    if (error != 0 || !row->lost_version)
        return error;
    struct bw_note note = record->note;
    *record = (struct bw_store_record){.note = note};
    error = bw_record_unpack(row->lost_record, strlen(row->lost_record), record);
    record->version = row->lost_version;
    record->token = row->highest;
    record->request = 0; /* the request that acquired it is lost */
    return error;
}

uint64_t bw_pg_shown_version(const struct bw_pg_row *row)
{
    return row->lost_version ? row->lost_version : row->version;
}

static int number_of(const PGresult *result, int column, uint64_t *out)
{
    char *end;
    const char *text = PQgetvalue(result, 0, column);
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && *out <= INT64_MAX ? 0 : BW_EMALFORMED;
}

static char *text_of(const PGresult *result, int column)
{
    return strdup(PQgetvalue(result, 0, column));
}

/* Reads a row from a result. Other programs may have written anything, so it must parse as a
 * record. */
static int read_result(struct bw_pg_row *new, const PGresult *result, bool *held)
{
    struct bw_store_record record;
    *held = false;
    if (PQgetisnull(result, 0, BW_PG_VERSION))
        return 0;
    int error = number_of(result, BW_PG_VERSION, &new->version);
    if (error == 0)
        error = number_of(result, BW_PG_TOKEN, &new->token);
    new->record = text_of(result, BW_PG_RECORD);
    new->note = text_of(result, BW_PG_NOTE);
    if (error == 0 && (!new->record || !new->note))
        error = BW_ENOMEM;
    if (error == 0)
        error = unpack(new, &record);
    *held = error == 0 && record.held;
    return error;
}

/* A backup was restored, or a standby without the newest writes took over: the row is older than
 * the one this process has seen. Its holder does not know this yet. */
static void remember_lost(struct bw_store *store, struct bw_pg_row *row,
                          const struct bw_pg_row *new)
{
    struct bw_store_record record;
    if (!row->known || row->lost_version || new->token >= row->token || unpack(row, &record) != 0 ||
        !record.held)
        return;
    row->lost_record = row->record;
    row->record = NULL;
    row->lost_version = (bw_rng_next(&store->rng) >> 1) | 1;
}

static void forget_lost(struct bw_pg_row *row)
{
    free(row->lost_record);
    row->lost_record = NULL;
    row->lost_version = 0;
}

static int replace(struct bw_store *store, struct bw_pg_row *row, const PGresult *result)
{
    bool held;
    struct bw_pg_row new = {.version = 0};
    int error = read_result(&new, result, &held);
    if (error != 0) {
        free(new.record);
        free(new.note);
        return error;
    }
    if (held)
        forget_lost(row);
    else
        remember_lost(store, row, &new);
    free(row->record);
    free(row->note);
    row->version = new.version;
    row->token = new.token;
    row->highest = row->highest > new.token ? row->highest : new.token;
    row->record = new.record;
    row->note = new.note;
    row->known = true;
    row->stale = false;
    return 0;
}

int bw_pg_row_store(struct bw_store *store, struct bw_pg_row *row, const PGresult *result)
{
    if (PQntuples(result) != 1 || PQnfields(result) != 5)
        return BW_EMALFORMED;
    int error = replace(store, row, result);
    if (error == 0)
        bw_pg_notify_watchers(store, row);
    return error;
}
