/* Runs random plans, crashes them and shortens those that fail; see plan.h. */
#include "system/disk/plan.h"

#include "system/kit/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define DEPTH_MAX   2u
#define ORDERS_MAX  3000u /* of one small plan */
#define SHORTEN_S   30
#define POINTS_MAX  128u
#define POINT_SIZE  64u
#define POINT_TRIES 3u /* crashes of one plan at one point */

struct point { /* a named place (plan_point) */
    char name[POINT_SIZE];
    uint32_t tries; /* crashes there */
};

struct shared { /* between the processes of one run */
    struct schedule_path path;
    uint64_t crashes, recoveries, failures, changes;
    struct point point[POINTS_MAX];
};

static struct {
    const struct plan_model *model;
    struct plan plan;
    struct bw_rng rng;
    uint32_t depth, at_step;
    uint64_t changes;
    uint32_t directories;
    bool failed, quiet, traces;
    char root[SCRATCH_MAX];
    struct shared *shared;
    char crash_text[600];
    struct point point[POINTS_MAX]; /* in this process */
} p;

static const char *const losses[] = {"nothing is lost", "all is lost", "the latest is lost",
                                     "any part is lost", "one sector is lost"};

static void list_files(void)
{
    char path[SCRATCH_MAX + 64 + 256];
    struct stat status;
    const struct dirent *entry;
    DIR *dir = opendir(disk_directory());
    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s", disk_directory(), entry->d_name);
        if (entry->d_name[0] != '.' && stat(path, &status) == 0)
            printf("#   %s: %lld bytes\n", entry->d_name, (long long)status.st_size);
    }
    if (dir)
        closedir(dir);
}

void plan_violation(const char *format, ...)
{
    va_list arguments;
    if (!p.quiet) {
        printf("# violation, seed %" PRIu64 ": ", p.plan.seed);
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
        printf("\n#   at step %u%s\n", p.at_step, p.crash_text);
        list_files();
        fflush(stdout);
    }
    _exit(1);
}

