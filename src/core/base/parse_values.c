/* Parsers of values that users type; see parse_values.h. A number is read as an integer mantissa
 * and a count of decimal places, so that a duration never passes through floating point. */
#include "core/base/parse_values.h"

#include "core/base/error.h"

#include <string.h>

#define DIGITS_MAX 18u
#define WORD_MAX   40u

struct decimal {
    uint64_t mantissa;
    unsigned places;
};

static uint64_t power(unsigned places)
{
    uint64_t value = 1;
    while (places-- > 0)
        value *= 10;
    return value;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads "12" or "1.25" at the start; returns the number of bytes read, or 0 if there is no
 * number. */
static size_t read_decimal(const char *text, size_t length, struct decimal *out)
{
    size_t at = 0, digits = 0;
    bool point = false;
    out->mantissa = 0;
    out->places = 0;
    for (; at < length; at++) {
        if (text[at] == '.' && !point && digits > 0 && at + 1 < length && is_digit(text[at + 1])) {
            point = true;
            continue;
        }
        if (!is_digit(text[at]))
            break;
        if (++digits > DIGITS_MAX)
            return 0;
        out->mantissa = out->mantissa * 10 + (uint64_t)(text[at] - '0');
        out->places += point;
    }
    return digits ? at : 0;
}

struct unit {
    const char *name;
    bw_time ns;
};

static const struct unit units[] = {{"ns", 1},           {"us", BW_US},        {"ms", BW_MS},
                                    {"s", BW_SEC},       {"min", 60 * BW_SEC}, {"m", 60 * BW_SEC},
                                    {"h", 3600 * BW_SEC}};

static size_t read_unit(const char *text, size_t length, bw_time *ns)
{
    size_t letters = 0;
    while (letters < length && text[letters] >= 'a' && text[letters] <= 'z')
        letters++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].name) != letters || memcmp(units[i].name, text, letters) != 0)
            continue;
        *ns = units[i].ns;
        return letters;
    }
    return 0;
}

int bw_text_duration(const char *text, size_t length, bw_time *out)
{
    unsigned __int128 sum = 0;
    size_t at = 0;
    if (length == 1 && text[0] == '0') {
        *out = 0;
        return 0;
    }
    if (length == 0)
        return BW_EINVAL;
    while (at < length) {
        struct decimal number;
        bw_time ns = 0;
        size_t taken = read_decimal(text + at, length - at, &number);
        size_t letters = taken ? read_unit(text + at + taken, length - at - taken, &ns) : 0;
        if (letters == 0)
            return BW_EINVAL;
        sum += (unsigned __int128)number.mantissa * (uint64_t)ns / power(number.places);
        at += taken + letters;
    }
    if (sum >= (unsigned __int128)BW_TIME_NEVER)
        return BW_ELIMIT;
    *out = (bw_time)sum;
    return 0;
}

/* ---- durations as text ---- */

#define MINUTE (60 * BW_SEC)
#define HOUR   (60 * MINUTE)

