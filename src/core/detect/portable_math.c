/* Series and continued fractions after Abramowitz and Stegun, Handbook of Mathematical Functions,
 * 4.1.27 (log), 4.2.1 (exp), 7.1.6 and 7.1.14 (erf and erfc). */
#include "core/detect/portable_math.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ln 2 as a sum: the first part has 32 bits, so its product with a small integer is exact. */
#define LN2_HIGH 6.93147180369123816490e-01
#define LN2_LOW  1.90821492927058770002e-10
#define LN10     2.302585092994046
#define SQRT2    1.4142135623730951
#define SQRT_PI  1.7724538509055161
#define INV_LN2  1.4426950408889634

#define EXP_MAX 709.782712893384   /* exp of more overflows */
#define EXP_MIN (-745.13321910194) /* exp of less is 0 */

static double power_of_two(int k) /* -1022 <= k <= 1023 */
{
    uint64_t bits = (uint64_t)(k + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Splits a positive finite number into m * 2^e with m in [1, 2). */
static double split(double x, int *e)
{
    uint64_t bits;
    int below = 0;
    if (x < 2.2250738585072014e-308) { /* subnormal */
        x *= 18014398509481984.0;      /* 2^54 */
        below = 54;
    }
    memcpy(&bits, &x, sizeof bits);
    *e = (int)(bits >> 52) - 1023 - below;
    bits = (bits & 0xfffffffffffffu) | (uint64_t)1023 << 52;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ln m = 2 artanh((m - 1) / (m + 1)), for m in [sqrt 1/2, sqrt 2]. */
static double log_near_one(double m)
{
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
    for (int k = 23; k >= 3; k -= 2)
        sum = (sum + 1.0 / k) * s2;
    return 2 * s + 2 * s * sum;
}

double bw_log(double x)
{
    if (!(x > 0))
        return x == 0 ? -INFINITY : NAN;
    if (isinf(x))
        return x;
    int e;
    double m = split(x, &e);
    if (m > SQRT2) {
        m /= 2;
        e++;
    }
    return e * LN2_HIGH + (e * LN2_LOW + log_near_one(m));
}

double bw_log1p(double x)
{
    double u = 1 + x;
    if (!(u > 0) || isinf(u))
        return bw_log(u);
    if (u == 1)
        return x;
    return bw_log(u) * (x / (u - 1)); /* corrects the rounding of 1 + x */
}

double bw_log10(double x)
{
    double power = 1;
    for (int n = 0; n <= 22 && power <= x; n++, power *= 10)
        if (power == x)
            return n;
    return bw_log(x) / LN10;
}

double bw_exp(double x)
{
    if (isnan(x))
        return x;
    if (x > EXP_MAX)
        return INFINITY;
    if (x < EXP_MIN)
        return 0;
    int k = (int)(x * INV_LN2 + (x < 0 ? -0.5 : 0.5));
    double r = (x - k * LN2_HIGH) - k * LN2_LOW, sum = 1;
    for (int i = 14; i >= 1; i--)
        sum = 1 + sum * r / i;
    int half = k / 2; /* in two factors, because 2^k may overflow or be subnormal */
    return sum * power_of_two(half) * power_of_two(k - half);
}

/* erf x = 2 / sqrt pi * exp(-x^2) * (x + 2 x^3 / 3 + 4 x^5 / (3 * 5) + ...), for small x. */
static double erf_series(double x)
{
    double term = x, sum = x;
    for (int n = 1; n < 80; n++) {
        term *= 2 * x * x / (2 * n + 1);
        sum += term;
    }
    return 2 / SQRT_PI * bw_exp(-x * x) * sum;
}

/* sqrt pi * exp(x^2) * erfc x = 1 / (x + 1/2 / (x + 1 / (x + 3/2 / (x + 2 / ...)))), for
 * x >= 1.5. */
static double erfc_fraction(double x)
{
    double fraction = x;
    for (int n = 200; n >= 1; n--)
        fraction = x + n / (2 * fraction);
    return bw_exp(-x * x) / (SQRT_PI * fraction);
}

double bw_erfc(double x)
{
    if (isnan(x))
        return x;
    if (x > 27)
        return 0;
    if (x < -6)
        return 2;
    if (x < -1.5)
        return 2 - erfc_fraction(-x);
    return x < 1.5 ? 1 - erf_series(x) : erfc_fraction(x);
}
