/* Reads properties of the terminal and formats numbers; see terminal.h. */
#include "cli/options/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void bw_term_init(struct bw_term *term)
{
    struct winsize size;
    const char *no_colour = getenv("NO_COLOR"), *kind = getenv("TERM");
    bool dumb = kind && strcmp(kind, "dumb") == 0;
    *term = (struct bw_term){.live = isatty(STDOUT_FILENO) && !dumb, .width = 80, .height = 24};
    term->colours = term->live && !(no_colour && *no_colour);
    term->utf8 = setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    if (term->live && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) {
        term->width = size.ws_col;
        term->height = size.ws_row;
    }
}

const char *bw_term_colour(const struct bw_term *term, enum bw_colour colour)
{
    static const char *const codes[] = {"\033[0m",  "\033[1m",  "\033[2m",  "\033[31m", "\033[32m",
                                        "\033[33m", "\033[34m", "\033[35m", "\033[36m"};
    return term->colours ? codes[colour] : "";
}

const char *bw_term_span(char *out, bw_time span)
{
    double ns = (double)span;
    if (span == BW_TIME_NEVER)
        snprintf(out, BW_TEXT_SPAN, "never");
    else if (span == 0)
        snprintf(out, BW_TEXT_SPAN, "0");
    else if (ns < 999.5)
        snprintf(out, BW_TEXT_SPAN, "%.0f ns", ns);
    else if (ns < 999.5e3)
        snprintf(out, BW_TEXT_SPAN, "%.3g us", ns / 1e3);
    else if (ns < 9.9995e6)
        snprintf(out, BW_TEXT_SPAN, "%.3f ms", ns / 1e6);
    else if (ns < 999.95e6)
        snprintf(out, BW_TEXT_SPAN, "%.1f ms", ns / 1e6);
    else if (ns < 9.9995e9)
        snprintf(out, BW_TEXT_SPAN, "%.3f s", ns / 1e9);
    else
        snprintf(out, BW_TEXT_SPAN, "%.1f s", ns / 1e9);
    return out;
}

const char *bw_term_count(char *out, double value)
{
    char digits[BW_TEXT_SPAN];
    size_t used = 0;
    if (value < 100 && fabs(value - round(value)) > 1e-9) {
        snprintf(out, BW_TEXT_SPAN, value < 0.01 ? "%.2g" : "%.2f", value);
        return out;
    }
    int length = snprintf(digits, sizeof digits, "%.0f", value);
    for (int i = 0; i < length && used + 2 < BW_TEXT_SPAN; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-')
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}
