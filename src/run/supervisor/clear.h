/* Emptying what earlier holders left behind, before the own work starts.
 *
 * Model: the lines of a record's `owed` (store.h). A containment that is here is killed until it is
 * empty. One that is elsewhere (another boot, host or namespace) cannot be judged: its lease was
 * waited out by the elector, and its token is older; it is fenced where the user named a way to
 * (--stonith, --fence-agent), else that is said. Nobody fences itself. */
#ifndef BW_RUN_CLEAR_H
#define BW_RUN_CLEAR_H

#include "run/contain/contain.h"
#include "run/log.h"

struct bw_clearing {
    char owed[BW_OWED_MAX + BW_CANDIDATE_ID_MAX + BW_CONTAINMENT_MAX + 4];
    const char *at; /* the line being dealt with */
    bool active;    /* `contain` is being emptied */
    struct bw_contain contain;
    char holder[BW_CANDIDATE_ID_MAX + 1];
    bw_time since, patience_ns;
    bool fences, fence_now; /* those that cannot be seen from here are fenced */
    const char *self;       /* never fenced */
    const struct bw_log *log;
};

enum bw_clearing_state {
    BW_CLEARING_BUSY,  /* call again in a millisecond */
    BW_CLEARING_FENCE, /* `holder` must be fenced; then bw_clearing_fenced() and call again */
    BW_CLEARING_DONE,
    BW_CLEARING_FAILED /* something in there does not die; it was said */
};

/* `owed` is copied; a previous holder that did not release ("" else) is added with its containment
 * when it is not among them. */
void bw_clearing_begin(struct bw_clearing *clearing, const char *owed, const char *previous,
                       const char *containment, bw_time patience_ns, const struct bw_log *log);
/* From here on holders that cannot be seen are to be fenced, all but `self`, which is borrowed. */
void bw_clearing_use_fence(struct bw_clearing *clearing, const char *self);
enum bw_clearing_state bw_clearing_step(struct bw_clearing *clearing, bw_time now);
void bw_clearing_fenced(struct bw_clearing *clearing);

#endif
