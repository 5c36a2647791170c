/* The guardian as seen from the supervisor. The guardian acknowledges every ARM, and reports READY
 * at its start and after every DISMISS. If it does not (for example because it is stopped), the
 * supervisor kills it. After the guardian's death, the supervisor kills the work until it is
 * confirmed dead, steps down, and starts a new guardian.
 *
 * The elector renews, and so sends an ARM, until the work is confirmed dead. If the store does not
 * answer, there are no renewals. Then the supervisor itself kills the work soon after the deadline,
 * and sends an ARM to learn whether the guardian still responds.
 *
 * With subreaper containment, the confirmation is that this process has no children left. Hooks and
 * health checks are children, too, so it waits for them; their time limits are at most a TTL. A
 * child that existed before the guardian (left by the program that executed us) may live forever.
 * Then the supervisor cannot confirm the death, and exits without a release: the lease expires. */
#include "run/supervisor/state.h"

#include "os/clock.h"
#include "run/contain/proc.h"
#include "run/guardian/death_notice.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RESTART_NS     (50 * BW_MS)
#define RESTART_MAX_NS (5 * BW_SEC)
#define KILL_PAUSE_NS  (20 * BW_MS)
#define CHECK_PAUSE_NS BW_MS
#define ACK_LEAST_NS   (100 * BW_MS)
#define READY_LEAST_NS (5 * BW_SEC) /* a slow guardian costs less than one that is replaced */
#define EXIT_UNPROVED  71

/* A message can be lost: sendmsg fails if memory is short, or if the guardian does not read. What
 * each lost message leads to:
 *   - ARM: no ARMED arrives; the supervisor kills the guardian (ack_due).
 *   - STOP: the guardian kills the work at the deadline of the last ARM, or the supervisor does
 *     (own_kill_at).
 *   - NOTICE_SOCKET, NOTICES: the next leader takes over later, when the lease expires.
 *   - SIGNAL: the work misses a signal that a user passes on. Deadlines do not depend on it, and
 *     the user can repeat it.
 *   - START, DISMISS: nothing else ends the wait for the guardian's answer, so these two use
 *     bw_supervisor_send_or_part. */
int bw_supervisor_send(struct supervisor *s, struct bw_wire wire, int passed)
{
    return s->socket_fd >= 0 ? bw_wire_send(s->socket_fd, &wire, passed) : 0;
}

void bw_supervisor_send_or_part(struct supervisor *s, struct bw_wire wire)
{
    if (bw_supervisor_send(s, wire, -1) == 0)
        return;
    bw_log_event(&s->log, BW_LOG_ERROR, "guardian-unresponsive", NULL,
                 "cannot send a message to the guardian: %s; replacing it", strerror(errno));
    shutdown(s->socket_fd, SHUT_WR);
}

/* Sends the guardian the death notices for the case that this process dies. Without the notices,
 * the next leader takes over later, when the lease expires. */
static void send_death_notices(struct supervisor *s)
{
    const struct bw_store_ops *ops = bw_asker_store_ops(s->asker);
    struct bw_death_notices notices;
    if (!ops->death_notices ||
        !ops->death_notices(bw_asker_store(s->asker), s->config->election, &notices))
        return;
    int fd = bw_death_notices_write(notices.rows, notices.count);
    if (fd < 0)
        return;
    bw_supervisor_send(s, (struct bw_wire){.kind = BW_WIRE_NOTICE_SOCKET}, notices.socket);
    bw_supervisor_send(s, (struct bw_wire){.kind = BW_WIRE_NOTICES, .token = s->token}, fd);
    close(fd);
}

void bw_supervisor_death_notices_changed(struct supervisor *s)
{
    if (s->token != BW_TOKEN_NONE && s->armed_token == s->token)
        send_death_notices(s);
}

static void expect_ack(struct supervisor *s)
{
    bw_time timeout = bw_time_max(s->config->terms.ttl_ns / 6, ACK_LEAST_NS);
    if (s->ack_due == BW_TIME_NEVER)
        s->ack_due = bw_time_add(bw_clock_boot(), timeout);
}

