/* Kernel timers that end work, on CLOCK_BOOTTIME. They work even if no thread of ours runs.
 *
 *   cancel token   a timerfd that becomes readable at `term`. Every renewal moves it; a loss makes
 *                  it readable at once.
 *   abort          The library's thread aborts the process at `kill` and writes the cause to
 *                  standard error. If that thread cannot run (stopped, starved, blocked in a
 *                  callback), a POSIX timer sends SIGKILL half a margin later, which is still
 *                  before the lease ends. SIGKILL also ends a stopped process. */
#include "lib/lib.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

static struct itimerspec at(bw_time when)
{
    bw_time not_zero = bw_time_max(when, 1); /* 0 would disarm it */
    return (struct itimerspec){.it_value = {not_zero / BW_SEC, not_zero % BW_SEC}};
}

int bw_lib_deadline_open(struct bw_leadership *l)
{
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    l->cancel_fd = -1;
    if (l->way == WAY_TASK) {
        l->cancel_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        if (l->cancel_fd < 0)
            return bw_lib_fail(BW_ENOMEM, "cannot create a timer for the cancel token: %s",
                               strerror(errno));
    }
    if (l->aborts && timer_create(CLOCK_BOOTTIME, &event, &l->kill_timer) != 0) {
        l->aborts = false;
        return bw_lib_fail(BW_ENOMEM, "cannot create a timer for the deadline: %s",
                           strerror(errno));
    }
    return 0;
}

void bw_lib_deadline_close(struct bw_leadership *l)
{
    if (l->cancel_fd >= 0)
        close(l->cancel_fd);
    if (l->aborts)
        timer_delete(l->kill_timer);
}

void bw_lib_deadline_set(struct bw_leadership *l)
{
    struct itimerspec kill = at(l->schedule.kill + l->settings.terms.margin_ns / 2);
    struct itimerspec term = at(l->schedule.term);
    if (l->aborts)
        timer_settime(l->kill_timer, TIMER_ABSTIME, &kill, NULL);
    if (l->cancel_fd >= 0)
        timerfd_settime(l->cancel_fd, TFD_TIMER_ABSTIME, &term, NULL);
}

void bw_lib_deadline_cancel(struct bw_leadership *l)
{
    struct itimerspec now = at(1);
    if (l->cancel_fd >= 0)
        timerfd_settime(l->cancel_fd, TFD_TIMER_ABSTIME, &now, NULL);
}

void bw_lib_deadline_clear(struct bw_leadership *l)
{
    struct itimerspec never = {{0, 0}, {0, 0}};
    if (l->aborts)
        timer_settime(l->kill_timer, 0, &never, NULL);
    if (l->cancel_fd >= 0)
        timerfd_settime(l->cancel_fd, 0, &never, NULL);
}

void bw_lib_deadline_abort(struct bw_leadership *l)
{
    dprintf(STDERR_FILENO,
            "bellwether: leadership of '%s' (token %llu) was lost (%s), and its work has not ended "
            "by the deadline; aborting the process before the lease ends\n",
            l->election, (unsigned long long)atomic_load(&l->token), bw_loss_name(l->reason));
    abort();
}
