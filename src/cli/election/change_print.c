/* See change_print.h. */
#include "cli/election/change_print.h"

#include "cli/election/record_print.h"
#include "cli/options/wall_time.h"
#include "core/base/parse_values.h"

#include <inttypes.h>
#include <stdio.h>

/* Prints which step of a resignation or a transfer a note requests or reports. */
static void print_note(const struct bw_note *note)
{
    const char *from = bw_shown(note->from), *to = bw_shown(note->to);
    switch (note->kind) {
    case BW_NOTE_RESIGN:
        printf(": %s asks it to step down", from);
        break;
    case BW_NOTE_TRANSFER:
        printf(": %s asks it to transfer leadership to %s", from, to);
        break;
    case BW_NOTE_PREPARE:
        printf(": %s asks %s to prepare", from, to);
        break;
    case BW_NOTE_READY:
        printf(": %s is ready to lead", from);
        break;
    case BW_NOTE_REFUSE:
        printf(": %s refuses to lead", from);
        break;
    case BW_NOTE_NONE:
        break;
    }
}

static void print_json(const struct bw_change_line *line)
{
    char time[BW_WALL_TEXT];
    json_t *object = json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:I, s:o}", "time", bw_wall_text(time, line->at), "event",
        line->event, "election", bw_json_text(line->election), "reason", bw_json_text(line->why),
        "leader", line->leader[0] ? bw_json_text(line->leader) : json_null(), "token",
        (json_int_t)line->token, "value", line->value ? bw_json_text(line->value) : json_null());
    if (line->store)
        json_object_set_new(object, "store", bw_json_text(line->store));
    if (line->note)
        json_object_set_new(object, "note", bw_json_note(line->note));
    if (line->span.kind != BW_SPAN_NONE) {
        json_object_set_new(object, line->span.kind == BW_SPAN_LED ? "led_ms" : "gap_ms",
                            json_integer(line->span.length / BW_MS));
        json_object_set_new(object, "at_least", json_boolean(line->span.at_least));
    }
    bw_json_line(object);
}

void bw_change_print(const struct bw_change_line *line, bool json)
{
    char time[BW_WALL_TEXT], span[BW_SPAN_TEXT];
    bool leads = line->leader[0];
    if (json) {
        print_json(line);
        return;
    }
    printf("%s ", bw_wall_text(time, line->at));
    if (line->shows_election)
        printf("%-16s ", bw_shown(line->election));
    if (line->shows_store)
        printf("%s ", line->store ? bw_shown(line->store) : "unknown-store");
    printf("%-8s", line->note ? "request" : line->event);
    if (leads)
        printf(" %s", bw_shown(line->leader));
    if (leads && line->token != BW_TOKEN_NONE)
        printf(" token %" PRIu64, line->token);
    if (line->note)
        print_note(line->note);
    else if (line->why[0])
        printf("%s %s", leads ? ":" : "", bw_shown(line->why));
    if (!line->note && leads && line->value && line->value[0])
        printf(" (%s)", bw_shown(line->value));
    if (line->span.kind != BW_SPAN_NONE)
        printf(", after %s%s%s", line->span.at_least ? "at least " : "",
               bw_span_round(span, line->span.length),
               line->span.kind == BW_SPAN_GAP ? " without a leader" : "");
    putchar('\n');
    fflush(stdout);
}
