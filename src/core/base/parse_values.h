/* Parses values that users write (durations, ranges, ratios, node lists), writes durations, and
 * finds the word that a misspelled one may mean.
 *
 * Every parser takes the whole text of `length` bytes. It returns 0, BW_EINVAL if the text does not
 * have the form, or BW_ELIMIT if the value is too large. After an error the output is unchanged,
 * except that a node list may be partly filled. Parsing does not depend on the locale. Times never
 * pass through floating point: 1.5s is exactly 1,500,000,000 ns. */
#ifndef BW_CORE_BASE_PARSE_VALUES_H
#define BW_CORE_BASE_PARSE_VALUES_H

#include "core/base/types.h"

/* "10s", "250ms", "1.5s", "100us", "20ns", "2m", "1h30m", "0". */
int bw_text_duration(const char *text, size_t length, bw_time *out);

/* Durations as users write them, for bw_text_duration to read back.
 *
 * bw_span_exact writes up to three decimals of the smallest unit, rounded towards 0: "1m17.429s",
 * "2.5ms", "0s"; "never" for BW_TIME_NEVER. bw_span_round is for people who compare durations: it
 * rounds to about three digits, and to seconds from one minute on: "1m17s", "9.8s", "2.35ms". Both
 * return `out`, which has BW_SPAN_TEXT bytes. */
#define BW_SPAN_TEXT 24
const char *bw_span_exact(char *out, bw_time span);
const char *bw_span_round(char *out, bw_time span);

/* "5ms" (low = high), "1ms..5ms", or "1..5ms" (the unit applies to both); low <= high. */
int bw_text_range(const char *text, size_t length, bw_time *low, bw_time *high);

/* An integer without sign, at most `max`. */
int bw_text_number(const char *text, size_t length, uint64_t max, uint64_t *out);

/* A decimal number without sign or exponent: "0.5", "20". */
int bw_text_decimal(const char *text, size_t length, double *out);

/* A ratio of at most 1: "0.1", "10%", "200ppm". */
int bw_text_ratio(const char *text, size_t length, double *out);

/* "3" or "1,2,3": ids from 1 without duplicates, at most `cap` of them. */
int bw_text_nodes(const char *text, size_t length, bw_node *out, uint32_t cap, uint32_t *count);

/* The number of letters to change, insert, delete or swap with their neighbour to turn one word
 * into the other. A word of more than 40 letters is far from every word. */
unsigned bw_text_distance(const char *a, const char *b);

/* True if `b` is close enough to `a` to suggest it instead. */
bool bw_text_similar(const char *a, const char *b);

#endif
