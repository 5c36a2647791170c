/* Tests the log of a `serve` node (src/serve/wal) on the model of a disk that loses power.
 *
 * The test uses the log as the replica does: it writes entries, states, truncations, its own
 * snapshots and those of a leader. It keeps a copy in memory. After each crash it opens the log
 * again and checks against the copy:
 *   - The log opens: a crash is not damage.
 *   - It has every record that was reported durable, with the right bytes.
 *   - Of the other records it has the first ones without a gap, or none.
 *   - It has no record that was never written, and no state (term, vote) older than a durable one.
 *   - bw_wal_bytes is the size of the segments in the directory. */
#include "serve/wal/wal.h"

#include "core/base/error.h"
#include "core/registry/registry.h"
#include "os/file.h"
#include "serve/wal/state.h"
#include "system/disk/plan.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>

#define CLUSTER     0x1122334455667788u
#define NODE        3u
#define INDEX_MAX   1024u
#define RECORDS_MAX 4096u
#define OVERHEAD    (WAL_BATCH_HEAD + WAL_RECORD_HEAD + WAL_ENTRY_HEAD)
#define STATE_BATCH (WAL_BATCH_HEAD + WAL_STATE_RECORD)

enum kind { APPEND, STATE, TRUNCATE, COMMIT, TURN, WAIT, SAVE, INSTALL, REOPEN, CRASH, DAMAGE };
static const char *const kinds[] = {"append", "state",   "truncate", "commit", "turn",  "wait",
                                    "save",   "install", "reopen",   "crash",  "damage"};

struct record {
    enum kind kind;
    bw_index index;
    bw_term term;
    uint64_t sum;
    struct bw_durable state;
    uint64_t commit; /* the record is durable with this commit */
};

struct content { /* of a log */
    bw_index last;
    bw_term term[INDEX_MAX];
    uint64_t sum[INDEX_MAX];
    struct bw_durable state;
};

static struct {
    uv_loop_t *loop;
    struct bw_wal *wal;
    size_t segment;
    char why[BW_WAL_WHY_MAX + 1];
    struct content durable;            /* what must be there */
    struct record record[RECORDS_MAX]; /* what was written after it, in order */
    uint32_t records;
    struct content newest; /* with all records */
    uint64_t commit;       /* the last one asked for */
    uint64_t reported;     /* the last one reported */
    bw_index kept;         /* entries up to here are never truncated: a majority has them */
    bw_index saved;        /* snapshot of the newest file */
    bw_term saved_term;
    bool damaged;         /* a file was lost */
    bw_index unread;      /* entries up to here were covered by a snapshot at the last open */
    struct content found; /* by the open in progress */
    bool diverged, recorded, refused; /* as in src/serve/replica/replica.c */
    struct content expected;          /* scratch */
} w;

/* ---- the reference ---- */

static void apply(struct content *content, const struct record *record)
{
    switch (record->kind) {
    case APPEND:
        content->last = record->index;
        content->term[record->index] = record->term;
        content->sum[record->index] = record->sum;
        break;
    case STATE:
        content->state = record->state;
        break;
    case TRUNCATE:
        content->last = record->index - 1;
        break;
    default: /* a snapshot replaces a log that does not agree with it */
        if (record->index > content->last || content->term[record->index] != record->term)
            content->last = record->index;
        content->term[record->index] = record->term;
    }
}

static void add(struct record *record)
{
    if (w.records == RECORDS_MAX)
        plan_violation("the plan is too long");
    record->commit = UINT64_MAX; /* until it is collected */
    w.record[w.records++] = *record;
    plan_trace("add %s %" PRIu64 ", term %" PRIu64, kinds[record->kind], record->index,
               record->term);
    apply(&w.newest, record);
}

/* The record was collected: a batch that was full before has a commit of its own. */
static void collected(void)
{
    w.record[w.records - 1].commit = bw_wal_next(w.wal);
}

static void on_durable(void *context, uint64_t commit)
{
    uint32_t done = 0;
    (void)context;
    if (commit < w.reported)
        plan_violation("commit %" PRIu64 " is reported after %" PRIu64, commit, w.reported);
    w.reported = commit;
    while (done < w.records && w.record[done].commit <= commit)
        apply(&w.durable, &w.record[done++]);
    w.records -= done;
    memmove(w.record, w.record + done, w.records * sizeof w.record[0]);
}

