/* Empties the containments of earlier holders, one line after the other; see cleanup.h. */
#include "run/supervisor/cleanup.h"

#include <stdio.h>
#include <string.h>

void bw_cleanup_begin(struct bw_cleanup *cleanup, const char *unconfirmed, const char *previous,
                      const char *containment, bw_time timeout_ns, const struct bw_log *log)
{
    char line[BW_CANDIDATE_ID_MAX + BW_CONTAINMENT_MAX + 4];
    memset(cleanup, 0, sizeof *cleanup);
    cleanup->timeout_ns = timeout_ns;
    cleanup->log = log;
    snprintf(line, sizeof line, "%s\t%s\n", previous, containment);
    bool added = previous[0] && !strstr(unconfirmed, line);
    snprintf(cleanup->unconfirmed, sizeof cleanup->unconfirmed, "%s%s", unconfirmed,
             added ? line : "");
    cleanup->at = cleanup->unconfirmed;
}

void bw_cleanup_use_fence(struct bw_cleanup *cleanup, const char *self)
{
    cleanup->fences = true;
    cleanup->self = self;
}

/* The work cannot be examined from here: fences the holder, or logs a warning. */
static void not_visible(struct bw_cleanup *cleanup, const char *why)
{
    cleanup->fence_now = cleanup->fences && strcmp(cleanup->holder, "*") != 0 &&
                         strcmp(cleanup->holder, cleanup->self) != 0;
    if (cleanup->fence_now)
        return;
    struct bw_log_field fields[] = {{"holder", cleanup->holder, 0}, BW_LOG_END};
    bw_log_event(cleanup->log, BW_LOG_WARNING, "predecessor-unreachable", fields,
                 "the work of earlier holder '%s' %s; its lease has ended and its token is fenced",
                 cleanup->holder, why);
}

/* Reads the next line. True if it names a containment on this host. */
static bool take_line(struct bw_cleanup *cleanup, bw_time now)
{
    char name[BW_CONTAINMENT_MAX + 1] = "";
    size_t length = strcspn(cleanup->at, "\n");
    size_t id = strcspn(cleanup->at, "\t\n");
    snprintf(cleanup->holder, sizeof cleanup->holder, "%.*s", (int)id, cleanup->at);
    if (id < length)
        snprintf(name, sizeof name, "%.*s", (int)(length - id - 1), cleanup->at + id + 1);
    cleanup->at += length + (cleanup->at[length] == '\n');
    if (strcmp(cleanup->holder, "*") == 0) {
        not_visible(cleanup, "(and of older ones) did not fit into the record");
        return false;
    }
    if (!name[0]) { /* without a containment, the process was the work */
        if (cleanup->fences)
            not_visible(cleanup, "has no containment");
        return false;
    }
    switch (bw_contain_find(&cleanup->contain, name)) {
    case BW_CONTAIN_HERE:
        cleanup->since = now;
        return true;
    case BW_CONTAIN_GONE:
        break;
    case BW_CONTAIN_ELSEWHERE:
        not_visible(cleanup, "cannot be examined from this host");
        break;
    case BW_CONTAIN_INVALID:
        not_visible(cleanup, "has an unknown containment name");
        break;
    }
    return false;
}

static enum bw_cleanup_state fail(const struct bw_cleanup *cleanup,
                                  const struct bw_contain_left *left)
{
    struct bw_log_field fields[] = {
        {"holder", cleanup->holder, 0}, {"pid", NULL, (uint64_t)left->pid}, BW_LOG_END};
    bw_log_event(cleanup->log, BW_LOG_ERROR, "predecessor-not-dead", fields,
                 "cannot kill the work of earlier holder '%s': pid %d (state %c) is still alive",
                 cleanup->holder, (int)left->pid, left->state ? left->state : '?');
    return BW_CLEANUP_FAILED;
}

enum bw_cleanup_state bw_cleanup_step(struct bw_cleanup *cleanup, bw_time now)
{
    struct bw_contain_left left;
    while (cleanup->active || cleanup->fence_now || cleanup->at[0]) {
        if (!cleanup->active && !cleanup->fence_now)
            cleanup->active = take_line(cleanup, now);
        if (cleanup->fence_now)
            return BW_CLEANUP_FENCE;
        if (!cleanup->active)
            continue;
        bw_contain_kill(&cleanup->contain);
        bw_contain_check(&cleanup->contain, &left);
        if (!left.empty)
            return now - cleanup->since > cleanup->timeout_ns ? fail(cleanup, &left)
                                                              : BW_CLEANUP_BUSY;
        struct bw_log_field fields[] = {{"holder", cleanup->holder, 0}, BW_LOG_END};
        bw_contain_remove(&cleanup->contain);
        bw_log_event(cleanup->log, BW_LOG_INFO, "predecessor-dead", fields,
                     cleanup->contain.kind == BW_CONTAIN_SUBREAPER
                         ? "found no work of earlier holder '%s'; its lease has ended"
                         : "the work of earlier holder '%s' is confirmed dead",
                     cleanup->holder);
        cleanup->active = false;
    }
    return BW_CLEANUP_DONE;
}

void bw_cleanup_fenced(struct bw_cleanup *cleanup)
{
    cleanup->fence_now = false;
}
