/* The directory of a peer; see disk.h, and disk_record.c for `elections`.
 *
 *   identity  text, one "word value" per line: bellwether-peer 1, node, cluster, directory (hex),
 *             inode (of this file), check (XXH64 of the lines before, hex)
 *   members   magic 8, checksum 8 (XXH64 of the rest), length 4 (of the rest), starts 4,
 *             flags 1 (1 founded, 2 returned), proposer 4, round 8, own_round 8, count 4, ids 4
 *             each; then pages of rows as ROSTER frames (frame.c), each after its length 4
 *
 * `identity` is written last when a directory is created: without it, the directory holds no
 * promises. */
#include "peer/disk.h"

#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/little.h"
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define IDENTITY_MAX  1024u
#define CLUSTER_MAX   255u
#define MEMBERS_MAGIC UINT64_C(0x3172626d656d7062) /* "bpmembr1" */
#define MEMBERS_HEAD  20u
#define MEMBERS_FIXED 29u

struct election_file {
    uint64_t sequence[2]; /* sequence number of each slot */
    bool put;             /* written, but perhaps not durable yet */
    struct bw_peer_record record;
};

struct bw_peer_disk {
    int directory, lock, elections_fd;
    uint64_t id;
    uint32_t elections, put_count;
    struct election_file *election;
    unsigned char slot[BW_PEER_SLOT_BYTES];
    unsigned char *members; /* buffer for a whole file */
    size_t members_cap;
    struct bw_peer_frame frame;
};

static int fail(char *why, int error, const char *format, const char *directory)
{
    int at = snprintf(why, BW_PEER_DISK_WHY_MAX + 1, format, directory);
    if (error == BW_EIO && at > 0 && (size_t)at < BW_PEER_DISK_WHY_MAX)
        snprintf(why + at, BW_PEER_DISK_WHY_MAX + 1 - (size_t)at, ": %s", strerror(errno));
    return error;
}

/* ---- elections ---- */

static off_t slot_at(uint32_t election, unsigned which)
{
    return (off_t)(2 * election + which) * (off_t)BW_PEER_SLOT_BYTES;
}

static bool write_slot(struct bw_peer_disk *disk, uint32_t election, unsigned which,
                       uint64_t sequence)
{
    struct election_file *file = &disk->election[election];
    size_t length = bw_peer_slot_encode(disk->slot, disk->id, election, sequence, &file->record);
    file->sequence[which] = sequence;
    return bw_file_write(disk->elections_fd, disk->slot, length, slot_at(election, which));
}

/* Writes the record to the older slot. A record that is put again before it was durable goes to the
 * same slot. */
int bw_peer_disk_put_record(struct bw_peer_disk *disk, uint32_t election,
                            const struct bw_peer_record *record)
{
    struct election_file *file = &disk->election[election];
    unsigned newest = file->sequence[1] > file->sequence[0], which = newest ^ !file->put;
    disk->put_count += !file->put;
    file->put = true;
    file->record = *record;
    return write_slot(disk, election, which, file->sequence[newest] + 1) ? 0 : BW_EIO;
}

/* Writes a durable record to the other slot, too, so that one flipped bit soon cannot destroy it.
 * This copy gets an older sequence number: if its write is torn, the durable one is still the
 * newest. */
static bool write_second_copy(struct bw_peer_disk *disk, uint32_t election)
{
    struct election_file *file = &disk->election[election];
    unsigned newest = file->sequence[1] > file->sequence[0];
    file->put = false;
    disk->put_count--;
    return write_slot(disk, election, !newest, file->sequence[newest] - 1);
}

int bw_peer_disk_sync(struct bw_peer_disk *disk)
{
    bool good = disk->put_count == 0 || fdatasync(disk->elections_fd) == 0;
    for (uint32_t e = 0; good && disk->put_count > 0 && e < disk->elections; e++)
        if (disk->election[e].put)
            good = write_second_copy(disk, e);
    return good ? 0 : BW_EIO;
}

int bw_peer_disk_write_record(struct bw_peer_disk *disk, uint32_t election,
                              const struct bw_peer_record *record)
{
    int error = bw_peer_disk_put_record(disk, election, record);
    return error ? error : bw_peer_disk_sync(disk);
}

const struct bw_peer_record *bw_peer_disk_record(const struct bw_peer_disk *disk, uint32_t election)
{
    return &disk->election[election].record;
}

