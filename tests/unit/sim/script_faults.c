/* Tests fault scripts: events happen as written, in order of time, and an invalid line is reported
 * with its place and what is expected. */
#include "unit/unit.h"

#include "core/base/error.h"
#include "sim/faults/script.h"

static struct bw_script script;
static struct bw_sim_config config;
static char why[BW_SCRIPT_WHY];

static int fresh(void **state)
{
    (void)state;
    bw_script_init(&script);
    memset(&config, 0, sizeof config);
    config.nodes = 5;
    why[0] = '\0';
    return 0;
}

static int done(void **state)
{
    (void)state;
    bw_script_deinit(&script);
    return 0;
}

static int read_text(const char *text)
{
    int error = bw_script_parse(&script, text, "story.txt", why);
    return error ? error : bw_script_finish(&script, &config, why);
}

static void script_events_are_sorted_by_time(void **state)
{
    (void)state;
    assert_int_equal(read_text("at 5s restart 3\nat 2s crash 3 # first\n\nat 2s loss 10%\n"), 0);
    assert_int_equal(config.faults_count, 3);
    assert_int_equal(config.faults[0].kind, BW_FAULT_CRASH);
    assert_int_equal(config.faults[0].at, 2 * BW_SEC);
    assert_int_equal(config.faults[0].node, 3);
    assert_int_equal(config.faults[1].kind, BW_FAULT_LOSS);
    assert_float_equal(config.faults[1].rate, 0.1, 1e-12);
    assert_int_equal(config.faults[2].kind, BW_FAULT_RESTART);
}

static void event_with_a_span_ends_at_its_second_time(void **state)
{
    (void)state;
    assert_int_equal(read_text("at 1s..4s pause leader\nat 2s..3s cut 1>3\n"), 0);
    assert_int_equal(config.faults_count, 4);
    assert_int_equal(config.faults[0].kind, BW_FAULT_PAUSE);
    assert_int_equal(config.faults[0].node, BW_NODE_NONE);
    assert_int_equal(config.faults[1].kind, BW_FAULT_CUT);
    assert_int_equal(config.faults[2].kind, BW_FAULT_MEND);
    assert_int_equal(config.faults[2].node, 1);
    assert_int_equal(config.faults[2].peer, 3);
    assert_int_equal(config.faults[3].kind, BW_FAULT_RESUME);
    assert_int_equal(config.faults[3].at, 4 * BW_SEC);
}

static void partition_assigns_every_node_to_its_group(void **state)
{
    (void)state;
    assert_int_equal(read_text("at 1s partition 1,2/4,5\n"), 0);
    const uint8_t *groups = config.faults[0].groups;
    assert_true(groups[1] == 1 && groups[2] == 1 && groups[4] == 2 && groups[5] == 2);
    assert_int_equal(groups[3], 0);
}

static void every_script_verb_parses(void **state)
{
    (void)state;
    const char *text = "at 1s crash 1\nat 1s restart 1\nat 1s pause 1\nat 1s resume 1\n"
                       "at 1s partition 1/2\nat 1s cut 1>2\nat 1s mend 1>2\nat 1s heal\n"
                       "at 1s loss 1%\nat 1s latency 1..5ms\nat 1s drift 1 -1%\nat 1s jump 1 -1h\n"
                       "at 1s disk-fail 1\nat 1s disk-slow 1 5ms\nat 1s hint 1 2\n"
                       "at 1s confirm-dead 1\nat 1s join 6\nat 1s leave 1\nat 1s campaign 1\n"
                       "at 1s resign leader\nat 1s transfer 2\nat 1s store-down\n"
                       "at 1s store-up\n";
    const char *form;
    unsigned verbs = 0;
    while (bw_script_verb(verbs, &form))
        verbs++;
    assert_int_equal(read_text(text), 0);
    assert_int_equal(config.faults_count, verbs);
    unsigned seen = 0;
    for (unsigned i = 0; i < verbs; i++)
        seen |= 1u << config.faults[i].kind;
    assert_int_equal(seen, (1u << verbs) - 1);
    assert_float_equal(config.faults[10].rate, -0.01, 1e-12);
    assert_int_equal(config.faults[11].span, -3600 * BW_SEC);
}

static void joining_node_reserves_a_spare_id(void **state)
{
    (void)state;
    assert_int_equal(read_text("at 1s join 7\nat 2s crash 7\n"), 0);
    assert_int_equal(config.spare, 2);
}

