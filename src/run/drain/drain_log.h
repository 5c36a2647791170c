/* Log events of a process that obeys `bellwether drain`. */
#ifndef BW_RUN_DRAIN_DRAIN_LOG_H
#define BW_RUN_DRAIN_DRAIN_LOG_H

#include "os/sd_notify.h"
#include "run/drain/drain.h"
#include "run/event_log.h"

/* Logs whether the host is drained now, and reports it to the service manager. */
void bw_drain_log_change(const struct bw_drain *drain, const struct bw_log *log,
                         struct bw_notify *manager);
void bw_drain_log_unreadable(const struct bw_drain *drain, const struct bw_log *log);

#endif
