/* Detects whether a file has changed since it was read: device, inode, size and modification
 * time. */
#ifndef BW_NET_STAMP_H
#define BW_NET_STAMP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct bw_stamp {
    uint64_t device, node, size;
    int64_t changed_s, changed_ns;
};

/* Zeros: no such file. */
static inline struct bw_stamp bw_stamp_of(const char *path)
{
    struct stat file;
    if (!path || stat(path, &file) != 0)
        return (struct bw_stamp){0};
    return (struct bw_stamp){file.st_dev, file.st_ino, (uint64_t)file.st_size, file.st_mtim.tv_sec,
                             file.st_mtim.tv_nsec};
}

static inline bool bw_stamp_same(struct bw_stamp a, struct bw_stamp b)
{
    return a.device == b.device && a.node == b.node && a.size == b.size &&
           a.changed_s == b.changed_s && a.changed_ns == b.changed_ns;
}

#endif
