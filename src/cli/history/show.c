/* Reads local histories and prints their changes; see show.h. */
#include "cli/history/show.h"

#include "cli/election/change_print.h"
#include "cli/history/files.h"
#include "cli/options/wall_time.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_NONE   66
#define EXIT_MEMORY 71

/* ---- reading ---- */

struct source {
    const struct bw_cli_command *command;
    const struct bw_history_query *query;
    struct bw_past_lines lines;
    struct bw_past_files files;
};

/* Returns BW_GO_ON or an exit code after one line on stderr. */
static int explain(const struct source *source, const char *path, int error)
{
    if (error == 0)
        return BW_GO_ON;
    if (error == -ENOBUFS)
        fprintf(stderr, "%s: cannot read %s: more than %u lines\n", source->command->path, path,
                BW_PAST_LINES_MAX);
    else
        fprintf(stderr, "%s: cannot read %s: %s\n", source->command->path, path, strerror(-error));
    return error == -ENOMEM ? EXIT_MEMORY : BW_EXIT_IO;
}

static int read_all(struct source *source)
{
    const struct bw_history_query *query = source->query;
    int code = BW_GO_ON, error;
    for (int i = 0; i < query->files_count && code == BW_GO_ON; i++) {
        error = bw_past_read(&source->lines, query->files[i], query->election);
        code = explain(source, query->files[i], error);
        source->files.count++;
    }
    if (query->files_count > 0)
        return code;
    error =
        bw_past_read_directory(&source->lines, query->directory, query->election, &source->files);
    return explain(source, source->files.failed, error);
}

/* ---- printing ---- */

/* A begin or an end of a leadership, and what came before it. */
struct change {
    const struct bw_past *past, *before;
    bool is_end;
    bw_time at;
    size_t order;
};

static int by_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static struct bw_change_span span_of(const struct change *change)
{
    const struct bw_past *past = change->past, *before = change->before;
    if (change->is_end && !past->end_unseen && past->first->kind != BW_PAST_LOST)
        return (struct bw_change_span){BW_SPAN_LED, past->is_found, past->to - past->from};
    if (!change->is_end && !past->is_found && before && !before->end_unseen)
        return (struct bw_change_span){BW_SPAN_GAP, !before->first->leader[0],
                                       past->from - before->to};
    return (struct bw_change_span){.kind = BW_SPAN_NONE};
}

static void print(const struct change *change, const struct source *source, bool shows_store)
{
    const struct bw_history_query *query = source->query;
    const char *store = source->lines.stores[change->past->first->store];
    const struct bw_past *past = change->past;
    const char *why = change->is_end ? (past->why[0]       ? past->why
                                        : past->end_unseen ? "its end was not seen"
                                                           : "")
                                     : (past->first->leader[0] ? "" : "no leader");
    struct bw_change_line line = {.at = change->at,
                                  .event = change->is_end   ? "lost"
                                           : past->is_found ? "found"
                                                            : "elected",
                                  .election = past->first->election,
                                  .why = why,
                                  .shows_election = !query->election,
                                  .store = store,
                                  .shows_store = shows_store,
                                  .leader = past->first->leader,
                                  .token = past->first->token,
                                  .span = span_of(change)};
    bw_change_print(&line, query->json);
}

/* Whether an election has leaderships in several stores. */
static bool has_several_stores(const struct bw_past *past, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (strcmp(past[i - 1].first->election, past[i].first->election) == 0 &&
            past[i - 1].first->store != past[i].first->store)
            return true;
    return false;
}

/* Keeps the leaderships of --store. Returns their number. */
static size_t choose(const struct source *source, struct bw_past *past, size_t count)
{
    size_t kept = 0;
    const char *url = source->query->store;
    unsigned store = url ? bw_past_find_store(&source->lines, url) : 0;
    for (size_t i = 0; i < count; i++)
        if (!url || (store && past[i].first->store == store))
            past[kept++] = past[i];
    return kept;
}

