/* `bellwether peer recover`: the five steps after a split brain among peers.
 *
 *   1 stop       orders every peer to hold: leaders end their work, and no peer starts work
 *   2 compare    a hook reports the data of each side
 *   3 reconcile  a hook makes the sides agree; they are compared again
 *   4 re-elect   lifts the hold; the peers elect a leader
 *   5 resume     checks that one peer leads and works
 *
 * The command repeats the hold while it runs. The hold expires some seconds after the last
 * repetition, so a recovery that dies does not stop the peers forever. A peer that does not respond
 * may still work: this is an error, unless the operator has seen it dead and gives --dead. */
#include "cli/commands.h"
#include "cli/election/record_print.h"
#include "cli/election/sides.h"
#include "cli/peer/client.h"
#include "core/base/error.h"
#include "os/clock.h"
#include "peer/node.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS     100
#define AGAIN_NS    (3 * BW_SEC) /* interval between HOLD orders */
#define DEAD_MAX    16u
#define EXIT_FAILED 1

struct recover {
    struct bw_peer_look look; /* first */
    bw_time wait_ns;
    const char *on_compare, *on_reconcile;
    const char *dead[DEAD_MAX];
    uint32_t dead_count;
    /* State of the recovery. */
    const struct bw_cli_command *command;
    struct bw_peer_client *client;
    struct bw_peer_answer members;
    struct bw_peer_question_to *questions; /* one for each member that must respond */
    uint32_t count;
    bw_time held_at;
    struct bw_sides sides;
    char text[BW_SIDES_TEXT_MAX + 1];
};

static int set_dead(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct recover *r = target;
    (void)option;
    if (r->dead_count == DEAD_MAX) {
        snprintf(why, BW_WHY, "given too often");
        return -1;
    }
    r->dead[r->dead_count++] = value;
    return 0;
}

static const struct bw_option options[] = {
    BW_PEER_LOOK_ROWS,
    {.name = "on-compare",
     .form = "CMD",
     .help = "shell command that prints NAME TOKEN DIGEST for each side (required)",
     .set = bw_set_text,
     .offset = offsetof(struct recover, on_compare)},
    {.name = "on-reconcile",
     .form = "CMD",
     .help =
         "shell command that makes the sides agree (required if the sides differ; default: none)",
     .set = bw_set_text,
     .offset = offsetof(struct recover, on_reconcile)},
    {.name = "dead",
     .form = "NAME",
     .help =
         "peer that you have seen dead, which need not respond; can be repeated (default: none)",
     .set = set_dead},
    {.name = "wait",
     .form = "D",
     .help =
         "maximum time to wait until work has ended, and until a peer leads again (default: 60s)",
     .set = bw_set_duration,
     .offset = offsetof(struct recover, wait_ns)},
    {.name = NULL}};

static void pause_ms(int ms)
{
    struct timespec length = {.tv_nsec = (long)ms * BW_MS};
    nanosleep(&length, NULL);
}

static int fail(const struct recover *r, const char *step, const char *sentence)
{
    fprintf(stderr, "%s: %s: %s; the hold expires within 15s\n", r->command->path, step, sentence);
    return EXIT_FAILED;
}

static void print_step(const struct recover *r, unsigned number, const char *step, const char *line)
{
    if (r->look.json)
        bw_json_line(json_pack("{si ss so}", "number", (int)number, "step", step, "line",
                               bw_json_text(line)));
    else
        printf("%u %-9s  %s\n", number, step, line);
    fflush(stdout);
}

static bool is_dead(const struct recover *r, const struct bw_peer_row *row)
{
    char name[BW_PEER_NAME_MAX + 1];
    bw_peer_client_name(row, name);
    for (uint32_t i = 0; i < r->dead_count; i++)
        if (strcmp(r->dead[i], name) == 0)
            return true;
    return false;
}

