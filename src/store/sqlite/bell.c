/* The bell, and the news of lock files, by inotify on their common directory.
 *
 * Four things are heard: a write to `@bell` (a committed change), a write to a lock file (its
 * guardian's mark), the last close of a lock file (its holder and guardian are gone), and that the
 * database or the directory was removed or moved. Nothing is asked of a file's content here; the
 * worker looks. */
#include "store/sqlite/bell.h"

#include "store/sqlite/files.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define HEARD                                                                                      \
    (IN_MODIFY | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

/* Of the database: a file that is removed while somebody has it open only loses its name, which is
 * told as IN_ATTRIB. */
#define HEARD_OF_DB (IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF)

int bw_sqlite_bell_open(const char *dir, const char *db)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd >= 0 && inotify_add_watch(fd, dir, HEARD) < 0) {
        close(fd);
        return -1;
    }
    if (fd >= 0)
        (void)inotify_add_watch(fd, db, HEARD_OF_DB); /* deaf to that alone: it is found later */
    return fd;
}

static void hear(const struct inotify_event *event, struct bw_sqlite_news *news, void *context,
                 void (*changed)(void *context, const char *election))
{
    char election[BW_ELECTION_NAME_MAX + 1];
    if (event->mask & IN_Q_OVERFLOW)
        news->lost = true;
    if (event->mask & (HEARD_OF_DB | IN_IGNORED | IN_UNMOUNT))
        news->lost = news->broken = true;
    if (event->len == 0)
        return;
    news->any = true;
    if (bw_sqlite_file_election(event->name, election))
        changed(context, election);
}

void bw_sqlite_bell_read(int fd, struct bw_sqlite_news *news, void *context,
                         void (*changed)(void *context, const char *election))
{
    union {
        struct inotify_event first;
        char bytes[8192];
    } buffer;
    ssize_t got;
    memset(news, 0, sizeof *news);
    while ((got = read(fd, buffer.bytes, sizeof buffer.bytes)) > 0)
        for (ssize_t at = 0; at < got;) {
            struct inotify_event event;
            memcpy(&event, buffer.bytes + at, sizeof event);
            hear((const struct inotify_event *)(const void *)(buffer.bytes + at), news, context,
                 changed);
            at += (ssize_t)(sizeof event + event.len);
        }
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        news->broken = news->lost = true;
}
