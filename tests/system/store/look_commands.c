/* The commands status, observe, resign, transfer, candidates and recover, as real processes on a
 * real store. The holder is a client of the store in this test, so that the test controls each of
 * its steps.
 *
 *     look_commands BELLWETHER */
#include "conformance/client.h"
#include "fence/guard.h"
#include "system/kit/scratch.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#define TIMEOUT_MS 60000u

static const char *program;
static char dir[SCRATCH_MAX], url[SCRATCH_MAX + 32], why[BW_GUARD_WHY_MAX + 1];
static struct client a, b;
static bw_token token; /* token of a's leadership */

static int setup(void **state)
{
    (void)state;
    scratch_make(dir);
    snprintf(url, sizeof url, "sqlite:%s/e.db", dir);
    client_open(&a, url, "a");
    client_open(&b, url, "b");
    client_do(&a, BW_STORE_ENTER, "job");
    client_do(&b, BW_STORE_ENTER, "job");
    token = client_acquire(&a, "job", 0).record.token;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&a);
    client_close(&b);
    scratch_remove(dir);
    return 0;
}

/* ---- running a command ---- */

struct command {
    pid_t pid;
    int out;
    size_t used;
    char text[16384];
    int status; /* exit code; -1: still running */
};

static void start(struct command *c, const char *const *words)
{
    int out[2];
    const char *argv[32] = {program};
    for (int i = 0; words[i]; i++)
        argv[i + 1] = words[i];
    memset(c, 0, sizeof *c);
    c->status = -1;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    c->pid = fork();
    if (c->pid == 0) {
        dup2(out[1], 1);
        dup2(out[1], 2);
        if (chdir(dir) != 0)
            _exit(99);
        execv(program, (char **)argv);
        _exit(99);
    }
    close(out[1]);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    c->out = out[0];
}

#define START(c, ...)                                                                              \
    start(c, (const char *const[]){__VA_ARGS__, "--store", url, "--election", "job", NULL})

static void read_some(struct command *c)
{
    ssize_t length = read(c->out, c->text + c->used, sizeof c->text - 1 - c->used);
    if (length > 0)
        c->used += (size_t)length;
    c->text[c->used] = '\0';
}

/* Waits until the command has printed the text; runs our own clients meanwhile. */
static void expect(struct command *c, const char *words)
{
    for (unsigned ms = 0; ms < TIMEOUT_MS && !strstr(c->text, words); ms++) {
        client_idle(&a, 1);
        read_some(c);
    }
    if (!strstr(c->text, words))
        fail_msg("'%s' not in: %s", words, c->text);
}

static void end(struct command *c, int code)
{
    int status;
    pid_t done = 0;
    for (unsigned ms = 0; ms < TIMEOUT_MS && done == 0; ms++) {
        read_some(c);
        done = waitpid(c->pid, &status, WNOHANG);
        if (done == 0)
            client_idle(&a, 1);
    }
    read_some(c);
    close(c->out);
    if (done == 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, &status, 0);
        fail_msg("did not end: %s", c->text);
    }
    c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (c->status != code)
        fail_msg("exit %d: %s", c->status, c->text);
}

/* Returns the record once its note is of this kind. */
static struct bw_store_record await_note(enum bw_note_kind kind)
{
    for (unsigned ms = 0; ms < TIMEOUT_MS; ms++) {
        struct bw_store_record record = client_do(&a, BW_STORE_READ, "job").record;
        if (record.note.kind == kind)
            return record;
        client_idle(&a, 1);
    }
    fail_msg("no note of kind %d came", (int)kind);
    return (struct bw_store_record){0};
}

/* ---- status and observe ---- */

static void status_shows_leader_and_candidates(void **state)
{
    struct command c;
    (void)state;
    START(&c, "status");
    end(&c, 0);
    expect(&c, "leader      a\n");
    expect(&c, "candidates  2: a* b\n");
    client_release(&a, "job", token, true);
    START(&c, "status", "--json");
    end(&c, 1);
    expect(&c, "\"held\":false,\"leader\":null");
    START(&c, "candidates");
    end(&c, 0);
    expect(&c, "a\nb\n");
}

