/* Snapshots as files; see snapshot_file.h. */
#include "serve/replica/snapshot_file.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/little.h"
#include "core/registry/snapshot.h"
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

static const unsigned char magic[8] = {'B', 'W', 'S', 'N',
                                       'A', 'P', 0,   2}; /* the last byte is the version */
static const unsigned char trailer[8] = {'B', 'W', 'B', 'A', 'C', 'K', 'U', 'P'};
#define BLOCK         512u
#define PATH_SIZE     4352u
#define DIRECT_BLOCK  4096u /* no disk has larger blocks */
#define SCRATCH_BYTES ((size_t)2 * BW_SNAPSHOT_PIECE_MAX + DIRECT_BLOCK)

void bw_snapshot_name(char *path, size_t size, const char *directory, bw_index index)
{
    snprintf(path, size, "%s/snapshot-%016" PRIx64, directory, index);
}

static void head_write(const struct bw_snapshot_head *head, unsigned char *bytes)
{
    memset(bytes, 0, BW_SNAPSHOT_HEAD);
    memcpy(bytes, magic, sizeof magic);
    bw_put64(bytes + 8, head->cluster);
    bw_put64(bytes + 16, head->index);
    bw_put64(bytes + 24, head->term);
    bw_put32(bytes + 32, head->voters);
    bw_put32(bytes + 36, head->members);
    for (uint32_t i = 0; i < head->members; i++)
        bw_put32(bytes + 40 + (size_t)4 * i, head->member[i]);
}

/* Where a snapshot is written. What does not fill a block waits in `bytes`, because a file is
 * written past the page cache: nothing reads it soon, and the pages would cost as much CPU time as
 * all the rest. */
struct sink {
    int fd;
    bool direct; /* the kernel accepts only whole blocks */
    XXH3_state_t sum;
    unsigned char *bytes; /* SCRATCH_BYTES, at a block boundary */
    size_t used;
    uint64_t all; /* bytes so far */
    bool failed;
};

/* A forked copy of a process with threads writes snapshots. A lock that another thread held at the
 * fork stays locked there forever. So the writer calls no library but libc, does not allocate, and
 * maps its scratch memory. */
