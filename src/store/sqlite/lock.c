/* Lock files: one per election, and the mark in each.
 *
 * The holder of token T keeps byte T of its election's file locked with an open-file-description
 * lock (fcntl F_OFD_SETLK), and shares it with its guardian through fork.
 * - Locking the token's byte, not the whole file, lets a successor acquire although the old holder
 *   is only stopped. It still shows for each leadership whether a process supervises it.
 * - F_OFD_GETLK tests a lock without taking it, so readers do not disturb each other.
 * - The kernel sends no event when a lock is dropped. But inotify reports IN_CLOSE_WRITE exactly
 *   when the last copy of the descriptor is closed: that event signals a death.
 *
 * A free lock proves something only for the very file that the holder locked. The row holds its
 * device and inode, so a directory that was wiped or copied proves nothing.
 *
 * The mark, at offset 0, one write of 32 bytes, little-endian:
 *
 *     0   8  "BWMARK1\n"
 *     8   8  token
 *    16   8  1 = held, 2 = released after confirmed death
 *    24   8  check: the three words above, combined
 *
 * The guardian releases by writing this mark. The mark is only as durable as the page cache, which
 * is sufficient: after a reboot no process relies on marks of the old boot. */
#include "store/sqlite/files.h"

#include "store/sqlite/sqlite.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK_BYTES 32
enum mark_state { MARK_HELD = 1, MARK_RELEASED = 2 };

static const char mark_magic[8] = {'B', 'W', 'M', 'A', 'R', 'K', '1', '\n'};

/* File names: "e-", then letters, digits and "._-" as they are, and other bytes as %XX. If the name
 * becomes too long, "x" and all bytes in hexadecimal: 127 bytes then fit exactly. */
static bool is_unescaped(unsigned char byte)
{
    return isalnum(byte) || byte == '.' || byte == '_' || byte == '-';
}

void bw_sqlite_file_name(const char *election, char out[BW_SQLITE_FILE_MAX + 1])
{
    static const char digits[] = "0123456789ABCDEF";
    size_t length = 2;
    for (const char *at = election; *at; at++)
        length += is_unescaped((unsigned char)*at) ? 1 : 3;
    bool hex = length > BW_SQLITE_FILE_MAX;
    char *to = out;
    *to++ = hex ? 'x' : 'e';
    if (!hex)
        *to++ = '-';
    for (const char *at = election; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        if (!hex && is_unescaped(byte)) {
            *to++ = (char)byte;
            continue;
        }
        if (!hex)
            *to++ = '%';
        *to++ = digits[byte >> 4];
        *to++ = digits[byte & 15];
    }
    *to = '\0';
}

static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

static int hex_byte(const char *at)
{
    int high = hex_digit(at[0]);
    int low = high < 0 ? -1 : hex_digit(at[1]);
    return low < 0 ? -1 : high * 16 + low;
}

bool bw_sqlite_file_election(const char *file, char out[BW_ELECTION_NAME_MAX + 1])
{
    bool hex = file[0] == 'x';
    if (!hex && !(file[0] == 'e' && file[1] == '-'))
        return false;
    size_t length = 0;
    const char *at = file + (hex ? 1 : 2);
    while (*at) {
        bool coded = hex || *at == '%';
        const char *code = hex ? at : at + 1;
        int byte = coded ? hex_byte(code) : (unsigned char)*at;
        if (byte <= 0 || length == BW_ELECTION_NAME_MAX)
            return false;
        out[length++] = (char)byte;
        at = coded ? code + 2 : at + 1;
    }
    out[length] = '\0';
    return length > 0;
}

static void side_path(const struct bw_sqlite_paths *paths, const char *file, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", paths->dir, file);
}

/* Ten thousand held elections need ten thousand descriptors: use what the hard limit allows. */
static bool raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return false;
    limit.rlim_cur = limit.rlim_max;
    bool raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
    errno = EMFILE; /* keep the original error */
    return raised;
}

static int open_file(const char *path, int flags, mode_t mode)
{
    int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0 && errno == EMFILE && raise_limit())
        fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
    return fd;
}

int bw_sqlite_open_path(const char *path, int flags)
{
    return open_file(path, flags, 0);
}

/* Lets every user of the database use its side files, as SQLite does with its own. If that is not
 * possible, the file stays as it is, and other users get an error. */
static void share(const struct bw_sqlite_paths *paths, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return;
    bool foreign = st.st_uid != paths->uid || st.st_gid != paths->gid;
    if (foreign && geteuid() == 0)
        (void)!fchown(fd, paths->uid, paths->gid);
    if ((st.st_mode & 0777) != paths->mode)
        (void)!fchmod(fd, paths->mode);
}

int bw_sqlite_side_open(const struct bw_sqlite_paths *paths, const char *file)
{
    char path[BW_SQLITE_PATH_MAX];
    side_path(paths, file, path, sizeof path);
    int fd = open_file(path, O_RDWR, 0);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    fd = open_file(path, O_RDWR | O_CREAT | O_EXCL, paths->mode);
    if (fd < 0)
        return errno == EEXIST ? open_file(path, O_RDWR, 0) : -1;
    share(paths, fd);
    return fd;
}

