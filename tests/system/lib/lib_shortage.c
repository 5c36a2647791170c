/* The library when descriptors, threads or timers run out: an error that names the cause, nothing
 * leaked, and success as soon as there is enough again.
 *
 * Every case is a process of its own, because the first event loop of a process needs more than
 * later ones. The kernel's limit is set to every number of free descriptors in turn; functions that
 * have other limits are defined here, stand before the C library's for all libraries of the
 * process, and fail from the n-th call on. */
#include "os/loop.h"
#include "system/lib/lib_common.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#define E "nightly"
/* Of the process' first event loop, which libuv never gives back. */
#define KEPT_BY_LIBUV 2

enum kind { THREADS, TIMERS, PIPES, KINDS };
static int fail_from[KINDS]; /* this call and later ones fail; 0: none */
static atomic_int calls[KINDS];

static bool fails(enum kind kind)
{
    int call = atomic_fetch_add(&calls[kind], 1) + 1;
    return fail_from[kind] > 0 && call >= fail_from[kind];
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes,
                   void *(*run)(void *), void *restrict arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return fails(THREADS) ? EAGAIN : real(thread, attributes, run, arg);
}

int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict timer)
{
    int (*real)(clockid_t, struct sigevent *, timer_t *);
    *(void **)&real = dlsym(RTLD_NEXT, "timer_create");
    errno = EAGAIN;
    return fails(TIMERS) ? -1 : real(clock, event, timer);
}

int pipe2(int fds[2], int flags)
{
    int (*real)(int *, int);
    *(void **)&real = dlsym(RTLD_NEXT, "pipe2");
    errno = ENFILE;
    return fails(PIPES) ? -1 : real(fds, flags);
}

/* The library would raise the limit. */
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    (void)resource;
    (void)limit;
    errno = EPERM;
    return -1;
}

static int count_descriptors(void)
{
    int count = -1; /* its own */
    DIR *fds = opendir("/proc/self/fd");
    for (struct dirent *entry; fds && (entry = readdir(fds));)
        count += entry->d_name[0] != '.';
    closedir(fds);
    return count;
}

static int end_at_once(struct bw_cancel *cancel, void *arg)
{
    (void)cancel;
    (void)arg;
    return 0;
}

static struct bw_handle *open_pollable(int *error)
{
    struct bw_options options = bw_options_default();
    struct bw_handle *h;
    options.ttl_ms = HANG_MS;
    options.pollable = true;
    *error = bw_open(path, &options, &h);
    return h;
}

/* An error of a call is about the shortage, and says so. */
static bool is_about(int error, const char *cause)
{
    if (error == BW_ENOMEM && strstr(bw_why(), cause))
        return true;
    fprintf(stderr, "# %s: %s\n", bw_error_name(error), bw_why());
    return false;
}

/* Everything the library can do, once. 0, or the first error. */
static int use(struct bw_handle *h, int64_t timeout_ms)
{
    struct bw_leader_info info = bw_leader_info_default();
    struct bw_run_options options = bw_run_options_default();
    struct bw_leadership *l;
    options.wait_ms = timeout_ms == 0 ? BW_NO_WAIT : timeout_ms;
    int error = bw_campaign(h, E, NULL, timeout_ms, &l);
    if (!error) {
        error = bw_leader(h, E, &info);
        bw_resign(l);
    }
    return error ? error : bw_run_while_leader(h, "task", end_at_once, NULL, &options);
}

/* Exit codes: 0: there was enough; 1: an error that names the cause, and all is well afterwards;
 * others: wrong. */
static int live_through(void (*begin)(int n), void (*end)(void), int n, const char *cause)
{
    int error, before = count_descriptors();
    begin(n);
    struct bw_handle *h = open_pollable(&error);
    if (!error)
        error = use(h, 0);
    end();
    if (error && !is_about(error, cause))
        return 2;
    int found = error ? 1 : 0;
    if (!h && !(h = open_pollable(&error)))
        return 3;
    if (use(h, HANG_MS) != 0)
        return 4;
    if (bw_close(h) != 0)
        return 5;
    return count_descriptors() - before <= KEPT_BY_LIBUV ? found : 6;
}

