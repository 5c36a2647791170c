/* Differences between records, told as what happened (change.h). */
#include "cli/look/change.h"

#include <string.h>

const char *bw_note_name(enum bw_note_kind kind)
{
    static const char *const names[] = {"none", "resign", "transfer", "prepare", "ready", "refuse"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

bool bw_note_is_open(const struct bw_store_record *record)
{
    const struct bw_note *note = &record->note;
    bool to_holder = strcmp(note->to, record->holder) == 0;
    switch (note->kind) {
    case BW_NOTE_RESIGN:
        return record->held && (to_holder || !note->to[0]);
    case BW_NOTE_TRANSFER:
    case BW_NOTE_PREPARE:
        return record->held && !to_holder;
    case BW_NOTE_READY: /* the holder stops its work; then others yield */
        return to_holder;
    case BW_NOTE_NONE:
    case BW_NOTE_REFUSE:
        break;
    }
    return false;
}

static void add(struct bw_sighting *out, unsigned *count, const char *event, const char *reason,
                const struct bw_store_record *record)
{
    struct bw_sighting *change = &out[(*count)++];
    *change = (struct bw_sighting){.event = event, .reason = reason, .token = record->token};
    memcpy(change->leader, record->holder, sizeof change->leader);
}

/* Does `owed` have a line of this holder? */
static bool owes(const char *owed, const char *holder)
{
    size_t length = strlen(holder);
    for (const char *line = owed; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, holder, length) == 0 && line[length] == '\t')
            return true;
    }
    return false;
}

/* What the last note explains; `else_so` where it explains nothing. */
static const char *let_go(const struct bw_onlooker *onlooker, const struct bw_store_record *record,
                          const char *else_so)
{
    /* A leadership that has begun since made its predecessor's note void. */
    bool gone = record->note.kind == BW_NOTE_NONE;
    const struct bw_note *note = gone ? &onlooker->seen.note : &record->note;
    bool asked = note->serial > onlooker->notes_before;
    if (asked && note->kind == BW_NOTE_RESIGN)
        return "resigned";
    if (asked && note->kind == BW_NOTE_READY)
        return "transferred";
    return else_so;
}

static const char *why_lost(const struct bw_onlooker *onlooker,
                            const struct bw_store_record *record)
{
    const struct bw_store_record *before = &onlooker->seen;
    if (!record->held) { /* owed lines of others make a record unclean, too; but who lets go clean
                            takes its own containment out of it */
        bool others_only = record->owed[0] && !record->containment[0];
        return record->clean || others_only ? let_go(onlooker, record, "released")
                                            : "work not confirmed dead";
    }
    if (before->proved_dead)
        return "proved dead";
    /* What was between the two was not seen: a release, or a death that is settled already. */
    return owes(record->owed, before->holder) ? "taken" : let_go(onlooker, record, "followed");
}

static unsigned compare(struct bw_onlooker *onlooker, const struct bw_store_record *record,
                        struct bw_sighting *out)
{
    const struct bw_store_record *before = &onlooker->seen;
    unsigned count = 0;
    bool lost = before->held && (!record->held || record->token != before->token ||
                                 record->request != before->request);
    bool elected = record->held && (!before->held || lost);
    bool same = record->held && !elected;
    if (lost)
        add(out, &count, "lost", why_lost(onlooker, record), before);
    if (elected) {
        add(out, &count, "elected", record->owed[0] ? "work of others not confirmed dead" : "",
            record);
        onlooker->notes_before = record->note.serial;
    }
    if (same && strcmp(record->value, before->value) != 0)
        add(out, &count, "value", "", record);
    if (same && before->owed[0] && !record->owed[0])
        add(out, &count, "settled", "work of others confirmed dead", record);
    if (record->held && record->proved_dead && (elected || !before->proved_dead))
        add(out, &count, "dead", "proved dead", record);
    if (record->note.serial != before->note.serial && record->note.kind != BW_NOTE_NONE)
        add(out, &count, "note", bw_note_name(record->note.kind), record);
    return count;
}

unsigned bw_onlooker_see(struct bw_onlooker *onlooker, const struct bw_store_record *record,
                         struct bw_sighting *out)
{
    unsigned count = 0;
    if (!onlooker->known) {
        add(out, &count, "found", record->held ? "" : "nobody leads", record);
        if (!record->held)
            out->leader[0] = '\0';
        onlooker->known = true;
        onlooker->notes_before = record->note.serial;
    } else {
        count = compare(onlooker, record, out);
    }
    onlooker->seen = *record;
    return count;
}

static enum bw_transfer_state by_note(const struct bw_transfer *transfer,
                                      const struct bw_note *note)
{
    bool from_successor = strcmp(note->from, transfer->to) == 0;
    if (note->serial <= transfer->serial)
        return transfer->state;
    if (note->kind == BW_NOTE_PREPARE && strcmp(note->to, transfer->to) == 0)
        return BW_TRANSFER_PREPARING;
    if (note->kind == BW_NOTE_READY && from_successor)
        return BW_TRANSFER_READY;
    if (note->kind == BW_NOTE_REFUSE && from_successor)
        return BW_TRANSFER_REFUSED;
    return BW_TRANSFER_SUPERSEDED;
}

bool bw_transfer_see(struct bw_transfer *transfer, const struct bw_store_record *record)
{
    if (record->held && strcmp(record->holder, transfer->to) == 0)
        transfer->state = BW_TRANSFER_DONE;
    else if (record->held &&
             (record->token != transfer->token || strcmp(record->holder, transfer->holder) != 0))
        transfer->state = BW_TRANSFER_ELSEWHERE;
    else if (!record->held)
        transfer->state = BW_TRANSFER_FREE;
    else
        transfer->state = by_note(transfer, &record->note);
    return transfer->state >= BW_TRANSFER_DONE;
}
