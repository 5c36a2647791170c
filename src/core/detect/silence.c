/* Allowed silence of one sender; see silence.h. The minimum of the standard deviation is a quarter
 * of a period: with threshold 8, a steady sender is suspected after about two and a half
 * periods. */
#include "core/detect/silence.h"

#define THRESHOLD        8.0
#define UNITS_PER_PERIOD 65536

void bw_silence_init(struct bw_silence *silence, bw_time period_ns, bw_time limit_ns)
{
    silence->period = period_ns;
    silence->limit = bw_time_max(limit_ns, period_ns);
    silence->argument = bw_phi_inverse(BW_PHI_NORMAL, THRESHOLD);
    bw_silence_forget(silence);
}

void bw_silence_forget(struct bw_silence *silence)
{
    bw_time unit = bw_time_max(silence->period / UNITS_PER_PERIOD, 1);
    bw_phi_window_init(&silence->window, unit, BW_SILENCE_WINDOW);
    silence->received = silence->until = BW_TIME_NEVER;
}

static bw_time max_silence(const struct bw_silence *silence)
{
    double mean = (double)silence->period, least = mean / 4, sd = least;
    if (silence->window.count > 1) {
        mean = bw_phi_window_mean_ns(&silence->window);
        sd = bw_phi_window_sd_ns(&silence->window);
        sd = sd > least ? sd : least;
    }
    double wait = mean + sd * silence->argument;
    return wait < (double)silence->limit ? (bw_time)wait : silence->limit;
}

void bw_silence_received(struct bw_silence *silence, bw_time now)
{
    if (silence->received != BW_TIME_NEVER && now - silence->received > silence->period / 2)
        bw_phi_window_add(&silence->window, silence->samples, now - silence->received);
    silence->received = now;
    silence->until = bw_time_add(now, max_silence(silence));
}

bw_time bw_silence_deadline(const struct bw_silence *silence)
{
    return silence->until;
}

bool bw_silence_over(struct bw_silence *silence, bw_time now)
{
    if (now < silence->until)
        return false;
    bool late = now - silence->until > silence->period / 2;
    silence->until = late ? bw_time_add(now, silence->period) : BW_TIME_NEVER;
    return !late;
}
