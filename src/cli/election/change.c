/* Derives changes of an election from its records; see change.h. */
#include "cli/election/change.h"

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
    case BW_NOTE_READY: /* the holder stops its work; then the other candidates yield */
        return to_holder;
    case BW_NOTE_NONE:
    case BW_NOTE_REFUSE:
        break;
    }
    return false;
}

static void add(struct bw_election_change *out, unsigned *count, const char *event,
                const char *reason, const struct bw_store_record *record)
{
    struct bw_election_change *change = &out[(*count)++];
    *change = (struct bw_election_change){.event = event, .reason = reason, .token = record->token};
    memcpy(change->leader, record->holder, sizeof change->leader);
}

/* Returns whether `unconfirmed` (one line per earlier holder) has a line for this holder. */
static bool has_unconfirmed(const char *unconfirmed, const char *holder)
{
    size_t length = strlen(holder);
    for (const char *line = unconfirmed; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, holder, length) == 0 && line[length] == '\t')
            return true;
    }
    return false;
}

/* Returns the reason that the last note gives for a release, or `fallback` if the note gives
 * none. */
static const char *release_reason(const struct bw_observer *observer,
                                  const struct bw_store_record *record, const char *fallback)
{
    /* A leadership that began since then has voided its predecessor's note. */
    bool gone = record->note.kind == BW_NOTE_NONE;
    const struct bw_note *note = gone ? &observer->seen.note : &record->note;
    bool asked = note->serial > observer->notes_before;
    if (asked && note->kind == BW_NOTE_RESIGN)
        return "resigned";
    if (asked && note->kind == BW_NOTE_READY)
        return "transferred";
    return fallback;
}

static const char *loss_reason(const struct bw_observer *observer,
                               const struct bw_store_record *record)
{
    const struct bw_store_record *before = &observer->seen;
    /* Unconfirmed work of earlier holders makes a record unclean too. But a holder that releases
     * cleanly removes its own containment from the record. */
    if (!record->held) {
        bool others_only = record->unconfirmed[0] && !record->containment[0];
        return record->clean || others_only ? release_reason(observer, record, "released")
                                            : "its work is not confirmed dead";
    }
    if (before->proved_dead)
        return "proved dead";
    /* The leader changed between two observations. The predecessor released the leadership, or its
     * work is already confirmed dead, unless the new record lists its work as unconfirmed. */
    return has_unconfirmed(record->unconfirmed, before->holder)
               ? "taken"
               : release_reason(observer, record, "followed");
}

static unsigned compare(struct bw_observer *observer, const struct bw_store_record *record,
                        struct bw_election_change *out)
{
    const struct bw_store_record *before = &observer->seen;
    unsigned count = 0;
    bool lost = before->held && (!record->held || record->token != before->token ||
                                 record->request != before->request);
    bool elected = record->held && (!before->held || lost);
    bool same = record->held && !elected;
    if (lost)
        add(out, &count, "lost", loss_reason(observer, record), before);
    if (elected) {
        add(out, &count, "elected",
            record->unconfirmed[0] ? "work of earlier leaders is not confirmed dead" : "", record);
        observer->notes_before = record->note.serial;
    }
    if (same && strcmp(record->value, before->value) != 0)
        add(out, &count, "value", "", record);
    if (same && before->unconfirmed[0] && !record->unconfirmed[0])
        add(out, &count, "settled", "work of earlier leaders is confirmed dead", record);
    if (record->held && record->proved_dead && (elected || !before->proved_dead))
        add(out, &count, "dead", "proved dead", record);
    if (record->note.serial != before->note.serial && record->note.kind != BW_NOTE_NONE)
        add(out, &count, "note", bw_note_name(record->note.kind), record);
    return count;
}

unsigned bw_observer_update(struct bw_observer *observer, const struct bw_store_record *record,
                            struct bw_election_change *out)
{
    unsigned count = 0;
    if (!observer->known) {
        add(out, &count, "found", record->held ? "" : "no leader", record);
        if (!record->held)
            out->leader[0] = '\0';
        observer->known = true;
        observer->notes_before = record->note.serial;
    } else {
        count = compare(observer, record, out);
    }
    observer->seen = *record;
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

bool bw_transfer_update(struct bw_transfer *transfer, const struct bw_store_record *record)
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
