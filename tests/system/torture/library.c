/* A program of a user of the library, for torture.py: uses every function once. One call of the
 * process fails; so each function that returned an error is called once more, and must succeed.
 *
 *     torture-library URL
 *
 * Exit code: 0 no error; 1 an error was returned, explained, and not repeated; 2 the library broke
 * a promise, which the last line on standard error names. */
#include <bellwether.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define E          "nightly"
#define TIMEOUT_MS 20000

static int errors;

static void broken(const char *what)
{
    fprintf(stderr, "broken promise: %s\n", what);
    exit(2);
}

/* True if the function shall be called once more. */
static bool again(const char *function, int error)
{
    if (error >= 0)
        return false;
    fprintf(stderr, "%s: %s: %s\n", function, bw_error_name(error), bw_why());
    if (bw_why()[0] == '\0')
        broken("an error without an explanation");
    if (++errors > 1)
        broken("a second error, although only one call failed");
    return true;
}

static int task(struct bw_cancel *cancel, void *arg)
{
    uint64_t *token = arg;
    *token = bw_token(bw_cancel_leadership(cancel));
    return bw_cancelled(cancel) ? 1 : 0;
}

static void lead(struct bw_handle *h)
{
    struct bw_leader_info info = bw_leader_info_default();
    struct bw_leadership *l = NULL;
    int error = bw_campaign(h, E, NULL, TIMEOUT_MS, &l);
    if (again("bw_campaign", error))
        error = bw_campaign(h, E, NULL, TIMEOUT_MS, &l);
    if (error < 0)
        broken("bw_campaign failed twice");
    if (!bw_is_leader(l) || bw_token(l) == 0)
        broken("elected, but not the leader");
    error = bw_leader(h, E, &info);
    if (again("bw_leader", error))
        error = bw_leader(h, E, &info);
    if (error < 0)
        broken("bw_leader failed twice");
    if (!bw_is_leader(l) ? false : strcmp(info.id, bw_id(h)) != 0 || info.token != bw_token(l))
        broken("the store does not have the record of the leader");
    again("bw_resign", bw_resign(l)); /* frees it in any case */
}

static void run_task(struct bw_handle *h)
{
    uint64_t token = 0;
    struct bw_run_options options = bw_run_options_default();
    options.wait_ms = TIMEOUT_MS;
    int error = bw_run_while_leader(h, E, task, &token, &options);
    if (again("bw_run_while_leader", error))
        error = bw_run_while_leader(h, E, task, &token, &options);
    if (error < 0)
        broken("bw_run_while_leader failed twice");
    if (token == 0)
        broken("the task did not run");
}

int main(int argc, char **argv)
{
    struct bw_options options = bw_options_default();
    struct bw_handle *h = NULL;
    if (argc != 2)
        return 64;
    options.ttl_ms = 2000;
    int error = bw_open(argv[1], &options, &h);
    if (again("bw_open", error))
        error = bw_open(argv[1], &options, &h);
    if (error < 0)
        broken("bw_open failed twice");
    lead(h);
    run_task(h);
    if (again("bw_close", bw_close(h)) && bw_close(h) < 0)
        broken("bw_close failed twice");
    return errors ? 1 : 0;
}
