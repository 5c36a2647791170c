/* `bellwether sim run --script FILE` with a trace of `bellwether sim explore`: carries out its
 * actions one by one, with the code that the explorer ran, and prints the state after each. */
#include "cli/commands.h"
#include "cli/sim/run.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct replay {
    const struct bw_cli_command *command;
    const struct bw_sim_run_options *options;
    void *state;
    const char *violation; /* NULL: none */
    char why[BW_EXPLORE_WHY];
    uint32_t done; /* number of actions carried out */
};

static int play_step(struct replay *r, uint32_t i)
{
    const struct bw_explore_target *target = r->options->explore;
    const struct bw_script *script = &r->options->script;
    const struct bw_script_place *place = &script->step_places[i];
    struct bw_explore_action action;
    char line[400];
    if (bw_explore_parse(target, script->steps[i], &action) != 0)
        return bw_usage_error(r->command, "%s:%u: unknown action '%.60s' for target %s",
                              place->source, place->line, script->steps[i], target->name);
    enum bw_explore_result result = target->apply(r->state, action, r->why);
    if (result == BW_EXPLORE_IMPOSSIBLE)
        return bw_usage_error(r->command, "%s:%u: '%.60s' is not possible in this state",
                              place->source, place->line, script->steps[i]);
    if (result == BW_EXPLORE_BROKEN) {
        fprintf(stderr, "%s: %s\n", r->command->path, r->why);
        return BW_EXIT_SOFTWARE;
    }
    r->done = i + 1;
    if (result == BW_EXPLORE_VIOLATION)
        r->violation = r->why;
    if (!r->options->json) {
        target->describe(r->state, line, sizeof line);
        printf("%4u  %-20s %s\n", r->done, script->steps[i], line);
        fflush(stdout); /* the next step may trap */
    }
    return BW_GO_ON;
}

static void print_verdict(const struct replay *r)
{
    if (r->options->json) {
        json_t *root = json_pack("{s:s,s:I,s:I,s:s?}", "target", r->options->explore->name,
                                 "actions", (json_int_t)r->done, "violations",
                                 (json_int_t)(r->violation != NULL), "violation", r->violation);
        json_dumpf(root, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(root);
    } else if (r->violation) {
        printf("VIOLATION %s: %s\n", r->options->explore->name, r->violation);
    } else {
        printf("%u actions, no violation\n", r->done);
    }
}

int bw_run_replay(const struct bw_cli_command *command, const struct bw_sim_run_options *options)
{
    struct replay r = {.command = command, .options = options};
    size_t bytes = options->explore->bytes(&options->explore_options);
    int code = BW_GO_ON;
    r.state = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!r.state) {
        fprintf(stderr, "%s: out of memory\n", command->path);
        return BW_EXIT_IO;
    }
    memset(r.state, 0, bytes);
    r.violation = options->explore->begin(r.state, &options->explore_options, r.why);
    for (uint32_t i = 0; i < options->script.steps_count && code == BW_GO_ON && !r.violation; i++)
        code = play_step(&r, i);
    if (code == BW_GO_ON) {
        print_verdict(&r);
        code = r.violation ? BW_EXIT_FAILED : BW_EXIT_OK;
    }
    free(r.state);
    return code;
}