static void observe_reports_every_change_and_its_reason(void **state)
{
    struct command c;
    (void)state;
    START(&c, "observe");
    expect(&c, "found    a token 1\n");
    assert_int_equal(strcspn(c.text, " "), strlen("2026-11-16T10:14:02.118Z"));
    assert_true(c.text[4] == '-' && c.text[10] == 'T' && c.text[23] == 'Z');
    client_renew(&a, "job", token);
    client_note(&b, "job", BW_NOTE_RESIGN, "a");
    expect(&c, "request  a token 1: b asks it to step down\n");
    client_release(&a, "job", token, true);
    expect(&c, "lost     a token 1: resigned, after at least ");
    client_acquire(&b, "job", 0);
    expect(&c, "elected  b token 2, after ");
    expect(&c, " without a leader\n");
    kill(c.pid, SIGINT);
    end(&c, 0);
    assert_null(strstr(c.text, "renew"));
}

static void observe_once_ends_with_the_first_change(void **state)
{
    struct command c;
    (void)state;
    START(&c, "observe", "--once", "--json");
    expect(&c, "\"event\":\"found\"");
    client_release(&a, "job", token, true);
    end(&c, 0);
    expect(&c, "{\"time\":\"20");
    expect(&c, "\"led_ms\":");
    expect(&c, "\"event\":\"lost\",\"election\":\"job\",\"reason\":\"released\",\"leader\":\"a\"");
}

static void observe_reports_leader_that_stops_renewing(void **state)
{
    struct command c;
    (void)state;
    struct bw_store_request request = client_request(&a, BW_STORE_RENEW, "job");
    request.token = token;
    request.ttl_ns = bw_time_max(a.ops->ttl_min_ns, 200 * BW_MS);
    client_ask(&a, &request);
    START(&c, "observe", "--once");
    end(&c, 0);
    expect(&c, "silent   a token 1: not renewed for a whole TTL");
}

/* ---- resign and transfer ---- */

static void resign_waits_until_leader_has_released(void **state)
{
    struct command c;
    (void)state;
    START(&c, "resign", "--id", "ops");
    struct bw_store_record record = await_note(BW_NOTE_RESIGN);
    assert_string_equal(record.note.from, "ops");
    assert_true(record.held); /* a command never removes the holder's record */
    read_some(&c);
    assert_string_equal(c.text, "");
    client_release(&a, "job", token, true);
    client_idle(&a, 20);
    read_some(&c);
    assert_string_equal(c.text, ""); /* there is another candidate: it waits for the new leader */
    client_acquire(&b, "job", 0);
    end(&c, 0);
    expect(&c, "resigned: a no longer leads with token 1; b leads with token 2\n");
}

static void resign_reports_when_there_is_no_new_leader(void **state)
{
    struct command c;
    (void)state;
    START(&c, "resign", "-w", "1s");
    await_note(BW_NOTE_RESIGN);
    client_release(&a, "job", token, true);
    end(&c, 0);
    expect(&c,
           "resigned: a no longer leads; no candidate has acquired leadership in time (--wait)\n");
    client_do(&a, BW_STORE_LEAVE, "job");
    client_do(&b, BW_STORE_LEAVE, "job");
    token = client_acquire(&a, "job", 0).record.token;
    START(&c, "resign");
    await_note(BW_NOTE_RESIGN);
    client_release(&a, "job", token, true);
    end(&c, 0);
    expect(&c, "resigned: a no longer leads; there are no candidates now\n");
}

static void status_shows_note_only_while_it_is_valid(void **state)
{
    struct command c;
    (void)state;
    client_note(&b, "job", BW_NOTE_RESIGN, "a");
    START(&c, "status");
    end(&c, 0);
    expect(&c, "note        resign to a, from b\n");
    client_release(&a, "job", token, true);
    START(&c, "status");
    end(&c, 1);
    assert_null(strstr(c.text, "note"));
    client_acquire(&a, "job",
                   0); /* the same holder again: the note was for its earlier leadership */
    START(&c, "status");
    end(&c, 0);
    assert_null(strstr(c.text, "note"));
    START(&c, "status", "--json");
    end(&c, 0);
    expect(&c, "\"note\":null");
    client_note(&b, "job", BW_NOTE_TRANSFER, "b");
    client_note(&a, "job", BW_NOTE_PREPARE, "b");
    START(&c, "status");
    end(&c, 0);
    expect(&c, "note        prepare to b, from a\n");
    client_note(&b, "job", BW_NOTE_REFUSE, "a");
    START(&c, "status");
    end(&c, 0);
    assert_null(strstr(c.text, "note"));
}

