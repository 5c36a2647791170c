/* Receives sd_notify messages of the work (`WATCHDOG=1`), in systemd's protocol. The socket has an
 * abstract name with a random part. Only messages from our own user and from root count. */
#include "run/supervisor/state.h"

#include "os/clock.h"
#include "run/contain/proc.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define AT_ONCE_MAX 64u /* messages per turn of the loop; the loop also serves others */

int bw_supervisor_notify_open(struct supervisor *s, char *out, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int on = 1;
    int length = snprintf(out, size, "@bellwether-%d-%016llx", (int)getpid(),
                          (unsigned long long)bw_contain_random());
    memcpy(address.sun_path + 1, out + 1, (size_t)length - 1); /* '@' represents a zero byte */
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length);
    s->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->notify_fd >= 0 &&
        setsockopt(s->notify_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0 &&
        bind(s->notify_fd, (struct sockaddr *)&address, bytes) == 0)
        return 0;
    if (s->notify_fd >= 0)
        close(s->notify_fd);
    s->notify_fd = -1;
    return BW_EIO;
}

static bool is_watchdog_message(const char *text)
{
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, "WATCHDOG=1", 10) == 0 && (line[10] == '\n' || line[10] == '\0'))
            return true;
    return false;
}

static bool is_from_us(struct msghdr *message)
{
    struct ucred sender;
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (!header || header->cmsg_type != SCM_CREDENTIALS)
        return false;
    memcpy(&sender, CMSG_DATA(header), sizeof sender);
    return sender.uid == 0 || sender.uid == geteuid();
}

/* Reads one message. Returns false if there is none. */
static bool read_one(struct supervisor *s)
{
    char text[1024];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec part = {.iov_base = text, .iov_len = sizeof text - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got = recvmsg(s->notify_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return false;
    text[got] = '\0';
    if (is_from_us(&message) && is_watchdog_message(text))
        s->notified = bw_clock_boot();
    return true;
}

void bw_supervisor_notify_read(struct supervisor *s)
{
    for (unsigned i = 0; s->notify_fd >= 0 && i < AT_ONCE_MAX && read_one(s); i++)
        ;
}

static void on_notify(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    bw_supervisor_notify_read(handle->data);
}

int bw_supervisor_notify_listen(struct supervisor *s)
{
    if (s->config->watchdog_ns && s->notify_fd < 0)
        return BW_EIO;
    if (s->notify_fd < 0)
        return 0;
    if (uv_poll_init(&s->loop, &s->notify, s->notify_fd) != 0)
        return BW_ENOMEM;
    s->notify.data = s;
    return uv_poll_start(&s->notify, UV_READABLE, on_notify) == 0 ? 0 : BW_ENOMEM;
}
