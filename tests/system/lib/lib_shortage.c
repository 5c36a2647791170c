/* The library when descriptors, threads or timers run out. It returns an error that names the
 * cause, leaks nothing, and succeeds as soon as the resource is available again.
 *
 * Every case runs in its own process, because the first event loop of a process needs more than
 * later ones. The test sets the kernel's limit to every number of free descriptors in turn.
 * Functions with other limits are defined here; they replace the C library's for all libraries of
 * the process, and fail from the n-th call on. */
#include "os/loop.h"
#include "system/lib/lib_common.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#define E "nightly"
/* Descriptors of the process' first event loop, which libuv never closes. */
#define KEPT_BY_LIBUV 2

enum kind { THREADS, TIMERS, PIPES, KINDS };
static int fail_from[KINDS]; /* this call and all later ones fail; 0: none */
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

/* The library must not raise the limit. */
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
    (void)resource;
    (void)limit;
    errno = EPERM;
    return -1;
}

static int count_descriptors(void)
{
    int count = -1; /* without the descriptor of the directory itself */
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

/* True if the error names the shortage. */
static bool is_about(int error, const char *cause)
{
    if (error == BW_ENOMEM && strstr(bw_why(), cause))
        return true;
    fprintf(stderr, "# %s: %s\n", bw_error_name(error), bw_why());
    return false;
}

/* Uses every function of the library once. Returns 0, or the first error. */
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

/* Returns an exit code. 0: the resource was sufficient. 1: the library returned an error that names
 * the cause, and works again afterwards. Others: the test failed. */
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

/* Runs the cases n = first, first + 1, ... until one has no shortage. Returns how many had one. */
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

static void descriptor_shortage_returns_an_error_that_names_it(void **state)
{
    (void)state;
    assert_true(play(with_descriptors, 0) > 6);
}

static void thread_shortage_returns_an_error_that_names_it(void **state)
{
    (void)state;
    failing = THREADS;
    /* the thread of the store and that of the library */
    assert_int_equal(play(with_failing_calls, 1), 2);
}

static void timer_shortage_returns_an_error_that_names_it(void **state)
{
    (void)state;
    failing = TIMERS;
    assert_int_equal(play(with_failing_calls, 1), 1); /* the timer for the deadline of a task */
}

static void pipe_shortage_returns_an_error_that_names_it(void **state)
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

/* Resolves a name while thread creation fails. Stores resolve host names on libuv's pool of four
 * threads. */
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

static void host_lookup_without_threads_returns_an_error(void **state)
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
        in_scratch(descriptor_shortage_returns_an_error_that_names_it),
        in_scratch(thread_shortage_returns_an_error_that_names_it),
        in_scratch(timer_shortage_returns_an_error_that_names_it),
        in_scratch(pipe_shortage_returns_an_error_that_names_it),
        in_scratch(host_lookup_without_threads_returns_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