void bw_supervisor_arm(struct supervisor *s)
{
    const struct bw_store_ops *ops = bw_asker_store_ops(s->asker);
    struct bw_wire arm = {.kind = BW_WIRE_ARM, .token = s->token, .at = s->schedule.kill};
    int held = ops->hold ? ops->hold(bw_asker_store(s->asker), s->config->election, arm.proof) : -1;
    bw_supervisor_send(s, arm, held);
    send_death_notices(s);
    expect_ack(s);
}

/* The deadline has passed, so the ARM does not give the work more time. */
static void probe_guardian(struct supervisor *s)
{
    if (s->ack_due != BW_TIME_NEVER)
        return;
    bw_supervisor_send(
        s, (struct bw_wire){.kind = BW_WIRE_ARM, .token = s->token, .at = s->schedule.kill}, -1);
    expect_ack(s);
}

void bw_supervisor_guardian_prepares(struct supervisor *s)
{
    s->guardian = GUARDIAN_STARTING;
    s->ready_due =
        bw_time_add(bw_clock_boot(), bw_time_max(s->config->terms.ttl_ns, READY_LEAST_NS));
}

/* ---- messages ---- */

static void log_containment(struct supervisor *s)
{
    struct bw_log_field fields[] = {{"containment", s->containment, 0}, BW_LOG_END};
    bool weak = s->contain.kind == BW_CONTAIN_SUBREAPER;
    if (s->logged_kind == s->contain.kind)
        return;
    s->logged_kind = s->contain.kind;
    if (!s->config->argv) {
        bw_log_event(&s->log, BW_LOG_INFO, "containment", fields,
                     "no command: there is no work to contain");
        return;
    }
    bw_log_event(&s->log, weak ? BW_LOG_WARNING : BW_LOG_INFO, "containment", fields,
                 "work will be contained by %s%s", bw_contain_word(s->contain.kind),
                 weak ? ": if both supervisor and guardian are killed, the next leader waits until "
                        "the lease has expired, and processes that wiped their environment may "
                        "outlive it"
                      : "");
}

void bw_supervisor_begin(struct supervisor *s)
{
    if (s->started || s->ending || !s->asked || s->guardian != GUARDIAN_READY)
        return;
    s->started = true;
    bw_supervisor_step(s, BW_LEASE_START, false);
    bw_supervisor_update_health(s);
}

static void on_ready(struct supervisor *s, const char *name)
{
    snprintf(s->containment, sizeof s->containment, "%s", name);
    s->contain_known = bw_contain_find(&s->contain, name) == BW_CONTAIN_HERE;
    s->guardian = GUARDIAN_READY;
    s->ready_due = BW_TIME_NEVER;
    log_containment(s);
    if (!s->started) {
        bw_supervisor_begin(s);
        return;
    }
    bw_supervisor_update_health(s);
    bw_asker_client_send_held(s->asked);
}

static int code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void on_dead(struct supervisor *s, const struct bw_wire *wire)
{
    if (wire->token != s->token || s->token == BW_TOKEN_NONE)
        return;
    bool by_itself =
        (wire->flags & BW_WIRE_RAN) && !s->stopping && bw_clock_boot() < s->schedule.kill;
    if (!by_itself && !s->stopping) /* killed at the deadline, or never started */
        bw_supervisor_step(s, BW_LEASE_RESIGN, false);
    if (by_itself) {
        int code = code_of(wire->number);
        struct bw_log_field fields[] = {{"code", NULL, (uint64_t)code}, BW_LOG_END};
        bw_log_event(&s->log, BW_LOG_INFO, "ended", fields, "the command ended with exit code %d",
                     code);
    }
    s->finished = by_itself && code_of(wire->number) == 0;
    bw_supervisor_work_dead(s);
    if (by_itself)
        bw_supervisor_end(s, code_of(wire->number));
}

static void on_stuck(struct supervisor *s, const char *text)
{
    struct bw_log_field fields[] = {{"token", NULL, bw_run_token(s->token)}, BW_LOG_END};
    bw_log_event(&s->log, BW_LOG_ERROR, "not-dead", fields, "%s; the leadership is not released",
                 text);
}

