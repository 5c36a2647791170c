/* The effect of a request on the record in a row. Pure: the store calls it with the cached row
 * before it sends a statement, and again with the row that the server returned. */
#ifndef BW_STORE_POSTGRES_VERDICT_H
#define BW_STORE_POSTGRES_VERDICT_H

#include "store/store.h"

struct bw_pg_verdict {
    enum bw_outcome outcome; /* DONE or REFUSED */
    bool change, take;       /* to be written; with a new token */
    int error;
    const char *why;
};

/* Changes `record` to the content that must be written. `lost`: the server lost a leadership that
 * this process saw. */
struct bw_pg_verdict bw_pg_decide(struct bw_store_record *record,
                                  const struct bw_store_request *request, bool lost);

#endif
