/* How long one sender may be silent before it is suspected: phi (phi.h) on the beats of a single
 * sender that promised one every period and may send other things in between.
 *
 * What comes much sooner than a period says nothing about the beats and is no sample. The answer
 * lies between the period and `limit`, whatever the link did before. */
#ifndef BW_DETECT_SILENCE_H
#define BW_DETECT_SILENCE_H

#include "core/detect/phi.h"

#define BW_SILENCE_WINDOW 64u

struct bw_silence {
    struct bw_phi_window window;
    uint32_t samples[BW_SILENCE_WINDOW];
    bw_time period, limit;
    double argument; /* phi's, at the threshold */
    bw_time heard;   /* NEVER: not yet, or forgotten */
    bw_time until;
};

void bw_silence_init(struct bw_silence *silence, bw_time period_ns, bw_time limit_ns);
/* Nobody is watched, and all that was learnt is void. */
void bw_silence_forget(struct bw_silence *silence);
void bw_silence_heard(struct bw_silence *silence, bw_time now);
/* When it has been silent for too long; NEVER while nobody is watched, or once that was said. */
bw_time bw_silence_deadline(const struct bw_silence *silence);
/* The deadline has come. True: suspect it. Not so when the caller itself comes late, because it was
 * stopped or starved: what was sent meanwhile has not been read yet. */
bool bw_silence_over(struct bw_silence *silence, bw_time now);

#endif
