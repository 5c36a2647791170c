/* Kills the work that earlier holders left running, before the program is notified that it leads.
 *
 * An election may be shared with `bellwether run`, whose work lives in a containment named in the
 * record. There are three cases:
 * - The containment exists on this host: the library kills its processes until it is empty.
 * - It belongs to another boot, host or namespace: the library cannot examine it. The lease of
 *   that work has expired, and its token is older.
 * - The holder had no containment: it was a process like this one, and the store detects its
 *   death. */
#include "lib/lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cleanup {
    char lines[BW_UNCONFIRMED_MAX + BW_CANDIDATE_ID_MAX + BW_CONTAINMENT_MAX + 4];
    char *at;    /* the line being processed */
    bool active; /* the processes in `contain` are being killed */
    struct bw_contain contain;
    bw_time until;
};

struct cleanup *bw_lib_cleanup_begin(const char *unconfirmed, const char *previous,
                                     const char *containment, bw_time until)
{
    struct cleanup *cleanup = calloc(1, sizeof *cleanup);
    if (!cleanup)
        return NULL;
    bool add = containment[0] && !strstr(unconfirmed, containment);
    snprintf(cleanup->lines, sizeof cleanup->lines, "%s%s%s%s%s", unconfirmed, add ? previous : "",
             add ? "\t" : "", add ? containment : "", add ? "\n" : "");
    cleanup->at = cleanup->lines;
    cleanup->until = until;
    return cleanup;
}

/* Reads the next line. True if it names a containment on this host. */
static bool take_line(struct cleanup *cleanup)
{
    char name[BW_CONTAINMENT_MAX + 1] = "";
    size_t id = strcspn(cleanup->at, "\t\n");
    size_t length = strcspn(cleanup->at, "\n");
    if (id < length)
        snprintf(name, sizeof name, "%.*s", (int)(length - id - 1), cleanup->at + id + 1);
    cleanup->at += length + (cleanup->at[length] == '\n');
    return name[0] && bw_contain_find(&cleanup->contain, name) == BW_CONTAIN_HERE;
}

enum cleanup_state bw_lib_cleanup_step(struct cleanup *cleanup, bw_time now)
{
    struct bw_contain_left left;
    while (cleanup->active || cleanup->at[0]) {
        if (!cleanup->active)
            cleanup->active = take_line(cleanup);
        if (!cleanup->active)
            continue;
        bw_contain_kill(&cleanup->contain);
        bw_contain_check(&cleanup->contain, &left);
        if (!left.empty)
            return now >= cleanup->until ? CLEANUP_FAILED : CLEANUP_BUSY;
        bw_contain_remove(&cleanup->contain);
        cleanup->active = false;
    }
    return CLEANUP_DONE;
}
