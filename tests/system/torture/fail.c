/* Makes one allocation or one system call of a program fail. The idea is curl's torture test: run
 * a program once and count its calls; then run it once per call, and fail that call.
 *
 * Preloaded into the program (LD_PRELOAD). The environment says what to do:
 *
 *   TORTURE_STATE    file shared with the driver; see state.h
 *   TORTURE_PROGRAM  file name of the program; every other program of the tree runs untouched
 *   TORTURE_FAIL     KIND:N:LENGTH:CHOICE fails calls N to N+LENGTH-1 of the kind (alloc or call);
 *                    CHOICE selects one of the errnos that are possible for the call
 *   TORTURE_LOG      if set, every counted call is logged
 *
 * The count begins when main() is called: what the dynamic loader does before is not the program.
 * Calls that a library answers with abort() by design are neither counted nor failed; is_exempt
 * lists them. */
#include "system/torture/interpose.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

static struct torture_state *state;
static struct torture_entry *entries;
static enum torture_kind fail_kind;
static uint32_t fail_from, fail_length, fail_choice;
/* The interposer is at work in this thread: its own calls do not count. */
static _Thread_local __attribute__((tls_model("initial-exec"))) bool busy;

struct stack {
    unsigned depth;
    void *frames[TORTURE_FRAMES];
};

void *torture_real(const char *name)
{
    bool before = busy;
    busy = true;
    void *found = dlsym(RTLD_NEXT, name);
    busy = before;
    return found;
}

/* ---- the caller ---- */

static const char *module_of(const void *address, uint64_t *offset)
{
    struct dl_find_object found;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    if (_dl_find_object((void *)(uintptr_t)address, &found) != 0)
        return "";
    *offset = (uint64_t)(uintptr_t)address - found.dlfo_link_map->l_addr;
    const char *path = found.dlfo_link_map->l_name, *slash = strrchr(path, '/');
    return slash ? slash + 1 : path; /* empty: the program itself */
}

bool torture_in(const void *caller, const char *library)
{
    uint64_t offset = 0;
    return strncmp(module_of(caller, &offset), library, strlen(library)) == 0;
}

/* The program, its library and its store modules. */
static bool is_ours(const char *module)
{
    return module[0] == '\0' || strstr(module, "bellwether");
}

static _Unwind_Reason_Code on_frame(struct _Unwind_Context *context, void *arg)
{
    struct stack *stack = arg;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    stack->frames[stack->depth++] = (void *)_Unwind_GetIP(context);
    return stack->depth < TORTURE_FRAMES ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

/* ---- what is not counted ---- */

/* True if this library calls from a function that runs once per process (pthread_once). */
static bool is_once_of(const struct stack *stack, const char *library)
{
    bool once = false;
    for (unsigned i = 2; i < stack->depth && !once; i++)
        once = torture_in(stack->frames[i], library) && torture_in(stack->frames[i - 1], "libc.") &&
               torture_in(stack->frames[i - 2], library);
    return once;
}

/* Two libraries cannot fail in what they do once per process. libuv makes its pipe for signals and
 * its thread pool, and aborts if it cannot; src/os/loop.c checks before that it can. OpenSSL 3.0
 * uses its locks even if it could not allocate them. */
static bool is_once(const struct stack *stack)
{
    return is_once_of(stack, "libuv") || is_once_of(stack, "libcrypto");
}

/* True if the test's own equipment calls, directly or through the C library. */
static bool is_equipment(const struct stack *stack)
{
    static const char *const equipment[] = {"libasan", "libubsan", "liblsan", "libtsan"};
    unsigned i = 0;
    while (i < stack->depth &&
           (torture_in(stack->frames[i], "torture") || torture_in(stack->frames[i], "libc.") ||
            torture_in(stack->frames[i], "ld-linux")))
        i++;
    for (unsigned k = 0; i < stack->depth && k < sizeof equipment / sizeof equipment[0]; k++)
        if (torture_in(stack->frames[i], equipment[k]))
            return true;
    return false;
}

/* True if a library uses a thread-local variable for the first time. The loader allocates it, and
 * aborts if it cannot. dlopen(), which can fail, calls the loader from the C library. */
static bool is_thread_local(const struct stack *stack)
{
    unsigned i = 0;
    while (i < stack->depth && torture_in(stack->frames[i], "torture"))
        i++;
    unsigned first = i;
    while (i < stack->depth && torture_in(stack->frames[i], "ld-linux"))
        i++;
    return i > first && i < stack->depth && !torture_in(stack->frames[i], "libc.");
}

/* Calls that are neither counted nor failed. libuv's uv__io_poll aborts unless epoll answers, and
 * its maybe_resize aborts without memory for the table of descriptors. */
static bool is_exempt(const char *name, const void *caller, const struct stack *stack)
{
    bool aborts = torture_in(caller, "libuv") &&
                  (strncmp(name, "epoll_", 6) == 0 || strcmp(name, "realloc") == 0);
    return aborts || is_equipment(stack) || is_once(stack) || is_thread_local(stack);
}

/* ---- counting and failing ---- */

static uint64_t hash(uint64_t seed, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++)
        seed = (seed ^ at[i]) * 0x100000001b3u;
    return seed;
}

