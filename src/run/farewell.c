/* Leave taken of a connection; see farewell.h. */
#include "run/farewell.h"

#include "run/proc.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define BYTE "."

bool bw_farewell_is_for(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int bw_farewell_say(int fd)
{
    int type = SOCK_STREAM;
    socklen_t length = sizeof type;
    (void)getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length);
    int beside = type == SOCK_STREAM ? MSG_OOB : 0; /* a packet has a length of its own */
    if (send(fd, BYTE, 1, beside | MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
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
