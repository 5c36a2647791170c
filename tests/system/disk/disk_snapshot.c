/* Tests the snapshots of a `serve` node, together with its log, on the model of a disk that loses
 * power.
 *
 * The test runs a whole replica (src/serve/replica, src/serve/wal), with its crash points and the
 * low thresholds of the crash tests. It plays the leader: it sends entries, commits them, takes
 * over in new terms, and sends its snapshot in pieces. So the node writes snapshots of its own in
 * forked processes, receives and installs the leader's, drops segments of its log and removes old
 * snapshots, while entries arrive. After each crash it starts again and is compared with the
 * reference (reference.h):
 *   - The node starts: a crash is not damage.
 *   - Its registry is that of the committed entries up to the snapshot.
 *   - Each entry of its log was sent by a leader, and follows the one before it.
 *   - Each entry that it acknowledged is in its log or in its snapshot, and so is its term.
 *   - After the start it keeps one snapshot, the one it loaded, and no unfinished ones.
 *   - A damaged snapshot is reported. It is never loaded or installed. */
#include "core/base/error.h"
#include "core/elect/raft/raft_state.h"
#include "system/disk/forked_writer.h"
#include "system/disk/plan.h"
#include "system/disk/quiet_mesh.h"
#include "system/disk/reference.h"

#include "serve/wal/state.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>

#define CLUSTER     0x1122334455667788u
#define LEADER      1u
#define SELF        3u
#define NODES       3u
#define PIECE_HEAD  17u
#define SETTLE_MAX  20000u
#define CUT_AT      512u /* a write is cut at a multiple of a sector */
#define FIRST_CLOCK ((bw_time)1000 * BW_SEC)

enum kind { APPEND, COMMIT, TERM, BEAT, FEED, ANNOUNCE, TURN, WAIT, TICK, REOPEN, CRASH, DAMAGE };
static const char *const kinds[] = {"append", "commit", "term", "beat",   "feed",  "announce",
                                    "turn",   "wait",   "tick", "reopen", "crash", "damage"};

struct transfer { /* the leader's snapshot on its way */
    unsigned char *bytes;
    size_t length, at;
    bw_index index;
    bw_term term;
    bool damaged;
};

static struct {
    uv_loop_t *loop;
    struct bw_replica *r;
    bw_time clock;
    uint64_t random;
    char why[BW_REPLICA_WHY_MAX + 1];
    struct bw_member_list members;
    bw_index next;       /* the leader sends entries from here */
    bw_index acked;      /* the node acknowledged entries up to here */
    bw_term acked_term;  /* the highest term in which it answered */
    bw_term higher_term; /* the highest term that it asked others for */
    struct transfer feed;
    bool cannot_list;       /* the process has no descriptor left to list a directory */
    bool failed_before;     /* an operation had failed before this start */
    bool closed, reference; /* the reference uses the shipped functions now: nothing can crash */
} w;

/* ---- time and randomness ---- */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    (void)clock;
    now->tv_sec = w.clock / BW_SEC;
    now->tv_nsec = w.clock % BW_SEC;
    return 0;
}

ssize_t getrandom(void *bytes, size_t length, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < length; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)(++w.random * 37);
    return (ssize_t)length;
}

/* ---- crash points ---- */

void bw_crash_point(const char *name)
{
    if (!w.reference && !writer_point(name, -1, NULL, 0))
        plan_point(name);
}

void bw_crash_step(const char *file, const char *step)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", file ? file : "", step);
    if (file)
        bw_crash_point(name);
}

/* Where to cut a write: at a sector boundary; 0: there is none inside. */
static size_t cut_of(size_t length, long long at)
{
    size_t place = at < 0 ? 0 : (size_t)at;
    size_t cut = (place + length / 2) / CUT_AT * CUT_AT;
    return cut > place && cut < place + length ? cut - place : 0;
}

