/* Messages between supervisor and guardian, see guardian_message.h. */
#include "run/guardian/guardian_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

int bw_wire_send(int fd, const struct bw_wire *wire, int passed)
{
    union control control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)wire, .iov_len = sizeof *wire};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof passed);
        memcpy(CMSG_DATA(header), &passed, sizeof passed);
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *wire ? 0 : -1;
}

int bw_wire_receive(int fd, struct bw_wire *wire, int *passed)
{
    union control control = {.bytes = {0}};
    struct iovec part = {.iov_base = wire, .iov_len = sizeof *wire};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    *passed = -1;
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(passed, CMSG_DATA(header), sizeof *passed);
    if (got != (ssize_t)sizeof *wire) {
        if (*passed >= 0)
            close(*passed);
        *passed = -1;
        return -1;
    }
    wire->text[sizeof wire->text - 1] = '\0';
    return 1;
}
