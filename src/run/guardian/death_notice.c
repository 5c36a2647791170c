/* Death notices in a memory file, and their transmission; see death_notice.h. */
#include "run/guardian/death_notice.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t wrote = write(fd, bytes, length);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return -1;
        bytes += wrote;
        length -= (size_t)wrote;
    }
    return 0;
}

int bw_death_notices_write(const struct bw_death_notice *rows, uint32_t count)
{
    if (count > BW_DEATH_NOTICES_MAX) {
        errno = EINVAL;
        return -1;
    }
    int fd = memfd_create("bellwether-death-notices", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    if (write_all(fd, (const char *)rows, count * sizeof *rows) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool send_notice(int socket, const struct bw_death_notice *notice)
{
    struct sockaddr_storage to;
    if (notice->to_length > sizeof notice->to || notice->length > sizeof notice->bytes)
        return false;
    memcpy(&to, notice->to, notice->to_length);
    return sendto(socket, notice->bytes, notice->length, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)&to, notice->to_length) == (ssize_t)notice->length;
}

uint32_t bw_death_notices_send(int notices, int socket)
{
    struct bw_death_notice notice;
    struct stat st;
    uint32_t sent = 0;
    if (fstat(notices, &st) != 0 || st.st_size % (off_t)sizeof notice != 0 ||
        st.st_size > (off_t)(BW_DEATH_NOTICES_MAX * sizeof notice))
        return 0;
    for (off_t at = 0; at < st.st_size; at += (off_t)sizeof notice)
        if (pread(notices, &notice, sizeof notice, at) == (ssize_t)sizeof notice)
            sent += send_notice(socket, &notice);
    return sent;
}