static unsigned char *scratch_map(void)
{
    void *scratch =
        mmap(NULL, SCRATCH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return scratch == MAP_FAILED ? NULL : scratch;
}

static void set_direct(struct sink *sink, bool direct)
{
    int flags = fcntl(sink->fd, F_GETFL);
    int wanted = direct ? flags | O_DIRECT : flags & ~O_DIRECT;
    sink->direct = flags >= 0 && fcntl(sink->fd, F_SETFL, wanted) == 0 && direct;
}

/* Writes what the file takes; an incomplete block stays. */
static void flush(struct sink *sink)
{
    size_t done = 0;
    while (!sink->failed && sink->used - done >= (sink->direct ? DIRECT_BLOCK : 1)) {
        size_t left = sink->used - done;
        size_t take = sink->direct ? left / DIRECT_BLOCK * DIRECT_BLOCK : left;
        ssize_t wrote = write(sink->fd, sink->bytes + done, take);
        if (wrote < 0 && errno == EINTR)
            continue;
        bool refused = sink->direct && (wrote < 0 ? errno == EINVAL : wrote % DIRECT_BLOCK != 0);
        if (refused) /* this file system, or the end of a short write */
            set_direct(sink, false);
        sink->failed = wrote <= 0 && !refused;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    sink->used -= done;
    memmove(sink->bytes, sink->bytes + done, sink->used);
}

/* These bytes were added behind `used`. */
static void took(struct sink *sink, size_t length)
{
    XXH3_64bits_update(&sink->sum, sink->bytes + sink->used, length);
    sink->all += length;
    sink->used += length;
    flush(sink);
}

static void put(struct sink *sink, const unsigned char *bytes, size_t length)
{
    while (length && !sink->failed) {
        size_t part = length < BW_SNAPSHOT_PIECE_MAX ? length : BW_SNAPSHOT_PIECE_MAX;
        memcpy(sink->bytes + sink->used, bytes, part);
        took(sink, part);
        bytes += part;
        length -= part;
    }
}

/* Writes the rest, which is no whole block. */
static void put_rest(struct sink *sink)
{
    if (sink->direct)
        set_direct(sink, false);
    flush(sink);
}

static void put_all(struct sink *sink, const struct bw_snapshot_head *head,
                    struct bw_registry *registry)
{
    struct bw_saving saving;
    unsigned char bytes[BW_SNAPSHOT_HEAD], sum[8], list[BW_MEMBER_LIST_BYTES_MAX];
    size_t length;
    head_write(head, bytes);
    BW_CRASH("snapshot.save.before-head");
    put(sink, bytes, sizeof bytes);
    BW_CRASH("snapshot.save.after-head");
    length = bw_member_list_encode(&head->member_list, list);
    bw_put32(sum, (uint32_t)length);
    put(sink, sum, 4);
    put(sink, list, length);
    bw_registry_save_begin(registry, &saving);
    while (!sink->failed && (length = bw_registry_save(registry, &saving, sink->bytes + sink->used,
                                                       SCRATCH_BYTES - sink->used)) > 0) {
        BW_CRASH_TORN("snapshot.save.torn-piece", sink->fd, sink->bytes, sink->used + length, -1);
        took(sink, length);
    }
    bw_put64(sum, XXH3_64bits_digest(&sink->sum));
    BW_CRASH("snapshot.save.before-sum");
    put(sink, sum, sizeof sum);
}

/* Gives the file its name only when it is complete and durable. */
static int finish(const char *directory, struct sink *sink, bw_index index)
{
    char path[PATH_SIZE];
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bw_snapshot_name(path, sizeof path, directory, index);
    int synced = BW_BUG(snapshot_named_before_its_sync) ? fd : sink->fd;
    bool good = !sink->failed && fd >= 0 &&
                bw_file_publish(fd, synced, BW_SNAPSHOT_NEXT, strrchr(path, '/') + 1,
                                BW_CRASH_FILE("snapshot.save"));
    if (fd >= 0)
        close(fd);
    return good ? 0 : BW_EIO;
}

int bw_snapshot_write(const char *directory, const struct bw_snapshot_head *head,
                      struct bw_registry *registry)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/" BW_SNAPSHOT_NEXT, directory);
    BW_CRASH("snapshot.save.before-create");
    struct sink sink = {.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
                        .bytes = scratch_map()};
    int error = BW_EIO;
    if (sink.bytes && sink.fd >= 0) {
        XXH3_64bits_reset(&sink.sum);
        set_direct(&sink, true);
        put_all(&sink, head, registry);
        put_rest(&sink);
        error = finish(directory, &sink, head->index);
    }
    if (sink.fd >= 0)
        close(sink.fd);
    if (error) /* it may have filled the disk */
        unlink(path);
    if (sink.bytes)
        munmap(sink.bytes, SCRATCH_BYTES);
    return error;
}

/* Adds what makes it a backup in the form that etcd's tools accept, except for the SHA-256. */
static void put_trailer(struct sink *sink)
{
    unsigned char block[BLOCK] = {0};
    uint64_t length = sink->all;
    put(sink, block, (BLOCK - length % BLOCK) % BLOCK);
    memcpy(block, trailer, sizeof trailer);
    bw_put64(block + 8, length);
    put(sink, block, sizeof block);
}

int bw_snapshot_stream(int fd, const struct bw_snapshot_head *head, struct bw_registry *registry)
{
    struct sink sink = {.fd = fd, .bytes = scratch_map()};
    if (!sink.bytes)
        return BW_EIO;
    XXH3_64bits_reset(&sink.sum);
    put_all(&sink, head, registry);
    put_trailer(&sink);
    munmap(sink.bytes, SCRATCH_BYTES);
    return sink.failed ? BW_EIO : 0;
}

struct view { /* a mapped file */
    const unsigned char *bytes;
    size_t size, mapped;
};

/* The size without a backup's trailer. */
static size_t size_without_trailer(const unsigned char *bytes, size_t size)
{
    if (size % BLOCK != 32 || size < BW_SNAPSHOT_HEAD + 8 + BLOCK + 32)
        return size;
    const unsigned char *block = bytes + size - 32 - BLOCK;
    uint64_t length = bw_get64(block + 8);
    bool backup = memcmp(block, trailer, sizeof trailer) == 0 && length <= size - 32 - BLOCK &&
                  length >= BW_SNAPSHOT_HEAD + 8;
    return backup ? (size_t)length : size;
}

static int view_open(struct view *view, const char *path, char *why)
{
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *bytes = MAP_FAILED;
    bool known = fd >= 0 && fstat(fd, &stat) == 0;
    bool complete = known && stat.st_size >= (off_t)BW_SNAPSHOT_HEAD + 8;
    if (complete)
        bytes = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "cannot read %.400s: %s", path,
                 known && !complete ? "truncated, or not a snapshot" : strerror(errno));
    if (fd >= 0)
        close(fd);
    if (bytes == MAP_FAILED) /* a file that cannot be opened now is not damaged */
        return (known && !complete) || BW_BUG(snapshot_unread_is_damaged) ? BW_EDAMAGED : BW_EIO;
    *view = (struct view){bytes, size_without_trailer(bytes, (size_t)stat.st_size),
                          (size_t)stat.st_size};
    return 0;
}