static bool read_slot(struct bw_peer_disk *disk, uint32_t election, unsigned which,
                      uint64_t *sequence, struct bw_peer_record *record)
{
    memset(disk->slot, 0, sizeof disk->slot);
    if (pread(disk->elections_fd, disk->slot, sizeof disk->slot, slot_at(election, which)) <= 0)
        return false;
    return bw_peer_slot_decode(disk->slot, disk->id, election, sequence, record);
}

static bool read_election(struct bw_peer_disk *disk, uint32_t election)
{
    struct election_file *file = &disk->election[election];
    struct bw_peer_record found[2];
    bool good[2];
    for (unsigned i = 0; i < 2; i++)
        good[i] = read_slot(disk, election, i, &file->sequence[i], &found[i]);
    for (unsigned i = 0; i < 2; i++)
        if (!good[i])
            file->sequence[i] = 0;
    if (!good[0] && !good[1])
        return false;
    file->record = found[file->sequence[1] > file->sequence[0]];
    return true;
}

/* Opens the file of slots. Slots of new elections start empty. */
static int open_elections(struct bw_peer_disk *disk, bool made, const char *directory, char *why)
{
    struct stat status;
    disk->elections_fd = openat(disk->directory, "elections", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (disk->elections_fd < 0 || fstat(disk->elections_fd, &status) != 0)
        return fail(why, BW_EIO, "cannot open the elections file in %s", directory);
    /* Without an identity, existing slots do not count. */
    uint32_t there = made ? 0 : (uint32_t)((status.st_size + BW_PEER_SLOT_BYTES) / slot_at(1, 0));
    for (uint32_t i = 0; i < disk->elections; i++) {
        if (i < there && !read_election(disk, i))
            return fail(why, BW_EDAMAGED,
                        "%s is damaged: cannot read the promises of this node; remove the node "
                        "from the cluster, then let it join again with an empty directory",
                        directory);
        if (i >= there && (!write_slot(disk, i, 0, 1) || !write_slot(disk, i, 1, 2)))
            return fail(why, BW_EIO, "cannot write to directory %s", directory);
    }
    if (fsync(disk->elections_fd) != 0)
        return fail(why, BW_EIO, "cannot write to directory %s", directory);
    return 0;
}

/* ---- identity ---- */

static int identity_text(char out[IDENTITY_MAX], bw_node self, const char *cluster, uint64_t id,
                         uint64_t inode)
{
    int length = snprintf(out, IDENTITY_MAX,
                          "bellwether-peer 1\nnode %" PRIu32 "\ncluster %s\ndirectory %016" PRIx64
                          "\ninode %" PRIu64 "\n",
                          self, cluster, id, inode);
    return length + snprintf(out + length, IDENTITY_MAX - (size_t)length, "check %016" PRIx64 "\n",
                             (uint64_t)XXH64(out, (size_t)length, 0));
}

/* Value of a line of the identity file, or "". */
static const char *value_of(const char *text, const char *word, char out[CLUSTER_MAX + 1])
{
    size_t length = strlen(word);
    out[0] = '\0';
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, word, length) == 0 && line[length] == ' ') {
            size_t span = strcspn(line + length + 1, "\n");
            snprintf(out, CLUSTER_MAX + 1, "%.*s", (int)span, line + length + 1);
            break;
        }
    return out;
}

/* Rebuilds the expected text of the file and compares it. */
static int check_identity(struct bw_peer_disk *disk, const struct bw_peer_disk_options *o,
                          const char *text, uint64_t inode, char *why)
{
    char again[IDENTITY_MAX], value[CLUSTER_MAX + 1];
    bw_node node = (bw_node)strtoul(value_of(text, "node", value), NULL, 10);
    uint64_t written = strtoull(value_of(text, "inode", value), NULL, 10);
    disk->id = strtoull(value_of(text, "directory", value), NULL, 16);
    value_of(text, "cluster", value);
    identity_text(again, node, value, disk->id, written);
    if (strcmp(text, again) != 0)
        return fail(why, BW_EDAMAGED, "%s/identity is damaged; restore the original file",
                    o->directory);
    if (node != o->self || strcmp(value, o->cluster) != 0) {
        snprintf(why, BW_PEER_DISK_WHY_MAX + 1,
                 "%.200s belongs to node %" PRIu32 " of cluster %.100s, not to node %" PRIu32
                 " of %.100s; give each node its own directory",
                 o->directory, node, value, o->self, o->cluster);
        return BW_EDAMAGED;
    }
    if (written != inode)
        return fail(why, BW_EDAMAGED,
                    "%s is a copy, or was restored from a backup: promises made since then are "
                    "missing; remove the node, then let it join again with an empty directory",
                    o->directory);
    return 0;
}

