/* Formats records for users and for programs. */
#include "cli/election/record_print.h"

#include "cli/election/change.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BUFFERS 8u

static char *next_buffer(size_t *size)
{
    static char buffers[BUFFERS][BW_VALUE_MAX + 1];
    static unsigned at;
    *size = sizeof buffers[0];
    return buffers[at++ % BUFFERS];
}

const char *bw_shown(const char *text)
{
    size_t size;
    char *out = next_buffer(&size);
    snprintf(out, size, "%s", text);
    for (char *c = out; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return out;
}

const char *bw_with_token(bw_token token)
{
    size_t size;
    char *out = next_buffer(&size);
    out[0] = '\0';
    if (token)
        snprintf(out, size, " with token %" PRIu64, token);
    return out;
}

json_t *bw_json_text(const char *text)
{
    json_t *made = json_string(text);
    return made ? made : json_null();
}

json_t *bw_json_note(const struct bw_note *note)
{
    if (note->kind == BW_NOTE_NONE)
        return json_null();
    return json_pack("{s:s, s:o, s:o, s:I}", "kind", bw_note_name(note->kind), "from",
                     bw_json_text(note->from), "to", bw_json_text(note->to), "serial",
                     (json_int_t)note->serial);
}

static json_t *unconfirmed_list(const char *unconfirmed)
{
    json_t *list = json_array();
    while (*unconfirmed) {
        size_t line = strcspn(unconfirmed, "\n"), id = strcspn(unconfirmed, "\t\n");
        size_t rest = id < line ? line - id - 1 : 0;
        json_array_append_new(list, json_pack("{s:s%, s:s%}", "id", unconfirmed, id, "containment",
                                              unconfirmed + line - rest, rest));
        unconfirmed += line + (unconfirmed[line] == '\n');
    }
    return list;
}

json_t *bw_json_record(const char *election, const struct bw_store_record *record)
{
    bool known = record->held && record->left_ns != BW_TIME_NEVER;
    return json_pack("{s:o, s:b, s:o, s:I, s:o, s:I, s:o, s:b, s:b, s:o, s:o, s:I}", "election",
                     bw_json_text(election), "held", record->held, "leader",
                     record->held ? bw_json_text(record->holder) : json_null(), "token",
                     (json_int_t)record->token, "value",
                     record->held ? bw_json_text(record->value) : json_null(), "ttl_ms",
                     (json_int_t)(record->ttl_ns / BW_MS), "left_ms",
                     known ? json_integer(record->left_ns / BW_MS) : json_null(), "clean",
                     record->clean, "proved_dead", record->proved_dead, "owed",
                     unconfirmed_list(record->unconfirmed), "note",
                     bw_note_is_open(record) ? bw_json_note(&record->note) : json_null(), "version",
                     (json_int_t)record->version);
}

json_t *bw_json_candidates(const struct bw_candidate *at, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:o, s:o, s:i, s:b}", "id", bw_json_text(at[i].id),
                                              "value", bw_json_text(at[i].value), "priority",
                                              (int)at[i].priority, "leader", at[i].holder));
    return list;
}

void bw_json_line(json_t *value)
{
    json_dumpf(value, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(value);
}
