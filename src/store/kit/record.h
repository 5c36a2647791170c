/* How ACQUIRE, RENEW, RELEASE and NOTE change a record. All stores share these rules; they do no
 * I/O.
 *
 * The store decides whether a change is allowed. It also sets version, token and proof of death.
 *
 * In the record as the store keeps it, `clean` means: the last holder's own work is confirmed dead,
 * whatever `unconfirmed` contains. bw_record_present turns this into the `clean` that readers see.
 * */
#ifndef BW_STORE_KIT_RECORD_H
#define BW_STORE_KIT_RECORD_H

#include "store/store.h"

/* Makes the request's candidate the holder. If the previous holder did not release clean, adds it
 * to `unconfirmed`. The store sets the token. */
void bw_record_acquire(struct bw_store_record *record, const struct bw_store_request *request);
/* Returns true if anything but the lease itself changed. */
bool bw_record_renew(struct bw_store_record *record, const struct bw_store_request *request);
void bw_record_release(struct bw_store_record *record, const struct bw_store_request *request);
/* Ends the leadership without a request: the work of the holder is confirmed dead (clean) or may
 * still run. `unconfirmed` stays. */
void bw_record_vacate(struct bw_store_record *record, bool clean);
void bw_record_put_note(struct bw_store_record *record, const struct bw_note *note);
/* Like bw_record_put_note, for stores that keep the note outside the record, where a new holder
 * cannot remove it. The note gets the current token, and bw_record_present hides it under any other
 * token. */
void bw_record_put_separate_note(struct bw_store_record *record, const struct bw_note *note);
/* Turns a kept record into what readers see: `clean` also requires that `unconfirmed` is empty or
 * that there was never a holder, and a note of another leadership is removed. */
void bw_record_present(struct bw_store_record *record);

/* May this ACQUIRE take the record? Yes if it is free, or if it is still the state to steal. */
bool bw_record_may_acquire(const struct bw_store_record *record,
                           const struct bw_store_request *request);
/* Is this the leadership that the request names (token and candidate)? */
bool bw_record_is_leadership(const struct bw_store_record *record,
                             const struct bw_store_request *request);
/* Did this very request make the candidate the holder? Then its first reply was lost. */
bool bw_record_is_result_of(const struct bw_store_record *record,
                            const struct bw_store_request *request);

#endif
