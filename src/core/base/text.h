/* How people write values: durations, ranges, chances, node lists; and which word they may have
 * meant.
 *
 * Every function takes the whole text of `length` bytes and returns 0, BW_EINVAL when it does not
 * have that form, or BW_ELIMIT when the value is too large. On error `out` is left alone (a node
 * list may be half filled). No locale, no floating point where a time is concerned: 1.5s is exactly
 * 1,500,000,000 ns. */
#ifndef BW_BASE_TEXT_H
#define BW_BASE_TEXT_H

#include "core/base/types.h"

/* "10s", "250ms", "1.5s", "100us", "20ns", "2m", "1h30m", "0". */
int bw_text_duration(const char *text, size_t length, bw_time *out);

/* "5ms" (low = high), "1ms..5ms", "1..5ms" (the unit counts for both); low <= high. */
int bw_text_range(const char *text, size_t length, bw_time *low, bw_time *high);

/* A whole number without sign, at most `max`. */
int bw_text_number(const char *text, size_t length, uint64_t max, uint64_t *out);

/* A decimal number without sign or exponent: "0.5", "20". */
int bw_text_decimal(const char *text, size_t length, double *out);

/* A part of one: "0.1", "10%", "200ppm"; at most 1. */
int bw_text_ratio(const char *text, size_t length, double *out);

/* "3" or "1,2,3": ids from 1, none twice; at most `cap` of them. */
int bw_text_nodes(const char *text, size_t length, bw_node *out, uint32_t cap, uint32_t *count);

/* How many letters must be changed, added, dropped or swapped with their neighbour to make one word
 * of the other; words above 40 letters count as far away. */
unsigned bw_text_distance(const char *a, const char *b);

/* True if `b` is near enough to `a` to be what was meant. */
bool bw_text_similar(const char *a, const char *b);

#endif
