/* The schema and the statements of the PostgreSQL store.
 *
 *   ELECTION            one row per election
 *     version           a new random number after every change, so that a restored backup cannot
 *                       bring back a version that a candidate has seen
 *     token             of the last leadership; from the sequence, higher than the row's last one
 *     record, note      JSON, see record_json.h
 *   ELECTION_candidate  candidates; listed while `seen` is recent. For lists only: no clock of the
 *                       server decides about a leadership
 *   ELECTION_token      the sequence
 *
 * Every statement is its own transaction, or shares one with independent statements. It needs no
 * session state, so any pooler may be in between. A write compares the expected version, and
 * notifies. A write is answered only after it is on disk, whatever the server's default: if a crash
 * undid a renewal, a successor could start too early. */
#include "store/postgres/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Placeholders: @E elections table, @C candidates table, @T sequence, @S schema, @N channel, @K
 * comment on the table. */
static const char schema_text[] =
    "-- Tables of Bellwether's PostgreSQL store. A role that uses the store also needs:\n"
    "--   GRANT USAGE ON SCHEMA @S TO role;\n"
    "--   GRANT SELECT, INSERT, UPDATE ON @E TO role;\n"
    "--   GRANT SELECT, INSERT, UPDATE, DELETE ON @C TO role;\n"
    "--   GRANT USAGE ON SEQUENCE @T TO role;\n"
    "BEGIN;\n"
    "SELECT pg_advisory_xact_lock(7022364301936219122); -- one client at a time\n"
    "DO $$ BEGIN IF to_regnamespace('@S') IS NULL THEN CREATE SCHEMA @S; END IF; END $$;\n"
    "CREATE SEQUENCE IF NOT EXISTS @T;\n"
    "CREATE TABLE IF NOT EXISTS @E (\n"
    "    election text PRIMARY KEY,\n"
    "    version bigint NOT NULL CHECK (version > 0),\n"
    "    token bigint NOT NULL,\n"
    "    record jsonb NOT NULL,\n"
    "    note jsonb NOT NULL\n"
    ") WITH (fillfactor = 50);\n"
    "CREATE TABLE IF NOT EXISTS @C (\n"
    "    election text NOT NULL,\n"
    "    candidate text NOT NULL,\n"
    "    value text NOT NULL,\n"
    "    priority integer NOT NULL,\n"
    "    process bigint NOT NULL,\n"
    "    place bigint GENERATED ALWAYS AS IDENTITY,\n"
    "    seen timestamptz NOT NULL,\n"
    "    PRIMARY KEY (election, candidate)\n"
    ") WITH (fillfactor = 50);\n"
    "COMMENT ON TABLE @E IS '@K';\n"
    "COMMIT;\n";

#define ROW " one.pid, r.version, r.token, r.record, r.note"
#define ONE "(SELECT pg_backend_pid() AS pid) AS one"
/* After a write: notify the watchers, and force a commit to disk. */
#define WRITTEN                                                                                    \
    " RETURNING version, token, record, note,"                                                     \
    " pg_notify('@N', version || ' ' || election),"                                                \
    " CASE WHEN current_setting('synchronous_commit') = 'off'"                                     \
    " THEN set_config('synchronous_commit', 'on', true) END"

