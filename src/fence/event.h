/* A rejected token is a split brain seen: somebody who led before still acts. It is told as one
 * event line, for people or as JSON. */
#ifndef BW_FENCE_EVENT_H
#define BW_FENCE_EVENT_H

#include "fence/guard.h"

#include <stdio.h>

/* One line, newline included:
 *   {"event":"split_brain","how":"token","resource":"PATH","token":41,"highest":42,...}
 *   split brain: token 41 came after 42 at PATH: a former leader still acts; rejected */
void bw_guard_tell(FILE *out, const struct bw_guard_verdict *verdict, const char *resource,
                   bool json);

#endif