static char *put_number(char *at, int64_t number)
{
    char digits[24];
    unsigned count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

static char *put_unit(char *at, const char *unit)
{
    size_t length = strlen(unit);
    memcpy(at, unit, length + 1);
    return at + length;
}

/* Writes `span` in a unit of `ns` with up to three decimals. */
static char *put_decimal(char *at, bw_time span, bw_time ns, const char *unit)
{
    at = put_number(at, span / ns);
    int64_t thousandths = (int64_t)((__int128)(span % ns) * 1000 / ns);
    if (thousandths > 0) {
        *at++ = '.';
        for (int64_t place = 100; place > 0 && thousandths > 0; place /= 10) {
            *at++ = (char)('0' + thousandths / place);
            thousandths %= place;
        }
    }
    return put_unit(at, unit);
}

const char *bw_span_exact(char *out, bw_time span)
{
    char *at = out;
    if (span == BW_TIME_NEVER) {
        put_unit(at, "never");
        return out;
    }
    if (span < 0)
        *at++ = '-';
    uint64_t size = span < 0 ? (uint64_t)0 - (uint64_t)span : (uint64_t)span;
    span = size > (uint64_t)BW_TIME_NEVER ? BW_TIME_NEVER : (bw_time)size;
    if (span > 0 && span < BW_US)
        put_decimal(at, span, 1, "ns");
    else if (span > 0 && span < BW_MS)
        put_decimal(at, span, BW_US, "us");
    else if (span > 0 && span < BW_SEC)
        put_decimal(at, span, BW_MS, "ms");
    else {
        if (span >= HOUR)
            at = put_unit(put_number(at, span / HOUR), "h");
        if (span >= MINUTE && span % HOUR / MINUTE > 0)
            at = put_unit(put_number(at, span % HOUR / MINUTE), "m");
        if (span < MINUTE || span % MINUTE >= BW_MS)
            put_decimal(at, span % MINUTE, BW_SEC, "s");
    }
    return out;
}

const char *bw_span_round(char *out, bw_time span)
{
    static const struct {
        bw_time from, step;
    } steps[] = {{MINUTE, BW_SEC},     {10 * BW_SEC, 100 * BW_MS}, {BW_SEC, 10 * BW_MS},
                 {100 * BW_MS, BW_MS}, {10 * BW_MS, 100 * BW_US},  {BW_MS, 10 * BW_US},
                 {100 * BW_US, BW_US}, {10 * BW_US, 100},          {BW_US, 10}};
    bw_time size = span < 0 && span != INT64_MIN ? -span : span;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (size >= steps[i].from && size < BW_TIME_NEVER - BW_SEC) {
            bw_time rounded = (size + steps[i].step / 2) / steps[i].step * steps[i].step;
            return bw_span_exact(out, span < 0 ? -rounded : rounded);
        }
    return bw_span_exact(out, span);
}

/* ---- ranges ---- */

/* A number before ".." without a unit takes the unit of the number after it. */
static int duration_in_unit_of(const char *low, size_t low_length, const char *high,
                               size_t high_length, bw_time *out)
{
    struct decimal number, other;
    bw_time ns = 0;
    size_t taken = read_decimal(high, high_length, &other);
    if (low_length == 0 || read_decimal(low, low_length, &number) != low_length)
        return BW_EINVAL;
    size_t letters = read_unit(high + taken, high_length - taken, &ns);
    if (letters == 0 || taken + letters != high_length)
        return BW_EINVAL;
    unsigned __int128 value =
        (unsigned __int128)number.mantissa * (uint64_t)ns / power(number.places);
    if (value >= (unsigned __int128)BW_TIME_NEVER)
        return BW_ELIMIT;
    *out = (bw_time)value;
    return 0;
}

int bw_text_range(const char *text, size_t length, bw_time *low, bw_time *high)
{
    size_t dots = 0;
    bw_time first, last;
    while (dots + 1 < length && (text[dots] != '.' || text[dots + 1] != '.'))
        dots++;
    if (dots + 1 >= length) {
        int error = bw_text_duration(text, length, &first);
        if (error == 0)
            *low = *high = first;
        return error;
    }
    const char *second = text + dots + 2;
    size_t rest = length - dots - 2;
    int error = bw_text_duration(second, rest, &last);
    if (error != 0)
        return error;
    error = bw_text_duration(text, dots, &first);
    if (error == BW_EINVAL)
        error = duration_in_unit_of(text, dots, second, rest, &first);
    if (error == 0 && first > last)
        error = BW_EINVAL;
    if (error != 0)
        return error;
    *low = first;
    *high = last;
    return 0;
}

int bw_text_number(const char *text, size_t length, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    if (length == 0)
        return BW_EINVAL;
    for (size_t at = 0; at < length; at++) {
        if (!is_digit(text[at]))
            return BW_EINVAL;
        uint64_t digit = (uint64_t)(text[at] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return BW_ELIMIT;
        value = value * 10 + digit;
    }
    if (value > max)
        return BW_ELIMIT;
    *out = value;
    return 0;
}

int bw_text_decimal(const char *text, size_t length, double *out)
{
    struct decimal number;
    if (length == 0 || read_decimal(text, length, &number) != length)
        return BW_EINVAL;
    *out = (double)number.mantissa / (double)power(number.places);
    return 0;
}

static bool ends_with(const char *text, size_t length, const char *tail)
{
    size_t n = strlen(tail);
    return length > n && memcmp(text + length - n, tail, n) == 0;
}

int bw_text_ratio(const char *text, size_t length, double *out)
{
    double value, divisor = 1;
    if (ends_with(text, length, "%")) {
        divisor = 100;
        length -= 1;
    } else if (ends_with(text, length, "ppm")) {
        divisor = 1e6;
        length -= 3;
    }
    int error = bw_text_decimal(text, length, &value);
    if (error != 0)
        return error;
    if (value / divisor > 1)
        return BW_ELIMIT;
    *out = value / divisor;
    return 0;
}

int bw_text_nodes(const char *text, size_t length, bw_node *out, uint32_t cap, uint32_t *count)
{
    uint32_t found = 0;
    for (size_t at = 0, end; at <= length; at = end + 1) {
        uint64_t id;
        for (end = at; end < length && text[end] != ',';)
            end++;
        int error = bw_text_number(text + at, end - at, UINT32_MAX - 1, &id);
        if (error != 0)
            return error;
        if (id == BW_NODE_NONE)
            return BW_EINVAL;
        for (uint32_t i = 0; i < found; i++)
            if (out[i] == (bw_node)id)
                return BW_EINVAL;
        if (found == cap)
            return BW_ELIMIT;
        out[found++] = (bw_node)id;
    }
    *count = found;
    return 0;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned bw_text_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned rows[3][WORD_MAX + 1]; /* the last three rows of the table of Damerau's distance */
    if (n > WORD_MAX || m > WORD_MAX)
        return WORD_MAX;
    for (unsigned j = 0; j <= m; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (unsigned j = 1; j <= m; j++) {
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

bool bw_text_similar(const char *a, const char *b)
{
    size_t longest = strlen(a) > strlen(b) ? strlen(a) : strlen(b);
    return bw_text_distance(a, b) <= 1 + (unsigned)longest / 4;
}