/* Changes the content of the log to what the replica has after it loads the newest snapshot too. */
static void project(struct content *content)
{
    if (w.saved && (content->last < w.saved || content->term[w.saved] != w.saved_term))
        content->last = w.saved;
}

static bool is_same_state(const struct bw_durable *a, const struct bw_durable *b)
{
    return a->term == b->term && a->vote == b->vote && a->starts == b->starts &&
           a->token == b->token && a->promise_epoch == b->promise_epoch &&
           a->promised_to == b->promised_to && a->promised_ns == b->promised_ns;
}

static bool is_found(const struct content *content)
{
    if (content->last != w.found.last || !is_same_state(&content->state, &w.found.state))
        return false;
    for (bw_index i = (w.saved > w.unread ? w.saved : w.unread) + 1; i <= content->last; i++)
        if (content->term[i] != w.found.term[i] || content->sum[i] != w.found.sum[i])
            return false;
    return true;
}

/* A new segment begins with the state of its first batch (src/serve/wal/write.c). If the rest of
 * that batch is lost, the state is newer than the entries, which is safe. */
static bool is_later_state(uint32_t from, const struct bw_durable *state)
{
    for (uint32_t i = from; i < w.records; i++)
        if (w.record[i].kind == STATE && is_same_state(&w.record[i].state, state))
            return true;
    return false;
}

/* Compares what was found with the durable content and each number of the records after it, but at
 * least `least` of them. */
static void compare(uint32_t least)
{
    for (uint32_t count = 0; count <= w.records; count++) {
        w.expected = w.durable;
        for (uint32_t i = 0; i < count; i++)
            apply(&w.expected, &w.record[i]);
        project(&w.expected);
        if (is_later_state(count, &w.found.state))
            w.expected.state = w.found.state;
        if (count >= least && is_found(&w.expected))
            return;
    }
    w.expected = w.durable;
    project(&w.expected);
    plan_violation("found entries up to %" PRIu64 ", term %" PRIu64
                   ", state %u; durable are %" PRIu64 ", %" PRIu64 ", %u; written are %" PRIu64
                   ", %" PRIu64 ", %u (%u records, at least %u expected); the snapshot is %" PRIu64,
                   w.found.last, w.found.state.term, w.found.state.starts, w.expected.last,
                   w.durable.state.term, w.durable.state.starts, w.newest.last, w.newest.state.term,
                   w.newest.state.starts, w.records, least, w.saved);
}

/* ---- opening; the rules are those of src/serve/replica/replica.c ---- */

static uint64_t sum_of(const struct bw_wal_entry *entry)
{
    return XXH3_64bits(entry->bytes, entry->length) ^ (uint64_t)entry->change << 32 ^
           (uint64_t)entry->node << 40 ^ entry->length;
}

static void found_entry(void *context, const struct bw_wal_entry *entry)
{
    (void)context;
    plan_trace("found entry %" PRIu64 ", term %" PRIu64, entry->index, entry->term);
    if (entry->index >= INDEX_MAX)
        plan_violation("found entry %" PRIu64 ", which was never written", entry->index);
    if (entry->index <= w.saved) {
        w.found.last = w.saved;
        w.diverged = entry->index == w.saved && entry->term != w.saved_term;
        return;
    }
    w.diverged = w.diverged || entry->term < w.saved_term;
    if (w.diverged)
        return;
    if (entry->index > w.found.last + 1)
        w.refused = true;
    w.found.last = entry->index;
    w.found.term[entry->index] = entry->term;
    w.found.sum[entry->index] = sum_of(entry);
}

static void found_state(void *context, const struct bw_durable *state)
{
    (void)context;
    w.found.state = *state;
}

static void found_truncate(void *context, bw_index from)
{
    (void)context;
    plan_trace("found truncate %" PRIu64, from);
    bw_index last = from > w.saved ? from - 1 : w.saved;
    w.found.last = w.found.last < last ? w.found.last : last;
}