/* ---- descriptors ---- */

static struct rlimit usual;

static void limit_descriptors(int n)
{
    int first = dup(STDERR_FILENO); /* the lowest free one */
    close(first);
    getrlimit(RLIMIT_NOFILE, &usual);
    struct rlimit limit = {.rlim_cur = (rlim_t)(first + n), .rlim_max = usual.rlim_max};
    prlimit(0, RLIMIT_NOFILE, &limit, NULL);
}

static void lift_limit(void)
{
    prlimit(0, RLIMIT_NOFILE, &usual, NULL);
}

static int with_descriptors(int n)
{
    return live_through(limit_descriptors, lift_limit, n, "Too many open files");
}

/* ---- the rest ---- */

static enum kind failing;

static void begin_failing(int n)
{
    fail_from[failing] = n;
}

static void end_failing(void)
{
    fail_from[failing] = 0;
}

static int with_failing_calls(int n)
{
    const char *cause = strerror(failing == PIPES ? ENFILE : EAGAIN);
    return live_through(begin_failing, end_failing, n, cause);
}

/* The number of cases until nothing is short. */
static int play(int (*part)(int n), int first)
{
    for (int n = first;; n++) {
        fflush(stdout);
        int status = status_of(spawn(part, n));
        if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
            fail_msg("case %d: status 0x%x", n, (unsigned)status);
        if (WEXITSTATUS(status) == 0)
            return n - first;
    }
}

static void each_shortage_of_descriptors_is_an_error_that_says_so(void **state)
{
    (void)state;
    assert_true(play(with_descriptors, 0) > 6);
}

static void threads_that_cannot_be_started_are_an_error_that_says_so(void **state)
{
    (void)state;
    failing = THREADS;
    assert_int_equal(play(with_failing_calls, 1), 2); /* the store's and the library's */
}

static void timers_that_cannot_be_created_are_an_error_that_says_so(void **state)
{
    (void)state;
    failing = TIMERS;
    assert_int_equal(play(with_failing_calls, 1), 1); /* the deadline of a task */
}

static void pipes_that_cannot_be_created_are_an_error_that_says_so(void **state)
{
    (void)state;
    failing = PIPES;
    assert_int_equal(status_of(spawn(with_failing_calls, 1)), 1 << 8);
}

static atomic_int found;

static void on_found(uv_getaddrinfo_t *request, int status, struct addrinfo *addresses)
{
    (void)request;
    atomic_store(&found, status == 0);
    uv_freeaddrinfo(addresses);
}

/* Stores that look up a host's address use libuv's pool of four threads. */
static int look_up_without_threads(int n)
{
    uv_loop_t loop;
    uv_getaddrinfo_t request;
    if (uv_loop_init(&loop) != 0)
        return 2;
    begin_failing(n);
    int error = bw_loop_look_up(&loop, &request, on_found, "127.0.0.1", NULL, NULL);
    end_failing();
    if (error && error != UV_EAGAIN)
        return 3;
    if (error && bw_loop_look_up(&loop, &request, on_found, "127.0.0.1", NULL, NULL) != 0)
        return 4;
    uv_run(&loop, UV_RUN_DEFAULT);
    return !atomic_load(&found) || uv_loop_close(&loop) != 0 ? 5 : error ? 1 : 0;
}

static void a_look_up_without_threads_is_an_error(void **state)
{
    (void)state;
    failing = THREADS;
    for (int n = 1; n <= 4; n++)
        assert_int_equal(status_of(spawn(look_up_without_threads, n)), 1 << 8);
    ends_well(spawn(look_up_without_threads, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(each_shortage_of_descriptors_is_an_error_that_says_so),
        in_scratch(threads_that_cannot_be_started_are_an_error_that_says_so),
        in_scratch(timers_that_cannot_be_created_are_an_error_that_says_so),
        in_scratch(pipes_that_cannot_be_created_are_an_error_that_says_so),
        in_scratch(a_look_up_without_threads_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
