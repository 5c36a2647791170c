/* Checks where the database is stored, and manages the files beside it.
 *
 * Model: one kernel sees all users of the database. File systems that several hosts may share are
 * rejected: SQLite's shared memory, our locks and file events work on one host only. A database
 * file that is mounted alone into a container is rejected too, because its side files would not be
 * shared. */
#include "store/sqlite/files.h"

#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FUSE_TYPE 0x65735546u

struct shared_fs {
    uint32_t type;
    const char *name;
};

static const struct shared_fs shared[] = {
    {0x6969, "NFS"},          {0x517b, "SMB"},        {0xff534d42u, "CIFS"},
    {0xfe534d42u, "SMB"},     {0x01021997, "9p"},     {0x5346414f, "AFS"},
    {0x6b414653, "AFS"},      {0x73757245, "Coda"},   {0x00c36400, "Ceph"},
    {0x564c, "NCP"},          {0x7461636f, "OCFS2"},  {0x01161970, "GFS2"},
    {0x0bd00bd0, "Lustre"},   {0x47504653, "GPFS"},   {0x19830326, "BeeGFS"},
    {0x20030528, "OrangeFS"}, {0xaad7aaeau, "PanFS"}, {0x786f4256, "vboxsf"},
    {0xbacbacbcu, "vmhgfs"},  {0x013111a8, "IBRIX"},
};

const char *bw_sqlite_shared_fs(uint64_t type, const char *kind)
{
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        if (shared[i].type == (uint32_t)type)
            return shared[i].name;
    if ((uint32_t)type != FUSE_TYPE)
        return NULL;
    /* A FUSE file system can be anything. These two are known to be local. */
    bool local = strcmp(kind, "fuseblk") == 0 || strcmp(kind, "fuse.fuse-overlayfs") == 0;
    return local ? NULL : "FUSE";
}

const char *bw_sqlite_path(const char *url)
{
    const char *path = url;
    if (strncmp(path, "sqlite:", 7) == 0) {
        path += 7;
        if (strncmp(path, "//", 2) == 0)
            path += 2;
    }
    return path;
}

