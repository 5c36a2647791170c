/* Checks of a server before it is used: whether it accepts writes, whether our schema exists
 * (otherwise it is created), and whether it can notify. One statement at a time, before the
 * pipeline starts. */
#include "store/postgres/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum inspect_column {
    INSPECT_EXISTS,
    INSPECT_COMMENT,
    INSPECT_RECOVERING,
    INSPECT_VERSION,
    INSPECT_PID,
    INSPECT_FSYNC,
    INSPECT_DATABASE,
    INSPECT_USER,
    INSPECT_COLUMNS
};

void bw_pg_about(struct bw_store *store, const char *problem)
{
    if (problem)
        snprintf(store->about, sizeof store->about,
                 "%s; %s, so it cannot notify: polled every %.0f ms", store->server, problem,
                 (double)store->settings.poll_ns / BW_MS);
    else
        snprintf(store->about, sizeof store->about, "%s; notifies", store->server);
}

static void begin_pipeline(struct bw_store *store)
{
    if (PQenterPipelineMode(store->link.conn) == 1)
        bw_pg_link_ready(store);
    else
        bw_pg_link_next(store, "libpq cannot enter pipeline mode");
}

static void await(struct bw_store *store, int sent)
{
    if (sent == 1)
        bw_pg_link_flush(store);
    else
        bw_pg_link_next(store, "%s", PQerrorMessage(store->link.conn));
}

static void inspect(struct bw_store *store)
{
    char table[2 * BW_PG_NAME_MAX + 8];
    const char *values[] = {table};
    bw_pg_table_name(&store->settings, table);
    store->link.setup = BW_PG_INSPECTING;
    await(store, PQsendQueryParams(store->link.conn, store->text[BW_PG_INSPECT], 1, NULL, values,
                                   NULL, NULL, 0));
}

void bw_pg_setup_begin(struct bw_store *store)
{
    store->link.created = false;
    store->link.pid = 0;
    inspect(store);
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

/* A pooler invents the process id that the connection reports; a direct connection reports the
 * server's. */
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

static void inspected(struct bw_store *store, const PGresult *result)
{
    const char *comment = PQgetvalue(result, 0, INSPECT_COMMENT);
    const char *database = PQgetvalue(result, 0, INSPECT_DATABASE);
    bool exists = PQgetvalue(result, 0, INSPECT_EXISTS)[0] == 't';
    char table[2 * BW_PG_NAME_MAX + 8];
    bw_pg_table_name(&store->settings, table);
    store->link.pid = atoi(PQgetvalue(result, 0, INSPECT_PID));
    snprintf(store->server, sizeof store->server, "PostgreSQL %.30s%s",
             PQgetvalue(result, 0, INSPECT_VERSION),
             strcmp(PQgetvalue(result, 0, INSPECT_FSYNC), "off") == 0 ? "; fsync is off" : "");
    store->server[strcspn(store->server, "(")] = '\0'; /* "15.1 (Debian 15.1-1)" */
    for (size_t i = strlen(store->server); i && store->server[i - 1] == ' '; i--)
        store->server[i - 1] = '\0';
    if (PQgetvalue(result, 0, INSPECT_RECOVERING)[0] == 't')
        bw_pg_link_next(store, "the server is a standby: read-only until it is promoted");
    else if (exists && strcmp(comment, BW_PG_COMMENT) == 0)
        begin_listening(store);
    else if (exists && strncmp(comment, BW_PG_COMMENT, strlen(BW_PG_COMMENT) - 1) == 0)
        bw_pg_link_next(store, "%s in database %s was created by another version of Bellwether",
                        table, database);
    else if (exists)
        bw_pg_link_next(store,
                        "%s in database %s is not Bellwether's; choose another ?schema= or ?table=",
                        table, database);
    else if (store->link.created)
        bw_pg_link_next(store, "%s does not exist although it was just created", table);
    else
        create(store);
}

static void report_setup_error(struct bw_store *store, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    char line[BW_WHY_MAX + 1];
    bool denied = state && strcmp(state, "42501") == 0;
    bw_pg_error_line(line, result);
    if (denied && store->link.setup == BW_PG_CREATING)
        bw_pg_link_next(
            store,
            "the schema does not exist and cannot be created (%s); let an administrator run "
            "the output of `bellwether store init URL --print`",
            line);
    else
        bw_pg_link_next(store, "%s", line);
}

/* NULL: end of one statement's results. The schema's text consists of several statements. */
void bw_pg_setup_result(struct bw_store *store, PGresult *result)
{
    struct bw_pg_link *link = &store->link;
    if (!result) {
        PGresult *last = link->last;
        link->last = NULL;
        ExecStatusType status = last ? PQresultStatus(last) : PGRES_FATAL_ERROR;
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
            report_setup_error(store, last);
        else if (link->setup == BW_PG_CREATING)
            inspect(store);
        else if (link->setup == BW_PG_LISTENING)
            begin_pipeline(store);
        else if (PQntuples(last) == 1 && PQnfields(last) == INSPECT_COLUMNS)
            inspected(store, last);
        else
            bw_pg_link_next(store, "unexpected reply from the server");
        PQclear(last);
        return;
    }
    bool failed = link->last && PQresultStatus(link->last) == PGRES_FATAL_ERROR;
    PQclear(failed ? result : link->last); /* the first error explains most */
    link->last = failed ? link->last : result;
}