static void on_failed(struct supervisor *s, const char *why)
{
    bool chosen = s->config->containment != BW_CONTAIN_AUTO;
    s->ready_due = BW_TIME_NEVER;
    bw_log_event(&s->log, BW_LOG_ERROR, "no-containment", NULL, "cannot contain the work: %s%s",
                 why, chosen ? "; use --containment auto" : "");
    if (!s->started)
        bw_supervisor_end(s, chosen ? 64 : 71);
    else
        kill(s->guardian_pid, SIGKILL); /* a new guardian retries after a pause */
}

static void on_message(struct supervisor *s, const struct bw_wire *wire)
{
    switch (wire->kind) {
    case BW_WIRE_READY:
        on_ready(s, wire->text);
        break;
    case BW_WIRE_FAILED:
        on_failed(s, wire->text);
        break;
    case BW_WIRE_ARMED:
        s->ack_due = BW_TIME_NEVER;
        s->restart_pause_ns = RESTART_NS;
        break;
    case BW_WIRE_STARTED: {
        struct bw_log_field fields[] = {{"token", NULL, bw_run_token(wire->token)},
                                        {"pid", NULL, (uint64_t)wire->number},
                                        BW_LOG_END};
        s->work = wire->number;
        s->notified = bw_clock_boot();
        bw_health_begin(&s->progress, s->notified);
        bw_log_event(&s->log, BW_LOG_INFO, "started", fields, "started the command (pid %d)",
                     (int)wire->number);
        break;
    }
    case BW_WIRE_STUCK:
        on_stuck(s, wire->text);
        break;
    case BW_WIRE_DEAD:
        on_dead(s, wire);
        break;
    default:
        break;
    }
}

static void on_socket(uv_poll_t *handle, int status, int events)
{
    struct supervisor *s = handle->data;
    struct bw_wire wire;
    int passed, got = 0;
    (void)events;
    (void)status;
    while (s->socket_fd >= 0 && (got = bw_wire_receive(s->socket_fd, &wire, &passed)) > 0) {
        if (passed >= 0)
            close(passed);
        on_message(s, &wire);
    }
    if (got < 0 && s->socket_fd >= 0)
        uv_poll_stop(handle); /* SIGCHLD reports its death */
}

/* ---- start and death of the guardian ---- */

int bw_supervisor_guardian_start(struct supervisor *s)
{
    s->guardian_pid = bw_guardian_start(&s->guardian_config, &s->socket_fd);
    if (s->guardian_pid < 0) {
        s->socket_fd = -1;
        return BW_ENOMEM;
    }
    s->ack_due = BW_TIME_NEVER;
    bw_supervisor_guardian_prepares(s);
    return 0;
}

int bw_supervisor_guardian_listen(struct supervisor *s)
{
    if (uv_poll_init(&s->loop, &s->socket, s->socket_fd) != 0)
        return BW_ENOMEM;
    s->socket.data = s;
    return uv_poll_start(&s->socket, UV_READABLE, on_socket) == 0 ? 0 : BW_ENOMEM;
}

static void start_again(struct supervisor *s)
{
    s->restart_at = BW_TIME_NEVER;
    s->contain_known = false;
    if (bw_supervisor_guardian_start(s) == 0 && bw_supervisor_guardian_listen(s) == 0)
        return;
    s->restart_pause_ns = bw_time_min(s->restart_pause_ns * 2, RESTART_MAX_NS);
    s->restart_at = bw_time_add(bw_clock_boot(), s->restart_pause_ns);
}

/* libuv may still use the old handle in this turn of the loop. The next guardian starts after the
 * handle is closed. */
static void on_socket_closed(uv_handle_t *handle)
{
    struct supervisor *s = handle->data;
    close(s->socket_fd);
    s->socket_fd = -1;
}

void bw_supervisor_guardian_dead(struct supervisor *s)
{
    s->guardian_pid = 0;
    s->ack_due = s->ready_due = BW_TIME_NEVER;
    uv_poll_stop(&s->socket);
    uv_close((uv_handle_t *)&s->socket, on_socket_closed);
    if (s->stopped)
        return;
    bw_log_event(&s->log, BW_LOG_ERROR, "guardian-died", NULL,
                 "the guardian died; the supervisor kills the work");
    s->guardian = GUARDIAN_LOST;
    s->containment[0] = '\0'; /* a leadership that named it must not start work in the next one */
    s->armed_token = BW_TOKEN_NONE;
    s->own_kill_at = 0;
    s->unproved_since = BW_TIME_NEVER;
    bw_contain_inherit(&s->contain);
    bw_supervisor_update_health(s);
    bw_supervisor_guardian_tick(s, bw_clock_boot());
}

