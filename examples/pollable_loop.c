/* Leader election in a program with its own event loop: one descriptor to poll, and callbacks that
 * run only inside bw_dispatch, in the loop's thread.
 *
 *     pollable_loop STORE ID LED_TICKS
 *
 * While it leads, it ticks every 20 ms; after LED_TICKS ticks it resigns and ends. SIGTERM ends it
 * earlier, cleanly. It prints a line per event. */
#include <bellwether.h>

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define TICK_MS 20

struct program {
    int ticks; /* ticks left */
    bool leading, ends;
};

static void on_elected(struct bw_leadership *l, uint64_t token, void *context)
{
    struct program *program = context;
    program->leading = true;
    printf("elected %s token %" PRIu64 "\n", bw_election(l), token);
}

static void on_lost(struct bw_leadership *l, enum bw_loss reason, void *context)
{
    struct program *program = context;
    program->leading = false;
    printf("lost %s\n", bw_loss_name(reason));
    bw_release(l); /* the ticks have stopped; contend again */
}

static void on_leader(struct bw_leadership *l, const char *leader, uint64_t token,
                      const char *value, void *context)
{
    (void)l;
    (void)token;
    (void)value;
    (void)context;
    printf("leader %s\n", leader[0] ? leader : "-");
}

static void loop(struct bw_handle *handle, const struct bw_leadership *l, struct program *program,
                 int signal_fd)
{
    struct pollfd fds[] = {{.fd = bw_fd(handle), .events = POLLIN},
                           {.fd = signal_fd, .events = POLLIN}};
    while (program->ticks > 0 && !program->ends) {
        int ready = poll(fds, 2, program->leading ? TICK_MS : -1);
        if (ready == 0 && bw_is_leader(l))
            program->ticks--;
        if (fds[0].revents)
            bw_dispatch(handle);
        if (fds[1].revents)
            program->ends = true;
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    struct bw_options options = bw_options_default();
    struct bw_campaign_options campaign = bw_campaign_options_default();
    struct bw_leadership *leadership;
    struct bw_handle *handle;
    sigset_t term;
    if (argc != 4) {
        fprintf(stderr, "usage: pollable_loop STORE ID LED_TICKS\n");
        return 64;
    }
    struct program program = {.ticks = atoi(argv[3])};
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    options.id = argv[2];
    options.pollable = true;
    options.elected = on_elected;
    options.lost = on_lost;
    options.leader_changed = on_leader;
    campaign.context = &program;
    if (bw_open(argv[1], &options, &handle) != 0 ||
        bw_contend(handle, "loop", &campaign, &leadership) != 0) {
        fprintf(stderr, "pollable_loop: %s\n", bw_why());
        return 69;
    }
    int signal_fd = signalfd(-1, &term, SFD_CLOEXEC);
    loop(handle, leadership, &program, signal_fd);
    bw_resign(leadership);
    bw_close(handle);
    close(signal_fd);
    printf("done\n");
    return 0;
}