static void resign_reports_leader_that_does_not_answer(void **state)
{
    struct command c;
    (void)state;
    START(&c, "resign", "-w", "50ms");
    end(&c, 75);
    expect(&c, "timed out: a still leads");
    START(&c, "resign", "--wait", "0");
    end(&c, 0);
    START(&c, "transfer", "--to", "b", "-w", "50ms");
    end(&c, 75);
    expect(&c, "timed out: the leader has not reacted to the request yet");
}

static void transfer_reports_the_outcome(void **state)
{
    struct command c;
    (void)state;
    START(&c, "transfer", "--to", "b");
    assert_string_equal(await_note(BW_NOTE_TRANSFER).note.to, "b");
    client_note(&a, "job", BW_NOTE_PREPARE, "b");
    client_note(&b, "job", BW_NOTE_READY, "a");
    client_release(&a, "job", token, true);
    client_acquire(&b, "job", 0);
    end(&c, 0);
    expect(&c, "transferred: b leads with token 2");
    START(&c, "transfer", "--to", "b");
    end(&c, 0);
}

static void leader_stays_when_transfer_is_refused(void **state)
{
    struct command c;
    (void)state;
    START(&c, "transfer", "--to", "b");
    await_note(BW_NOTE_TRANSFER);
    client_note(&a, "job", BW_NOTE_PREPARE, "b");
    client_note(&b, "job", BW_NOTE_REFUSE, "a");
    end(&c, 1);
    expect(&c, "refused: the candidate is not ready");
    START(&c, "transfer", "--to", "nobody");
    end(&c, 66);
    expect(&c, "no candidate 'nobody' in this election");
}

static void transfer_distinguishes_silent_candidate_from_silent_leader(void **state)
{
    struct command c;
    (void)state;
    START(&c, "transfer", "--to", "b", "-w", "1s");
    await_note(BW_NOTE_TRANSFER);
    client_note(&a, "job", BW_NOTE_PREPARE, "b");
    end(&c, 75);
    expect(&c, "timed out: the candidate has not confirmed yet that it is ready");
}

/* ---- recovery ---- */

