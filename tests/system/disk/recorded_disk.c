/* Records the changes to a directory and rebuilds it after a crash; see recorded_disk.h. */
#include "system/disk/recorded_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILES_MAX 4096
#define FDS_MAX   1024
#define NAME_SIZE 64u
#define PATH_SIZE 512u
#define NO_FILE   (-1)
#define DIRECTORY (-2)

struct change { /* of a file, since its last sync */
    struct change *next;
    uint64_t sequence;
    bool lost;    /* a sync of it failed, and the kernel dropped it: only the page cache has it */
    bool resizes; /* true: the size becomes `at`; false: `bytes` are written at `at` */
    size_t at, length;
    unsigned char bytes[];
};

struct file {
    unsigned char *bytes; /* as of the last sync */
    size_t size;
    struct change *changes, **end;
    size_t size_now;
    ino_t serial; /* its inode number, which a crash does not change */
};

struct name {
    char text[NAME_SIZE];
    int file;
};

struct names {
    struct name *at;
    unsigned count;
};

struct renaming { /* a change of the directory since its last sync */
    uint64_t sequence;
    enum disk_op op;
    char from[NAME_SIZE], to[NAME_SIZE];
    int file;
};

static struct {
    char directory[PATH_SIZE];
    int (*before)(enum disk_op op, const char *name);
    struct file file[FILES_MAX];
    int files;
    struct names now, synced;
    struct renaming *renaming;
    unsigned renamings;
    int by_fd[FDS_MAX]; /* file + 1; 0: not ours; DIRECTORY */
    char fd_name[FDS_MAX][NAME_SIZE];
    uint64_t sequence;
    ino_t serials;
    const char *refused; /* start of the names that cannot be opened for reading */
    int refused_with;
    const struct disk_calls *calls; /* in a forked copy: what replaces the recorder */
} disk;

static _Noreturn void give_up(const char *what)
{
    fprintf(stderr, "recorded disk: %s: %s\n", what, strerror(errno));
    _exit(70);
}

static void *must(void *memory)
{
    if (!memory)
        give_up("out of memory");
    return memory;
}

/* ---- names ---- */

static struct name *find(struct names *names, const char *text)
{
    for (unsigned i = 0; i < names->count; i++)
        if (strcmp(names->at[i].text, text) == 0)
            return &names->at[i];
    return NULL;
}

static void bind(struct names *names, const char *text, int file)
{
    struct name *name = find(names, text);
    if (!name) {
        names->at = must(realloc(names->at, (names->count + 1) * sizeof *names->at));
        name = &names->at[names->count++];
        snprintf(name->text, sizeof name->text, "%s", text);
    }
    name->file = file;
}

static void unbind(struct names *names, const char *text)
{
    struct name *name = find(names, text);
    if (name)
        *name = names->at[--names->count];
}

static void apply(struct names *names, const struct renaming *change)
{
    if (change->op != DISK_CREATE)
        unbind(names, change->from);
    if (change->op == DISK_CREATE)
        bind(names, change->from, change->file);
    if (change->op == DISK_RENAME)
        bind(names, change->to, change->file);
}

static void note(enum disk_op op, const char *from, const char *to, int file)
{
    disk.renaming = must(realloc(disk.renaming, (disk.renamings + 1) * sizeof *disk.renaming));
    struct renaming *change = &disk.renaming[disk.renamings++];
    *change = (struct renaming){.sequence = ++disk.sequence, .op = op, .file = file};
    snprintf(change->from, sizeof change->from, "%s", from);
    snprintf(change->to, sizeof change->to, "%s", to);
    apply(&disk.now, change);
}

/* ---- files ---- */

static int new_file(void)
{
    if (disk.files == FILES_MAX)
        give_up("too many files");
    struct file *file = &disk.file[disk.files];
    *file = (struct file){0};
    file->end = &file->changes;
    file->serial = ++disk.serials;
    return disk.files++;
}

static void record(struct file *file, bool resizes, size_t at, const void *bytes, size_t length)
{
    struct change *change = must(malloc(sizeof *change + length));
    *change = (struct change){
        .sequence = ++disk.sequence, .resizes = resizes, .at = at, .length = length};
    if (length)
        memcpy(change->bytes, bytes, length);
    *file->end = change;
    file->end = &change->next;
    file->size_now = resizes || at + length > file->size_now ? at + length : file->size_now;
}

static void resize_synced(struct file *file, size_t size)
{
    if (size > file->size) {
        file->bytes = must(realloc(file->bytes, size));
        memset(file->bytes + file->size, 0, size - file->size);
    }
    file->size = size;
}