/* Finds the members that must respond, and their addresses. */
static int find_members(struct recover *r)
{
    int code = bw_peer_client_members(r->client, &r->members);
    if (code)
        return code;
    r->questions = calloc(r->members.count + 1, sizeof *r->questions);
    for (uint32_t i = 0; r->questions && i < r->members.count; i++) {
        const struct bw_peer_row *row = &r->members.seen[i].row;
        if (!row->left && !is_dead(r, row) &&
            bw_peer_client_address(row, &r->questions[r->count].to))
            r->count++;
    }
    return r->questions ? 0 : BW_EXIT_IO;
}

/* Sends an order to every member. Returns true if all have confirmed it. */
static bool order_all(struct recover *r, enum bw_peer_order_kind kind)
{
    uint32_t obeyed = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        r->questions[i].answered = false;
        r->questions[i].frame.kind = BW_PEER_ORDER;
        r->questions[i].frame.order = (struct bw_peer_hand_over){.kind = (uint8_t)kind};
    }
    bw_peer_client_ask(r->client, r->questions, r->count, false);
    for (uint32_t i = 0; i < r->count; i++)
        obeyed += r->questions[i].answered && r->questions[i].frame.kind == BW_PEER_ORDER &&
                  r->questions[i].frame.order.error == 0;
    r->held_at = bw_clock_boot();
    return obeyed == r->count;
}

struct census {
    uint32_t answered, held, busy, leaders;
    bw_node leader;
};

static void look(struct recover *r, struct census *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < r->count; i++) {
        r->questions[i].answered = false;
        r->questions[i].frame.kind = BW_PEER_QUERY;
        r->questions[i].frame.query = (struct bw_peer_query){.what = BW_PEER_ASK_ELECTIONS};
    }
    bw_peer_client_ask(r->client, r->questions, r->count, false);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct bw_peer_view *view = &r->questions[i].frame.view;
        if (!r->questions[i].answered || r->questions[i].frame.kind != BW_PEER_VIEW ||
            view->what != BW_PEER_ASK_ELECTIONS || view->count == 0)
            continue;
        out->answered++;
        out->held += view->standing[0].held;
        out->busy += view->standing[0].busy;
        out->leaders += view->standing[0].leading;
        if (view->standing[0].leading)
            out->leader = r->questions[i].from;
    }
}

static int stop_all(struct recover *r)
{
    char line[128];
    struct census now = {0};
    bw_time until = bw_clock_boot() + r->wait_ns;
    do {
        order_all(r, BW_PEER_HOLD);
        look(r, &now);
        if (now.held == r->count && now.busy == 0) {
            snprintf(line, sizeof line, "%u peers hold, no work runs", r->count);
            print_step(r, 1, "stop", line);
            return 0;
        }
        pause_ms(LOOK_MS);
    } while (bw_clock_boot() < until);
    snprintf(line, sizeof line, "%u of %u peers respond, %u hold, %u still run work", now.answered,
             r->count, now.held, now.busy);
    return fail(r, "stop", line);
}

/* ---- hooks ---- */

static pid_t start(const char *shell, int *out)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/bin/sh", "sh", "-c", shell, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *out = ends[0];
    if (pid < 0)
        close(ends[0]);
    return pid;
}

/* Runs a shell command and reads its output, and repeats HOLD meanwhile. Returns the exit code, or
 * -1. */
static int run_hook(struct recover *r, const char *shell)
{
    int fd = -1, status = -1;
    size_t used = 0;
    pid_t pid = start(shell, &fd);
    if (pid < 0)
        return -1;
    for (ssize_t got = 1; got != 0;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (bw_clock_boot() - r->held_at > AGAIN_NS)
            order_all(r, BW_PEER_HOLD);
        if (poll(&ready, 1, LOOK_MS) <= 0)
            continue;
        got = read(fd, r->text + used, sizeof r->text - 1 - used);
        used += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno != EINTR)
            break;
    }
    r->text[used] = '\0';
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int compare(struct recover *r)
{
    char line[128];
    uint32_t wrong = 0;
    if (run_hook(r, r->on_compare) != 0)
        return fail(r, "compare", "--on-compare failed");
    if (bw_sides_parse(r->text, &r->sides, &wrong) != 0) {
        snprintf(line, sizeof line, "invalid line %u of --on-compare: expected NAME TOKEN DIGEST",
                 wrong);
        return fail(r, "compare", line);
    }
    snprintf(line, sizeof line, "%u sides, %s", r->sides.count,
             bw_sides_agree(&r->sides) ? "all equal" : "they differ");
    print_step(r, 2, "compare", line);
    return 0;
}

