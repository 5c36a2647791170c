/* What is asked of a server before it is used: may it be written to, is our schema there (else it
 * is made), can it notify us. One statement at a time, before the pipeline begins. */
#include "store/postgres/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum look {
    LOOK_THERE,
    LOOK_COMMENT,
    LOOK_RECOVERING,
    LOOK_VERSION,
    LOOK_PID,
    LOOK_FSYNC,
    LOOK_DATABASE,
    LOOK_USER,
    LOOK_COLUMNS
};

void bw_pg_about(struct bw_store *store, const char *trouble)
{
    if (trouble)
        snprintf(store->about, sizeof store->about,
                 "%s; %s, so it cannot notify: looked at every %.0f ms", store->server, trouble,
                 (double)store->settings.poll_ns / BW_MS);
    else
        snprintf(store->about, sizeof store->about, "%s; notifies", store->server);
}

static void begin_pipeline(struct bw_store *store)
{
    if (PQenterPipelineMode(store->link.conn) == 1)
        bw_pg_link_ready(store);
    else
        bw_pg_link_next(store, "libpq: no pipeline");
}

static void await(struct bw_store *store, int sent)
{
    if (sent == 1)
        bw_pg_link_flush(store);
    else
        bw_pg_link_next(store, "%s", PQerrorMessage(store->link.conn));
}

static void look(struct bw_store *store)
{
    char table[2 * BW_PG_NAME_MAX + 8];
    const char *values[] = {table};
    bw_pg_table_name(&store->settings, table);
    store->link.setup = BW_PG_LOOKING;
    await(store, PQsendQueryParams(store->link.conn, store->text[BW_PG_LOOK], 1, NULL, values, NULL,
                                   NULL, 0));
}

void bw_pg_setup_begin(struct bw_store *store)
{
    store->link.created = false;
    store->link.pid = 0;
    look(store);
}

static void create(struct bw_store *store)
{
    char *text = bw_pg_schema_text(&store->settings);
    store->link.setup = BW_PG_CREATING;
    store->link.created = true;
    if (text)
        await(store, PQsendQuery(store->link.conn, text));
    else
        bw_pg_link_next(store, "no memory");
    free(text);
}

/* A pooler's process number is its own invention; ours would be the server's. */
static void begin_listening(struct bw_store *store)
{
    store->polled = store->link.pid != PQbackendPID(store->link.conn);
    bw_pg_about(store, store->polled ? "behind a pooler" : NULL);
    store->link.setup = BW_PG_LISTENING;
    if (store->polled)
        begin_pipeline(store);
    else
        await(store, PQsendQuery(store->link.conn, store->text[BW_PG_LISTEN]));
}

static void looked(struct bw_store *store, const PGresult *result)
{
    const char *comment = PQgetvalue(result, 0, LOOK_COMMENT);
    const char *database = PQgetvalue(result, 0, LOOK_DATABASE);
    bool there = PQgetvalue(result, 0, LOOK_THERE)[0] == 't';
    char table[2 * BW_PG_NAME_MAX + 8];
    bw_pg_table_name(&store->settings, table);
    store->link.pid = atoi(PQgetvalue(result, 0, LOOK_PID));
    snprintf(store->server, sizeof store->server, "PostgreSQL %.30s%s",
             PQgetvalue(result, 0, LOOK_VERSION),
             strcmp(PQgetvalue(result, 0, LOOK_FSYNC), "off") == 0 ? "; fsync is off" : "");
    store->server[strcspn(store->server, "(")] = '\0'; /* "15.1 (Debian 15.1-1)" */
    for (size_t i = strlen(store->server); i && store->server[i - 1] == ' '; i--)
        store->server[i - 1] = '\0';
    if (PQgetvalue(result, 0, LOOK_RECOVERING)[0] == 't')
        bw_pg_link_next(store, "it is a standby: read-only until it is promoted");
    else if (there && strcmp(comment, BW_PG_COMMENT) == 0)
        begin_listening(store);
    else if (there && strncmp(comment, BW_PG_COMMENT, strlen(BW_PG_COMMENT) - 1) == 0)
        bw_pg_link_next(store, "%s in database %s is of another version of Bellwether", table,
                        database);
    else if (there)
        bw_pg_link_next(store,
                        "%s in database %s is not Bellwether's; write ?schema= or ?table=", table,
                        database);
    else if (store->link.created)
        bw_pg_link_next(store, "%s was made and is not there", table);
    else
        create(store);
}

static void complain(struct bw_store *store, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    char line[BW_WHY_MAX + 1];
    bool denied = state && strcmp(state, "42501") == 0;
    bw_pg_error_line(line, result);
    if (denied && store->link.setup == BW_PG_CREATING)
        bw_pg_link_next(store,
                        "the schema is not there and may not be made (%s); an administrator runs "
                        "what `bellwether store init URL --print` prints",
                        line);
    else
        bw_pg_link_next(store, "%s", line);
}

/* NULL: the end of one statement's results. The schema's text has several. */
void bw_pg_setup_result(struct bw_store *store, PGresult *result)
{
    struct bw_pg_link *link = &store->link;
    if (!result) {
        PGresult *last = link->last;
        link->last = NULL;
        ExecStatusType status = last ? PQresultStatus(last) : PGRES_FATAL_ERROR;
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
            complain(store, last);
        else if (link->setup == BW_PG_CREATING)
            look(store);
        else if (link->setup == BW_PG_LISTENING)
            begin_pipeline(store);
        else if (PQntuples(last) == 1 && PQnfields(last) == LOOK_COLUMNS)
            looked(store, last);
        else
            bw_pg_link_next(store, "the server's answer makes no sense");
        PQclear(last);
        return;
    }
    bool failed = link->last && PQresultStatus(link->last) == PGRES_FATAL_ERROR;
    PQclear(failed ? result : link->last); /* the first error says most */
    link->last = failed ? link->last : result;
}
