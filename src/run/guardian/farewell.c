/* The clean close of a connection; see farewell.h. */
#include "run/guardian/farewell.h"

#include "net/bind_proof.h"
#include "run/contain/proc.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* An HTTP/2 frame of a type that nobody knows and everybody passes over. */
#define FRAME_HEAD                                                                                 \
    {                                                                                              \
        0, 0, BW_HOLD_PROOF, BW_BIND_FRAME, 0, 0, 0, 0, 0                                          \
    }

bool bw_farewell_is_for(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int bw_farewell_say(int fd, const unsigned char proof[BW_HOLD_PROOF])
{
    unsigned char bytes[BW_BIND_HEAD + BW_HOLD_PROOF] = FRAME_HEAD;
    int type = SOCK_STREAM;
    socklen_t length = sizeof type;
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length);
    memcpy(bytes + BW_BIND_HEAD, proof, BW_HOLD_PROOF);
    size_t size = type == SOCK_STREAM ? sizeof bytes : 1; /* a launcher needs no proof */
    if (send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)size)
        return -1;
    return shutdown(fd, SHUT_WR);
}

void bw_farewell_wait(int fd, bw_time most_ns)
{
    char unread[4096];
    bw_time until = bw_time_add(bw_run_now(), most_ns);
    for (bw_time now = bw_run_now(); now < until; now = bw_run_now()) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        if (poll(&polled, 1, (int)((until - now) / BW_MS) + 1) <= 0)
            continue;
        if (recv(fd, unread, sizeof unread, MSG_DONTWAIT) <= 0)
            return;
    }
}
