/* Packets between a launcher and its supervisors; see parent.h. */
#include "store/parent/parent.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
};

bool bw_parent_send(int fd, const void *packet, size_t bytes, int one, int other)
{
    int passed[2] = {one, other};
    unsigned count = one < 0 ? 0 : other < 0 ? 1 : 2;
    union control control = {.bytes = {0}};
    struct iovec part = {.iov_base = (void *)packet, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(header), passed, count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)bytes;
}

static void take_passed(struct msghdr *message, int passed[2])
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    passed[0] = passed[1] = -1;
    if (!header || header->cmsg_type != SCM_RIGHTS)
        return;
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(passed, CMSG_DATA(header), (count < 2 ? count : 2) * sizeof(int));
}

int bw_parent_receive(int fd, void *packet, size_t bytes, int passed[2])
{
    union control control = {.bytes = {0}};
    struct iovec part = {.iov_base = packet, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    passed[0] = passed[1] = -1;
    ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    take_passed(&message, passed);
    if (got == (ssize_t)bytes)
        return 1;
    for (int i = 0; i < 2; i++)
        if (passed[i] >= 0)
            close(passed[i]);
    passed[0] = passed[1] = -1;
    return got == 0 ? -1 : got == 1 ? BW_PARENT_CLEAN_CLOSE : 0;
}

bool bw_parent_read(struct bw_parent_request *ask)
{
    struct bw_store_request *request = &ask->request;
    ask->election[sizeof ask->election - 1] = ask->candidate[sizeof ask->candidate - 1] = '\0';
    ask->value[sizeof ask->value - 1] = ask->containment[sizeof ask->containment - 1] = '\0';
    request->election = ask->election;
    request->candidate = ask->has_candidate ? ask->candidate : NULL;
    request->value = ask->has_value ? ask->value : NULL;
    request->containment = ask->has_containment ? ask->containment : NULL;
    return bw_store_request_check(request, 0) == 0;
}
