/* Checks whether a correct peer could have sent a message. */
#ifndef BW_CORE_BASE_VALID_H
#define BW_CORE_BASE_VALID_H

#include "core/base/message.h"

/* Checks that the kind and flags are known, required ids are present, counts are within limits.h,
 * times are not negative, and log positions are possible. Returns 0, BW_EMALFORMED or BW_ELIMIT. */
int bw_message_check(const struct bw_message *msg);

/* The maximum number of list items in a message of this kind; 0: the kind has no list. */
uint32_t bw_message_items_max(unsigned kind);

#endif