/* Lists the changes of one or more elections. `count` leaderships give at most twice as many. */
static size_t list(const struct bw_past *past, size_t count, struct change *out)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && bw_past_is_same_election(past[i - 1].first, past[i].first);
        const struct bw_past *before = same ? &past[i - 1] : NULL;
        if (past[i].first->kind != BW_PAST_LOST) {
            out[used] = (struct change){&past[i], before, false, past[i].from, used};
            used++;
        }
        if (past[i].to != BW_TIME_NEVER && past[i].first->leader[0]) {
            out[used] = (struct change){&past[i], before, true, past[i].to, used};
            used++;
        }
    }
    return used;
}

/* Whether it is the last change of its election before `since`: it shows who led then. */
static bool is_state_at(const struct change *changes, size_t count, size_t i, bw_time since)
{
    if (changes[i].at >= since)
        return false;
    for (size_t k = i + 1; k < count && changes[k].at < since; k++)
        if (bw_past_is_same_election(changes[k].past->first, changes[i].past->first))
            return false;
    return true;
}

static int show(struct source *source)
{
    struct bw_past *past = NULL;
    bw_time since = source->query->since;
    long found = bw_past_derive(&source->lines, &past);
    size_t count = found > 0 ? (size_t)found : 0;
    struct change *changes = found < 0 ? NULL : calloc(2 * count + 1, sizeof *changes);
    if (!changes) {
        fprintf(stderr, "%s: cannot show the history: out of memory\n", source->command->path);
        free(past);
        return EXIT_MEMORY;
    }
    count = choose(source, past, count);
    bool several = has_several_stores(past, count);
    size_t used = list(past, count, changes);
    qsort(changes, used, sizeof changes[0], by_time);
    for (size_t i = 0; i < used; i++)
        if (changes[i].at >= since || is_state_at(changes, used, i, since))
            print(&changes[i], source, several);
    free(changes);
    free(past);
    if (count > 0 || !source->query->store)
        return BW_EXIT_OK;
    fprintf(stderr, "%s: the history has no change in store %s\n", source->command->path,
            source->query->store);
    return EXIT_NONE;
}

/* No line at all: says whether there is no file, or only none of this election. */
static int none(const struct source *source)
{
    const struct bw_history_query *query = source->query;
    const char *path = source->command->path;
    if (source->files.denied[0]) {
        fprintf(stderr, "%s: cannot read %s: %s\n", path, source->files.denied, strerror(EACCES));
        return BW_EXIT_IO;
    }
    if (source->files.count > 0)
        fprintf(stderr, "%s: the history has no change%s%s\n", path,
                query->election ? " of election " : "", query->election ? query->election : "");
    else
        fprintf(stderr,
                "%s: no history in %s: run and peer write it there while they run, unless they "
                "have another --history-dir\n",
                path, query->directory ? query->directory : "the default directories");
    return EXIT_NONE;
}

int bw_history_show(const struct bw_cli_command *command, const struct bw_history_query *query)
{
    struct source source = {.command = command, .query = query};
    int code = read_all(&source);
    if (code == BW_GO_ON && source.lines.skipped)
        fprintf(stderr, "%s: ignored %llu lines that are not changes of leadership\n",
                command->path, (unsigned long long)source.lines.skipped);
    if (code == BW_GO_ON)
        code = source.lines.count ? show(&source) : none(&source);
    bw_past_deinit(&source.lines);
    return code;
}

int bw_history_since(const struct bw_cli_command *command, const char *text, bw_time *since)
{
    *since = 0;
    if (!text || bw_wall_since(text, bw_wall_now(), since))
        return BW_GO_ON;
    return bw_usage_error(command,
                          "invalid --since '%.80s': expected a time like 2026-11-18T05:00:00Z, or "
                          "a duration like 1h",
                          text);
}