static void script_settings_are_refused_after_the_first_event(void **state)
{
    (void)state;
    assert_int_equal(read_text("nodes 5\nquorum\nat 1s crash 1\n"), 0);
    assert_int_equal(script.settings_count, 2);
    assert_string_equal(script.settings[0].name, "nodes");
    assert_string_equal(script.settings[0].value, "5");
    assert_null(script.settings[1].value);
    bw_script_deinit(&script);
    assert_int_equal(read_text("at 1s crash 1\nnodes 5\n"), BW_EINVAL);
    assert_non_null(strstr(why, "story.txt:2:"));
}

static void invalid_script_line_is_reported_by_number(void **state)
{
    (void)state;
    const char *wrong[][2] = {
        {"# fine\nat 2s crahs 3\n", "story.txt:2: unknown event 'crahs'"},
        {"at 2s crash 9\n", "story.txt:1: node 9 does not exist"},
        {"at 2s crash\n", "story.txt:1: wrong number of words"},
        {"at 2 crash 3\n", "story.txt:1: invalid time '2'"},
        {"at 2s..3s heal\n", "story.txt:1: invalid time '2s..3s': heal happens at one time"},
        {"at 2s partition 1,2/2\n", "story.txt:1: duplicate node 2"},
        {"at 2s partition 1,2/3,\n", "story.txt:1: invalid list of nodes '3,'"},
        {"at 2s partition 1,2/9\n", "story.txt:1: node 9 does not exist"},
        {"at 2s cut 1>1\n", "story.txt:1: invalid link '1>1': expected two different nodes"},
        {"at 2s join 2\n", "story.txt:1: node 2 is a member"},
        {"at 2s loss 2\n", "story.txt:1: invalid fraction '2'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_not_equal(read_text(wrong[i][0]), 0);
        assert_memory_equal(why, wrong[i][1], strlen(wrong[i][1]));
        bw_script_deinit(&script);
    }
}

static void fault_options_equal_script_lines(void **state)
{
    (void)state;
    assert_int_equal(bw_script_flag(&script, "crash", "leader@2s", why), 0);
    assert_int_equal(bw_script_flag(&script, "partition", "1,2/3@1s..3s", why), 0);
    assert_int_equal(bw_script_finish(&script, &config, why), 0);
    assert_int_equal(config.faults[0].kind, BW_FAULT_PARTITION);
    assert_int_equal(config.faults[1].kind, BW_FAULT_CRASH);
    assert_int_equal(config.faults[2].kind, BW_FAULT_HEAL);
    assert_int_equal(bw_script_flag(&script, "crash", "3", why), BW_EINVAL);
    assert_int_equal(bw_script_flag(&script, "crash", "@2s", why), BW_EINVAL);
}

static void script_is_refused_when_it_has_too_many_events(void **state)
{
    (void)state;
    for (unsigned i = 0; i < BW_SIM_FAULTS_MAX; i++)
        assert_int_equal(bw_script_flag(&script, "crash", "1@1s", why), 0);
    assert_int_equal(bw_script_flag(&script, "partition", "1/2@1s", why), BW_ELIMIT);
}

static void latency_parses_in_three_forms(void **state)
{
    (void)state;
    struct bw_sim_latency latency;
    assert_int_equal(bw_script_latency("5ms", &latency), 0);
    assert_true(latency.min == 5 * BW_MS && latency.max == 5 * BW_MS);
    assert_int_equal(bw_script_latency("1ms..50ms", &latency), 0);
    assert_true(latency.dist == BW_DIST_UNIFORM && latency.max == 50 * BW_MS);
    assert_int_equal(bw_script_latency("exp:5ms+20ms", &latency), 0);
    assert_true(latency.dist == BW_DIST_EXPONENTIAL && latency.max == 25 * BW_MS);
    assert_int_not_equal(bw_script_latency("exp:5ms", &latency), 0);
}

int main(void)
{
#define STORY(name) cmocka_unit_test_setup_teardown(name, fresh, done)
    const struct CMUnitTest tests[] = {
        STORY(script_events_are_sorted_by_time),
        STORY(event_with_a_span_ends_at_its_second_time),
        STORY(partition_assigns_every_node_to_its_group),
        STORY(every_script_verb_parses),
        STORY(joining_node_reserves_a_spare_id),
        STORY(script_settings_are_refused_after_the_first_event),
        STORY(invalid_script_line_is_reported_by_number),
        STORY(fault_options_equal_script_lines),
        STORY(script_is_refused_when_it_has_too_many_events),
        STORY(latency_parses_in_three_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
