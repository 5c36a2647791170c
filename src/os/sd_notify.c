/* Sends notifications to a service manager; see sd_notify.h. They are datagrams to the socket that
 * the manager names. The protocol is small and stable, so no library is needed. */
#include "os/sd_notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Opens a path, or an abstract socket of Linux, whose name begins with '@'. */
static int open_socket(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || length >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, name, length);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, size) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Returns the interval in milliseconds at which the manager expects a watchdog message from this
 * process; 0: none expected. */
static uint64_t watchdog_ms(void)
{
    const char *every = getenv("WATCHDOG_USEC"), *whose = getenv("WATCHDOG_PID");
    if (!every || (whose && strtoll(whose, NULL, 10) != (long long)getpid()))
        return 0;
    return strtoull(every, NULL, 10) / 1000;
}

static void on_beat(uv_timer_t *timer)
{
    bw_notify_send(timer->data, "WATCHDOG=1");
}

void bw_notify_open(struct bw_notify *notify)
{
    const char *name = getenv("NOTIFY_SOCKET");
    *notify = (struct bw_notify){.fd = name ? open_socket(name) : -1, .every_ms = watchdog_ms()};
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void bw_notify_beat(struct bw_notify *notify, uv_loop_t *loop)
{
    uint64_t every = notify->every_ms;
    if (notify->fd < 0 || every < 2)
        return;
    uv_timer_init(loop, &notify->beats);
    notify->beats.data = notify;
    notify->beating = true;
    uv_timer_start(&notify->beats, on_beat, every / 2, every / 2);
    uv_unref((uv_handle_t *)&notify->beats);
}

void bw_notify_send(const struct bw_notify *notify, const char *lines)
{
    if (notify->fd >= 0)
        (void)send(notify->fd, lines, strlen(lines), MSG_NOSIGNAL);
}

void bw_notify_line(const struct bw_notify *notify, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?';
    bw_notify_send(notify, line);
}

void bw_notify_close(struct bw_notify *notify)
{
    if (notify->beating)
        uv_close((uv_handle_t *)&notify->beats, NULL);
    if (notify->fd >= 0)
        close(notify->fd);
    *notify = (struct bw_notify){.fd = -1, .beats = notify->beats};
}
