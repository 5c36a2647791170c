/* Receives change notifications by inotify, on the directory of side files and on the database.
 *
 * Four events matter:
 * - a write to `@bell`, the wake-up file: a process has committed a change
 * - a write to a lock file: a guardian has written its mark
 * - the last close of a lock file: the holder and its guardian have exited
 * - the removal or move of the database or the directory
 *
 * This file does not read any file's content; the worker does. */
#include "store/sqlite/wakeup.h"

#include "store/sqlite/files.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define DIRECTORY_EVENTS                                                                           \
    (IN_MODIFY | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

/* inotify events of the database file. If a file is removed while a process has it open, inotify
 * reports only IN_ATTRIB, because the file still exists without a name. */
#define DATABASE_EVENTS (IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

int bw_sqlite_wakeup_open(const char *dir, const char *db)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd >= 0 && inotify_add_watch(fd, dir, DIRECTORY_EVENTS) < 0) {
        close(fd);
        return -1;
    }
    if (fd >= 0)
        /* if this fails, the removal is noticed later */
        (void)inotify_add_watch(fd, db, DATABASE_EVENTS);
    return fd;
}

static void on_event(const struct inotify_event *event, struct bw_sqlite_changes *changes,
                     void *context, void (*changed)(void *context, const char *election))
{
    char election[BW_ELECTION_NAME_MAX + 1];
    if (event->mask & IN_Q_OVERFLOW)
        changes->lost = true;
    if (event->mask & (DATABASE_EVENTS | IN_IGNORED | IN_UNMOUNT))
        changes->lost = changes->broken = true;
    if (event->len == 0)
        return;
    changes->any = true;
    if (bw_sqlite_file_election(event->name, election))
        changed(context, election);
}

void bw_sqlite_wakeup_read(int fd, struct bw_sqlite_changes *changes, void *context,
                           void (*changed)(void *context, const char *election))
{
    union {
        struct inotify_event first;
        char bytes[8192];
    } buffer;
    ssize_t got;
    memset(changes, 0, sizeof *changes);
    while ((got = read(fd, buffer.bytes, sizeof buffer.bytes)) > 0)
        for (ssize_t at = 0; at < got;) {
            struct inotify_event event;
            memcpy(&event, buffer.bytes + at, sizeof event);
            on_event((const struct inotify_event *)(const void *)(buffer.bytes + at), changes,
                     context, changed);
            at += (ssize_t)(sizeof event + event.len);
        }
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        changes->broken = changes->lost = true;
}