static void make_durable(struct file *file)
{
    while (file->changes) {
        struct change *change = file->changes;
        if (change->resizes || (!change->lost && change->at + change->length > file->size))
            resize_synced(file, change->at + change->length);
        if (change->length && !change->lost)
            memcpy(file->bytes + change->at, change->bytes, change->length);
        file->changes = change->next;
        free(change);
    }
    file->end = &file->changes;
}

/* Half of the writes are lost for good, even if a later sync succeeds. */
static void fail_sync(struct file *file)
{
    for (struct change *change = file->changes; change; change = change->next)
        change->lost |= !change->resizes && change->sequence % 2 == 0;
}

static void make_names_durable(void)
{
    for (unsigned i = 0; i < disk.renamings; i++)
        apply(&disk.synced, &disk.renaming[i]);
    disk.renamings = 0;
}

/* ---- what is left after a crash ---- */

struct crash {
    bool killed; /* the page cache is still there */
    enum disk_loss data, names;
    uint64_t first_lost; /* sequence, for LATEST_LOST */
    int file;            /* for ONE_SECTOR_LOST */
    struct bw_rng *rng;
};

/* Number of contents that a sector had since the last sync, and which of them is left. */
struct sector {
    uint32_t contents, left, seen;
};

static uint32_t is_kept_in_order(const struct crash *crash, const struct change *change)
{
    if (change->sequence == crash->first_lost) /* its sectors were on their way */
        return (uint32_t)bw_rng_below(crash->rng, 2);
    return change->sequence < crash->first_lost;
}

static bool is_lost(const struct crash *crash, const struct change *change)
{
    return change->lost && !crash->killed;
}

static struct sector *choose_sectors(const struct crash *crash, const struct file *file,
                                     size_t count)
{
    struct sector *sectors = must(calloc(count, sizeof *sectors));
    size_t touched = 0, chosen;
    for (const struct change *c = file->changes; c; c = c->next)
        for (size_t s = is_lost(crash, c) ? SIZE_MAX : c->at / DISK_SECTOR;
             c->length && s <= (c->at + c->length - 1) / DISK_SECTOR; s++) {
            touched += sectors[s].contents++ == 0;
            if (crash->data == DISK_LATEST_LOST)
                sectors[s].left += is_kept_in_order(crash, c);
        }
    chosen = touched ? bw_rng_below(crash->rng, touched) : 0;
    for (size_t s = 0, nth = 0; s < count; s++) {
        if (!sectors[s].contents)
            continue;
        bool this = nth++ == chosen;
        if (crash->data == DISK_NONE_LOST || crash->data == DISK_ONE_SECTOR_LOST)
            sectors[s].left = sectors[s].contents;
        if (crash->data == DISK_ANY_LOST)
            sectors[s].left = (uint32_t)bw_rng_below(crash->rng, sectors[s].contents + 1);
        if (crash->data == DISK_ONE_SECTOR_LOST && this && file == &disk.file[crash->file])
            sectors[s].left = (uint32_t)bw_rng_below(crash->rng, sectors[s].contents);
    }
    return sectors;
}

static bool keeps_size(const struct crash *crash, const struct change *change)
{
    switch (crash->data) {
    case DISK_ALL_LOST:
        return false;
    case DISK_LATEST_LOST:
        return is_kept_in_order(crash, change);
    case DISK_ANY_LOST:
        return bw_rng_below(crash->rng, 2);
    default:
        return true;
    }
}

static void keep_sectors(const struct change *change, struct sector *sectors, unsigned char *bytes,
                         size_t *size)
{
    for (size_t at = change->at, end = at + change->length, next; at < end; at = next) {
        size_t s = at / DISK_SECTOR;
        next = (s + 1) * DISK_SECTOR < end ? (s + 1) * DISK_SECTOR : end;
        if (++sectors[s].seen > sectors[s].left)
            continue;
        memcpy(bytes + at, change->bytes + (at - change->at), next - at);
        *size = next > *size ? next : *size;
    }
}