static void read_line(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    out[got > 0 ? got : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

void bw_sqlite_place_read(struct bw_sqlite_place *out)
{
    static const char *const links[] = {"/proc/self/ns/pid", "/proc/self/ns/time",
                                        "/proc/self/ns/cgroup"};
    memset(out, 0, sizeof *out);
    read_line("/proc/sys/kernel/random/boot_id", out->boot, sizeof out->boot);
    size_t used = 0;
    for (size_t i = 0; i < 3; i++) {
        char text[40] = "";
        ssize_t got = readlink(links[i], text, sizeof text - 1);
        if (got <= 0 && i == 0) { /* no /proc: unknown */
            out->spaces[0] = '\0';
            return;
        }
        used += (size_t)snprintf(out->spaces + used, sizeof out->spaces - used, "%s%s",
                                 i ? " " : "", got > 0 ? text : "-");
    }
}

/* Writes the type that the mount table has for the file system with this mount id. */
static void mount_kind(uint64_t id, char *out, size_t size)
{
    out[0] = '\0';
    FILE *table = fopen("/proc/self/mountinfo", "re");
    char line[4096], kind[64];
    while (table && fgets(line, sizeof line, table)) {
        const char *dash = strstr(line, " - ");
        if (dash && strtoull(line, NULL, 10) == id && sscanf(dash, " - %63s", kind) == 1)
            snprintf(out, size, "%s", kind);
    }
    if (table)
        fclose(table);
}

int bw_sqlite_error_of(int system)
{
    switch (system) {
    case EACCES:
    case EPERM:
    case EROFS:
        return BW_EDENIED;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return BW_ENOMEM;
    default:
        return BW_EIO;
    }
}

static int refuse_errno(char *why, const char *what, const char *path)
{
    return bw_store_explain(why, bw_sqlite_error_of(errno), "%s %s: %s", what, path,
                            strerror(errno));
}

static int check_file_system(const struct bw_sqlite_paths *paths, uint64_t mount, char *why)
{
    struct statfs fs;
    char kind[64];
    if (statfs(paths->db, &fs) != 0)
        return refuse_errno(why, "cannot read the file system type of", paths->shown);
    mount_kind(mount, kind, sizeof kind);
    const char *name = bw_sqlite_shared_fs((uint64_t)fs.f_type, kind);
    if (!name)
        return 0;
    return bw_store_explain(why, BW_EUNSUPPORTED,
                            "%s is on a network file system (%s): sqlite: needs a local disk; use "
                            "a store for several hosts",
                            paths->shown, name);
}

static int check_file(struct bw_sqlite_paths *paths, char *why)
{
    struct statx file, parent;
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", paths->db);
    char *slash = strrchr(dir, '/');
    slash[slash == dir] = '\0';
    unsigned mask = STATX_BASIC_STATS | STATX_MNT_ID;
    if (statx(AT_FDCWD, paths->db, 0, mask, &file) != 0 ||
        statx(AT_FDCWD, dir, 0, mask, &parent) != 0)
        return refuse_errno(why, "cannot read the attributes of", paths->shown);
    if (!S_ISREG(file.stx_mode))
        return bw_store_explain(why, BW_EINVAL, "%s is not a regular file", paths->shown);
    if (file.stx_nlink > 1)
        return bw_store_explain(
            why, BW_EUNSUPPORTED,
            "%s has several hard links: its users would not see each other; remove the others",
            paths->shown);
    if ((file.stx_mask & STATX_MNT_ID) && file.stx_mnt_id != parent.stx_mnt_id)
        return bw_store_explain(
            why, BW_EUNSUPPORTED,
            "%s is mounted as a single file: mount its directory, so that its side files are "
            "shared too",
            paths->shown);
    paths->mode = file.stx_mode & 0666;
    return check_file_system(paths, file.stx_mnt_id, why);
}

/* A directory that is readable must be searchable too. */
static mode_t dir_mode(mode_t mode)
{
    return mode | (mode & 0444) >> 2;
}

static int make_dir(struct bw_sqlite_paths *paths, char *why)
{
    snprintf(paths->dir, sizeof paths->dir, "%s.locks", paths->db);
    if (mkdir(paths->dir, 0700) == 0) {
        if (geteuid() == 0 && chown(paths->dir, paths->uid, paths->gid) != 0)
            return refuse_errno(why, "cannot set the owner of", paths->dir);
        if (chmod(paths->dir, dir_mode(paths->mode)) != 0)
            return refuse_errno(why, "cannot set the mode of", paths->dir);
    } else if (errno != EEXIST) {
        return refuse_errno(why, "cannot create", paths->dir);
    }
    if (access(paths->dir, R_OK | W_OK | X_OK) != 0)
        return refuse_errno(why, "cannot use", paths->dir);
    return 0;
}

/* The same for a reader without write permission: it refuses a directory that is missing. */
static int find_dir(struct bw_sqlite_paths *paths, char *why)
{
    snprintf(paths->dir, sizeof paths->dir, "%s.locks", paths->db);
    if (access(paths->dir, R_OK | X_OK) != 0)
        return refuse_errno(why, "cannot read", paths->dir);
    return 0;
}

/* Returns whether the directory of the file exists. */
static bool has_directory(const char *path)
{
    char directory[PATH_MAX];
    struct stat info;
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (!slash || length >= sizeof directory)
        return !slash;
    memcpy(directory, length ? path : "/", length ? length : 1);
    directory[length ? length : 1] = '\0';
    return stat(directory, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The length of "/srv/jobs" in "/srv/jobs/e.db". */
static int directory_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) : 0;
}

/* Creates the file with mode 0660 minus the umask. If another process was faster, uses its file. */
static int create_file(const char *path, char *why)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    if (errno == EEXIST)
        return 0;
    if (errno == ENOENT && has_directory(path))
        return bw_store_explain(why, BW_EINVAL,
                                "cannot create %s: its file system does not allow new files", path);
    if (errno == ENOENT || errno == ENOTDIR)
        return bw_store_explain(why, BW_EINVAL,
                                "cannot create %s: its directory does not exist; run mkdir -p %.*s",
                                path, directory_length(path), path);
    return refuse_errno(why, "cannot create", path);
}

static void show(struct bw_sqlite_paths *paths)
{
    size_t length = strlen(paths->db), most = sizeof paths->shown - 1;
    if (length <= most)
        memcpy(paths->shown, paths->db, length + 1);
    else
        snprintf(paths->shown, sizeof paths->shown, "...%s", paths->db + length - (most - 3));
}

int bw_sqlite_paths_open(struct bw_sqlite_paths *paths, const char *url,
                         enum bw_sqlite_access wanted, char *why)
{
    const char *path = bw_sqlite_path(url);
    struct stat db;
    memset(paths, 0, sizeof *paths);
    if (!path[0])
        return bw_store_explain(why, BW_EINVAL, "invalid store URL '%s': missing path", url);
    if (strlen(path) > PATH_MAX - 300) /* space for the names of side files */
        return bw_store_explain(why, BW_EINVAL, "path too long: %.60s...", path);
    if (access(path, F_OK) != 0) {
        int error = create_file(path, why);
        if (error)
            return error;
    }
    if (!realpath(path, paths->db) || stat(paths->db, &db) != 0)
        return refuse_errno(why, "cannot open", path);
    if (strlen(paths->db) > PATH_MAX - 300)
        return bw_store_explain(why, BW_EINVAL, "path too long: %.60s...", paths->db);
    show(paths);
    int error = check_file(paths, why);
    if (error)
        return error;
    bool writable = access(paths->db, R_OK | W_OK) == 0;
    paths->readonly = !writable && wanted == BW_SQLITE_READS;
    if (paths->readonly ? access(paths->db, R_OK) != 0 : !writable)
        return bw_store_explain(why, BW_EDENIED, "cannot %s %s: %s",
                                paths->readonly ? "read" : "write", paths->shown, strerror(errno));
    paths->dev = db.st_dev;
    paths->ino = db.st_ino;
    paths->uid = db.st_uid;
    paths->gid = db.st_gid;
    return paths->readonly ? find_dir(paths, why) : make_dir(paths, why);
}

int bw_sqlite_paths_check(const struct bw_sqlite_paths *paths, char *why)
{
    struct stat db;
    if (stat(paths->db, &db) != 0)
        return refuse_errno(why, "cannot find the database", paths->shown);
    if (db.st_dev != paths->dev || db.st_ino != paths->ino)
        return bw_store_explain(why, BW_EIO, "%s was replaced by another file", paths->shown);
    return 0;
}
