/* A periodic job that runs on only one instance. Start as many instances as you like.
 *
 *     periodic_job STORE OUTPUT INTERVAL_MS ROUNDS
 *
 * While it leads, an instance appends a line to OUTPUT every INTERVAL_MS, ROUNDS times. Then it
 * lets another instance continue. The token guards each line: if an instance is stopped, loses its
 * leadership and wakes up in the middle of a round, the guard rejects its write. When the
 * leadership is lost, the task ends at once, because it polls the cancel token. */
#include <bellwether.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

struct job {
    const char *output;
    int interval_ms, rounds;
};

static int append_line(const struct job *job, struct bw_guard *guard, uint64_t token, int round)
{
    char why[BW_GUARD_WHY_MAX + 1];
    if (bw_guard_hold(guard, token, BW_FOREVER, NULL, why) != 0) {
        fprintf(stderr, "periodic_job: %s\n", why);
        return 1;
    }
    FILE *out = fopen(job->output, "a");
    bool good = out && fprintf(out, "token %" PRIu64 " round %d\n", token, round) > 0;
    if (out)
        good = fclose(out) == 0 && good;
    bw_guard_release(guard); /* a newer leader may write from now on */
    return good ? 0 : 1;
}

static int run(struct bw_cancel *cancel, void *arg)
{
    const struct job *job = arg;
    char why[BW_GUARD_WHY_MAX + 1];
    struct bw_guard *guard;
    int failed = 0;
    if (bw_guard_open(&guard, job->output, why) != 0) {
        fprintf(stderr, "periodic_job: %s\n", why);
        return 1;
    }
    for (int round = 1; round <= job->rounds && !failed && !bw_cancelled(cancel); round++) {
        struct pollfd lost = {.fd = bw_cancel_fd(cancel), .events = POLLIN};
        failed = append_line(job, guard, bw_token(bw_cancel_leadership(cancel)), round);
        poll(&lost, 1, job->interval_ms); /* the pause ends early if the leadership is lost */
    }
    bw_guard_close(guard);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: periodic_job STORE OUTPUT INTERVAL_MS ROUNDS\n");
        return 64;
    }
    struct job job = {.output = argv[2], .interval_ms = atoi(argv[3]), .rounds = atoi(argv[4])};
    struct bw_run_options options = bw_run_options_default();
    struct bw_handle *handle;
    int failed = 0;
    options.again = true; /* contend again after a loss */
    options.result = &failed;
    int error = bw_open(argv[1], NULL, &handle);
    if (!error)
        error = bw_run_while_leader(handle, "periodic-job", run, &job, &options);
    if (error)
        fprintf(stderr, "periodic_job: %s: %s\n", bw_error_name(error), bw_why());
    bw_close(handle);
    return error ? 69 : failed;
}