static void found_snapshot(void *context, bw_index index, bw_term term)
{
    (void)context;
    plan_trace("found snapshot %" PRIu64 ", term %" PRIu64, index, term);
    w.diverged = w.diverged && index != w.saved;
    w.recorded = w.recorded || index == w.saved;
    bool agrees = index <= w.found.last && (index <= w.saved || w.found.term[index] == term);
    if (!agrees && index > w.saved)
        w.refused = true;
}

static int open_log(void)
{
    struct bw_wal_options options = {.directory = disk_directory(),
                                     .cluster = CLUSTER,
                                     .node = NODE,
                                     .segment_bytes = w.segment,
                                     .covered = w.saved,
                                     .loop = w.loop,
                                     .found_entry = found_entry,
                                     .found_state = found_state,
                                     .found_truncate = found_truncate,
                                     .found_snapshot = found_snapshot,
                                     .durable = on_durable};
    memset(&w.found, 0, sizeof w.found);
    w.found.last = w.saved;
    w.diverged = w.recorded = w.refused = false;
    w.commit = w.reported = 0;
    w.why[0] = '\0';
    int error = bw_wal_open(&w.wal, &options, w.why);
    return !error && w.refused ? BW_EDAMAGED : error; /* as src/serve/replica/replica.c does */
}

