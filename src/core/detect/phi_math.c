/* Three tail functions, their inverse, and a window of samples. phi.c computes the level. */
#include "core/detect/phi_math.h"

#include "core/base/limits.h"
#include "core/detect/portable_math.h"

#include <math.h>

#define LN10       2.302585092994046
#define SQRT_HALF  0.7071067811865476
#define SQRT_2PI   2.5066282746310002
#define SAMPLE_MAX ((1u << 27) - 1)
#define NORMAL_TAIL                                                                                \
    30.0 /* beyond this, erfc underflows a double; the asymptotic formula is exact enough */

double bw_phi_normal(double y)
{
    if (y > NORMAL_TAIL)
        return (y * y / 2 + bw_log(y * SQRT_2PI)) / LN10;
    return -bw_log10(bw_erfc(y * SQRT_HALF) / 2);
}

double bw_phi_logistic(double y)
{
    double z = y * (1.5976 + 0.070566 * y * y);
    return z > 700 ? z / LN10 : bw_log1p(bw_exp(z)) / LN10;
}

double bw_phi_exponential(double ratio)
{
    return ratio / LN10;
}

static double phi_of(enum bw_phi_model model, double argument)
{
    switch (model) {
    case BW_PHI_NORMAL:
        return bw_phi_normal(argument);
    case BW_PHI_LOGISTIC:
        return bw_phi_logistic(argument);
    case BW_PHI_EXPONENTIAL:
        break;
    }
    return bw_phi_exponential(argument);
}

/* All three functions increase without bound, so bisection finds the argument with full
 * precision. */
double bw_phi_inverse(enum bw_phi_model model, double phi)
{
    double low = -40, high = 40;
    while (phi_of(model, high) < phi)
        high *= 2;
    for (int i = 0; i < 80; i++) {
        double middle = (low + high) / 2;
        if (phi_of(model, middle) < phi)
            low = middle;
        else
            high = middle;
    }
    return high;
}

void bw_phi_window_init(struct bw_phi_window *window, bw_time unit_ns, uint32_t cap)
{
    *window = (struct bw_phi_window){.unit_ns = unit_ns, .cap = cap};
}

void bw_phi_window_add(struct bw_phi_window *window, uint32_t *samples, bw_time interval_ns)
{
    bw_time units = (interval_ns + window->unit_ns / 2) / window->unit_ns;
    uint64_t sample = units < 0 ? 0 : units > SAMPLE_MAX ? SAMPLE_MAX : (uint64_t)units;
    if (window->count == window->cap) {
        uint64_t old = samples[window->next];
        window->sum -= old;
        window->squares -= old * old;
    } else {
        window->count++;
    }
    samples[window->next] = (uint32_t)sample;
    window->next = window->next + 1 == window->cap ? 0 : window->next + 1;
    window->sum += sample;
    window->squares += sample * sample;
}

double bw_phi_window_mean_ns(const struct bw_phi_window *window)
{
    if (window->count == 0)
        return 0;
    return (double)window->sum / window->count * (double)window->unit_ns;
}

double bw_phi_window_sd_ns(const struct bw_phi_window *window)
{
    if (window->count == 0)
        return 0;
    double mean = (double)window->sum / window->count;
    double variance = (double)window->squares / window->count - mean * mean;
    return variance > 0 ? sqrt(variance) * (double)window->unit_ns : 0;
}
