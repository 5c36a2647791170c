/* `bellwether sim play`: serves the playground, the simulator in the browser.
 *
 * The page is a file beside the program: PREFIX/share/bellwether/playground for PREFIX/bin, and
 * playground/ in the build directory. `make playground` builds it (web/build.py). */
#include "cli/commands.h"
#include "cli/sim/play_server.h"
#include "run/status/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LISTEN_DEFAULT "127.0.0.1:0"
#define PAGE_MAX       (16u << 20)
#define BACKLOG        16

struct play_options {
    const char *listen;
    bool no_open;
};

#define AT(field) .offset = offsetof(struct play_options, field)

static const struct bw_option options_table[] = {
    {.help = "options"},
    {"listen", "ADDR",
     "IP:PORT to listen on; port 0 is any free port (default: " LISTEN_DEFAULT ")",
     .set = bw_set_text, AT(listen)},
    {"no-open", NULL, "do not open a browser (default: open one, on a terminal with a display)",
     .set = bw_set_switch, AT(no_open)},
    {0},
};

static volatile sig_atomic_t stopped;

static void on_signal(int signal)
{
    (void)signal;
    stopped = 1;
}

/* ---- the page ---- */

/* Reads a file and appends a zero byte. Returns NULL if the file cannot be read, is empty or has
 * more than `max` bytes. */
static char *read_whole(const char *path, size_t max, size_t *size)
{
    FILE *file = fopen(path, "re");
    char *bytes = file ? malloc(max + 1) : NULL;
    *size = bytes ? fread(bytes, 1, max, file) : 0;
    if (bytes && (ferror(file) || !feof(file) || *size == 0)) {
        free(bytes);
        bytes = NULL;
    }
    if (bytes)
        bytes[*size] = '\0';
    if (file)
        fclose(file);
    return bytes;
}

/* The policy goes into a header: one line of printable characters. */
static bool read_policy(const char *path, char *policy)
{
    size_t size;
    char *text = read_whole(path, BW_PLAY_POLICY_MAX, &size);
    bool good = text != NULL;
    if (good && text[size - 1] == '\n')
        text[--size] = '\0';
    for (size_t i = 0; good && i < size; i++)
        good = text[i] >= ' ' && text[i] <= '~';
    if (good && size > 0)
        memcpy(policy, text, size + 1);
    free(text);
    return good && size > 0;
}

static bool read_page(const char *directory, struct bw_play_page *page)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/policy", directory);
    if (!read_policy(path, page->policy))
        return false;
    snprintf(path, sizeof path, "%s/index.html.gz", directory);
    page->bytes = read_whole(path, PAGE_MAX, &page->size);
    return page->bytes != NULL;
}

static int find_page(struct bw_play_page *page)
{
    char program[PATH_MAX / 2], directory[PATH_MAX - 100];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = '\0';
    static const char *const places[] = {"playground", "../share/bellwether/playground"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(directory, sizeof directory, "%s/%s", program, places[i]);
        if (read_page(directory, page))
            return 0;
    }
    fprintf(stderr,
            "bellwether sim play: cannot serve the playground: no page in %s/playground and in "
            "%s/../share/bellwether/playground; in the source tree, run `make playground`; before "
            "`make install`, install clang, lld, wasi-libc and libclang-rt-dev-wasm32\n",
            program, program);
    return BW_EXIT_UNAVAILABLE;
}

/* ---- the listener ---- */

static int open_listener(const struct bw_cli_command *command, const char *text, int *listener)
{
    struct bw_http_address address;
    int on = 1;
    if (bw_http_address_read(text, &address) != 0 || address.bytes.ss_family == AF_UNIX)
        return bw_usage_error(command,
                              "invalid --listen '%.100s': expected IP:PORT, for example "
                              "127.0.0.1:8080 or [::1]:0",
                              text);
    int fd = socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address.bytes, address.length) != 0 ||
        listen(fd, BACKLOG) != 0) {
        fprintf(stderr,
                "bellwether sim play: cannot listen on %.100s: %s; choose another --listen\n", text,
                strerror(errno));
        if (fd >= 0)
            close(fd);
        return BW_EXIT_UNAVAILABLE;
    }
    *listener = fd;
    return BW_GO_ON;
}

static void write_url(int listener, char *url, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";
    struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof name;
    getsockname(listener, (struct sockaddr *)&name, &length);
    const struct sockaddr_in *v4 = (const void *)&name;
    const struct sockaddr_in6 *v6 = (const void *)&name;
    url[0] = '\0';
    if (name.ss_family == AF_INET6)
        snprintf(url, size, "http://[%s]:%u/",
                 inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host), ntohs(v6->sin6_port));
    else if (name.ss_family == AF_INET)
        snprintf(url, size, "http://%s:%u/", inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host),
                 ntohs(v4->sin_port));
}

/* ---- the browser ---- */

static bool has_display(void)
{
    const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
    return isatty(STDOUT_FILENO) && ((x && *x) || (wayland && *wayland));
}

/* Opens the page in the user's browser. The browser gets a process group of its own, so that Ctrl-C
 * ends only the server. A machine without xdg-open has the printed address. */
static void open_browser(char *url)
{
    char *words[] = {"xdg-open", url, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid;
    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&files) != 0)
        return;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&files);
        return;
    }
    for (int fd = 0; fd <= 2; fd++)
        posix_spawn_file_actions_addopen(&files, fd, "/dev/null", fd ? O_WRONLY : O_RDONLY, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    posix_spawnp(&pid, words[0], &files, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction ignore = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGCHLD, &ignore, NULL); /* xdg-open leaves no zombie */
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    struct play_options o = {.listen = LISTEN_DEFAULT};
    static struct bw_play_page page;
    struct bw_parsed parsed;
    char url[INET6_ADDRSTRLEN + 32];
    int listener = -1;
    int code = bw_options_parse(command, argc, argv, &o, &parsed);
    if (code != BW_GO_ON)
        return code;
    code = open_listener(command, o.listen, &listener);
    if (code != BW_GO_ON)
        return code;
    code = find_page(&page);
    if (code == 0) {
        catch_signals();
        write_url(listener, url, sizeof url);
        printf("playground: %s (Ctrl-C ends it)\n", url);
        fflush(stdout);
        if (!o.no_open && has_display())
            open_browser(url);
        int error = bw_play_serve(listener, &page, &stopped);
        if (error)
            fprintf(stderr, "bellwether sim play: cannot wait for requests: %s\n", strerror(error));
        code = error ? BW_EXIT_IO : BW_EXIT_OK;
    }
    free(page.bytes);
    close(listener);
    return code;
}

const struct bw_cli_command bw_command_sim_play = {
    .name = "play",
    .path = "bellwether sim play",
    .usage = "[options]",
    .about = "play with elections in the browser: click to crash, pause and split",
    .text = "Serves the playground, one page that requests nothing else, and prints its address.\n"
            "It opens the browser if standard output is a terminal and there is a display.\n",
    .options = options_table,
    .run = run,
};