void plan_trace(const char *format, ...)
{
    va_list arguments;
    if (!p.traces || p.quiet)
        return;
    printf("#%*s", 1 + 4 * (int)p.depth, "");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

struct bw_rng *plan_rng(void)
{
    return &p.rng;
}

void plan_stop_crashing(void)
{
    p.plan.check_one_in = 0;
}

bool plan_has_failed(void)
{
    return p.failed;
}

/* ---- crashes ---- */

static void new_directory(char path[SCRATCH_MAX + 32])
{
    snprintf(path, SCRATCH_MAX + 32, "%.220s/%u-%d", p.root, ++p.directories, (int)getpid());
    if (mkdir(path, 0700) != 0)
        plan_violation("cannot make %s: %s", path, strerror(errno));
}

static void crash_text(const char *how)
{
    size_t used = strlen(p.crash_text);
    plan_trace("%s", how);
    snprintf(p.crash_text + used, sizeof p.crash_text - used, "; %s", how);
}

void plan_end(void)
{
    fflush(stdout);
    scratch_remove(p.root);
    _exit(0);
}

static int before(enum disk_op op, const char *name);

void plan_crash(uint64_t draw)
{
    char to[SCRATCH_MAX + 32], from[SCRATCH_MAX + 32], how[80];
    snprintf(from, sizeof from, "%s", disk_directory());
    new_directory(to);
    p.shared->crashes++;
    if (draw % 5 == 0) {
        crash_text("killed");
        disk_kill(to);
    } else {
        enum disk_loss data = draw / 5 % DISK_LOSSES, names = draw / 25 % DISK_ONE_SECTOR_LOST;
        snprintf(how, sizeof how, "power failure: %s, of names %s", losses[data], losses[names]);
        crash_text(how);
        disk_power_failure(to, data, names, &p.rng);
    }
    if (p.depth == 0)
        scratch_remove(from);
    schedule_restart(bw_rng_next(&p.rng));
    p.model->recover();
    p.shared->recoveries++;
}

struct torn { /* a write that the crash cuts off */
    int fd;
    const void *bytes;
    size_t length;
    long long at;
};

/* In a copy of the process of the plan: it crashes, recovers and goes on. */
static _Noreturn void crash_and_go_on(const char *where, const struct torn *torn, uint64_t draw)
{
    char mine[SCRATCH_MAX], how[120];
    snprintf(mine, sizeof mine, "%.200s/c%d", p.root, (int)getpid());
    snprintf(p.root, sizeof p.root, "%s", mine);
    mkdir(p.root, 0700);
    snprintf(how, sizeof how, "crash %u %s", ++p.depth, where);
    crash_text(how);
    p.plan.fail_at = 0;
    bw_rng_init(&p.rng, draw);
    if (torn)
        disk_tear(torn->fd, torn->bytes, torn->length, torn->at);
    plan_crash(draw);
    p.model->go_on(&p.rng);
    p.model->end();
    plan_end();
}

/* _Fork, because a model may replace fork (forked_writer.h). */
static void try_crash(const char *where, const struct torn *torn)
{
    uint64_t draw = bw_rng_next(&p.rng);
    int status = 0;
    fflush(stdout);
    pid_t pid = _Fork();
    if (pid < 0)
        plan_violation("cannot fork: %s", strerror(errno));
    if (pid == 0)
        crash_and_go_on(where, torn, draw);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        plan_violation("signal %d after a crash %s", WTERMSIG(status), where);
    if (status != 0)
        _exit(1);
}

/* Whether a coin decides for a crash at this change. */
static bool is_time(void)
{
    uint32_t one_in = p.plan.check_one_in;
    return one_in && p.depth < DEPTH_MAX &&
           bw_rng_below(&p.rng, p.depth ? 8 * one_in : one_in) == 0;
}

static struct point *point_of(struct point *points, const char *name)
{
    uint32_t i = 0;
    while (i < POINTS_MAX && points[i].name[0] && strcmp(points[i].name, name) != 0)
        i++;
    if (i == POINTS_MAX)
        plan_violation("too many named points");
    snprintf(points[i].name, sizeof points[i].name, "%s", name);
    return &points[i];
}

/* A plan crashes at a quarter of the points, which its seed chooses: a plan passes some of them
 * hundreds of times, others once. */
static bool is_chosen(const char *name)
{
    uint64_t hash = p.plan.seed * 0x9e3779b97f4a7c15u;
    for (const char *at = name; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    struct point *mine = point_of(p.point, name);
    if (p.plan.check_one_in == 0 || p.depth >= DEPTH_MAX || (hash >> 32) % 4 != 0 ||
        mine->tries >= POINT_TRIES || bw_rng_below(&p.rng, p.depth ? 24 : 3) != 0)
        return false;
    mine->tries++;
    point_of(p.shared->point, name)->tries++;
    return true;
}

void plan_torn(const char *name, int fd, const void *bytes, size_t length, long long at)
{
    struct torn torn = {fd, bytes, length, at};
    char where[POINT_SIZE + 8];
    schedule_point();
    if (!is_chosen(name))
        return;
    snprintf(where, sizeof where, "at %s", name);
    try_crash(where, bytes ? &torn : NULL);
}

void plan_point(const char *name)
{
    plan_torn(name, -1, NULL, 0, -1);
}

static int before(enum disk_op op, const char *name)
{
    schedule_point();
    p.changes++;
    p.shared->changes++;
    plan_trace("%s %s", disk_op_name(op), name);
    char where[120];
    snprintf(where, sizeof where, "before %s %s", disk_op_name(op), name);
    if (is_time())
        try_crash(where, NULL);
    if (p.plan.fail_at == 0 || p.changes != p.plan.fail_at)
        return 0;
    p.failed = true;
    p.shared->failures++;
    char how[120];
    snprintf(how, sizeof how, "%s %s failed with %s", disk_op_name(op), name,
             p.plan.fail_with == DISK_SHORT ? "a short write" : strerror(p.plan.fail_with));
    crash_text(how);
    return p.plan.fail_with;
}

void plan_died(void)
{
    if (!p.failed)
        plan_violation("the program ended itself although no operation failed");
    p.plan.fail_at = 0;
    plan_crash(bw_rng_next(&p.rng));
    p.model->end();
    plan_end();
}

/* ---- plans ---- */

static void run_plan(void)
{
    char directory[SCRATCH_MAX + 32];
    bw_rng_init(&p.rng, p.plan.seed * 2654435761u + 1);
    snprintf(directory, sizeof directory, "%s/0", p.root);
    mkdir(directory, 0700);
    disk_use(directory);
    disk_hook(before);
    p.model->begin(&p.plan);
    for (p.at_step = 0; p.at_step < p.plan.steps; p.at_step++) {
        plan_trace("step %u: %s", p.at_step, p.model->kinds[p.plan.step[p.at_step].kind]);
        p.model->take(&p.plan.step[p.at_step]);
    }
    p.model->end();
    plan_end();
}

/* Runs the plan in a process of its own. Returns true if it passed. */
static bool passes(bool quiet, struct schedule_path *path)
{
    fflush(stdout);
    scratch_make(p.root);
    pid_t pid = _Fork();
    if (pid == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        p.quiet = quiet;
        if (quiet || p.plan.fail_at)
            dup2(nothing, STDERR_FILENO);
        schedule_restart(p.plan.seed);
        if (path)
            schedule_follow(path);
        run_plan();
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status) && !quiet)
        printf("# violation, seed %" PRIu64 ": signal %d\n", p.plan.seed, WTERMSIG(status));
    scratch_remove(p.root);
    return status == 0;
}

static void draw(uint64_t seed)
{
    struct bw_rng rng;
    bw_rng_init(&rng, seed);
    p.plan = (struct plan){.seed = seed};
    p.model->draw(&p.plan, &rng);
}

/* Removes every step without which the plan still fails, as far as it can in SHORTEN_S. */
static void shorten(void)
{
    time_t until = time(NULL) + SHORTEN_S;
    for (uint32_t i = p.plan.steps; i-- > 0 && time(NULL) < until;) {
        struct plan longer = p.plan;
        memmove(&p.plan.step[i], &p.plan.step[i + 1],
                (p.plan.steps - i - 1) * sizeof p.plan.step[0]);
        p.plan.steps--;
        if (passes(true, NULL))
            p.plan = longer;
    }
}

static void report(bool shortens)
{
    if (shortens)
        shorten();
    printf("# the shortest plan found:");
    for (uint32_t i = 0; i < p.plan.steps; i++)
        printf(" %s", p.model->kinds[p.plan.step[i].kind]);
    printf("\n");
    passes(false, NULL);
}

static bool explore(uint64_t seed, uint64_t *orders)
{
    draw(seed);
    p.plan.steps = p.plan.steps > 8 ? 8 : p.plan.steps;
    p.plan.check_one_in = 40;
    p.shared->path = (struct schedule_path){.preemptions_max = 2};
    for (unsigned i = 0; i < ORDERS_MAX; i++) {
        ++*orders;
        if (!passes(false, &p.shared->path)) {
            printf("# found in order %u of seed %" PRIu64 "\n", i + 1, seed);
            return false;
        }
        if (!schedule_next(&p.shared->path))
            break;
    }
    return true;
}

static int conclude(unsigned number, bool good, const char *text)
{
    printf("%s %u - %s\n", good ? "ok" : "not ok", number, text);
    return good ? 0 : 1;
}

/* ", N named points", if the model has such points. */
static void points_text(char *text, size_t size)
{
    unsigned count = 0;
    text[0] = '\0';
    while (count < POINTS_MAX && p.shared->point[count].name[0])
        count++;
    if (count)
        snprintf(text, size, " at %u named points and all changes", count);
}

static int run_seeds(unsigned number, uint64_t from, uint64_t to)
{
    char text[256], points[64];
    *p.shared = (struct shared){0};
    for (uint64_t seed = from; seed <= to; seed++) {
        draw(seed);
        if (passes(false, NULL))
            continue;
        printf("# seed %" PRIu64 " failed; repeat it with --seed %" PRIu64 "\n", seed, seed);
        report(true);
        return conclude(number, false, p.model->name);
    }
    points_text(points, sizeof points);
    snprintf(text, sizeof text,
             "%s: seeds %" PRIu64 " to %" PRIu64 ", %" PRIu64 " changes, %" PRIu64
             " crashes%s, %" PRIu64 " failed operations",
             p.model->name, from, to, p.shared->changes, p.shared->crashes, points,
             p.shared->failures);
    return conclude(number, true, text);
}

static int run_orders(unsigned number, uint64_t from, uint64_t to)
{
    char text[256];
    uint64_t orders = 0;
    bool good = true;
    *p.shared = (struct shared){0};
    for (uint64_t seed = from; good && seed <= to; seed++)
        good = explore(seed, &orders);
    snprintf(text, sizeof text,
             "%s, every order: plans %" PRIu64 " to %" PRIu64 ", %" PRIu64 " orders, %" PRIu64
             " crashes",
             p.model->name, from, to, orders, p.shared->crashes);
    return conclude(number, good, text);
}

static void range(const char *text, uint64_t *from, uint64_t *to)
{
    char *end = NULL;
    *from = *to = strtoull(text, &end, 10);
    if (strncmp(end, "..", 2) == 0)
        *to = strtoull(end + 2, NULL, 10);
}

int plan_main(int argc, char **argv, const struct plan_model *model, uint64_t short_seeds,
              uint64_t short_orders)
{
    uint64_t from = 1, to = short_seeds, first = 1, last = short_orders;
    p.model = model;
    p.shared =
        mmap(NULL, sizeof *p.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p.shared == MAP_FAILED)
        return 70;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            range(argv[i + 1], &from, &to), last = 0, p.traces = true;
        else if (strcmp(argv[i], "--seeds") == 0)
            range(argv[i + 1], &from, &to), last = 0;
        else if (strcmp(argv[i], "--orders") == 0)
            range(argv[i + 1], &first, &last), to = 0;
        else
            return 64;
    }
    int failed = 0;
    unsigned number = 0;
    if (to)
        failed |= run_seeds(++number, from, to);
    if (last)
        failed |= run_orders(++number, first, last);
    printf("1..%u\n", number);
    return failed;
}