static const char *const texts[BW_PG_STATEMENTS] = {
    [BW_PG_INSPECT] =
        "SELECT t.place IS NOT NULL, obj_description(t.place, 'pg_class'), pg_is_in_recovery(),"
        " current_setting('server_version'), pg_backend_pid(), current_setting('fsync'),"
        " current_database(), current_user FROM (SELECT to_regclass($1) AS place) AS t",
    [BW_PG_LISTEN] = "LISTEN \"@N\"",
    [BW_PG_READ] = "SELECT" ROW " FROM " ONE " LEFT JOIN @E AS r ON r.election = $1",
    [BW_PG_INSERT] =
        "WITH r AS (INSERT INTO @E (election, version, token, record, note)"
        " SELECT $1::text, $3::bigint, CASE WHEN $6::boolean THEN greatest(nextval('@T'), "
        "$7::bigint) ELSE 0 END,"
        " $4::jsonb, $5::jsonb WHERE $2::bigint = 0"
        " ON CONFLICT DO NOTHING" WRITTEN ") SELECT" ROW " FROM " ONE " LEFT JOIN r ON true",
    [BW_PG_UPDATE] =
        "WITH r AS (UPDATE @E AS e SET version = $3, record = $4, note = $5, token ="
        " CASE WHEN $6 THEN greatest(nextval('@T'), e.token + 1, $7::bigint) ELSE e.token END"
        " WHERE election = $1 AND version = $2" WRITTEN ") SELECT" ROW " FROM " ONE
        " LEFT JOIN r ON true",
    [BW_PG_ENTER] =
        "WITH came AS (INSERT INTO @C AS c (election, candidate, value, priority, process, seen)"
        " VALUES ($1, $2, $3, $4, $5, clock_timestamp()) ON CONFLICT (election, candidate)"
        " DO UPDATE SET value = excluded.value, priority = excluded.priority,"
        " process = excluded.process, seen = excluded.seen WHERE c.process = excluded.process OR"
        " c.seen < clock_timestamp() - interval '45 seconds'), gone AS (DELETE FROM @C WHERE"
        " election = $1 AND candidate <> $2 AND seen < clock_timestamp() - interval '1 hour')"
        " SELECT" ROW " FROM " ONE " LEFT JOIN @E AS r ON r.election = $1",
    [BW_PG_LEAVE] =
        "WITH gone AS (DELETE FROM @C WHERE election = $1 AND candidate = $2 AND process = $3)"
        " SELECT" ROW " FROM " ONE " LEFT JOIN @E AS r ON r.election = $1",
    [BW_PG_LIST] =
        "SELECT c.candidate, c.value, c.priority, coalesce((e.record -> 'held')::boolean"
        " AND e.record ->> 'holder' = c.candidate, false) FROM @C AS c LEFT JOIN @E AS e"
        " USING (election) WHERE election = $1"
        " AND c.seen > clock_timestamp() - interval '45 seconds' ORDER BY c.place LIMIT 1000",
    [BW_PG_NAMES] = "SELECT election FROM @E ORDER BY election LIMIT 10000",
};

void bw_pg_table_name(const struct bw_pg_settings *settings, char out[2 * BW_PG_NAME_MAX + 8])
{
    snprintf(out, 2 * BW_PG_NAME_MAX + 8, "\"%s\".\"%s\"", settings->schema, settings->table);
}

/* Expands a placeholder. Names contain letters, digits, _ and - only, so they need no further
 * quoting. */
static void mark_value(const struct bw_pg_settings *settings, char mark, char out[128])
{
    const char *schema = settings->schema, *table = settings->table;
    switch (mark) {
    case 'E':
        snprintf(out, 128, "\"%s\".\"%s\"", schema, table);
        break;
    case 'C':
        snprintf(out, 128, "\"%s\".\"%s_candidate\"", schema, table);
        break;
    case 'T':
        snprintf(out, 128, "\"%s\".\"%s_token\"", schema, table);
        break;
    case 'S':
        snprintf(out, 128, "\"%s\"", schema);
        break;
    case 'N':
        snprintf(out, 128, "bw.%s.%s", schema, table);
        break;
    default:
        snprintf(out, 128, "%s", BW_PG_COMMENT);
        break;
    }
}

static char *expand(const char *text, const struct bw_pg_settings *settings)
{
    size_t marks = 0, used = 0;
    for (const char *at = text; *at; at++)
        marks += *at == '@';
    char *out = malloc(strlen(text) + marks * 128 + 1), value[128];
    if (!out)
        return NULL;
    for (; *text; text++) {
        if (*text != '@') {
            out[used++] = *text;
            continue;
        }
        mark_value(settings, *++text, value);
        memcpy(out + used, value, strlen(value));
        used += strlen(value);
    }
    out[used] = '\0';
    return out;
}

char *bw_pg_statement_text(enum bw_pg_statement statement, const struct bw_pg_settings *settings)
{
    return expand(texts[statement], settings);
}

char *bw_pg_schema_text(const struct bw_pg_settings *settings)
{
    return expand(schema_text, settings);
}
