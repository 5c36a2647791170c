/* What earlier holders left running, ended before the program is told that it leads.
 *
 * An election may be shared with `bellwether run`, whose work lives in a containment named in the
 * record. One that is here is killed until it is empty. One that is elsewhere (another boot, host
 * or namespace) cannot be judged: its lease was waited out, and its token is older. A holder
 * without a containment was a process like this one: the store judges its death. */
#include "lib/lib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct clearing {
    char lines[BW_OWED_MAX + BW_CANDIDATE_ID_MAX + BW_CONTAINMENT_MAX + 4];
    char *at;    /* the line being dealt with */
    bool active; /* `contain` is being emptied */
    struct bw_contain contain;
    bw_time until;
};

struct clearing *bw_lib_clear_begin(const char *owed, const char *previous, const char *containment,
                                    bw_time until)
{
    struct clearing *clearing = calloc(1, sizeof *clearing);
    if (!clearing)
        return NULL;
    bool add = containment[0] && !strstr(owed, containment);
    snprintf(clearing->lines, sizeof clearing->lines, "%s%s%s%s%s", owed, add ? previous : "",
             add ? "\t" : "", add ? containment : "", add ? "\n" : "");
    clearing->at = clearing->lines;
    clearing->until = until;
    return clearing;
}

/* Takes the next line; true if there is something to empty. */
static bool take_line(struct clearing *clearing)
{
    char name[BW_CONTAINMENT_MAX + 1] = "";
    size_t id = strcspn(clearing->at, "\t\n");
    size_t length = strcspn(clearing->at, "\n");
    if (id < length)
        snprintf(name, sizeof name, "%.*s", (int)(length - id - 1), clearing->at + id + 1);
    clearing->at += length + (clearing->at[length] == '\n');
    return name[0] && bw_contain_find(&clearing->contain, name) == BW_CONTAIN_HERE;
}

enum clear_state bw_lib_clear_step(struct clearing *clearing, bw_time now)
{
    struct bw_contain_left left;
    while (clearing->active || clearing->at[0]) {
        if (!clearing->active)
            clearing->active = take_line(clearing);
        if (!clearing->active)
            continue;
        bw_contain_kill(&clearing->contain);
        bw_contain_look(&clearing->contain, &left);
        if (!left.empty)
            return now >= clearing->until ? CLEAR_FAILED : CLEAR_BUSY;
        bw_contain_remove(&clearing->contain);
        clearing->active = false;
    }
    return CLEAR_DONE;
}
