/* The names of a listing; see names.h. Repeated names are removed when the rows are full, so the
 * memory is bounded and an addition costs O(log n) on average. */
#include "store/kit/names.h"

#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 64u
#define ROOM_MAX   (2 * BW_STORE_NAMES_MAX)

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct bw_election_name *)a)->text,
                  ((const struct bw_election_name *)b)->text);
}

static void remove_repeated(struct bw_names *names)
{
    uint32_t kept = 0;
    if (names->count > 1)
        qsort(names->rows, names->count, sizeof *names->rows, compare);
    for (uint32_t i = 0; i < names->count; i++)
        if (kept == 0 || compare(&names->rows[i], &names->rows[kept - 1]) != 0)
            names->rows[kept++] = names->rows[i];
    names->full = kept >= BW_STORE_NAMES_MAX;
    names->count = names->full ? BW_STORE_NAMES_MAX : kept;
}

/* Makes room for one more name, unless the names become full. */
static int make_room(struct bw_names *names)
{
    if (names->count < names->room)
        return 0;
    if (names->room == ROOM_MAX) {
        remove_repeated(names);
        return 0;
    }
    uint32_t room = names->room ? names->room * 2 : ROOM_FIRST;
    room = room < ROOM_MAX ? room : ROOM_MAX;
    struct bw_election_name *rows = realloc(names->rows, room * sizeof *rows);
    if (!rows)
        return BW_ENOMEM;
    names->rows = rows;
    names->room = room;
    return 0;
}

int bw_names_add(struct bw_names *names, const char *text, size_t length)
{
    struct bw_election_name name = {.text = ""};
    if (names->full || length > BW_ELECTION_NAME_MAX || memchr(text, '\0', length))
        return 0;
    memcpy(name.text, text, length);
    if (!bw_store_is_election(name.text))
        return 0;
    int error = make_room(names);
    if (error == 0 && !names->full)
        names->rows[names->count++] = name;
    return error;
}

void bw_names_answer(struct bw_names *names, struct bw_job *job)
{
    remove_repeated(names);
    bw_job_elections(job, names->rows, names->count);
}

void bw_names_free(struct bw_names *names)
{
    free(names->rows);
    *names = (struct bw_names){.rows = NULL};
}
