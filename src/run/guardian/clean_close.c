/* Clean close of a connection; see clean_close.h. */
#include "run/guardian/clean_close.h"

#include "net/clean_close_proof.h"
#include "os/clock.h"
#include "run/contain/proc.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Head of the HTTP/2 frame that carries the proof. Its type is not defined by HTTP/2, so a server
 * that does not know it ignores the frame (RFC 9113, section 4.1). */
#define FRAME_HEAD                                                                                 \
    {                                                                                              \
        0, 0, BW_HOLD_PROOF, BW_BIND_FRAME, 0, 0, 0, 0, 0                                          \
    }

bool bw_clean_close_applies(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

int bw_clean_close_send(int fd, const unsigned char proof[BW_HOLD_PROOF])
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

void bw_clean_close_wait(int fd, bw_time most_ns)
{
    char unread[4096];
    bw_time until = bw_time_add(bw_clock_boot(), most_ns);
    for (bw_time now = bw_clock_boot(); now < until; now = bw_clock_boot()) {
        struct pollfd polled = {.fd = fd, .events = POLLIN};
        if (poll(&polled, 1, (int)((until - now) / BW_MS) + 1) <= 0)
            continue;
        if (recv(fd, unread, sizeof unread, MSG_DONTWAIT) <= 0)
            return;
    }
}
