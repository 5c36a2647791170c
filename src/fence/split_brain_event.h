/* The split-brain event. A rejected token shows that a former leader still acts. It is reported in
 * one line, as text or as JSON. */
#ifndef BW_FENCE_SPLIT_BRAIN_EVENT_H
#define BW_FENCE_SPLIT_BRAIN_EVENT_H

#include "fence/guard.h"

#include <stdio.h>

/* Writes one line, newline included:
 *
 *   {"event":"split_brain","how":"token","resource":"PATH","token":41,"highest":42,...}
 *   split brain: token 41 came after 42 at PATH: a former leader still acts; rejected */
void bw_guard_report(FILE *out, const struct bw_guard_verdict *verdict, const char *resource,
                     bool json);

#endif
