/* Claims: how a candidate notices a leader whose database and lock files were removed.
 *
 * Problem. A new database knows nothing of a leader that still works under the removed one.
 *
 * A process that leads also locks one byte of the directory that holds the database, and one byte
 * of that directory's parent. `rm -rf` of the database and of PATH.locks leaves both locks; `rm
 * -rf` of the directory leaves the second. A read lock needs no write permission, and any process
 * that can open the directory sees it by F_OFD_GETLK. A process that finds a claim under another
 * database at the same path acquires nothing until that claim is gone.
 *
 * A claim ends when the owner of the last leadership under it confirms that the work is dead
 * (RELEASE). It does not end when the record changes: a holder that finds its database replaced
 * still has to stop its work.
 *
 * Order of steps. A process that acquires first claims and then checks that its database is still
 * at the path. A process that creates a new database does so before it looks for claims. One of the
 * two therefore sees the other.
 *
 * A process has one claim for all its leaderships, because the kernel keeps a file's locks in a
 * linear list. The offset of the locked byte (file offsets go up to 2^63 - 1):
 *
 *     bits 62..23   hash of the database's path relative to that directory
 *     bits 22..0    hash of the database file's device and inode; an open descriptor keeps the
 *                   inode from being reused
 *
 * Not guaranteed: anything if the directory cannot be read (mode 0711 and another user), or was
 * replaced together with its parent. */
#include "core/base/bug.h"
#include "store/sqlite/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BITS 23
#define FILES     (UINT64_C(1) << FILE_BITS)
#define NAME_MASK ((UINT64_C(1) << 40) - 1)

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 32);
}

/* The part of the database's path below the directory `level` levels up. */
static const char *name_below(const struct bw_sqlite_paths *paths, unsigned level)
{
    const char *at = strrchr(paths->db, '/');
    while (level-- > 0 && at > paths->db)
        do
            at--;
        while (at > paths->db && *at != '/');
    return at + 1;
}

/* The lowest offset for the database's path; the file hash is added to it. */
static uint64_t base_of(const struct bw_sqlite_paths *paths, unsigned level)
{
    uint64_t hash = level;
    for (const char *at = name_below(paths, level); *at; at++)
        hash = mix(hash, (unsigned char)*at);
    return (hash & NAME_MASK) << FILE_BITS;
}

static uint64_t file_of(const struct bw_sqlite_paths *paths)
{
    return mix(mix(1, (uint64_t)paths->dev), (uint64_t)paths->ino) % FILES;
}

static int open_level(const struct bw_sqlite_paths *paths, unsigned level)
{
    char dir[PATH_MAX];
    size_t length = (size_t)(name_below(paths, level) - paths->db);
    memcpy(dir, paths->db, length);
    dir[length] = '\0';
    return bw_sqlite_open_path(dir, O_RDONLY | O_DIRECTORY);
}

/* Returns the errno if the open failed for lack of resources; otherwise 0. Other failures mean that
 * the directory cannot be read: then there is no claim. */
static int shortage(int fd)
{
    return fd < 0 && bw_sqlite_error_of(errno) == BW_ENOMEM ? errno : 0;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void bw_sqlite_claims_init(struct bw_sqlite_claims *claims)
{
    claims->count = 0;
    claims->file_fd = -1;
    for (unsigned level = 0; level < BW_SQLITE_CLAIM_LEVELS; level++)
        claims->fd[level] = -1;
}

/* Unlocks explicitly, because a child of this process may have copies of the descriptors. `file_fd`
 * is an O_PATH descriptor: closing it does not drop SQLite's own locks on the database. */
void bw_sqlite_claims_close(struct bw_sqlite_claims *claims)
{
    struct flock all = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    if (claims->count > 0)
        return;
    close_fd(&claims->file_fd);
    for (unsigned level = 0; level < BW_SQLITE_CLAIM_LEVELS; level++) {
        if (claims->fd[level] >= 0)
            (void)fcntl(claims->fd[level], F_OFD_SETLK, &all);
        close_fd(&claims->fd[level]);
    }
}

static int claim_level(struct bw_sqlite_claims *claims, const struct bw_sqlite_paths *paths,
                       unsigned level)
{
    struct flock lock = {.l_type = F_RDLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)(base_of(paths, level) + file_of(paths)),
                         .l_len = 1};
    claims->fd[level] = open_level(paths, level);
    int error = shortage(claims->fd[level]);
    if (claims->fd[level] >= 0)
        (void)fcntl(claims->fd[level], F_OFD_SETLK, &lock);
    return error;
}

static int claim(struct bw_sqlite_claims *claims, const struct bw_sqlite_paths *paths)
{
    claims->file_fd = bw_sqlite_open_path(paths->db, O_PATH);
    int error = shortage(claims->file_fd);
    for (unsigned level = 0; level < BW_SQLITE_CLAIM_LEVELS && error == 0; level++)
        error = claim_level(claims, paths, level);
    return error;
}

int bw_sqlite_claim_take(struct bw_sqlite_claims *claims, const struct bw_sqlite_paths *paths)
{
    char why[BW_WHY_MAX + 1];
    int error = claims->count++ == 0 ? claim(claims, paths) : 0;
    if (error == 0 && bw_sqlite_paths_check(paths, why) != 0)
        error = ESTALE;
    if (error)
        bw_sqlite_claim_drop(claims);
    return error;
}

void bw_sqlite_claim_drop(struct bw_sqlite_claims *claims)
{
    claims->count--;
    bw_sqlite_claims_close(claims);
}

static bool is_locked(int fd, uint64_t from, uint64_t to)
{
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)from,
                         .l_len = (off_t)(to - from)};
    return from < to && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

int bw_sqlite_claims_check(const struct bw_sqlite_paths *paths, bool *claimed)
{
    *claimed = false;
    for (unsigned level = 0; level < BW_SQLITE_CLAIM_LEVELS && !*claimed; level++) {
        int fd = open_level(paths, level), error = shortage(fd);
        uint64_t base = base_of(paths, level), own = base + file_of(paths);
        if (error)
            return error;
        if (fd < 0)
            continue;
        *claimed = is_locked(fd, base, own) || is_locked(fd, own + 1, base + FILES);
        close(fd);
    }
    *claimed = *claimed && !BW_BUG(store_ignores_claims);
    return 0;
}