/* Where the registry begins; 0: the members before it are invalid. */
static size_t body_of(const struct view *view, struct bw_member_list *member_list)
{
    size_t rest = view->size - BW_SNAPSHOT_HEAD - 8;
    *member_list = (struct bw_member_list){0};
    if (view->bytes[7] == 1)
        return BW_SNAPSHOT_HEAD;
    size_t length = rest >= 4 ? bw_get32(view->bytes + BW_SNAPSHOT_HEAD) : SIZE_MAX;
    if (length > rest - 4 ||
        bw_member_list_decode(member_list, view->bytes + BW_SNAPSHOT_HEAD + 4, length) != 0)
        return 0;
    return BW_SNAPSHOT_HEAD + 4 + length;
}

/* etcd's snapshot is a file of bbolt: its first page has 16 bytes, then the number 0xED0CDAED. */
static bool is_of_etcd(const unsigned char *bytes)
{
    static const unsigned char bbolt[] = {0xed, 0xda, 0x0c, 0xed};
    return memcmp(bytes, magic, 7) != 0 && memcmp(bytes + 16, bbolt, sizeof bbolt) == 0;
}

static int head_check(const struct view *view, const char *path, uint64_t cluster,
                      struct bw_snapshot_head *head, char *why)
{
    const unsigned char *bytes = view->bytes;
    const char *what = NULL;
    int error = BW_EDAMAGED;
    if (is_of_etcd(bytes))
        what = "is a snapshot of etcd; restore it with etcdctl, and copy the keys with etcdctl "
               "make-mirror";
    else if (memcmp(bytes, magic, 7) != 0 ||
             (bw_get64(bytes + view->size - 8) != XXH3_64bits(bytes, view->size - 8) &&
              !BW_BUG(snapshot_trusts_any_checksum)))
        what = "is damaged, or not a snapshot";
    else if (bytes[7] == 0 || bytes[7] > magic[7])
        error = BW_EVERSION, what = "was written by a newer version of bellwether";
    else if (cluster && bw_get64(bytes + 8) != cluster)
        error = BW_EDENIED, what = "belongs to another cluster";
    *head = (struct bw_snapshot_head){.cluster = bw_get64(bytes + 8),
                                      .index = bw_get64(bytes + 16),
                                      .term = bw_get64(bytes + 24),
                                      .voters = bw_get32(bytes + 32),
                                      .members = bw_get32(bytes + 36)};
    if (!what && (head->members == 0 || head->members > BW_RAFT_MEMBERS_MAX || head->voters == 0 ||
                  head->voters > head->members || head->index == 0 ||
                  body_of(view, &head->member_list) == 0))
        what = "is invalid: unexpected members or index";
    if (what) {
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "%.400s %s", path, what);
        return error;
    }
    for (uint32_t i = 0; i < head->members; i++)
        head->member[i] = bw_get32(bytes + 40 + (size_t)4 * i);
    return 0;
}

int bw_snapshot_check(const char *path, uint64_t cluster, struct bw_snapshot_head *head, char *why)
{
    struct view view;
    int error = view_open(&view, path, why);
    if (error)
        return error;
    error = head_check(&view, path, cluster, head, why);
    munmap((void *)view.bytes, view.mapped);
    return error;
}

static int load(const char *path, const struct view *view, struct bw_registry *registry, char *why)
{
    struct bw_loading loading = {0};
    struct bw_member_list member_list;
    size_t body = body_of(view, &member_list), length = view->size - body - 8;
    int64_t took = bw_registry_load(registry, &loading, view->bytes + body, length);
    if (took == (int64_t)length && loading.ended)
        return 0;
    snprintf(why, BW_REPLICA_WHY_MAX + 1, "%.400s cannot be loaded: %s", path,
             bw_error_text(took < 0 ? (int)took : BW_EDAMAGED));
    return took < 0 ? (int)took : BW_EDAMAGED;
}

