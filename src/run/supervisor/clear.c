/* Emptying the containments of earlier holders, one line after the other; see clear.h. */
#include "run/supervisor/clear.h"

#include <stdio.h>
#include <string.h>

void bw_clearing_begin(struct bw_clearing *clearing, const char *owed, const char *previous,
                       const char *containment, bw_time patience_ns, const struct bw_log *log)
{
    char line[BW_CANDIDATE_ID_MAX + BW_CONTAINMENT_MAX + 4];
    memset(clearing, 0, sizeof *clearing);
    clearing->patience_ns = patience_ns;
    clearing->log = log;
    snprintf(line, sizeof line, "%s\t%s\n", previous, containment);
    bool added = previous[0] && !strstr(owed, line);
    snprintf(clearing->owed, sizeof clearing->owed, "%s%s", owed, added ? line : "");
    clearing->at = clearing->owed;
}

void bw_clearing_use_fence(struct bw_clearing *clearing, const char *self)
{
    clearing->fences = true;
    clearing->self = self;
}

/* Cannot be seen from here: fenced, or said. */
static void beyond_reach(struct bw_clearing *clearing, const char *why)
{
    clearing->fence_now = clearing->fences && strcmp(clearing->holder, "*") != 0 &&
                          strcmp(clearing->holder, clearing->self) != 0;
    if (clearing->fence_now)
        return;
    struct bw_log_field fields[] = {{"holder", clearing->holder, 0}, BW_LOG_END};
    bw_log_event(clearing->log, BW_LOG_WARNING, "predecessor-not-seen", fields,
                 "the work of earlier holder '%s' %s; its lease is over and its token is fenced",
                 clearing->holder, why);
}

/* Takes the next line; true if there is something to empty. */
static bool take_line(struct bw_clearing *clearing, bw_time now)
{
    char name[BW_CONTAINMENT_MAX + 1] = "";
    size_t length = strcspn(clearing->at, "\n");
    size_t id = strcspn(clearing->at, "\t\n");
    snprintf(clearing->holder, sizeof clearing->holder, "%.*s", (int)id, clearing->at);
    if (id < length)
        snprintf(name, sizeof name, "%.*s", (int)(length - id - 1), clearing->at + id + 1);
    clearing->at += length + (clearing->at[length] == '\n');
    if (strcmp(clearing->holder, "*") == 0) {
        beyond_reach(clearing, "(and older ones) found no room in the record");
        return false;
    }
    if (!name[0]) { /* its work was its process */
        if (clearing->fences)
            beyond_reach(clearing, "has no containment");
        return false;
    }
    switch (bw_contain_find(&clearing->contain, name)) {
    case BW_CONTAIN_HERE:
        clearing->since = now;
        return true;
    case BW_CONTAIN_GONE:
        break;
    case BW_CONTAIN_ELSEWHERE:
        beyond_reach(clearing, "cannot be judged from here");
        break;
    case BW_CONTAIN_NONSENSE:
        beyond_reach(clearing, "has no name we know");
        break;
    }
    return false;
}

static enum bw_clearing_state fail(const struct bw_clearing *clearing,
                                   const struct bw_contain_left *left)
{
    struct bw_log_field fields[] = {
        {"holder", clearing->holder, 0}, {"pid", NULL, (uint64_t)left->pid}, BW_LOG_END};
    bw_log_event(clearing->log, BW_LOG_ERROR, "predecessor-not-dead", fields,
                 "cannot end the work of earlier holder '%s': pid %d (state %c) is still there",
                 clearing->holder, (int)left->pid, left->state ? left->state : '?');
    return BW_CLEARING_FAILED;
}

enum bw_clearing_state bw_clearing_step(struct bw_clearing *clearing, bw_time now)
{
    struct bw_contain_left left;
    while (clearing->active || clearing->fence_now || clearing->at[0]) {
        if (!clearing->active && !clearing->fence_now)
            clearing->active = take_line(clearing, now);
        if (clearing->fence_now)
            return BW_CLEARING_FENCE;
        if (!clearing->active)
            continue;
        bw_contain_kill(&clearing->contain);
        bw_contain_look(&clearing->contain, &left);
        if (!left.empty)
            return now - clearing->since > clearing->patience_ns ? fail(clearing, &left)
                                                                 : BW_CLEARING_BUSY;
        struct bw_log_field fields[] = {{"holder", clearing->holder, 0}, BW_LOG_END};
        bw_contain_remove(&clearing->contain);
        bw_log_event(clearing->log, BW_LOG_INFO, "predecessor-dead", fields,
                     clearing->contain.kind == BW_CONTAIN_SUBREAPER
                         ? "no work of earlier holder '%s' is found; its lease has expired"
                         : "the work of earlier holder '%s' is confirmed dead",
                     clearing->holder);
        clearing->active = false;
    }
    return BW_CLEARING_DONE;
}

void bw_clearing_fenced(struct bw_clearing *clearing)
{
    clearing->fence_now = false;
}
