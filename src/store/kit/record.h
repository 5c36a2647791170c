/* The rules over one record that all stores share, without I/O: who comes after whom owes what, and
 * what a taking, a renewal, a release and a note change. Whether they may happen is the store's to
 * decide; version, token and proofs are its own too. In what a store keeps, `clean` says that the
 * last holder's own work is confirmed dead, whatever is owed; bw_record_present makes of it what
 * readers see. */
#ifndef BW_STORE_RECORD_H
#define BW_STORE_RECORD_H

#include "store/store.h"

/* The request's candidate becomes holder; a holder before it that did not release clean is owed.
 * The token is the store's to set. */
void bw_record_take(struct bw_store_record *record, const struct bw_store_request *request);
/* True if anything but the lease itself changed. */
bool bw_record_renew(struct bw_store_record *record, const struct bw_store_request *request);
void bw_record_release(struct bw_store_record *record, bool clean);
void bw_record_note(struct bw_store_record *record, const struct bw_note *note);
/* The same where notes are kept apart from the record, so that a taking cannot void them: it names
 * its leadership, and bw_record_present does. */
void bw_record_note_apart(struct bw_store_record *record, const struct bw_note *note);
/* `clean` for readers: nothing is owed, and there was no holder or it is confirmed dead. A note
 * that was put under another leadership is none. */
void bw_record_present(struct bw_store_record *record);

/* May this ACQUIRE take the record: it is free, or still the one that the candidate wants to steal?
 */
bool bw_record_may_take(const struct bw_store_record *record,
                        const struct bw_store_request *request);
/* Is this the leadership that the request speaks of? */
bool bw_record_is(const struct bw_store_record *record, const struct bw_store_request *request);
/* Was it made by this very request, whose reply was lost? */
bool bw_record_is_answer(const struct bw_store_record *record,
                         const struct bw_store_request *request);

#endif
