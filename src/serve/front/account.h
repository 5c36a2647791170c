/* The account of a connection: the bytes of memory that hold responses its client has not read.
 *
 * The transport that owns a response buffer enters its size here. Every decision to hold back or to
 * refuse a response uses this account, whatever method the response belongs to. Limits: front.h.
 * Pure. */
#ifndef BW_SERVE_FRONT_ACCOUNT_H
#define BW_SERVE_FRONT_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

enum bw_account_of {
    BW_ACCOUNT_CALLS,  /* methods with one response */
    BW_ACCOUNT_STREAMS /* methods with a stream of responses */
};

struct bw_account {
    size_t bytes[2];
};

/* Records that a buffer changed its size. */
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
