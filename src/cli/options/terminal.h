/* The terminal: colours only where they are seen, width, and numbers as people read them. */
#ifndef BW_CLI_TERM_H
#define BW_CLI_TERM_H

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
    bool colours; /* it shows colours and nobody set NO_COLOR */
    bool utf8;    /* the locale can show more than ASCII */
    int width;    /* columns; 80 when not a terminal */
    int height;
};

void bw_term_init(struct bw_term *term);

/* The escape sequence that starts a colour (BW_PLAIN ends it), "" without colours. */
const char *bw_term_colour(const struct bw_term *term, enum bw_colour colour);

/* "1.234 ms", "12.5 s"; "never" for BW_TIME_NEVER. Returns `out`. */
#define BW_TEXT_SPAN 24
const char *bw_term_span(char *out, bw_time span);
/* 1234567 -> "1,234,567"; up to two decimals below 100 when it is no whole number. */
const char *bw_term_count(char *out, double value);

#endif
