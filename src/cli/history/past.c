/* See past.h. */
#include "cli/history/past.h"

#include "cli/options/wall_time.h"
#include "os/grow.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEARCH_MAX 256u /* leaderships back in which a line may still be reported */

/* ---- lines ---- */

/* Copies a text of the line. Returns false if it is too long. */
static bool take(char *out, size_t size, const json_t *line, const char *name)
{
    const char *text = json_string_value(json_object_get(line, name));
    int length = snprintf(out, size, "%s", text ? text : "");
    return length >= 0 && (size_t)length < size;
}

static bool kind_of(const char *event, enum bw_past_kind *kind)
{
    static const char *const names[] = {"found", "elected", "lost"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(event, names[i]) == 0) {
            *kind = (enum bw_past_kind)i;
            return true;
        }
    return false;
}

static bool read_line(struct bw_past_line *out, const json_t *line)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    const char *time = json_string_value(json_object_get(line, "time"));
    json_int_t token = json_integer_value(json_object_get(line, "token"));
    *out = (struct bw_past_line){.token = (bw_token)token};
    (void)take(out->why, sizeof out->why, line, "reason"); /* a long reason is cut */
    return event && time && token >= 0 && kind_of(event, &out->kind) &&
           bw_wall_read(time, &out->at) &&
           take(out->election, sizeof out->election, line, "election") &&
           take(out->leader, sizeof out->leader, line, "leader") &&
           take(out->request, sizeof out->request, line, "request") &&
           take(out->seen_by, sizeof out->seen_by, line, "seen_by") && out->election[0] &&
           (out->leader[0] || out->kind == BW_PAST_FOUND);
}

static int take_line(struct bw_past_lines *lines, const char *election, const char *text,
                     size_t length)
{
    struct bw_past_line read;
    json_t *line = length <= BW_PAST_LINE_MAX ? json_loadb(text, length, 0, NULL) : NULL;
    bool good = line && read_line(&read, line);
    json_decref(line);
    if (!good) {
        lines->skipped++;
        return 0;
    }
    if (election && strcmp(election, read.election) != 0)
        return 0;
    if (lines->count == BW_PAST_LINES_MAX)
        return -ENOBUFS;
    if (!bw_grow(&lines->at, &lines->size, lines->count + 1, 64, sizeof read))
        return -ENOMEM;
    read.order = lines->count;
    lines->at[lines->count++] = read;
    return 0;
}

int bw_past_read(struct bw_past_lines *lines, const char *path, const char *election)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    ssize_t length;
    int error = 0;
    if (!file)
        return -errno;
    while (error == 0 && (length = getline(&text, &size, file)) >= 0)
        if (text[strspn(text, " \t\r\n")])
            error = take_line(lines, election, text, (size_t)length);
    if (error == 0 && ferror(file))
        error = errno ? -errno : -EIO;
    free(text);
    if (!standard)
        fclose(file);
    return error;
}

void bw_past_deinit(struct bw_past_lines *lines)
{
    free(lines->at);
    *lines = (struct bw_past_lines){0};
}

/* ---- leaderships ---- */

static int by_election(const void *a, const void *b)
{
    const struct bw_past_line *x = a, *y = b;
    int names = strcmp(x->election, y->election);
    if (names != 0)
        return names;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* The leaderships of one election, the newest last. */
struct fold {
    struct bw_past *at;
    size_t begin, count; /* rows of this election: begin to count - 1 */
};

static bool is_same(const struct bw_past_line *a, const struct bw_past_line *b)
{
    bool named = a->request[0] && b->request[0];
    return strcmp(a->leader, b->leader) == 0 && a->token == b->token &&
           (!named || strcmp(a->request, b->request) == 0);
}

/* The row of the line's leadership, or NULL. Without a token and a request, it is the last row, if
 * that one has the same leader. */
static struct bw_past *find(const struct fold *fold, const struct bw_past_line *line)
{
    bool unique = line->token != BW_TOKEN_NONE || (line->request[0] && line->request[0] != '0');
    size_t most = unique ? SEARCH_MAX : 1;
    for (size_t i = fold->count; i > fold->begin && most > 0; i--, most--)
        if (is_same(fold->at[i - 1].first, line))
            return &fold->at[i - 1];
    return NULL;
}

static void end(struct bw_past *past, const struct bw_past_line *line)
{
    past->to = line->at;
    past->why = line->why;
    past->ended_by = line->seen_by;
    past->end_unseen = false;
}

/* Another leadership, or none, is found although no line shows the end of the last one. */
static void end_unseen(struct fold *fold, const struct bw_past_line *line)
{
    struct bw_past *last = fold->count > fold->begin ? &fold->at[fold->count - 1] : NULL;
    if (!last || last->to != BW_TIME_NEVER)
        return;
    last->to = line->at;
    last->end_unseen = true;
}

static struct bw_past *add(struct fold *fold, const struct bw_past_line *line)
{
    struct bw_past *past = &fold->at[fold->count++];
    *past = (struct bw_past){.first = line,
                             .from = line->at,
                             .to = BW_TIME_NEVER,
                             .is_found = line->kind != BW_PAST_ELECTED,
                             .why = "",
                             .ended_by = ""};
    return past;
}

static void take_begin(struct fold *fold, const struct bw_past_line *line)
{
    struct bw_past *past = find(fold, line);
    bool ended = past && past->to != BW_TIME_NEVER;
    bool newest = past && past == &fold->at[fold->count - 1];
    bool unknown = !line->token && !(line->request[0] && line->request[0] != '0');
    if (past && (!ended || !unknown)) {
        /* Peers show a leadership as ended for a moment: the observer of the end takes it back. */
        bool back = ended && newest && strcmp(past->ended_by, line->seen_by) == 0;
        if (back || (ended && newest && past->end_unseen)) {
            past->to = BW_TIME_NEVER;
            past->why = past->ended_by = "";
            past->end_unseen = false;
        }
        return;
    }
    end_unseen(fold, line);
    add(fold, line);
}

static void take_end(struct fold *fold, const struct bw_past_line *line)
{
    struct bw_past *past = find(fold, line);
    bool own = strcmp(line->seen_by, line->leader) == 0; /* the leader knows its reason best */
    if (!past && fold->count == fold->begin) {           /* its begin is older than the lines */
        past = add(fold, line);
        end(past, line);
    } else if (past && past->to == BW_TIME_NEVER) {
        end(past, line);
    } else if (past && (past->end_unseen || own)) { /* reported late: only the reason counts */
        past->why = line->why;
    }
}

static void take_vacant(struct fold *fold, const struct bw_past_line *line)
{
    end_unseen(fold, line);
    if (fold->count == fold->begin)
        add(fold, line)->to = line->at;
}

long bw_past_derive(struct bw_past_lines *lines, struct bw_past **out)
{
    struct fold fold = {.at = calloc(lines->count + 1, sizeof *fold.at)};
    if (!fold.at)
        return -1;
    if (lines->count)
        qsort(lines->at, lines->count, sizeof lines->at[0], by_election);
    for (size_t i = 0; i < lines->count; i++) {
        const struct bw_past_line *line = &lines->at[i];
        if (i > 0 && strcmp(line->election, lines->at[i - 1].election) != 0)
            fold.begin = fold.count;
        if (line->kind == BW_PAST_LOST)
            take_end(&fold, line);
        else if (line->leader[0])
            take_begin(&fold, line);
        else
            take_vacant(&fold, line);
    }
    *out = fold.at;
    return (long)fold.count;
}
