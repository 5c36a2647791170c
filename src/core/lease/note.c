/* Notes: requests to the holder to resign, or to transfer leadership to a named successor that
 * first confirms that it is ready.
 *
 *   requester          holder                      successor S
 *   TRANSFER to S  ->  writes PREPARE to S     ->  runs --on-prepare
 *                      steps down              <-  writes READY
 *                      work dead, releases     ->  acquires at once; other candidates
 *                                                  yield for one retry interval
 *
 * If S writes REFUSE, or nothing for one TTL, the transfer is cancelled and the holder stays.
 *
 * A note is stored in the record beside the holder, one at a time, with a serial number. A note
 * never removes a record. */
#include "core/base/assert.h"
#include "core/lease/state.h"

#include <string.h>

static void put_note(struct bw_lease *l, enum bw_note_kind kind, const char *to, bw_time now,
                     struct bw_lease_actions *actions)
{
    struct bw_note *note = &lease_ask(l, NULL, BW_STORE_NOTE, now, actions)->note;
    note->kind = kind;
    memcpy(note->from, l->config.candidate, strlen(l->config.candidate) + 1);
    memcpy(note->to, to, strlen(to) + 1);
}

void lease_begin_transfer(struct bw_lease *l, const char *to, bw_time now,
                          struct bw_lease_actions *actions)
{
    bool possible = (l->config.traits & BW_STORE_NOTES) && strlen(to) <= BW_CANDIDATE_ID_MAX &&
                    strcmp(to, l->config.candidate) != 0;
    if (!possible || BW_NEVER(l->state != LEASE_HOLDING))
        return;
    memcpy(l->successor, to, strlen(to) + 1);
    l->successor_until = bw_time_add(now, l->config.terms.ttl_ns);
    put_note(l, BW_NOTE_PREPARE, to, now, actions);
}

static void on_holder_note(struct bw_lease *l, const struct bw_note *note, bw_time now,
                           struct bw_lease_actions *actions)
{
    bool from_successor = l->successor[0] && strcmp(note->from, l->successor) == 0;
    if (note->kind == BW_NOTE_RESIGN) {
        lease_become_stopping(l, BW_LEASE_RESIGNED, now, actions);
    } else if (note->kind == BW_NOTE_TRANSFER) {
        lease_begin_transfer(l, note->to, now, actions);
    } else if (note->kind == BW_NOTE_READY && from_successor) {
        lease_become_stopping(l, BW_LEASE_TRANSFERRED, now, actions);
    } else if (note->kind == BW_NOTE_REFUSE && from_successor) {
        l->successor[0] = 0;
        l->successor_until = BW_TIME_NEVER;
    }
}

void lease_on_note(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    const struct bw_note *note = &l->seen.note;
    if (note->serial <= l->note_seen)
        return;
    l->note_seen = note->serial;
    if (l->state == LEASE_HOLDING)
        on_holder_note(l, note, now, actions);
    else if (note->kind == BW_NOTE_PREPARE && strcmp(note->to, l->config.candidate) == 0 &&
             !l->config.observer && !l->stopping)
        lease_act(actions, BW_LEASE_PREPARE);
}

void lease_on_prepared(struct bw_lease *l, bool ready, bw_time now,
                       struct bw_lease_actions *actions)
{
    if (l->state >= LEASE_HOLDING || l->config.observer)
        return;
    bool yes = ready && !l->unhealthy;
    put_note(l, yes ? BW_NOTE_READY : BW_NOTE_REFUSE, l->seen.holder, now, actions);
}

bool lease_yields(const struct bw_lease *l, bw_time now)
{
    const struct bw_note *note = &l->seen.note;
    return !l->seen.held && note->kind == BW_NOTE_READY &&
           strcmp(note->to, l->seen.holder) == 0 && /* otherwise the note belongs to an earlier
                                                     * transfer */
           strcmp(note->from, l->config.candidate) != 0 &&
           now < bw_time_add(l->seen_since, l->config.retry_ns);
}

void lease_request_handover(struct bw_lease *l, bw_time now, struct bw_lease_actions *actions)
{
    l->prefer_at = bw_time_add(now, l->config.terms.ttl_ns);
    put_note(l, BW_NOTE_TRANSFER, l->config.candidate, now, actions);
}
