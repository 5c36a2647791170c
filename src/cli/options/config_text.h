/* Splits the text of a config file into settings. The parser knows neither options nor files: bytes
 * in, settings out.
 *
 *     # a comment has its own line
 *     store = sqlite:/var/lib/bellwether/elections.db     for every command that has this option
 *     [run]                                               from here on: `bellwether run` only
 *     ttl = 30s
 *     preferred                                           a switch needs no value
 *
 * A name is a long option without its dashes. The value is the rest of the line without the blanks
 * around it. A '#' inside a value is part of the value.
 *
 * Guarantees, for any input bytes:
 *   - the input is either accepted as a whole or refused with a line number and a reason
 *   - the parser never reads outside the input
 *   - all strings that it passes on point into the input */
#ifndef BW_CLI_OPTIONS_CONFIG_TEXT_H
#define BW_CLI_OPTIONS_CONFIG_TEXT_H

#include <stddef.h>

#define BW_CONFIG_WHY 512u /* size of the buffer for a reason */

struct bw_config_line {
    unsigned number;     /* line number, from 1 */
    const char *section; /* "" before the first section */
    const char *name;    /* NULL: a section starts here */
    const char *value;   /* NULL: the line has no value */
};

/* Handles one line. Returns 0, or -1 with the reason in why[BW_CONFIG_WHY]. */
typedef int bw_config_take(void *context, const struct bw_config_line *line, char *why);

/* Splits text[0..length) into lines and calls `take` for each. Writes zeros into `text`;
 * text[length] must be 0. Returns 0, or the number of the first invalid line with the reason in
 * why[BW_CONFIG_WHY]. */
unsigned bw_config_parse(char *text, size_t length, bw_config_take *take, void *context, char *why);

#endif
