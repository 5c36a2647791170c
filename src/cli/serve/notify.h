/* What a service manager is told (sd_notify(3)): that the node listens, who leads, that its loop
 * still turns, that it ends. Without NOTIFY_SOCKET nothing happens. */
#ifndef BW_CLI_SERVE_NOTIFY_H
#define BW_CLI_SERVE_NOTIFY_H

#include <stdbool.h>
#include <uv.h>

struct bw_notify {
    int fd;           /* -1: nobody wants to hear */
    uv_timer_t beats; /* WATCHDOG_USEC */
    bool beating;
};

void bw_notify_open(struct bw_notify *notify, uv_loop_t *loop);
/* Lines of "NAME=VALUE". What cannot be sent is not: nobody waits for a manager. */
void bw_notify_say(const struct bw_notify *notify, const char *lines);
void bw_notify_close(struct bw_notify *notify);

#endif
