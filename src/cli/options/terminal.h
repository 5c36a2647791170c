/* Terminal output: colours only on a terminal, its width, and numbers in readable form. */
#ifndef BW_CLI_OPTIONS_TERMINAL_H
#define BW_CLI_OPTIONS_TERMINAL_H

#include "core/base/types.h"

#include <stdio.h>

enum bw_colour {
    BW_PLAIN,
    BW_BOLD,
    BW_FAINT,
    BW_RED,
    BW_GREEN,
    BW_YELLOW,
    BW_BLUE,
    BW_MAGENTA,
    BW_CYAN
};

struct bw_term {
    bool live;    /* stdout is a terminal */
    bool colours; /* the terminal shows colours, and NO_COLOR is not set */
    bool utf8;    /* the locale's encoding is UTF-8 */
    int width;    /* columns; 80 when not a terminal */
    int height;
};

void bw_term_init(struct bw_term *term);

/* Returns the escape sequence that starts a colour (BW_PLAIN ends it), or "" without colours. */
const char *bw_term_colour(const struct bw_term *term, enum bw_colour colour);

/* Writes a time span: "1.234 ms", "12.5 s", or "never" for BW_TIME_NEVER. Returns `out`. */
#define BW_TEXT_SPAN 24
const char *bw_term_span(char *out, bw_time span);
/* Writes a number: 1234567 as "1,234,567"; a fraction below 100 with up to two decimals. Returns
 * `out`. */
const char *bw_term_count(char *out, double value);

#endif