static int adopt(const struct view *view, const char *directory,
                 const struct bw_snapshot_head *head, char *why)
{
    static unsigned char members[BW_MEMBER_LIST_BYTES_MAX];
    struct bw_member_list before;
    unsigned char bytes[BW_SNAPSHOT_HEAD], number[8];
    char path[PATH_SIZE];
    size_t body = body_of(view, &before),
           length = bw_member_list_encode(&head->member_list, members);
    snprintf(path, sizeof path, "%s/" BW_SNAPSHOT_NEXT, directory);
    struct sink sink = {.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
                        .bytes = scratch_map()};
    sink.failed = sink.fd < 0 || !sink.bytes;
    if (!sink.failed) {
        XXH3_64bits_reset(&sink.sum);
        head_write(head, bytes);
        put(&sink, bytes, sizeof bytes);
        bw_put32(number, (uint32_t)length);
        put(&sink, number, 4);
        put(&sink, members, length);
        put(&sink, view->bytes + body, view->size - body - 8);
        bw_put64(number, XXH3_64bits_digest(&sink.sum));
        put(&sink, number, sizeof number);
    }
    int error = finish(directory, &sink, head->index);
    if (error)
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "cannot write in %.300s: %s", directory,
                 strerror(errno));
    if (sink.fd >= 0)
        close(sink.fd);
    if (sink.bytes)
        munmap(sink.bytes, SCRATCH_BYTES);
    return error;
}

int bw_snapshot_adopt(const char *path, const char *directory, struct bw_snapshot_head *head,
                      char *why)
{
    static struct bw_snapshot_head found;
    struct view view;
    int error = view_open(&view, path, why);
    if (error)
        return error;
    error = head_check(&view, path, 0, &found, why);
    head->index = found.index;
    head->term = found.term;
    if (!error)
        error = adopt(&view, directory, head, why);
    munmap((void *)view.bytes, view.mapped);
    return error;
}

/* The index in a snapshot's name; 0: not a snapshot. */
static bw_index index_of(const char *name)
{
    char again[64];
    if (strncmp(name, "snapshot-", 9) != 0)
        return 0;
    bw_index index = strtoull(name + 9, NULL, 16);
    snprintf(again, sizeof again, "snapshot-%016" PRIx64, index);
    return strcmp(name, again) == 0 ? index : 0;
}

/* Finds the newest snapshot; 0: there is none. Returns 0, or BW_EIO with errno: a directory that
 * cannot be listed may have snapshots. */
static int find_newest(const char *directory, bw_index *found)
{
    DIR *dir = opendir(directory);
    const struct dirent *entry;
    *found = 0;
    errno = dir ? 0 : errno;
    while (dir && (entry = readdir(dir))) {
        bw_index index = index_of(entry->d_name);
        *found = index > *found ? index : *found;
    }
    int error = errno;
    if (dir)
        closedir(dir);
    errno = error;
    return error && !BW_BUG(snapshot_unread_is_damaged) ? BW_EIO : 0;
}

int bw_snapshot_load(const char *path, uint64_t cluster, struct bw_snapshot_head *head,
                     struct bw_registry *registry, char *why)
{
    struct view view;
    int error = view_open(&view, path, why);
    if (error)
        return error;
    error = head_check(&view, path, cluster, head, why);
    if (!error)
        error = load(path, &view, registry, why);
    munmap((void *)view.bytes, view.mapped);
    return error;
}

int bw_snapshot_read(const char *directory, uint64_t cluster, struct bw_snapshot_head *head,
                     struct bw_registry *registry, char *why)
{
    char path[PATH_SIZE];
    bw_index index;
    *head = (struct bw_snapshot_head){0};
    if (find_newest(directory, &index) != 0) {
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "cannot list %.400s: %s", directory, strerror(errno));
        return BW_EIO;
    }
    if (index == 0)
        return 0;
    bw_snapshot_name(path, sizeof path, directory, index);
    return bw_snapshot_load(path, cluster, head, registry, why);
}

void bw_snapshot_drop_older(const char *directory, bw_index index)
{
    DIR *dir = opendir(directory);
    const struct dirent *entry;
    char path[PATH_SIZE];
    while (dir && (entry = readdir(dir))) {
        bw_index other = index_of(entry->d_name);
        if (other == 0 || other >= index)
            continue;
        bw_snapshot_name(path, sizeof path, directory, other);
        BW_CRASH("snapshot.drop.before-unlink");
        unlink(path);
        BW_CRASH("snapshot.drop.after-unlink");
    }
    if (dir)
        closedir(dir);
}
