/* The text of a config file, cut into settings. Knows no option and no file: bytes in, settings
 * out.
 *
 *     # a comment: a line of its own
 *     store = sqlite:/var/lib/bellwether/elections.db     for every command that knows the flag
 *     [run]                                               from here on for `bellwether run`
 *     ttl = 30s
 *     preferred                                           a switch may stand alone
 *
 * A name is a long flag without its dashes; the value is the rest of the line without the blanks
 * around it ('#' in it is part of it). Guarantees: any bytes are refused with a line and a sentence
 * or taken whole; nothing is read outside of them; strings handed out lie inside them. */
#ifndef BW_CLI_CONFIG_TEXT_H
#define BW_CLI_CONFIG_TEXT_H

#include <stddef.h>

#define BW_CONFIG_WHY 512u /* bytes of a sentence */

struct bw_config_line {
    unsigned number;     /* from 1 */
    const char *section; /* "" before the first */
    const char *name;    /* NULL: the section begins here */
    const char *value;   /* NULL: none was given */
};

/* Takes one line. Returns 0, or -1 with the sentence in why[BW_CONFIG_WHY]. */
typedef int bw_config_take(void *context, const struct bw_config_line *line, char *why);

/* Cuts text[0..length) into lines, writing zeros into it; text[length] must be 0. Returns 0, or the
 * number of the line that is wrong, with the sentence in why[BW_CONFIG_WHY]. */
unsigned bw_config_parse(char *text, size_t length, bw_config_take *take, void *context, char *why);

#endif