static void find_snapshot(void)
{
    char path[512];
    unsigned char bytes[16];
    const struct dirent *entry;
    DIR *dir = opendir(disk_directory());
    w.saved = w.saved_term = 0;
    while (dir && (entry = readdir(dir)))
        if (strncmp(entry->d_name, "snapshot-0", 10) == 0) {
            bw_index index = strtoull(entry->d_name + 9, NULL, 16);
            w.saved = index > w.saved ? index : w.saved;
        }
    closedir(dir);
    if (!w.saved)
        return;
    snprintf(path, sizeof path, "%s/snapshot-%016" PRIx64, disk_directory(), w.saved);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (read(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes || bw_get64(bytes) != w.saved)
        plan_violation("snapshot %" PRIu64 " is not complete", w.saved);
    w.saved_term = bw_get64(bytes + 8);
    close(fd);
}

static uint64_t segment_bytes(void)
{
    char path[512];
    struct stat status;
    uint64_t bytes = 0;
    const struct dirent *entry;
    DIR *dir = opendir(disk_directory());
    while (dir && (entry = readdir(dir))) {
        size_t length = strlen(entry->d_name);
        snprintf(path, sizeof path, "%s/%.200s", disk_directory(), entry->d_name);
        if (length > 4 && strcmp(entry->d_name + length - 4, ".log") == 0 &&
            stat(path, &status) == 0)
            bytes += (uint64_t)status.st_size;
    }
    closedir(dir);
    return bytes;
}

/* Everything found counts as durable: the node promises and answers on its basis. */
static void believe_found(void)
{
    w.durable = w.newest = w.found;
    w.unread = w.saved;
    if (w.saved)
        w.durable.term[w.saved] = w.newest.term[w.saved] = w.saved_term;
    w.records = 0;
    w.kept = w.kept < w.found.last ? w.kept : w.found.last;
    if (w.saved && (w.diverged || !w.recorded)) { /* as src/serve/replica/replica.c does */
        bw_wal_snapshot(w.wal, w.saved, w.saved_term);
        add(&(struct record){.kind = SAVE, .index = w.saved, .term = w.saved_term});
        collected();
    }
}

static void check_bytes(void)
{
    schedule_quiet();
    if (bw_wal_bytes(w.wal) != segment_bytes())
        plan_violation("the log reports %" PRIu64 " bytes, its segments have %" PRIu64,
                       bw_wal_bytes(w.wal), segment_bytes());
}

static void start(uint32_t least)
{
    find_snapshot();
    int error = open_log();
    if (error && plan_has_failed() && error == BW_EIO)
        plan_died();
    if (error && w.damaged)
        plan_end();
    if (error)
        plan_violation("the log does not open: %s (%s)", bw_error_text(error), w.why);
    compare(least);
    believe_found();
}

static void new_loop(void)
{
    w.loop = malloc(sizeof *w.loop);
    if (!w.loop || uv_loop_init(w.loop) != 0)
        plan_violation("no loop");
}

/* ---- steps ---- */

static void turn(void)
{
    uv_run(w.loop, UV_RUN_NOWAIT);
    schedule_complete();
}

static void wait_until_durable(void)
{
    for (turn(); w.reported < w.commit; turn())
        if (!schedule_wait(uv_backend_fd(w.loop)))
            plan_violation("commit %" PRIu64 " is never reported", w.commit);
}

/* A length near a limit: of a sector, of the rest of this segment, of a segment, of a request. */
static size_t some_length(uint64_t draw)
{
    size_t room = w.wal->segment_size - w.wal->offset, whole = w.segment - WAL_HEAD - STATE_BATCH;
    const size_t limits[] = {OVERHEAD, WAL_SECTOR, 2 * WAL_SECTOR, room, room / 2,
                             whole,    whole / 2,  2 * w.segment,  room, 2 * WAL_SECTOR + 8};
    size_t count = sizeof limits / sizeof limits[0];
    size_t limit = limits[draw % count], near = draw / 16 % 33 * 4;
    if (draw / 1024 % 256 == 0)
        limit = BW_REQUEST_MAX;
    if (draw / 65536 % 3 == 0)
        return draw / 262144 % 400;
    return limit + near < OVERHEAD + 64 ? near : limit + near - OVERHEAD - 64;
}

/* Terms never go back: neither behind the state nor behind a snapshot. */
static bw_term term_now(void)
{
    return w.newest.state.term > w.saved_term ? w.newest.state.term : w.saved_term;
}

static void append(uint64_t draw)
{
    size_t length = some_length(draw);
    bw_index index = w.newest.last + 1;
    if (index >= INDEX_MAX)
        return;
    unsigned char *bytes = calloc(1, length + 1);
    for (size_t i = 0; bytes && i < length; i++) /* half of the bytes are zeros */
        bytes[i] = i % 4096 < 2048 ? 0 : (unsigned char)(index * 7 + draw + i);
    struct bw_wal_entry entry = {.index = index,
                                 .term = term_now(),
                                 .change = draw % 11 == 0,
                                 .node = draw % 11 == 0 ? 5 : 0,
                                 .bytes = bytes,
                                 .length = length};
    add(&(struct record){
        .kind = APPEND, .index = index, .term = entry.term, .sum = sum_of(&entry)});
    bw_wal_entry(w.wal, &entry);
    collected();
    free(bytes);
}

static void state(uint64_t draw)
{
    struct bw_durable next = w.newest.state;
    next.term = term_now() + draw % 3;
    next.vote = (bw_node)(draw / 3 % 5);
    next.starts++;
    add(&(struct record){.kind = STATE, .state = next});
    bw_wal_state(w.wal, &next);
    collected();
}

static void truncate_log(uint64_t draw)
{
    bw_index first = w.kept > w.saved ? w.kept + 1 : w.saved + 1;
    if (w.newest.last < first)
        return;
    bw_index from = first + draw % (w.newest.last - first + 1);
    add(&(struct record){.kind = TRUNCATE, .index = from});
    bw_wal_truncate(w.wal, from);
    collected();
}

static void drop_older(int directory)
{
    char name[64];
    const struct dirent *entry;
    DIR *dir = opendir(disk_directory());
    while (dir && (entry = readdir(dir))) {
        snprintf(name, sizeof name, "%.60s", entry->d_name);
        if (strncmp(name, "snapshot-0", 10) == 0 && strtoull(name + 9, NULL, 16) < w.saved)
            unlinkat(directory, name, 0);
    }
    closedir(dir);
}

static void name_snapshot(char name[64], unsigned char bytes[16], bw_index index, bw_term term)
{
    snprintf(name, 64, "snapshot-%016" PRIx64, index);
    bw_put64(bytes, index);
    bw_put64(bytes + 8, term);
}

/* The last entry that is durable and not about to be truncated or replaced. */
static bw_index settled(void)
{
    bw_index last = w.durable.last;
    for (uint32_t i = 0; i < w.records; i++) {
        if (w.record[i].kind == INSTALL)
            return 0;
        if (w.record[i].kind == TRUNCATE && w.record[i].index <= last)
            last = w.record[i].index - 1;
    }
    return last;
}

/* A snapshot of our own: it is durable before the log hears of it. It may cover entries that a
 * majority has, but not this disk; then nothing is removed (src/serve/replica/snapshot.c). */
static void save(uint64_t draw)
{
    char name[64];
    unsigned char bytes[16];
    bool ahead = draw % 4 == 0;
    bw_index first = w.saved + 1, last = ahead ? w.newest.last : settled();
    if (last < first)
        return;
    bw_index index = first + draw / 4 % (last - first + 1);
    bw_term term = w.newest.term[index];
    int directory = open(disk_directory(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    w.kept = w.kept > index ? w.kept : index;
    name_snapshot(name, bytes, index, term);
    if (bw_file_replace(directory, "snapshot-next.tmp", name, 0600, bytes, sizeof bytes, NULL)) {
        w.saved = index;
        w.saved_term = term;
        add(&(struct record){.kind = SAVE, .index = index, .term = term});
        bw_wal_snapshot(w.wal, index, term);
        collected();
        if (!ahead) {
            bw_wal_drop(w.wal, index);
            drop_older(directory);
        }
    } else if (!plan_has_failed()) {
        plan_violation("cannot write a snapshot");
    }
    close(directory);
}

/* A snapshot of a leader: its content is durable, its name becomes durable with the record. If the
 * log conflicts with it, its term is new: else the entries after it would match (Raft, section
 * 5.3, log matching). */
static void install(uint64_t draw)
{
    char name[64];
    unsigned char bytes[16];
    bw_index first = (w.kept > w.saved ? w.kept : w.saved) + 1;
    bw_index index = first + draw % 5;
    bw_term term = term_now() + (index <= w.newest.last);
    if (index >= INDEX_MAX)
        return;
    int directory = open(disk_directory(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd =
        openat(directory, "snapshot-incoming.tmp", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    name_snapshot(name, bytes, index, term);
    bool good = fd >= 0 && write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes;
    if (good &&
        (fsync(fd) != 0 || renameat(directory, "snapshot-incoming.tmp", directory, name) != 0))
        plan_died(); /* as src/serve/replica/snapshot_receive.c does */
    if (good) {
        w.saved = index;
        w.saved_term = term;
        w.kept = index;
        add(&(struct record){.kind = INSTALL, .index = index, .term = term});
        bw_wal_snapshot(w.wal, index, term);
        collected();
    }
    if (fd >= 0)
        close(fd);
    close(directory);
}

static void close_log(void)
{
    bw_wal_close(w.wal);
    for (turn(); uv_loop_alive(w.loop) || schedule_jobs(); turn())
        if (!schedule_wait(uv_backend_fd(w.loop)))
            plan_violation("the log does not close");
}

/* A clean close keeps everything that a commit asked for. */
static void reopen(void)
{
    uint32_t least = 0;
    close_log();
    while (least < w.records && w.record[least].commit <= w.commit)
        least++;
    start(least);
}

/* Removes one of the files of the closed log, but not the last segment: no reader can detect that
 * it existed. Returns false if there is no other. */
static bool lose_file(uint64_t draw)
{
    char path[512], last[64] = "", chosen[64] = "";
    const struct dirent *entry;
    DIR *dir = opendir(disk_directory());
    while (dir && (entry = readdir(dir)))
        if (strncmp(entry->d_name, "wal-0", 5) == 0 && strcmp(entry->d_name, last) > 0)
            snprintf(last, sizeof last, "%.60s", entry->d_name);
    rewinddir(dir);
    for (uint64_t count = 1; (entry = readdir(dir));)
        if ((strncmp(entry->d_name, "wal-0", 5) == 0 && strcmp(entry->d_name, last) != 0) ||
            strncmp(entry->d_name, "snapshot-0", 10) == 0)
            if (draw % count++ == 0)
                snprintf(chosen, sizeof chosen, "%.60s", entry->d_name);
    closedir(dir);
    if (!chosen[0])
        return false;
    plan_trace("lose %s", chosen);
    snprintf(path, sizeof path, "%s/%s", disk_directory(), chosen);
    return unlink(path) == 0;
}

/* A file is lost, which no crash explains: either everything is there nevertheless, or the log is
 * refused. */
static void damage(uint64_t draw)
{
    w.commit = bw_wal_commit(w.wal);
    wait_until_durable();
    close_log();
    w.damaged = lose_file(draw);
    start(0);
}

static void take(const struct plan_step *step)
{
    switch ((enum kind)step->kind) {
    case APPEND:
        for (uint64_t i = 0; i <= step->draw[0] % 3; i++)
            append(step->draw[1 + i]);
        if (step->draw[0] / 4 % 2)
            w.commit = bw_wal_commit(w.wal);
        if (step->draw[0] / 8 % 2) /* the disk is faster than the loop */
            schedule_quiet();
        break;
    case STATE:
        state(step->draw[0]);
        break;
    case TRUNCATE:
        truncate_log(step->draw[0]);
        break;
    case COMMIT:
        w.commit = bw_wal_commit(w.wal);
        break;
    case TURN:
        turn();
        break;
    case WAIT:
        w.commit = bw_wal_commit(w.wal);
        wait_until_durable();
        if (step->draw[0] % 2)
            check_bytes();
        break;
    case SAVE:
        save(step->draw[0]);
        break;
    case INSTALL:
        install(step->draw[0]);
        break;
    case REOPEN:
        reopen();
        break;
    case CRASH:
        plan_crash(step->draw[0]);
        break;
    case DAMAGE:
        damage(step->draw[0]);
    }
}

/* ---- plans ---- */

static void draw_step(struct plan_step *step, struct bw_rng *rng)
{
    static const enum kind often[] = {APPEND, APPEND, APPEND,  APPEND,   COMMIT, COMMIT,
                                      COMMIT, TURN,   WAIT,    WAIT,     SAVE,   SAVE,
                                      STATE,  STATE,  INSTALL, TRUNCATE, REOPEN, CRASH};
    step->kind = often[bw_rng_below(rng, sizeof often / sizeof often[0])];
    for (unsigned i = 0; i < 4; i++)
        step->draw[i] = bw_rng_next(rng);
}

static void draw(struct plan *plan, struct bw_rng *rng)
{
    plan->steps = 4 + (uint32_t)bw_rng_below(rng, 40);
    for (uint32_t i = 0; i < plan->steps; i++)
        draw_step(&plan->step[i], rng);
    if (bw_rng_below(rng, 4) == 0) /* the last step */
        plan->step[plan->steps - 1].kind = DAMAGE;
    plan->check_one_in = 2u << bw_rng_below(rng, 5);
    if (bw_rng_below(rng, 2) == 0) {
        static const int errors[] = {EIO, ENOSPC, DISK_SHORT};
        plan->fail_at = 1 + bw_rng_below(rng, 50);
        plan->fail_with = errors[bw_rng_below(rng, 3)];
    }
}

static void begin(const struct plan *plan)
{
    static const size_t more[] = {0, 0, WAL_HEAD, 0, 0, BW_WAL_SEGMENT_MIN, 0, 0, 0, 0, WAL_PIECE};
    w.segment = BW_WAL_SEGMENT_MIN + more[plan->seed % (sizeof more / sizeof more[0])];
    new_loop();
    start(0);
    state(1);
}

static void recover(void)
{
    new_loop();
    start(0);
}

static void go_on(struct bw_rng *rng)
{
    struct plan_step step;
    for (uint64_t steps = bw_rng_below(rng, 5); steps > 0; steps--) {
        draw_step(&step, rng);
        if (step.kind != CRASH)
            take(&step);
    }
}

static void end(void)
{
    w.commit = bw_wal_commit(w.wal);
    wait_until_durable();
    check_bytes();
    reopen();
    check_bytes();
    close_log();
}

/* The log ends the process when the disk fails. */
void abort(void)
{
    plan_died();
}

int main(int argc, char **argv)
{
    static const struct plan_model model = {
        .name = "what the log reported durable survives every crash",
        .kinds = kinds,
        .draw = draw,
        .begin = begin,
        .take = take,
        .recover = recover,
        .go_on = go_on,
        .end = end};
    return plan_main(argc, argv, &model, 60, 6);
}
