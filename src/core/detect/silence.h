/* How long one sender may be silent before it is suspected: phi (phi_math.h) for a single sender
 * that sends at least one message every period.
 *
 * An interval of at most half a period is not a sample, because the sender may send other messages
 * between its beats. The allowed silence is between the period and `limit`, whatever the link did
 * before. */
#ifndef BW_CORE_DETECT_SILENCE_H
#define BW_CORE_DETECT_SILENCE_H

#include "core/detect/phi_math.h"

#define BW_SILENCE_WINDOW 64u

struct bw_silence {
    struct bw_phi_window window;
    uint32_t samples[BW_SILENCE_WINDOW];
    bw_time period, limit;
    double argument;  /* argument of phi at the threshold */
    bw_time received; /* last message; NEVER: none yet, or forgotten */
    bw_time until;
};

void bw_silence_init(struct bw_silence *silence, bw_time period_ns, bw_time limit_ns);
/* Stops watching and drops all samples. */
void bw_silence_forget(struct bw_silence *silence);
void bw_silence_received(struct bw_silence *silence, bw_time now);
/* When the silence becomes too long; NEVER if no sender is watched or if the silence was already
 * reported. */
bw_time bw_silence_deadline(const struct bw_silence *silence);
/* The deadline has come. Returns true if the sender is to be suspected. Returns false if the caller
 * itself comes late because it was stopped or starved: messages that arrived meanwhile are still
 * unread. */
bool bw_silence_over(struct bw_silence *silence, bw_time now);

#endif