static void write_text(const char *name, const char *text)
{
    char path[SCRATCH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static struct bw_guard *ledger(void)
{
    char path[SCRATCH_MAX + 32];
    struct bw_guard *guard;
    snprintf(path, sizeof path, "%s/ledger", dir);
    assert_int_equal(bw_guard_open(&guard, path, why), 0);
    return guard;
}

#define COMPARE "echo x 1 $(cat x); echo y 1 $(cat y)"

/* The holder hands over when asked: PREPARE, wait for READY, release. */
static void hand_over(void)
{
    struct bw_store_record record = await_note(BW_NOTE_TRANSFER);
    client_note(&a, "job", BW_NOTE_PREPARE, record.note.to);
    await_note(BW_NOTE_READY);
    client_release(&a, "job", token, true);
}

static void recovery_stops_compares_reconciles_and_hands_over(void **state)
{
    struct command c;
    struct bw_guard *guard = ledger();
    (void)state;
    write_text("x", "1");
    write_text("y", "2");
    assert_int_equal(bw_guard_check(guard, token, NULL, why), 0);
    START(&c, "recover", "--token-file", "ledger", "--on-compare", COMPARE, "--on-reconcile",
          "cat >sides; cp x y; while [ ! -e go ]; do sleep 0.01; done");
    hand_over();
    expect(&c, "2 sides differ: x token 1 1, y token 1 2");
    /* While it reconciles, no candidate can acquire, and only its own token may act. */
    assert_int_equal(client_acquire(&b, "job", 0).outcome, BW_OUTCOME_REFUSED);
    assert_int_equal(bw_guard_check(guard, 1, NULL, why), BW_ESTALE);
    assert_int_equal(bw_guard_check(guard, 2, NULL, why), 0);
    assert_int_equal(bw_guard_check(guard, 3, NULL, why), BW_EBUSY);
    write_text("go", "");
    expect(&c, "3/5 reconcile  ok");
    enum bw_outcome outcome = BW_OUTCOME_REFUSED;
    for (unsigned ms = 0; ms < TIMEOUT_MS && outcome != BW_OUTCOME_DONE; ms++) {
        client_idle(&b, 1);
        outcome = client_acquire(&b, "job", 0).outcome;
    }
    assert_int_equal(outcome, BW_OUTCOME_DONE);
    end(&c, 0);
    expect(&c, "4/5 re-elect   ok      b leads with token 3");
    expect(&c, "5/5 resume     ok");
    assert_int_equal(bw_guard_check(guard, 3, NULL, why), 0);
    bw_guard_close(guard);
}

static void recovery_can_be_repeated_after_a_failed_step(void **state)
{
    struct command c;
    struct bw_guard *guard = ledger();
    (void)state;
    write_text("x", "1");
    write_text("y", "2");
    START(&c, "recover", "--token-file", "ledger", "--on-compare", COMPARE);
    hand_over();
    end(&c, 1);
    expect(&c, "3/5 reconcile  FAILED  the sides differ");
    assert_null(strstr(c.text, "4/5"));
    assert_int_equal(bw_guard_check(guard, 99, NULL, why), BW_EBUSY);
    client_do(&a, BW_STORE_LEAVE, "job");
    client_do(&b, BW_STORE_LEAVE, "job");
    START(&c, "recover", "--token-file", "ledger", "--on-compare", "echo nonsense");
    end(&c, 1);
    expect(&c, "invalid line 1 of the --on-compare hook: expected NAME TOKEN DIGEST");
    START(&c, "recover", "--token-file", "ledger", "--on-compare", "exit 3");
    end(&c, 1);
    expect(&c, "exit code 3");
    START(&c, "recover", "--token-file", "ledger", "--on-compare", COMPARE, "--on-reconcile",
          "cp x y");
    end(&c, 0);
    expect(&c, "4/5 re-elect   ok      no candidates now");
    assert_int_equal(bw_guard_check(guard, 99, NULL, why), 0);
    START(&c, "recover", "--token-file", "ledger"); /* 99: the store does not know this token */
    end(&c, 1);
    expect(&c, "the store's token counter is behind");
    bw_guard_close(guard);
}

static void interrupted_recovery_kills_its_commands_and_releases(void **state)
{
    struct command c;
    (void)state;
    START(&c, "recover", "--on-compare",
          "trap '' TERM; echo hook >&2; while :; do sleep 0.05; done");
    hand_over();
    expect(&c, "hook");
    kill(c.pid, SIGTERM);
    end(&c, 130);
    struct bw_store_record record = client_do(&a, BW_STORE_READ, "job").record;
    assert_false(record.held);
    assert_true(record.clean);
}

static void recovery_stops_at_first_step_when_leader_stays(void **state)
{
    struct command c;
    (void)state;
    START(&c, "recover", "-w", "100ms");
    end(&c, 1);
    expect(&c, "1/5 stop       FAILED  a still leads");
    assert_true(client_do(&a, BW_STORE_READ, "job").record.held);
}

#define START_RECOVER(c, ...)                                                                      \
    start(c, (const char *const[]){"recover", "--store", url, "-w", "100ms", __VA_ARGS__, NULL})

static void recovery_takes_the_election_as_its_operand(void **state)
{
    struct command c;
    (void)state;
    START_RECOVER(&c, "job");
    end(&c, 1);
    expect(&c, "1/5 stop       FAILED  a still leads");
    START_RECOVER(&c, "job", "--election", "job");
    end(&c, 1);
    setenv("BELLWETHER_ELECTION", "other", 1); /* the command line precedes the environment */
    START_RECOVER(&c, "job");
    end(&c, 1);
    expect(&c, "1/5 stop       FAILED  a still leads");
    unsetenv("BELLWETHER_ELECTION");
    START_RECOVER(&c, "job", "--election", "other");
    end(&c, 64);
    expect(&c, "two elections: 'job' and --election other; give one");
    START_RECOVER(&c, "job", "other");
    end(&c, 64);
    expect(&c, "unexpected argument 'other' after the election");
}

/* b takes over from a, whose work runs on another host. */
static void leave_unconfirmed_work_on_another_host(void)
{
    struct bw_store_request renew = client_request(&a, BW_STORE_RENEW, "job");
    renew.token = token;
    renew.containment = "pidns:4711:12@another-boot-1-1";
    uint64_t version = client_ask(&a, &renew).record.version;
    struct bw_store_reply taken = client_acquire(&b, "job", version);
    assert_true(taken.record.unconfirmed[0] != '\0');
    client_release(&b, "job", taken.record.token, true);
    client_do(&a, BW_STORE_LEAVE, "job");
    client_do(&b, BW_STORE_LEAVE, "job");
}

static void unreachable_owed_work_is_settled_by_operator(void **state)
{
    struct command c;
    char hint[2 * SCRATCH_MAX];
    (void)state;
    leave_unconfirmed_work_on_another_host();
    START(&c, "status");
    end(&c, 1);
    expect(&c, "lease       free; work of earlier leaders is not confirmed dead\n");
    expect(&c, "unconfirmed work of a may still run (pidns:4711:12@another-boot-1-1)\n");
    snprintf(hint, sizeof hint,
             "after you have seen it dead: bellwether recover --election job --store %s "
             "--settle ID\n",
             url);
    expect(&c, hint);
    START(&c, "recover", "--settle", "somebody-else");
    end(&c, 1);
    expect(&c, "--settle somebody-else: no unconfirmed work of this holder; nothing was changed");
    START(&c, "recover");
    end(&c, 1);
    expect(&c, "give --settle ID for each holder");
    START(&c, "recover", "--settle", "a");
    end(&c, 0);
    START(&c, "status");
    end(&c, 1);
    expect(&c, "lease       free; the last work is confirmed dead\n");
    assert_null(strstr(c.text, "unconfirmed"));
}

static void settle_stops_no_leader_when_no_work_is_unconfirmed(void **state)
{
    struct command c;
    (void)state;
    START(&c, "recover", "--settle", "a", "-w", "100ms");
    end(&c, 0);
    expect(&c, "no work is unconfirmed; nothing was changed\n");
    struct bw_store_record record = client_do(&b, BW_STORE_READ, "job").record;
    assert_true(record.held);
    assert_int_equal(record.token, token);
    assert_int_equal(record.note.kind, BW_NOTE_NONE);
}

static void status_says_that_recover_stops_the_current_leader(void **state)
{
    struct command c;
    (void)state;
    leave_unconfirmed_work_on_another_host();
    assert_int_equal(client_acquire(&b, "job", 0).outcome, BW_OUTCOME_DONE);
    START(&c, "status");
    end(&c, 0);
    expect(&c, "recover makes b stop its work first");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(status_shows_leader_and_candidates),
        TEST(observe_reports_every_change_and_its_reason),
        TEST(observe_once_ends_with_the_first_change),
        TEST(observe_reports_leader_that_stops_renewing),
        TEST(resign_reports_when_there_is_no_new_leader),
        TEST(status_shows_note_only_while_it_is_valid),
        TEST(unreachable_owed_work_is_settled_by_operator),
        TEST(settle_stops_no_leader_when_no_work_is_unconfirmed),
        TEST(status_says_that_recover_stops_the_current_leader),
        TEST(resign_waits_until_leader_has_released),
        TEST(resign_reports_leader_that_does_not_answer),
        TEST(transfer_reports_the_outcome),
        TEST(leader_stays_when_transfer_is_refused),
        TEST(transfer_distinguishes_silent_candidate_from_silent_leader),
        TEST(recovery_stops_compares_reconciles_and_hands_over),
        TEST(recovery_can_be_repeated_after_a_failed_step),
        TEST(interrupted_recovery_kills_its_commands_and_releases),
        TEST(recovery_stops_at_first_step_when_leader_stays),
        TEST(recovery_takes_the_election_as_its_operand),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: look_commands BELLWETHER\n");
        return 64;
    }
    program = realpath(argv[1], NULL); /* commands run in another directory */
    if (!program) {
        perror(argv[1]);
        return 66;
    }
    return cmocka_run_group_tests_name("look commands", tests, NULL, NULL);
}