static bool is_hook(void *supervisor, pid_t pid)
{
    const struct supervisor *s = supervisor;
    for (unsigned i = 0; i < BW_CHILDREN_MAX; i++)
        if (s->children.at[i].pid == pid)
            return true;
    return pid == s->guardian_pid;
}

/* Called while the work is not confirmed dead. If no scan found a process of the work for a whole
 * TTL, no later scan will. Then this process exits without releasing, and the lease expires. */
static void wait_for_proof(struct supervisor *s, const struct bw_contain_left *left, bw_time now)
{
    bool found = left->pid > 0 || s->contain.kind != BW_CONTAIN_SUBREAPER;
    s->own_kill_at = now + (found ? CHECK_PAUSE_NS : KILL_PAUSE_NS);
    if (found || s->unproved_since == BW_TIME_NEVER)
        s->unproved_since = found ? BW_TIME_NEVER : now;
    else if (now - s->unproved_since >= s->config->terms.ttl_ns) {
        bw_log_event(&s->log, BW_LOG_ERROR, "death-not-confirmed", NULL,
                     "cannot confirm that the work is dead: this process has other children; "
                     "exiting without a release, so that the lease expires");
        _exit(EXIT_UNPROVED);
    }
}

/* Kills the processes of the work that a dead guardian left behind, and checks whether all are
 * dead. */
static void kill_leftovers(struct supervisor *s, bw_time now)
{
    struct bw_contain_left left = {.empty = true};
    if (s->contain_known) {
        bw_contain_kill_children(&s->contain, is_hook, s);
        bw_contain_kill(&s->contain);
        bw_contain_check(&s->contain, &left);
    }
    if (!left.empty) {
        wait_for_proof(s, &left, now);
        return;
    }
    if (s->contain_known)
        bw_contain_remove(&s->contain);
    s->contain_known = false;
    s->guardian = GUARDIAN_ABSENT;
    s->restart_at = now + s->restart_pause_ns;
    s->restart_pause_ns = bw_time_min(s->restart_pause_ns * 2, RESTART_MAX_NS);
    s->own_kill_at = BW_TIME_NEVER;
    if (s->token != BW_TOKEN_NONE)
        bw_supervisor_work_dead(s);
}

void bw_supervisor_guardian_orphans(struct supervisor *s)
{
    if (s->guardian == GUARDIAN_LOST)
        kill_leftovers(s, bw_clock_boot());
}

void bw_supervisor_guardian_tick(struct supervisor *s, bw_time now)
{
    if (s->guardian == GUARDIAN_LOST && now >= s->own_kill_at) {
        kill_leftovers(s, now);
    } else if (now >= s->own_kill_at && s->token != BW_TOKEN_NONE && s->contain_known) {
        bw_contain_kill(&s->contain); /* the guardian has not killed the work in time */
        s->own_kill_at = now + KILL_PAUSE_NS;
        probe_guardian(s);
    }
    if (s->guardian == GUARDIAN_ABSENT && now >= s->restart_at && s->socket_fd < 0 && !s->stopped)
        start_again(s);
    if (now >= bw_time_min(s->ack_due, s->ready_due) && s->guardian_pid > 0) {
        bw_log_event(&s->log, BW_LOG_ERROR, "guardian-unresponsive", NULL,
                     "the guardian does not respond (stopped?); killing and replacing it");
        s->ack_due = s->ready_due = BW_TIME_NEVER;
        kill(s->guardian_pid, SIGKILL);
    }
}

bw_time bw_supervisor_guardian_deadline(const struct supervisor *s)
{
    bw_time next = bw_time_min(s->ack_due, s->ready_due);
    bool strikes = s->guardian == GUARDIAN_LOST || s->token != BW_TOKEN_NONE;
    if (strikes)
        next = bw_time_min(next, s->own_kill_at);
    if (s->guardian == GUARDIAN_ABSENT && s->socket_fd < 0)
        next = bw_time_min(next, s->restart_at);
    return next;
}
