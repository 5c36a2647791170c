/* What a request makes of the record in a row: pure, so that it is decided from what is known
 * before asking and again from what the server said. */
#ifndef BW_STORE_POSTGRES_VERDICT_H
#define BW_STORE_POSTGRES_VERDICT_H

#include "store/store.h"

struct bw_pg_verdict {
    enum bw_outcome outcome; /* DONE or REFUSED */
    bool change, take;       /* to be written; with a new token */
    int error;
    const char *why;
};

/* `record` is changed to what shall be written. `ghost`: the server has forgotten a leadership that
 * this process saw. */
struct bw_pg_verdict bw_pg_decide(struct bw_store_record *record,
                                  const struct bw_store_request *request, bool ghost);

#endif
