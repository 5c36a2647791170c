/* Notifies a service manager (sd_notify(3)) that the process is ready, which candidate leads, that
 * the event loop is alive, and that the process stops. Without NOTIFY_SOCKET nothing is sent. */
#ifndef BW_OS_SD_NOTIFY_H
#define BW_OS_SD_NOTIFY_H

#include <stdbool.h>
#include <uv.h>

struct bw_notify {
    int fd;            /* -1: no service manager */
    uint64_t every_ms; /* interval from WATCHDOG_USEC; 0: no watchdog */
    uv_timer_t beats;
    bool beating;
};

/* Opens the socket, and removes its variables from the environment: the manager expects messages of
 * this process only, not of its children. */
void bw_notify_open(struct bw_notify *notify);
/* Starts the watchdog messages, if the manager expects them. They stop when the loop hangs. */
void bw_notify_beat(struct bw_notify *notify, uv_loop_t *loop);
/* Sends lines of "NAME=VALUE". Never waits; a message that cannot be sent is dropped. */
void bw_notify_send(const struct bw_notify *notify, const char *lines);
/* Sends one line of "NAME=VALUE"; control characters become '?', so that a name from another host
 * cannot add a second line. */
__attribute__((format(printf, 2, 3))) void bw_notify_line(const struct bw_notify *notify,
                                                          const char *format, ...);
void bw_notify_close(struct bw_notify *notify);

#endif