/* Returns what is left of a file. The caller frees it. */
static unsigned char *compose(const struct crash *crash, const struct file *file, size_t *size)
{
    size_t largest = file->size;
    for (const struct change *c = file->changes; c; c = c->next)
        largest = c->at + c->length > largest ? c->at + c->length : largest;
    unsigned char *bytes = must(calloc(1, largest + 1));
    struct sector *sectors = choose_sectors(crash, file, largest / DISK_SECTOR + 1);
    if (file->size)
        memcpy(bytes, file->bytes, file->size);
    *size = file->size;
    for (const struct change *c = file->changes; c; c = c->next) {
        if (is_lost(crash, c)) {
            continue;
        } else if (!c->resizes) {
            keep_sectors(c, sectors, bytes, size);
        } else if (keeps_size(crash, c)) {
            memset(bytes + c->at, 0, largest - c->at);
            *size = c->at;
        }
    }
    free(sectors);
    return bytes;
}

static void write_file(const char *directory, const char *name, const unsigned char *bytes,
                       size_t size)
{
    char path[PATH_SIZE + NAME_SIZE];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd =
        (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    for (size_t at = 0; fd >= 0 && at < size;) {
        long wrote = syscall(SYS_write, fd, bytes + at, size - at);
        if (wrote <= 0)
            give_up(path);
        at += (size_t)wrote;
    }
    if (fd < 0)
        give_up(path);
    syscall(SYS_close, fd);
}

static bool is_among(const struct names *names, const struct renaming *change)
{
    return find((struct names *)names, change->from) ||
           (change->to[0] && find((struct names *)names, change->to));
}

static void choose_names(const struct crash *crash, struct names *left)
{
    struct names lost = {0};
    for (unsigned i = 0; i < disk.synced.count; i++)
        bind(left, disk.synced.at[i].text, disk.synced.at[i].file);
    for (unsigned i = 0; i < disk.renamings; i++) {
        const struct renaming *change = &disk.renaming[i];
        bool kept = crash->names != DISK_ALL_LOST && !is_among(&lost, change);
        if (crash->names == DISK_LATEST_LOST)
            kept = kept && change->sequence < crash->first_lost;
        if (crash->names == DISK_ANY_LOST)
            kept = kept && bw_rng_below(crash->rng, 2);
        if (kept) {
            apply(left, change);
            continue;
        }
        bind(&lost, change->from, 0);
        if (change->to[0])
            bind(&lost, change->to, 0);
    }
    free(lost.at);
}

static void build(const struct crash *crash, const char *to, const struct names *left)
{
    for (unsigned i = 0; i < left->count; i++) {
        size_t size;
        unsigned char *bytes = compose(crash, &disk.file[left->at[i].file], &size);
        write_file(to, left->at[i].text, bytes, size);
        free(bytes);
    }
}

static void close_all(void)
{
    for (int fd = 0; fd < FDS_MAX; fd++)
        if (disk.by_fd[fd])
            syscall(SYS_close, fd);
    memset(disk.by_fd, 0, sizeof disk.by_fd);
}

void disk_power_failure(const char *to, enum disk_loss data, enum disk_loss names,
                        struct bw_rng *rng)
{
    struct names left = {0};
    uint64_t oldest = disk.sequence + 1;
    int changed = 0;
    struct crash crash = {.data = data, .names = names, .rng = rng};
    for (int i = 0; i < disk.files; i++) {
        const struct change *first = disk.file[i].changes;
        if (first && bw_rng_below(rng, (uint64_t)++changed) == 0)
            crash.file = i;
        oldest = first && first->sequence < oldest ? first->sequence : oldest;
    }
    if (disk.renamings && disk.renaming[0].sequence < oldest)
        oldest = disk.renaming[0].sequence;
    crash.first_lost = oldest + bw_rng_below(rng, disk.sequence + 2 - oldest);
    choose_names(&crash, &left);
    build(&crash, to, &left);
    close_all();
    for (unsigned i = 0; i < left.count; i++)
        left.at[i].file = (int)disk.file[left.at[i].file].serial;
    disk_use(to);
    for (unsigned i = 0; i < left.count; i++)
        disk.file[find(&disk.now, left.at[i].text)->file].serial = (ino_t)left.at[i].file;
    free(left.at);
}

void disk_kill(const char *to)
{
    struct crash crash = {.killed = true, .data = DISK_NONE_LOST, .names = DISK_NONE_LOST};
    struct bw_rng none;
    bw_rng_init(&none, 1);
    crash.rng = &none;
    build(&crash, to, &disk.now);
    close_all();
    snprintf(disk.directory, sizeof disk.directory, "%s", to);
}

/* ---- beginning ---- */

static void load(const char *name)
{
    char path[PATH_SIZE + NAME_SIZE];
    struct stat status;
    snprintf(path, sizeof path, "%s/%s", disk.directory, name);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        give_up(path);
    int file = new_file();
    resize_synced(&disk.file[file], (size_t)status.st_size);
    disk.file[file].size_now = (size_t)status.st_size;
    for (size_t at = 0; at < disk.file[file].size;) {
        ssize_t got = pread(fd, disk.file[file].bytes + at, disk.file[file].size - at, (off_t)at);
        if (got <= 0)
            give_up(path);
        at += (size_t)got;
    }
    syscall(SYS_close, fd);
    bind(&disk.now, name, file);
    bind(&disk.synced, name, file);
}

static void forget(void)
{
    for (int i = 0; i < disk.files; i++) {
        make_durable(&disk.file[i]);
        free(disk.file[i].bytes);
    }
    disk.files = 0;
    disk.now.count = disk.synced.count = disk.renamings = 0;
}

void disk_use(const char *directory)
{
    const struct dirent *entry;
    forget();
    snprintf(disk.directory, sizeof disk.directory, "%s", directory);
    DIR *dir = opendir(directory);
    if (!dir)
        give_up(directory);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            load(entry->d_name);
    closedir(dir);
}

void disk_hook(int (*before)(enum disk_op op, const char *name))
{
    disk.before = before;
}

void disk_refuse(const char *name, int error)
{
    disk.refused = name;
    disk.refused_with = error;
}

void disk_replace(const struct disk_calls *calls)
{
    disk.calls = calls;
}

const char *disk_directory(void)
{
    return disk.directory;
}

uint64_t disk_changes(void)
{
    return disk.sequence;
}

const char *disk_op_name(enum disk_op op)
{
    static const char *const names[] = {"create", "write", "resize", "sync", "rename", "unlink"};
    return names[op];
}

/* ---- the operations of the C library ---- */

static struct file *file_of(int fd)
{
    return fd >= 0 && fd < FDS_MAX && disk.by_fd[fd] > 0 ? &disk.file[disk.by_fd[fd] - 1] : NULL;
}

static bool is_directory(int fd)
{
    return fd >= 0 && fd < FDS_MAX && disk.by_fd[fd] == DIRECTORY;
}

static int fails(enum disk_op op, const char *name)
{
    int error = disk.before ? disk.before(op, name) : 0;
    if (error > 0)
        errno = error;
    return error;
}

/* The name inside our directory of a path that is relative to `at`; NULL: it is elsewhere. */
static const char *inside(int at, const char *path)
{
    size_t length = strlen(disk.directory);
    if (path[0] == '/')
        return length && strncmp(path, disk.directory, length) == 0 && path[length] == '/'
                   ? path + length + 1
                   : NULL;
    return is_directory(at) && strcmp(path, ".") != 0 ? path : NULL;
}

static int open_ours(int at, const char *path, int flags, mode_t mode, const char *name)
{
    const struct name *there = find(&disk.now, name);
    if (!there && !(flags & O_CREAT)) {
        errno = ENOENT;
        return -1;
    }
    bool reads = (flags & O_ACCMODE) == O_RDONLY;
    if (disk.refused && reads && strncmp(name, disk.refused, strlen(disk.refused)) == 0) {
        errno = disk.refused_with;
        return -1;
    }
    bool changes = !there || (flags & O_TRUNC && disk.file[there->file].size_now);
    if (changes && fails(there ? DISK_RESIZE : DISK_CREATE, name) > 0)
        return -1;
    int fd = (int)syscall(SYS_openat, at, path, flags, mode);
    if (fd < 0 || fd >= FDS_MAX)
        return fd;
    there = find(&disk.now, name); /* another thread ran meanwhile */
    if (!there)
        note(DISK_CREATE, name, "", new_file());
    else if (flags & O_TRUNC)
        record(&disk.file[there->file], true, 0, NULL, 0);
    disk.by_fd[fd] = find(&disk.now, name)->file + 1;
    snprintf(disk.fd_name[fd], NAME_SIZE, "%s", name);
    return fd;
}

static int open_any(int at, const char *path, int flags, mode_t mode)
{
    if (disk.calls)
        return disk.calls->open(at, path, flags, mode);
    const char *name = inside(at, path);
    if (name)
        return open_ours(at, path, flags, mode, name);
    int fd = (int)syscall(SYS_openat, at, path, flags, mode);
    if (fd >= 0 && fd < FDS_MAX)
        disk.by_fd[fd] =
            strcmp(path, disk.directory) == 0 || (is_directory(at) && strcmp(path, ".") == 0)
                ? DIRECTORY
                : 0;
    return fd;
}

int openat(int at, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open_any(at, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return open_any(AT_FDCWD, path, flags, mode);
}

int close(int fd)
{
    if (disk.calls)
        return disk.calls->close(fd);
    if (fd >= 0 && fd < FDS_MAX)
        disk.by_fd[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

int fstat(int fd, struct stat *status)
{
    const struct file *file = file_of(fd);
    int result = (int)syscall(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH);
    if (result == 0 && file)
        status->st_ino = file->serial;
    return result;
}

int fstatat(int at, const char *path, struct stat *status, int flags)
{
    const char *name = inside(at, path);
    const struct name *there = name ? find(&disk.now, name) : NULL;
    int result = (int)syscall(SYS_newfstatat, at, path, status, flags);
    if (result == 0 && there)
        status->st_ino = disk.file[there->file].serial;
    return result;
}

/* A short write ends between two sectors. */
static size_t shorter(size_t length, size_t at)
{
    size_t end = (at + length / 2) / DISK_SECTOR * DISK_SECTOR;
    return end > at ? end - at : length;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at)
{
    struct file *file = file_of(fd);
    int error = file ? fails(DISK_WRITE, disk.fd_name[fd]) : 0;
    if (error > 0)
        return -1;
    if (error == DISK_SHORT)
        length = shorter(length, (size_t)at);
    ssize_t wrote = syscall(SYS_pwrite64, fd, bytes, length, at);
    if (file && wrote > 0)
        record(file, false, (size_t)at, bytes, (size_t)wrote);
    return wrote;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    if (disk.calls)
        return disk.calls->write(fd, bytes, length);
    struct file *file = file_of(fd);
    if (!file)
        return syscall(SYS_write, fd, bytes, length);
    off_t at = lseek(fd, 0, SEEK_CUR);
    ssize_t wrote = pwrite(fd, bytes, length, at);
    if (wrote > 0)
        lseek(fd, at + wrote, SEEK_SET);
    return wrote;
}

void disk_tear(int fd, const void *bytes, size_t length, long long at)
{
    struct file *file = file_of(fd);
    off_t place = at < 0 ? lseek(fd, 0, SEEK_CUR) : (off_t)at;
    if (file && length)
        record(file, false, (size_t)place, bytes, length);
}

static int resize(int fd, size_t size, bool shrinks)
{
    struct file *file = file_of(fd);
    if (file && fails(DISK_RESIZE, disk.fd_name[fd]) > 0)
        return -1;
    if (file && !shrinks && size < file->size_now)
        size = file->size_now;
    if (syscall(SYS_ftruncate, fd, size) != 0)
        return -1;
    if (file && size != file->size_now)
        record(file, true, size, NULL, 0);
    return 0;
}

int ftruncate(int fd, off_t size)
{
    return resize(fd, (size_t)size, true);
}

int posix_fallocate(int fd, off_t from, off_t length)
{
    return resize(fd, (size_t)(from + length), false) == 0 ? 0 : errno;
}

static int sync_any(int fd)
{
    if (disk.calls)
        return disk.calls->sync(fd);
    struct file *file = file_of(fd);
    if (!file && !is_directory(fd))
        return (int)syscall(SYS_fsync, fd);
    if (fails(DISK_SYNC, file ? disk.fd_name[fd] : ".") > 0) {
        if (file)
            fail_sync(file);
        return -1;
    }
    if (file)
        make_durable(file);
    else
        make_names_durable();
    return 0;
}

int fsync(int fd)
{
    return sync_any(fd);
}

int fdatasync(int fd)
{
    return sync_any(fd);
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    if (disk.calls)
        return disk.calls->rename(from_at, from, to_at, to);
    const char *old = inside(from_at, from), *new = inside(to_at, to);
    if (old && fails(DISK_RENAME, old) > 0)
        return -1;
    if (syscall(SYS_renameat, from_at, from, to_at, to) != 0)
        return -1;
    if (old && new &&find(&disk.now, old))
        note(DISK_RENAME, old, new, find(&disk.now, old)->file);
    return 0;
}

int rename(const char *from, const char *to)
{
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlinkat(int at, const char *path, int flags)
{
    if (disk.calls)
        return disk.calls->unlink(at, path);
    const char *name = inside(at, path);
    if (name && fails(DISK_UNLINK, name) > 0)
        return -1;
    if (syscall(SYS_unlinkat, at, path, flags) != 0)
        return -1;
    if (name)
        note(DISK_UNLINK, name, "", NO_FILE);
    return 0;
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}