/* Returns 1 if there is no identity file. */
static int read_identity(struct bw_peer_disk *disk, const struct bw_peer_disk_options *o, char *why)
{
    char text[IDENTITY_MAX + 1];
    struct stat status;
    int fd = openat(disk->directory, "identity", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 1;
    ssize_t length = fd >= 0 && fstat(fd, &status) == 0 ? read(fd, text, IDENTITY_MAX) : -1;
    if (fd >= 0)
        close(fd);
    if (length < 0)
        return fail(why, BW_EIO, "cannot read %s/identity", o->directory);
    text[length] = '\0';
    return check_identity(disk, o, text, status.st_ino, why);
}

static int make_identity(struct bw_peer_disk *disk, const struct bw_peer_disk_options *o, char *why)
{
    char text[IDENTITY_MAX];
    struct stat status;
    int fd = openat(disk->directory, "identity.new", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = fd >= 0 && fstat(fd, &status) == 0;
    if (good) {
        int length = identity_text(text, o->self, o->cluster, disk->id, status.st_ino);
        good = bw_file_write(fd, text, (size_t)length, 0) &&
               bw_file_publish(disk->directory, fd, "identity.new", "identity", NULL);
    }
    if (fd >= 0)
        close(fd);
    return good ? 0 : fail(why, BW_EIO, "cannot write to directory %s", o->directory);
}

uint64_t bw_peer_disk_id(const struct bw_peer_disk *disk)
{
    return disk->id;
}

/* ---- members ---- */

static size_t put_found(unsigned char *at, uint32_t starts, const struct bw_peer_found_saved *found)
{
    bw_put32(at, starts);
    at[4] = (unsigned char)(found->founded | found->returned << 1);
    bw_put32(at + 5, found->proposer);
    bw_put64(at + 9, found->round);
    bw_put64(at + 17, found->own_round);
    bw_put32(at + 25, found->count);
    for (uint32_t i = 0; i < found->count; i++)
        bw_put32(at + MEMBERS_FIXED + (size_t)4 * i, found->set[i]);
    return MEMBERS_FIXED + 4 * found->count;
}

static size_t put_rows(struct bw_peer_disk *disk, unsigned char *at, size_t space,
                       const struct bw_peer_roster *roster)
{
    size_t used = 0;
    uint32_t place = 0;
    disk->frame.kind = BW_PEER_ROSTER;
    while (bw_peer_roster_page(roster, &place, &disk->frame.rows) > 0) {
        int length = bw_peer_frame_encode(&disk->frame, at + used + 4, space - used - 4);
        if (length < 0)
            break;
        bw_put32(at + used, (uint32_t)length);
        used += 4 + (size_t)length;
    }
    return used;
}

int bw_peer_disk_write_members(struct bw_peer_disk *disk, uint32_t starts,
                               const struct bw_peer_found_saved *found,
                               const struct bw_peer_roster *roster)
{
    unsigned char *body = disk->members + MEMBERS_HEAD;
    size_t length = put_found(body, starts, found);
    length += put_rows(disk, body + length, disk->members_cap - MEMBERS_HEAD - length, roster);
    bw_put64(disk->members, MEMBERS_MAGIC);
    bw_put64(disk->members + 8, XXH64(body, length, disk->id));
    bw_put32(disk->members + 16, (uint32_t)length);
    bool good = bw_file_replace(disk->directory, "members.new", "members", 0600, disk->members,
                                MEMBERS_HEAD + length, NULL);
    return good ? 0 : BW_EIO;
}

static bool get_rows(struct bw_peer_disk *disk, const unsigned char *at, size_t left,
                     struct bw_peer_roster *roster)
{
    while (left > 0) {
        uint32_t length = left >= 4 ? bw_get32(at) : UINT32_MAX;
        disk->frame.kind = BW_PEER_ROSTER;
        if (length > left - 4 || bw_peer_frame_decode(&disk->frame, at + 4, length) != 0)
            return false;
        for (uint32_t i = 0; i < disk->frame.rows.count; i++)
            bw_peer_roster_take(roster, &disk->frame.rows.at[i], true);
        at += 4 + length;
        left -= 4 + length;
    }
    return true;
}

static bool get_found(const unsigned char *at, size_t length, uint32_t *starts,
                      struct bw_peer_found_saved *found)
{
    if (length < MEMBERS_FIXED)
        return false;
    *starts = bw_get32(at);
    found->founded = at[4] & 1;
    found->returned = at[4] & 2;
    found->proposer = bw_get32(at + 5);
    found->round = bw_get64(at + 9);
    found->own_round = bw_get64(at + 17);
    found->count = bw_get32(at + 25);
    if (found->count > BW_PEER_FOUNDERS_MAX || length < MEMBERS_FIXED + 4 * found->count)
        return false;
    for (uint32_t i = 0; i < found->count; i++)
        found->set[i] = bw_get32(at + MEMBERS_FIXED + (size_t)4 * i);
    return true;
}

int bw_peer_disk_read_members(struct bw_peer_disk *disk, uint32_t *starts,
                              struct bw_peer_found_saved *found, struct bw_peer_roster *roster)
{
    *starts = 0;
    memset(found, 0, sizeof *found);
    int fd = openat(disk->directory, "members", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : BW_EIO;
    ssize_t size = read(fd, disk->members, disk->members_cap);
    close(fd);
    const unsigned char *body = disk->members + MEMBERS_HEAD;
    if (size < (ssize_t)MEMBERS_HEAD || bw_get64(disk->members) != MEMBERS_MAGIC ||
        bw_get32(disk->members + 16) != (size_t)size - MEMBERS_HEAD)
        return BW_EDAMAGED;
    size_t length = (size_t)size - MEMBERS_HEAD;
    if (bw_get64(disk->members + 8) != XXH64(body, length, disk->id) ||
        !get_found(body, length, starts, found))
        return BW_EDAMAGED;
    size_t used = MEMBERS_FIXED + 4 * found->count;
    return get_rows(disk, body + used, length - used, roster) ? 0 : BW_EDAMAGED;
}

/* ---- opening ---- */

static int lock_directory(struct bw_peer_disk *disk, const char *directory, char *why)
{
    disk->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (disk->directory < 0)
        return fail(why, BW_EIO, "cannot open %s", directory);
    disk->lock = openat(disk->directory, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (disk->lock < 0)
        return fail(why, BW_EIO, "cannot write to directory %s", directory);
    if (flock(disk->lock, LOCK_EX | LOCK_NB) != 0)
        return fail(why, BW_EBUSY, "%s is in use by another process", directory);
    return 0;
}

static int open_inside(struct bw_peer_disk *disk, const struct bw_peer_disk_options *o, char *why)
{
    int error = lock_directory(disk, o->directory, why);
    int found = error ? error : read_identity(disk, o, why);
    if (found < 0)
        return found;
    if (found == 1 && getrandom(&disk->id, sizeof disk->id, 0) != (ssize_t)sizeof disk->id)
        return fail(why, BW_EIO, "cannot read random numbers for %s", o->directory);
    disk->id |= 1; /* 0 means no directory */
    /* A process that was killed may have renamed a file without a sync of the directory. From now
     * on this one relies on it. */
    if (!BW_BUG(peer_trusts_what_it_found) && fsync(disk->directory) != 0)
        return fail(why, BW_EIO, "cannot write to directory %s", o->directory);
    error = open_elections(disk, found == 1, o->directory, why);
    if (!error && found == 1) {
        unlinkat(disk->directory, "members", 0);
        error = make_identity(disk, o, why);
    }
    return error;
}

int bw_peer_disk_open(struct bw_peer_disk **out, const struct bw_peer_disk_options *options,
                      char *why)
{
    struct bw_peer_disk *disk = calloc(1, sizeof *disk);
    size_t cap = MEMBERS_HEAD + MEMBERS_FIXED + 4 * BW_PEER_FOUNDERS_MAX +
                 BW_PEER_MEMBERS_MAX * (sizeof(struct bw_peer_row) + 4);
    if (!disk)
        return fail(why, BW_ENOMEM, "out of memory for %s", options->directory);
    disk->directory = disk->lock = disk->elections_fd = -1;
    disk->elections = options->elections;
    disk->members_cap = cap;
    disk->members = malloc(cap);
    disk->election = calloc(options->elections, sizeof *disk->election);
    int error = BW_ENOMEM;
    if (!disk->members || !disk->election)
        fail(why, error, "out of memory for %s", options->directory);
    else if (strlen(options->cluster) > CLUSTER_MAX || strchr(options->cluster, '\n'))
        error = fail(why, BW_EINVAL,
                     "invalid cluster name for %s: expected at most 255 bytes on one line",
                     options->directory);
    else
        error = open_inside(disk, options, why);
    if (error) {
        bw_peer_disk_close(disk);
        return error;
    }
    *out = disk;
    return 0;
}

void bw_peer_disk_close(struct bw_peer_disk *disk)
{
    int fds[] = {disk->elections_fd, disk->lock, disk->directory};
    for (unsigned i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(disk->members);
    free(disk->election);
    free(disk);
}
