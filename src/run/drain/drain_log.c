/* See drain_log.h. */
#include "run/drain/drain_log.h"

#include <string.h>

void bw_drain_log_change(const struct bw_drain *drain, const struct bw_log *log,
                         struct bw_notify *manager)
{
    struct bw_log_field fields[] = {{"drain_dir", drain->directory, 0}, BW_LOG_END};
    if (drain->drained)
        bw_log_event(log, BW_LOG_INFO, "drained", fields,
                     "this host is drained: not contending until `bellwether undrain`");
    else
        bw_log_event(log, BW_LOG_INFO, "undrained", fields,
                     "this host is no longer drained; contending again");
    bw_notify_line(manager, "STATUS=%s", drain->drained ? "drained" : "undrained");
}

void bw_drain_log_unreadable(const struct bw_drain *drain, const struct bw_log *log)
{
    const char *why = strerror(-drain->error);
    struct bw_log_field fields[] = {
        {"drain_dir", drain->directory, 0}, {"error", why, 0}, BW_LOG_END};
    bw_log_event(
        log, BW_LOG_WARNING, "drain-unreadable", fields,
        "cannot look for %s/drained: %s; this candidate does not notice `bellwether drain`",
        drain->directory, why);
}
