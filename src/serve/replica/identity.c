/* The identity of a data directory; see identity.h. */
#include "serve/replica/identity.h"

#include "core/base/error.h"
#include "core/base/little.h"
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define HEAD      (24u + BW_REPLICA_NAME_MAX + 1u + 4u)
#define BYTES_MAX (HEAD + BW_MEMBER_LIST_BYTES_MAX + 8u)
#define JOINED    1u
#define FILE_NAME "identity"
#define TEMPORARY "identity.tmp"
#define NUMBER    "new" /* bootstrap.c */
#define LOCK      "lock"

static const unsigned char magic[8] = {'B', 'W', 'N', 'O',
                                       'D', 'E', 0,   1}; /* the last byte is the version */

static int errno_text(char *why, int error, const char *what, const char *directory)
{
    snprintf(why, BW_REPLICA_WHY_MAX + 1, "%s %.300s: %s", what, directory, strerror(errno));
    return error;
}

static size_t encode(const struct bw_identity *identity, unsigned char *bytes)
{
    memset(bytes, 0, HEAD);
    memcpy(bytes, magic, sizeof magic);
    bw_put64(bytes + 8, identity->cluster);
    bw_put32(bytes + 16, identity->self);
    bw_put32(bytes + 20, identity->joined ? JOINED : 0);
    memcpy(bytes + 24, identity->name, sizeof identity->name);
    size_t length = bw_member_list_encode(&identity->first, bytes + HEAD);
    bw_put32(bytes + HEAD - 4, (uint32_t)length);
    bw_put64(bytes + HEAD + length, XXH3_64bits(bytes, HEAD + length));
    return HEAD + length + 8;
}

static int decode(struct bw_identity *out, const unsigned char *bytes, size_t size)
{
    if (size < HEAD + 8 || memcmp(bytes, magic, 7) != 0)
        return BW_EDAMAGED;
    if (bytes[7] != magic[7])
        return BW_EVERSION;
    size_t length = bw_get32(bytes + HEAD - 4);
    if (length != size - HEAD - 8 || bw_get64(bytes + size - 8) != XXH3_64bits(bytes, size - 8) ||
        bw_member_list_decode(&out->first, bytes + HEAD, length) != 0)
        return BW_EDAMAGED;
    out->cluster = bw_get64(bytes + 8);
    out->self = bw_get32(bytes + 16);
    out->joined = bw_get32(bytes + 20) & JOINED;
    memcpy(out->name, bytes + 24, sizeof out->name);
    out->name[BW_REPLICA_NAME_MAX] = '\0';
    return out->cluster && out->self && out->first.count ? 0 : BW_EDAMAGED;
}

static bool is_segment(const char *name)
{
    size_t length = strlen(name);
    return strncmp(name, "wal-", 4) == 0 && length > 8 && strcmp(name + length - 4, ".log") == 0;
}

static DIR *list(int directory)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

/* Looks for any segment: the first one is removed after a snapshot. */
static bool has_log(int directory)
{
    DIR *dir = list(directory);
    const struct dirent *entry;
    bool found = false;
    while (dir && !found && (entry = readdir(dir)))
        found = is_segment(entry->d_name);
    if (dir)
        closedir(dir);
    return found;
}

/* Fails if the lock file was removed or replaced while this process waited for its lock. */
int bw_directory_lock(int directory)
{
    struct stat here, there;
    int fd = openat(directory, LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    int error = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (!error && (fstat(fd, &here) != 0 || fstatat(directory, LOCK, &there, 0) != 0 ||
                   here.st_ino != there.st_ino))
        error = EWOULDBLOCK;
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

static int read_from(struct bw_identity *out, int directory, const char *path, char *why)
{
    static unsigned char bytes[BYTES_MAX + 1];
    int fd = openat(directory, FILE_NAME, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && has_log(directory)) {
        snprintf(why, BW_REPLICA_WHY_MAX + 1,
                 "%.300s holds a log, but the file " FILE_NAME
                 " is missing; restore it, or remove this node and let it join again",
                 path);
        return BW_EDAMAGED;
    }
    if (fd < 0)
        return errno == ENOENT ? 0 : errno_text(why, BW_EIO, "cannot read " FILE_NAME " in", path);
    ssize_t got = read(fd, bytes, sizeof bytes);
    close(fd);
    int error = got < 0 ? BW_EIO : decode(out, bytes, (size_t)got);
    if (error)
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "%.300s/" FILE_NAME " %s", path,
                 error == BW_EVERSION ? "was written by a newer version of bellwether"
                                      : "is damaged; restore it, or remove this node and let it "
                                        "join again");
    return error;
}

int bw_identity_read(struct bw_identity *out, const char *directory, char *why)
{
    *out = (struct bw_identity){0};
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : errno_text(why, BW_EIO, "cannot open", directory);
    int error = read_from(out, fd, directory, why);
    close(fd);
    if (error)
        out->cluster = 0;
    return error;
}

static bool write_file(int directory, const unsigned char *bytes, size_t length)
{
    return bw_file_replace(directory, TEMPORARY, FILE_NAME, 0600, bytes, length,
                           BW_CRASH_FILE("identity"));
}

static int make_locked(const struct bw_identity *identity, int directory, const char *path,
                       char *why)
{
    static unsigned char bytes[BYTES_MAX];
    if (faccessat(directory, FILE_NAME, F_OK, 0) == 0 || has_log(directory)) {
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "%.300s already belongs to a node", path);
        return BW_EBUSY;
    }
    size_t length = encode(identity, bytes);
    return write_file(directory, bytes, length) ? 0
                                                : errno_text(why, BW_EIO, "cannot write in", path);
}

/* Makes the identity under the lock of the directory. */
int bw_identity_make(const struct bw_identity *identity, const char *directory, char *why)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int lock = fd < 0 ? -1 : bw_directory_lock(fd);
    int error = BW_EIO;
    if (lock >= 0) {
        error = make_locked(identity, fd, directory, why);
    } else if (fd >= 0 && errno == EWOULDBLOCK) {
        snprintf(why, BW_REPLICA_WHY_MAX + 1, "%.300s is in use by another process", directory);
        error = BW_EBUSY;
    } else {
        error = errno_text(why, BW_EIO, "cannot open", directory);
    }
    if (lock >= 0)
        close(lock);
    if (fd >= 0)
        close(fd);
    return error;
}

static bool is_start_file(const char *name)
{
    return is_segment(name) || strcmp(name, FILE_NAME) == 0 || strcmp(name, TEMPORARY) == 0 ||
           strcmp(name, NUMBER) == 0;
}

void bw_identity_unmake(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int lock = fd < 0 ? -1 : bw_directory_lock(fd);
    DIR *dir = lock < 0 ? NULL : list(fd);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (is_start_file(entry->d_name))
            unlinkat(fd, entry->d_name, 0);
    if (dir) {
        closedir(dir);
        unlinkat(fd, LOCK, 0);
    }
    if (lock >= 0)
        close(lock);
    if (fd >= 0)
        close(fd);
}