void bw_crash_torn(const char *name, int fd, const void *bytes, size_t length, long long at)
{
    size_t cut = cut_of(length, at);
    if (cut && !w.reference && !writer_point(name, fd, bytes, cut))
        plan_torn(name, fd, bytes, cut, at);
}

void bw_crash_hole(const char *name, int fd, const void *bytes, size_t length, long long at)
{
    size_t cut = cut_of(length, at);
    if (cut)
        plan_torn(name, fd, (const char *)bytes + cut, length - cut, at + (long long)cut);
}

/* ---- comparison with the reference ---- */

static void compare_registry(bw_index index)
{
    if (index > reference_commit())
        plan_violation("the node applied entry %" PRIu64 ", committed are %" PRIu64, index,
                       reference_commit());
    if (reference_hash_of(w.r->router.registry) != reference_hash_at(index))
        plan_violation("the content after entry %" PRIu64 " is not that of the committed entries",
                       index);
}

static void compare_log(void)
{
    const struct bw_log_store *log = &w.r->log;
    bw_term before = w.r->snapshot_term;
    if (log->base != w.r->snapshot_index)
        plan_violation("the log begins after %" PRIu64 ", the snapshot is %" PRIu64, log->base,
                       w.r->snapshot_index);
    for (bw_index i = log->base + 1; i <= bw_log_last(log); i++) {
        const struct bw_log_entry *entry = bw_log_at(log, i);
        if (!reference_wrote(i, entry->term, entry->bytes, entry->length))
            plan_violation("entry %" PRIu64 " of term %" PRIu64 " was never sent", i, entry->term);
        if (entry->term < before)
            plan_violation("the term of entry %" PRIu64 " is lower than the one before", i);
        before = entry->term;
    }
}

static void compare_acknowledged(void)
{
    const struct bw_log_store *log = &w.r->log;
    if (bw_log_last(log) < w.acked)
        plan_violation("entries up to %" PRIu64 " were acknowledged, the last is %" PRIu64, w.acked,
                       bw_log_last(log));
    for (bw_index i = log->base + 1; i <= w.acked; i++)
        if (bw_log_at(log, i)->term != reference_term_at(i))
            plan_violation("the acknowledged entry %" PRIu64 " has term %" PRIu64, i,
                           bw_log_at(log, i)->term);
    if (w.r->durable.term < w.acked_term)
        plan_violation("the node answered in term %" PRIu64 ", and starts in %" PRIu64,
                       w.acked_term, w.r->durable.term);
}

static void compare_all(void)
{
    bw_index base = w.r->snapshot_index;
    plan_trace("found snapshot %" PRIu64 ", entries up to %" PRIu64 ", acknowledged %" PRIu64, base,
               bw_log_last(&w.r->log), w.acked);
    compare_registry(base);
    if (base && w.r->snapshot_term != reference_term_at(base))
        plan_violation("snapshot %" PRIu64 " has term %" PRIu64, base, w.r->snapshot_term);
    compare_log();
    compare_acknowledged();
}

/* ---- running ---- */

static void turn(void)
{
    uv_run(w.loop, UV_RUN_NOWAIT);
    schedule_complete();
}

static bool is_busy(void)
{
    const struct bw_replica *r = w.r;
    return schedule_jobs() || r->saver || r->saver_pipe_open || r->wal->dirty ||
           r->durable_commit < r->wal->commits || uv_is_active((const uv_handle_t *)&r->turn);
}

/* Lets the node run until it waits for a message or for time to pass. */
static void settle(void)
{
    for (unsigned i = 0; i < SETTLE_MAX; i++) {
        turn();
        schedule_quiet();
        if (!is_busy())
            return;
    }
    plan_violation("the node does not come to rest");
}

