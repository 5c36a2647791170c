/* The account of a connection: memory that is held for responses its client has not read. Every
 * buffer with responses is entered here by the transport that owns it, and every decision to wait
 * or to refuse is made from here, whatever method the response is of. Limits: front.h. Pure. */
#ifndef BW_SERVE_ACCOUNT_H
#define BW_SERVE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

enum bw_account_of {
    BW_ACCOUNT_CALLS,
    BW_ACCOUNT_STREAMS
}; /* of methods with one response; many */

struct bw_account {
    size_t bytes[2];
};

/* A buffer changed its size. */
static inline void bw_account_change(struct bw_account *account, enum bw_account_of of, size_t from,
                                     size_t to)
{
    account->bytes[of] = account->bytes[of] - from + to;
}

static inline size_t bw_account_total(const struct bw_account *account)
{
    return account->bytes[BW_ACCOUNT_CALLS] + account->bytes[BW_ACCOUNT_STREAMS];
}

#endif
