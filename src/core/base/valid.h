/* Whether a message could have been sent by a correct peer. */
#ifndef BW_BASE_VALID_H
#define BW_BASE_VALID_H

#include "core/base/message.h"

/* A known kind and flags, ids where ids are needed, counts within limits.h, times that are not
 * negative, log positions that are possible. Returns 0, BW_EMALFORMED or BW_ELIMIT. */
int bw_message_check(const struct bw_message *msg);

/* The most list items a message of this kind may have; 0 when it has no list. */
uint32_t bw_message_items_max(unsigned kind);

#endif
