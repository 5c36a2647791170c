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

unsigned bw_past_find_store(const struct bw_past_lines *lines, const char *url)
{
    for (unsigned i = 1; i < lines->store_count; i++)
        if (strcmp(lines->stores[i], url) == 0)
            return lines->same_store[i] ? lines->same_store[i] : i;
    return 0;
}

/* The index of the line's store, which is added if it is new. */
static unsigned store_of(struct bw_past_lines *lines, const json_t *line)
{
    const char *url = json_string_value(json_object_get(line, "store"));
    unsigned known = url && url[0] ? bw_past_find_store(lines, url) : 0;
    unsigned next = lines->store_count ? lines->store_count : 1;
    if (!url || !url[0] || known || next == BW_PAST_STORES)
        return known;
    lines->stores[next] = strdup(url);
    if (!lines->stores[next])
        return 0;
    lines->store_count = next + 1;
    return next;
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
    bool wanted = good && (!election || strcmp(election, read.election) == 0);
    lines->skipped += !good;
    if (wanted)
        read.store = store_of(lines, line);
    json_decref(line);
    if (!wanted)
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
    for (unsigned i = 1; i < lines->store_count; i++)
        free(lines->stores[i]);
    *lines = (struct bw_past_lines){0};
}

/* ---- leaderships ---- */

bool bw_past_is_same_election(const struct bw_past_line *a, const struct bw_past_line *b)
{
    return a->store == b->store && strcmp(a->election, b->election) == 0;
}

static int by_election(const void *a, const void *b)
{
    const struct bw_past_line *x = a, *y = b;
    int names = strcmp(x->election, y->election);
    if (names != 0)
        return names;
    if (x->store != y->store)
        return x->store < y->store ? -1 : 1;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Not every observer learns the request of a leadership: then it is "0" or missing. */
static bool has_request(const struct bw_past_line *line)
{
    return line->request[0] && strcmp(line->request, "0") != 0;
}

/* ---- stores ---- */

static int by_request(const void *a, const void *b)
{
    const struct bw_past_line *x = a, *y = b;
    int order = strcmp(x->election, y->election);
    if (order == 0)
        order = strcmp(x->request, y->request);
    if (order == 0)
        order = strcmp(x->leader, y->leader);
    return order ? order : (x->token > y->token) - (x->token < y->token);
}

static unsigned first_url(const struct bw_past_lines *lines, unsigned store)
{
    while (lines->same_store[store] != store)
        store = lines->same_store[store];
    return store;
}

/* Two lines of one leadership. Requests are unique, so both stores are the same one. */
static void join(struct bw_past_lines *lines, struct bw_past_line *a, struct bw_past_line *b)
{
    unsigned x = first_url(lines, a->store), y = first_url(lines, b->store);
    if (x == 0 || y == 0)
        a->store = b->store = x + y;
    else
        lines->same_store[x > y ? x : y] = x < y ? x : y;
}

/* The only known store of the lines from `from` to `to`, or 0. */
static unsigned only_store(const struct bw_past_lines *lines, size_t from, size_t to)
{
    unsigned only = 0;
    for (size_t i = from; i < to; i++) {
        unsigned store = lines->at[i].store;
        if (store && only && store != only)
            return 0;
        only = store ? store : only;
    }
    return only;
}

/* Gives every line the first URL of its store. A line without a store has that of another line with
 * the same request, or the only store of its election. */
static void join_stores(struct bw_past_lines *lines)
{
    for (unsigned i = 0; i < BW_PAST_STORES; i++)
        lines->same_store[i] = i;
    qsort(lines->at, lines->count, sizeof lines->at[0], by_request);
    for (size_t i = 1; i < lines->count; i++)
        if (has_request(&lines->at[i]) && by_request(&lines->at[i - 1], &lines->at[i]) == 0)
            join(lines, &lines->at[i - 1], &lines->at[i]);
    for (size_t i = lines->count; i-- > 1;) /* a line before the first one with a store */
        if (has_request(&lines->at[i]) && by_request(&lines->at[i - 1], &lines->at[i]) == 0)
            join(lines, &lines->at[i - 1], &lines->at[i]);
    for (size_t i = 0; i < lines->count; i++)
        lines->at[i].store = first_url(lines, lines->at[i].store);
    for (size_t from = 0, to; from < lines->count; from = to) {
        for (to = from; to < lines->count; to++)
            if (strcmp(lines->at[to].election, lines->at[from].election) != 0)
                break;
        unsigned only = only_store(lines, from, to);
        for (size_t i = from; i < to; i++)
            lines->at[i].store = lines->at[i].store ? lines->at[i].store : only;
    }
    for (unsigned i = 0; i < BW_PAST_STORES; i++)
        lines->same_store[i] = first_url(lines, i);
}

/* ---- leaderships of one store ---- */

/* The leaderships of one election in one store, the newest last. */
struct fold {
    struct bw_past *at;
    size_t begin, count; /* rows of this election and store: begin to count - 1 */
};

static bool is_same(const struct bw_past_line *a, const struct bw_past_line *b)
{
    bool named = has_request(a) && has_request(b);
    return strcmp(a->leader, b->leader) == 0 && a->token == b->token &&
           (!named || strcmp(a->request, b->request) == 0);
}

/* The row of the line's leadership, or NULL. Without a token and a request, it is the last row, if
 * that one has the same leader. */
static struct bw_past *find(const struct fold *fold, const struct bw_past_line *line)
{
    bool unique = line->token != BW_TOKEN_NONE || has_request(line);
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
    bool unknown = !line->token && !has_request(line);
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
    if (lines->count) {
        join_stores(lines);
        qsort(lines->at, lines->count, sizeof lines->at[0], by_election);
    }
    for (size_t i = 0; i < lines->count; i++) {
        const struct bw_past_line *line = &lines->at[i];
        if (i > 0 && !bw_past_is_same_election(line, line - 1))
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