static void log_call(enum torture_kind kind, uint32_t index, const char *name,
                     const struct stack *stack)
{
    uint32_t slot = atomic_fetch_add(&state->entries, 1);
    if (slot >= TORTURE_ENTRIES)
        return;
    struct torture_entry *entry = &entries[slot];
    entry->site = entry->stack = hash(0xcbf29ce484222325u, name, strlen(name));
    for (unsigned i = 0; i < stack->depth; i++) {
        uint64_t offset = 0;
        const char *module = module_of(stack->frames[i], &offset);
        entry->stack = hash(hash(entry->stack, module, strlen(module)), &offset, sizeof offset);
        if (is_ours(module))
            entry->site = hash(hash(entry->site, module, strlen(module)), &offset, sizeof offset);
    }
    strncpy(entry->name, name, sizeof entry->name - 1);
    entry->index = index;
    entry->kind = kind;
}

static void note_failure(const char *name, int error, const struct stack *stack)
{
    if (atomic_fetch_add(&state->failed, 1) > 0)
        return;
    strncpy(state->name, name, sizeof state->name - 1);
    state->error = error;
    state->pid = (uint32_t)getpid();
    for (unsigned i = 0; i < stack->depth; i++) {
        struct torture_frame *frame = &state->frames[i];
        strncpy(frame->module, module_of(stack->frames[i], &frame->offset), TORTURE_MODULE - 1);
    }
    state->depth = stack->depth;
}

static int choose(const int *errors)
{
    unsigned count = 0;
    while (errors[count])
        count++;
    return errors[fail_choice % count];
}

int torture_next(enum torture_kind kind, const char *name, const void *caller, const int *errors)
{
    struct stack stack = {.depth = 0};
    int error = 0;
    if (busy || !state || !atomic_load(&state->armed))
        return 0;
    busy = true;
    _Unwind_Backtrace(on_frame, &stack);
    if (!is_exempt(name, caller, &stack)) {
        uint32_t index = atomic_fetch_add(&state->count[kind], 1) + 1;
        if (entries)
            log_call(kind, index, name, &stack);
        if (kind == fail_kind && index >= fail_from && index - fail_from < fail_length) {
            error = choose(errors);
            note_failure(name, error, &stack);
        }
    }
    busy = false;
    return error;
}

enum torture_file torture_file_of(int fd)
{
    struct stat found;
    if (syscall(SYS_fstat, fd, &found) != 0)
        return TORTURE_OTHER;
    if (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode))
        return TORTURE_REGULAR;
    if (!S_ISSOCK(found.st_mode))
        return S_ISFIFO(found.st_mode) ? TORTURE_PIPE : TORTURE_OTHER;
    int domain = 0;
    socklen_t length = sizeof domain;
    syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
    return domain == AF_UNIX ? TORTURE_LOCAL : TORTURE_SOCKET;
}

/* ---- start ---- */

static bool is_the_program(void)
{
    char path[4096] = "";
    const char *wanted = getenv("TORTURE_PROGRAM");
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof path - 1);
    const char *slash = strrchr(path, '/');
    return length > 0 && slash && wanted && strcmp(slash + 1, wanted) == 0;
}

static void *map(const char *path, size_t size)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    void *at = (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return at == MAP_FAILED ? NULL : at;
}

static void read_order(void)
{
    char kind[8] = "";
    const char *order = getenv("TORTURE_FAIL");
    if (!order ||
        sscanf(order, "%7[a-z]:%u:%u:%u", kind, &fail_from, &fail_length, &fail_choice) != 4)
        fail_length = 0;
    fail_kind = strcmp(kind, "alloc") == 0 ? TORTURE_ALLOC : TORTURE_CALL;
}

static int (*real_main)(int, char **, char **);

static int enter_main(int argc, char **argv, char **envp)
{
    const char *path = getenv("TORTURE_STATE");
    busy = true;
    if (path && is_the_program()) {
        size_t size = sizeof *state + TORTURE_ENTRIES * sizeof *entries;
        read_order();
        struct torture_state *mapped = map(path, size);
        if (mapped && getenv("TORTURE_LOG"))
            entries = (void *)(mapped + 1);
        state = mapped;
    }
    busy = false;
    return real_main(argc, argv, envp);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
    int (*next)(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                void (*)(void), void *);
    *(void **)&next = torture_real("__libc_start_main");
    real_main = main;
    return next(enter_main, argc, argv, init, fini, rtld_fini, stack_end);
}