static int reconcile(struct recover *r)
{
    if (bw_sides_agree(&r->sides)) {
        print_step(r, 3, "reconcile", "nothing to do");
        return 0;
    }
    if (!r->on_reconcile)
        return fail(r, "reconcile", "the sides differ; give --on-reconcile");
    if (run_hook(r, r->on_reconcile) != 0)
        return fail(r, "reconcile", "--on-reconcile failed");
    print_step(r, 3, "reconcile", "done; comparing again");
    int code = compare(r);
    if (code == 0 && !bw_sides_agree(&r->sides))
        return fail(r, "reconcile", "the sides still differ");
    return code;
}

static int resume(struct recover *r)
{
    char line[128], name[BW_PEER_NAME_MAX + 1] = "";
    struct census now = {0};
    bw_time until = bw_clock_boot() + r->wait_ns;
    order_all(r, BW_PEER_RESUME);
    print_step(r, 4, "re-elect", "the hold is lifted");
    while (bw_clock_boot() < until) {
        look(r, &now);
        if (now.held > 0)
            order_all(r, BW_PEER_RESUME);
        else if (now.leaders == 1 && now.busy == 1)
            break;
        pause_ms(LOOK_MS);
    }
    if (now.leaders != 1)
        return fail(r, "resume", now.leaders ? "more than one peer leads" : "no leader");
    for (uint32_t i = 0; i < r->members.count; i++)
        if (r->members.seen[i].row.id == now.leader)
            bw_peer_client_name(&r->members.seen[i].row, name);
    snprintf(line, sizeof line, "%s leads", bw_shown(name));
    print_step(r, 5, "resume", line);
    return BW_EXIT_OK;
}

static int run(const struct bw_cli_command *command, int argc, char **argv)
{
    static struct recover r;
    struct bw_parsed parsed;
    r.wait_ns = 60 * BW_SEC;
    r.command = command;
    int code = bw_peer_client_open(&r.client, command, argc, argv, &r.look, &parsed);
    if (code != BW_GO_ON)
        return code;
    if (!r.on_compare)
        code = bw_usage_error(command, "missing option: --on-compare CMD; see '%s --help'",
                              command->path);
    else
        code = find_members(&r);
    if (code == 0)
        code = stop_all(&r);
    if (code == 0)
        code = compare(&r);
    if (code == 0)
        code = reconcile(&r);
    if (code == 0)
        code = resume(&r);
    free(r.questions);
    free(r.members.seen);
    bw_peer_client_close(r.client);
    return code;
}

const struct bw_cli_command bw_command_peer_recover = {
    .name = "recover",
    .path = "bellwether peer recover",
    .usage = "--join ADDR,... --on-compare CMD [--on-reconcile CMD] [options]",
    .about = "recover from a split brain: stop, compare, reconcile, re-elect, resume",
    .text = "Stops the work of every peer and keeps it stopped while the hooks run. --on-compare "
            "prints a\n"
            "line NAME TOKEN DIGEST for each side. If the digests differ, --on-reconcile makes the "
            "sides\n"
            "agree, and they are compared again. Then one peer leads and works again.\n"
            "To start it automatically: bellwether peer --on-split-brain 'bellwether peer recover "
            "...'\n"
            "\n"
            "Exit code: 0; 1 a step failed; 64 invalid usage; 69 no peer responded.\n",
    .options = options,
    .run = run,
};
