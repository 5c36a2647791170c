/* Emptying what earlier holders left behind, before the own work starts.
 *
 * Model: the lines of a record's `owed` (store.h). A containment that is here is killed until it is
 * empty. One that is elsewhere (another boot, host or namespace) cannot be judged: its lease was
 * waited out by the elector, and the token fences it; that is said. */
#ifndef BW_RUN_CLEAR_H
#define BW_RUN_CLEAR_H

#include "run/contain.h"
#include "run/log.h"

struct bw_clearing {
    char owed[BW_OWED_MAX + BW_CANDIDATE_ID_MAX + BW_CONTAINMENT_MAX + 4];
    const char *at; /* the line being dealt with */
    bool active;    /* `contain` is being emptied */
    struct bw_contain contain;
    char holder[BW_CANDIDATE_ID_MAX + 1];
    bw_time since, patience_ns;
    const struct bw_log *log;
};

enum bw_clearing_state { BW_CLEARING_BUSY, BW_CLEARING_DONE, BW_CLEARING_FAILED };

/* `owed` is copied; previous and its containment are added when they are not among them. */
void bw_clearing_begin(struct bw_clearing *clearing, const char *owed, const char *previous,
                       const char *containment, bw_time patience_ns, const struct bw_log *log);
/* BUSY: call again in a millisecond. FAILED: something in there does not die; it was said. */
enum bw_clearing_state bw_clearing_step(struct bw_clearing *clearing, bw_time now);

#endif