/* The files of a node at rest. `newer`: a snapshot that the log does not use yet may exist. */
static void check_files(bool newer)
{
    char live[64];
    const struct dirent *entry;
    unsigned found = 0;
    if (plan_has_failed() != w.failed_before)
        return; /* a file that could not be removed is removed later */
    DIR *dir = opendir(disk_directory());
    snprintf(live, sizeof live, "snapshot-%016" PRIx64, w.r->snapshot_index);
    while (dir && (entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (strncmp(name, "snapshot-", 9) != 0)
            continue;
        bool incoming = strcmp(name, BW_SNAPSHOT_INCOMING) == 0 && w.r->incoming.fd >= 0;
        found += strcmp(name, live) == 0;
        if (strcmp(name, live) != 0 && !incoming &&
            !(newer && name[9] == '0' && strcmp(name, live) > 0))
            plan_violation("%s is left over; the snapshot is %" PRIu64, name, w.r->snapshot_index);
    }
    closedir(dir);
    if (found != (w.r->snapshot_index != 0))
        plan_violation("the file of snapshot %" PRIu64 " is missing", w.r->snapshot_index);
}

/* ---- the node ---- */

static void on_applied(void *context, uint64_t request, const struct bw_entry *entry,
                       enum bw_refusal refusal, const struct bw_results *results)
{
    (void)context, (void)request, (void)entry, (void)refusal, (void)results;
}

static void on_answered(void *context, uint64_t request, bw_time ttl_ns)
{
    (void)context, (void)request, (void)ttl_ns;
}

static void on_failed(void *context, uint64_t request, int error)
{
    (void)context, (void)request, (void)error;
}

static void on_changed(void *context, bool restored)
{
    (void)context;
    if (restored)
        plan_trace("installed snapshot %" PRIu64, w.r->snapshot_index);
    if (restored)
        compare_registry(w.r->snapshot_index);
}

static void on_led(void *context)
{
    (void)context;
}

static void on_ended(void *context, enum bw_replica_end end, const char *why)
{
    (void)context, (void)end;
    if (plan_has_failed())
        plan_died();
    plan_violation("the node ends: %s", why);
}

static void on_closed(void *context)
{
    (void)context;
    w.closed = true;
}

/* The others are new, too. */
static void confirm_bootstrap(void)
{
    unsigned char bytes[9];
    for (bw_node id = 1; id <= NODES; id++) {
        bw_put64(bytes, w.r->nonce);
        bytes[8] = 1;
        if (id != SELF && w.r->bootstrapping)
            mesh_deliver(id, BW_FRAME_WELCOME, bytes, sizeof bytes);
    }
}

static int open_node(void)
{
    static struct bw_replica_member members[NODES];
    for (bw_node i = 0; i < NODES; i++) {
        members[i] = (struct bw_replica_member){.id = i + 1, .port = (uint16_t)(7000 + i)};
        snprintf(members[i].host, sizeof members[i].host, "host");
    }
    struct bw_replica_options options = {.loop = w.loop,
                                         .directory = disk_directory(),
                                         .cluster = CLUSTER,
                                         .self = SELF,
                                         .members = members,
                                         .count = NODES,
                                         .registry = reference_config,
                                         .applied = on_applied,
                                         .answered = on_answered,
                                         .failed = on_failed,
                                         .changed = on_changed,
                                         .led = on_led,
                                         .ended = on_ended};
    w.failed_before = plan_has_failed();
    w.closed = false;
    w.why[0] = '\0';
    return bw_replica_open(&w.r, &options, w.why);
}

static void start(void)
{
    int error = open_node();
    if (error && plan_has_failed() && !w.failed_before)
        plan_died();
    if (error)
        plan_violation("the node does not start: %s", w.why);
    compare_all();
    w.members = w.r->members.applied;
    confirm_bootstrap();
    settle();
    check_files(false);
    w.next = reference_last() + 1;
}

static void new_loop(void)
{
    w.loop = malloc(sizeof *w.loop);
    if (!w.loop || uv_loop_init(w.loop) != 0)
        plan_violation("no loop");
}

static void close_node(void)
{
    bw_replica_close(w.r, on_closed);
    for (unsigned i = 0; i < SETTLE_MAX && !w.closed; i++) {
        turn();
        schedule_quiet();
    }
    if (!w.closed)
        plan_violation("the node does not close");
    for (turn(); uv_loop_alive(w.loop); turn())
        ;
}

static void reopen(void)
{
    close_node();
    start();
}

/* ---- the leader ---- */

static void on_reply(const struct bw_message *msg)
{
    const struct bw_append_reply_part *part = &msg->append_reply;
    w.acked_term = msg->term > w.acked_term ? msg->term : w.acked_term;
    if (msg->term != reference_term())
        return;
    if (!(msg->flags & BW_FLAG_YES)) {
        w.next = part->index < reference_last() ? part->index + 1 : reference_last() + 1;
        return;
    }
    if (part->index > reference_last())
        plan_violation("the node acknowledges entry %" PRIu64 ", which was never sent",
                       part->index);
    plan_trace("acknowledged %" PRIu64, part->index);
    w.acked = part->index > w.acked ? part->index : w.acked;
    w.next = w.next > part->index ? w.next : part->index + 1;
}

static void on_message(const struct bw_message *msg)
{
    if (msg->kind == BW_MSG_RAFT_APPEND_REPLY)
        on_reply(msg);
    w.higher_term = msg->term > w.higher_term ? msg->term : w.higher_term;
}

/* Encodes the message; the entries follow. Returns where they begin. */
static unsigned char *put_message(unsigned char *frame, const struct bw_message *msg)
{
    int length = bw_message_encode(msg, frame + 4, BW_FRAME_MAX);
    if (length < 0)
        plan_violation("the test cannot encode a message");
    bw_put32(frame, (uint32_t)length);
    return frame + 4 + length;
}

static struct bw_message message(uint8_t kind)
{
    return (struct bw_message){.kind = kind, .from = LEADER, .to = SELF, .term = reference_term()};
}

/* Sends the entries from `next` on, at most `count` of them. */
static void send_append(uint32_t count)
{
    struct bw_message msg = message(BW_MSG_RAFT_APPEND);
    struct bw_append_part *part = &msg.append;
    size_t length, all = BW_FRAME_MAX + 4;
    part->prev_index = w.next - 1;
    part->prev_term = reference_term_at(w.next - 1);
    part->commit = reference_commit();
    part->echo = w.clock;
    bw_index end = w.next;
    for (; end <= reference_last() && end < w.next + count; end++) {
        bw_term term = reference_term_at(end);
        bool same = part->runs && part->run[part->runs - 1].term == term;
        if (!same && part->runs == BW_RAFT_APPEND_RUNS_MAX)
            break;
        if (!same)
            part->run[part->runs++] = (struct bw_term_run){.term = term};
        part->run[part->runs - 1].count++;
        reference_bytes(end, &length);
        all += 4 + length;
    }
    unsigned char *frame = malloc(all), *at = put_message(frame, &msg);
    for (bw_index i = w.next; i < end; i++) {
        const unsigned char *bytes = reference_bytes(i, &length);
        bw_put32(at, (uint32_t)length);
        memcpy(at + 4, bytes, length);
        at += 4 + length;
    }
    plan_trace("send entries %" PRIu64 " to %" PRIu64 " of term %" PRIu64 ", commit %" PRIu64,
               w.next, end - 1, msg.term, part->commit);
    w.next = end;
    mesh_deliver(LEADER, BW_FRAME_RAFT, frame, (size_t)(at - frame));
    free(frame);
}

static void append(const struct plan_step *step)
{
    uint32_t count = 1 + (uint32_t)(step->draw[0] % 24);
    for (uint32_t i = 0; i < count; i++)
        reference_append(step->draw[1] * (2 * i + 1) + step->draw[2]);
    if (step->draw[3] % 2)
        reference_commit_to(reference_last() - step->draw[3] / 2 % count);
    send_append(step->draw[0] / 32 % 4 ? 64 : 2);
    if (step->draw[0] / 128 % 2) /* the disk is faster than the loop */
        schedule_quiet();
}

/* The node may lose the uncommitted entries that the new leader does not have. */
static void change_term(uint64_t draw)
{
    bw_index commit = reference_commit(), last = reference_last();
    bw_index kept = draw % 2 ? last : commit + draw / 2 % (last - commit + 1);
    reference_lead(w.higher_term, kept);
    w.acked = w.acked < kept ? w.acked : kept;
    w.next = kept + 1;
    free(w.feed.bytes);
    w.feed = (struct transfer){0};
    reference_append(0);
    send_append(1);
}

/* The leader's snapshot, written by the shipped code into a directory that is not recorded. */
static void make_feed(uint64_t draw)
{
    char directory[300], path[400];
    struct stat status;
    struct bw_snapshot_head head = {.cluster = CLUSTER,
                                    .index = reference_commit(),
                                    .term = reference_term_at(reference_commit()),
                                    .voters = NODES,
                                    .members = NODES,
                                    .member = {1, 2, 3},
                                    .member_list = w.members};
    snprintf(directory, sizeof directory, "%.280s.leader", disk_directory());
    bw_snapshot_name(path, sizeof path, directory, head.index);
    mkdir(directory, 0700);
    w.reference = true;
    bool good = bw_snapshot_write(directory, &head, reference_registry()) == 0;
    w.reference = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    good = good && fd >= 0 && fstat(fd, &status) == 0;
    free(w.feed.bytes);
    w.feed = (struct transfer){
        .index = head.index, .term = head.term, .length = good ? (size_t)status.st_size : 0};
    w.feed.bytes = malloc(w.feed.length + 1);
    if (!good || pread(fd, w.feed.bytes, w.feed.length, 0) != (ssize_t)w.feed.length)
        plan_violation("the test cannot write the leader's snapshot");
    close(fd);
    unlink(path);
    rmdir(directory);
    w.feed.damaged = draw % 8 == 0;
    if (w.feed.damaged)
        w.feed.bytes[draw / 8 % w.feed.length] ^= (unsigned char)(1 << draw / 64 % 8);
}

static void send_piece(size_t most)
{
    size_t left = w.feed.length - w.feed.at, length = left < most ? left : most;
    unsigned char *frame = malloc(PIECE_HEAD + length);
    bw_put64(frame, w.feed.index);
    bw_put64(frame + 8, w.feed.at);
    frame[16] = length == left;
    memcpy(frame + PIECE_HEAD, w.feed.bytes + w.feed.at, length);
    w.feed.at += length;
    mesh_deliver(LEADER, BW_FRAME_PIECE, frame, PIECE_HEAD + length);
    free(frame);
}

static void announce(void)
{
    static const bw_node members[NODES] = {1, 2, 3};
    unsigned char frame[4 + BW_FRAME_MAX];
    struct bw_message msg = message(BW_MSG_RAFT_SNAPSHOT);
    if (!w.feed.bytes)
        return;
    msg.snapshot = (struct bw_snapshot_part){
        .last_index = w.feed.index, .last_term = w.feed.term, .echo = w.clock, .voters = NODES};
    msg.data = members;
    msg.items = NODES;
    plan_trace("announce snapshot %" PRIu64 "%s", w.feed.index, w.feed.damaged ? ", damaged" : "");
    size_t length = (size_t)(put_message(frame, &msg) - frame);
    mesh_deliver(LEADER, BW_FRAME_RAFT, frame, length);
}

/* Mostly, the leader has committed entries that the node does not have. */
static void begin_feed(uint64_t draw)
{
    for (uint64_t i = 0; draw % 4 && i <= draw / 4 % 16; i++)
        reference_append(draw * (2 * i + 1));
    reference_commit_to(draw % 4 ? reference_last() : reference_commit());
    if (reference_commit())
        make_feed(draw / 64);
}

/* Sends some pieces of the leader's snapshot, or begins with a new one. */
static void feed(uint64_t draw)
{
    if (!w.feed.bytes || w.feed.at == w.feed.length || draw % 8 == 0)
        begin_feed(draw / 8);
    if (!w.feed.bytes)
        return;
    static const size_t sizes[] = {100, 512, 4096, 10000, (size_t)1 << 20};
    size_t most = sizes[draw / 4096 % 5];
    uint64_t pieces = draw / 65536 % 2 ? UINT64_MAX : 1 + draw / 131072 % 8;
    if (w.feed.length / most > 200)
        most = w.feed.length / 50;
    while (pieces-- > 0 && w.feed.at < w.feed.length)
        send_piece(most);
    if (w.feed.at == w.feed.length && draw / 1048576 % 4)
        announce();
}

static void commit(uint64_t draw)
{
    bw_index last = reference_last(), from = reference_commit();
    reference_commit_to(draw % 4 ? last : from + draw / 4 % (last - from + 1));
    if (draw / 1024 % 4)
        send_append(64);
}

/* ---- damage ---- */

static void flip(int fd, uint64_t at, unsigned char bit)
{
    unsigned char byte;
    if (pread(fd, &byte, 1, (off_t)at) != 1)
        plan_violation("cannot read the snapshot");
    byte ^= bit;
    if (pwrite(fd, &byte, 1, (off_t)at) != 1)
        plan_violation("cannot damage the snapshot");
}

/* Damages the newest snapshot. */
static void damage_file(const char *path, uint64_t draw)
{
    static const unsigned char zeros[DISK_SECTOR];
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        plan_violation("cannot open the snapshot");
    uint64_t size = (uint64_t)status.st_size, at = draw / 4 % size;
    if (draw % 4 == 0 && ftruncate(fd, (off_t)at) != 0)
        plan_violation("cannot truncate the snapshot");
    if (draw % 4 == 1 && pwrite(fd, zeros, sizeof zeros, (off_t)size) != (ssize_t)sizeof zeros)
        plan_violation("cannot extend the snapshot");
    if (draw % 4 > 1)
        flip(fd, at, (unsigned char)(1u << draw / 4096 % 8));
    close(fd);
}

/* The directory cannot be listed, or the snapshot cannot be opened, for example because the process
 * has too many open files. That is not damage, for which an operator would discard the data. */
DIR *opendir(const char *path)
{
    errno = EMFILE;
    int fd = w.cannot_list
                 ? -1
                 : (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? NULL : fdopendir(fd);
}

static void run_short(uint64_t draw)
{
    w.cannot_list = draw % 2;
    if (!w.cannot_list)
        disk_refuse("snapshot-0", EMFILE);
    int error = open_node();
    if (plan_has_failed() && !w.failed_before)
        plan_end();
    if (error != BW_EIO || !strstr(w.why, strerror(EMFILE)))
        plan_violation("a shortage of descriptors is reported as %s: %s", bw_error_text(error),
                       w.why);
    plan_end();
}

/* A disk that returns other bytes than it stored, or loses a file: the node does not start, and
 * names the file. If the log still has everything, the node may do without a lost file. */
static void damage(uint64_t draw)
{
    char path[400];
    settle();
    bw_index index = w.r->snapshot_index;
    close_node();
    plan_stop_crashing();
    if (index == 0)
        plan_end();
    bw_snapshot_name(path, sizeof path, disk_directory(), index);
    if (draw % 4 == 0)
        run_short(draw / 4);
    bool lost = draw % 5 == 0;
    if (lost && unlink(path) != 0)
        plan_violation("cannot remove the snapshot");
    if (!lost)
        damage_file(path, draw / 5);
    int error = open_node();
    if (error && plan_has_failed() && !w.failed_before)
        plan_end();
    if (!error && !lost)
        plan_violation("the node starts with a damaged snapshot");
    if (!error)
        compare_all();
    if (error && error != BW_EDAMAGED)
        plan_violation("damage is reported as %s", bw_error_text(error));
    if (error && !lost && !strstr(w.why, "/snapshot-0"))
        plan_violation("the report does not name the file: %s", w.why);
    plan_end();
}

/* ---- plans ---- */

static void wait_for_rest(void)
{
    settle();
    check_files(true);
    compare_registry(w.r->router.applied);
}

/* A little, or so long that a failed snapshot is written again. The node may campaign meanwhile. */
static void tick(uint64_t draw)
{
    w.clock += draw % 3 ? (bw_time)(draw / 3 % 80) * BW_MS : 6 * BW_SEC;
    turn();
}

static void take(const struct plan_step *step)
{
    uint64_t draw = step->draw[0];
    switch ((enum kind)step->kind) {
    case APPEND:
        append(step);
        break;
    case COMMIT:
        commit(draw);
        break;
    case TERM:
        change_term(draw);
        break;
    case BEAT:
        send_append((uint32_t)(draw % 2 * 64));
        break;
    case FEED:
        feed(draw);
        break;
    case ANNOUNCE:
        announce();
        break;
    case TURN:
        turn();
        break;
    case WAIT:
        wait_for_rest();
        break;
    case TICK:
        tick(draw);
        break;
    case REOPEN:
        reopen();
        break;
    case CRASH:
        plan_crash(draw);
        break;
    case DAMAGE:
        damage(draw);
    }
}

static void draw_step(struct plan_step *step, struct bw_rng *rng)
{
    static const enum kind often[] = {APPEND,   APPEND,   APPEND, APPEND, APPEND, COMMIT,
                                      COMMIT,   COMMIT,   TERM,   BEAT,   FEED,   FEED,
                                      FEED,     ANNOUNCE, TURN,   TURN,   TURN,   WAIT,
                                      ANNOUNCE, ANNOUNCE, WAIT,   TICK,   REOPEN, CRASH};
    step->kind = often[bw_rng_below(rng, sizeof often / sizeof often[0])];
    for (unsigned i = 0; i < 4; i++)
        step->draw[i] = bw_rng_next(rng);
}

static void draw(struct plan *plan, struct bw_rng *rng)
{
    static const int errors[] = {EIO, ENOSPC, DISK_SHORT};
    plan->steps = 16 + (uint32_t)bw_rng_below(rng, PLAN_STEPS - 16);
    for (uint32_t i = 0; i < plan->steps; i++)
        draw_step(&plan->step[i], rng);
    if (bw_rng_below(rng, 4) == 0) /* the last step */
        plan->step[plan->steps - 1].kind = DAMAGE;
    plan->check_one_in = 8u << bw_rng_below(rng, 4);
    if (bw_rng_below(rng, 3) == 0) {
        plan->fail_at = 1 + bw_rng_below(rng, 200);
        plan->fail_with = errors[bw_rng_below(rng, 3)];
    }
}

static void begin(const struct plan *plan)
{
    (void)plan;
    w.clock = FIRST_CLOCK;
    mesh_on_message(on_message);
    reference_init();
    new_loop();
    start();
}

static void recover(void)
{
    writer_forget();
    free(w.feed.bytes);
    w.feed = (struct transfer){0};
    new_loop();
    start();
}

static void go_on(struct bw_rng *rng)
{
    struct plan_step step;
    for (uint64_t steps = bw_rng_below(rng, 6); steps > 0; steps--) {
        draw_step(&step, rng);
        if (step.kind != CRASH)
            take(&step);
    }
}

static void end(void)
{
    wait_for_rest();
    reopen();
    close_node();
}

/* The node ends itself when the disk fails. */
void abort(void)
{
    plan_died();
}

int main(int argc, char **argv)
{
    static const struct plan_model model = {
        .name = "what a node acknowledged survives every crash, in its snapshot or its log",
        .kinds = kinds,
        .draw = draw,
        .begin = begin,
        .take = take,
        .recover = recover,
        .go_on = go_on,
        .end = end};
    return plan_main(argc, argv, &model, 20, 0);
}