int bw_sqlite_side_open_readonly(const struct bw_sqlite_paths *paths, const char *file)
{
    char path[BW_SQLITE_PATH_MAX];
    side_path(paths, file, path, sizeof path);
    return open_file(path, O_RDONLY, 0);
}

static struct flock range(short type, uint64_t at)
{
    return (struct flock){
        .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(at & INT64_MAX), .l_len = 1};
}

int bw_sqlite_lock_take(int fd, uint64_t at)
{
    struct flock lock = range(F_WRLCK, at);
    return fcntl(fd, F_OFD_SETLK, &lock);
}

void bw_sqlite_lock_drop(int fd, uint64_t at)
{
    struct flock lock = range(F_UNLCK, at);
    (void)fcntl(fd, F_OFD_SETLK, &lock);
}

bool bw_sqlite_lock_held(int fd, uint64_t at)
{
    struct flock lock = range(F_WRLCK, at);
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK; /* unknown: assume held */
}

static void put_word(unsigned char *at, uint64_t word)
{
    for (unsigned i = 0; i < 8; i++)
        at[i] = (unsigned char)(word >> (8 * i));
}

static uint64_t get_word(const unsigned char *at)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++)
        word |= (uint64_t)at[i] << (8 * i);
    return word;
}

static uint64_t check_word(uint64_t token, uint64_t state)
{
    uint64_t mixed = (token ^ 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    return (mixed ^ (mixed >> 32) ^ state) * 0xc4ceb9fe1a85ec53u;
}

void bw_sqlite_mark_read(int fd, struct bw_sqlite_mark *out)
{
    unsigned char bytes[MARK_BYTES];
    *out = (struct bw_sqlite_mark){0};
    if (pread(fd, bytes, sizeof bytes, 0) != MARK_BYTES ||
        memcmp(bytes, mark_magic, sizeof mark_magic) != 0)
        return;
    uint64_t token = get_word(bytes + 8), state = get_word(bytes + 16);
    if (get_word(bytes + 24) != check_word(token, state))
        return;
    out->token = token;
    out->released = state == MARK_RELEASED;
}

int bw_sqlite_mark_write(int fd, const struct bw_sqlite_mark *mark)
{
    unsigned char bytes[MARK_BYTES];
    uint64_t state = mark->released ? MARK_RELEASED : MARK_HELD;
    memcpy(bytes, mark_magic, sizeof mark_magic);
    put_word(bytes + 8, mark->token);
    put_word(bytes + 16, state);
    put_word(bytes + 24, check_word(mark->token, state));
    return pwrite(fd, bytes, sizeof bytes, 0) == MARK_BYTES ? 0 : BW_EIO;
}

void bw_sqlite_inspect(const struct bw_sqlite_paths *paths, const struct bw_sqlite_row *row,
                       const char *election, const struct bw_sqlite_place *self,
                       struct bw_sqlite_mark *mark, bool *lock_free)
{
    char file[BW_SQLITE_FILE_MAX + 1];
    struct stat st;
    *mark = (struct bw_sqlite_mark){0};
    *lock_free = false;
    bw_sqlite_file_name(election, file);
    int fd = bw_sqlite_side_open_readonly(paths, file);
    if (fd < 0) {
        mark->unread = errno == ENOENT ? 0 : errno;
        return;
    }
    bw_sqlite_mark_read(fd, mark);
    if (row->record.held && bw_sqlite_same_place(row, self) && fstat(fd, &st) == 0 &&
        st.st_dev == row->lock_dev && st.st_ino == row->lock_ino)
        *lock_free = !bw_sqlite_lock_held(fd, row->record.token);
    close(fd);
}

int bw_store_sqlite_release_fd(int lock_fd, bw_token token)
{
    struct bw_sqlite_mark mark;
    if (token == BW_TOKEN_NONE)
        return BW_EINVAL;
    bw_sqlite_mark_read(lock_fd, &mark);
    if (mark.token > token)
        return BW_ESTALE;
    mark = (struct bw_sqlite_mark){.token = token, .released = true};
    return bw_sqlite_mark_write(lock_fd, &mark);
}

int bw_store_sqlite_release(const char *path, const char *election, bw_token token)
{
    struct bw_store_request asked = {.op = BW_STORE_READ, .election = election};
    struct bw_sqlite_paths paths;
    char file[BW_SQLITE_FILE_MAX + 1], name[BW_SQLITE_PATH_MAX];
    if (bw_store_request_check(&asked, 0) != 0)
        return BW_EINVAL;
    if (!realpath(bw_sqlite_path(path), paths.db))
        return BW_EIO;
    snprintf(paths.dir, sizeof paths.dir, "%s.locks", paths.db);
    bw_sqlite_file_name(election, file);
    side_path(&paths, file, name, sizeof name);
    int fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return BW_EIO;
    int error = bw_store_sqlite_release_fd(fd, token);
    close(fd);
    return error;
}
