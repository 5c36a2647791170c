/* The store kit: URLs, records as JSON, pending requests, names of elections. */
#include "store/kit/job.h"
#include "store/kit/names.h"
#include "store/kit/record.h"
#include "store/kit/record_json.h"
#include "store/kit/url.h"
#include "unit/unit.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct bw_url parsed(const char *text)
{
    struct bw_url url;
    char why[BW_WHY_MAX + 1] = "";
    if (bw_url_parse(&url, text, why) != 0)
        fail_msg("%s: %s", text, why);
    return url;
}

static void url_is_parsed_into_parts(void **state)
{
    (void)state;
    struct bw_url url = parsed("etcd://us%40er:p%3Aw@h1:2379,[::1]:99,h3/a/b%20c?x=1&y=%26&z");
    assert_string_equal(url.scheme, "etcd");
    assert_string_equal(url.user, "us@er");
    assert_string_equal(url.password, "p:w");
    assert_int_equal(url.hosts, 3);
    assert_string_equal(url.host[0].name, "h1");
    assert_int_equal(url.host[0].port, 2379);
    assert_string_equal(url.host[1].name, "::1");
    assert_int_equal(url.host[1].port, 99);
    assert_string_equal(url.host[2].name, "h3");
    assert_int_equal(url.host[2].port, 0);
    assert_string_equal(url.path, "a/b c");
    assert_string_equal(bw_url_query(&url, "y"), "&");
    assert_string_equal(bw_url_query(&url, "z"), "");
    assert_null(bw_url_query(&url, "q"));
}

static void url_parts_are_optional(void **state)
{
    (void)state;
    struct bw_url url = parsed("kubernetes://default");
    assert_string_equal(url.host[0].name, "default");
    assert_string_equal(url.path, "");
    assert_int_equal(parsed("postgres:///db?host=/run").hosts, 0);
    assert_string_equal(parsed("redis://h?a=b").host[0].name, "h");
}

static void invalid_urls_are_rejected_with_a_message(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",           "etcd:h",      "://h",         "etcd://h:0",   "etcd://h:65536",
        "etcd://h:x", "etcd://h,",   "etcd://,h",    "etcd://[::1",  "etcd://[::1]x",
        "etcd://h/%", "etcd://h/%4", "etcd://h/%zz", "etcd://h/%00", "etcd://1,2,3,4,5,6,7,8,9,10"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct bw_url url;
        char why[BW_WHY_MAX + 1] = "";
        if (bw_url_parse(&url, bad[i], why) != BW_EINVAL || !why[0])
            fail_msg("'%s' was taken", bad[i]);
    }
    char text[4096], why[BW_WHY_MAX + 1];
    struct bw_url url;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memcpy(text, "etcd://", 7);
    assert_int_equal(bw_url_parse(&url, text, why), BW_EINVAL);
    text[400] = '\0'; /* only the host is too long */
    assert_int_equal(bw_url_parse(&url, text, why), BW_EINVAL);
}

static void unknown_url_setting_is_named_in_the_message(void **state)
{
    (void)state;
    static const char *const keys[] = {"recipe", "password-file", NULL};
    char why[BW_WHY_MAX + 1] = "";
    struct bw_url url = parsed("zookeeper://h/p?recipe=kazoo");
    assert_int_equal(bw_url_check_keys(&url, keys, why), 0);
    url = parsed("zookeeper://h/p?recpie=kazoo");
    assert_int_equal(bw_url_check_keys(&url, keys, why), BW_EINVAL);
    assert_non_null(strstr(why, "'recpie'"));
    assert_non_null(strstr(why, "'recipe'"));
}

static void a_secret_comes_from_its_file_then_the_environment_then_the_url(void **state)
{
    (void)state;
    char path[] = "/tmp/bellwether-secret-XXXXXX", text[128], secret[16], why[BW_WHY_MAX + 1];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "from file\n", 10), 10);
    close(fd);
    snprintf(text, sizeof text, "redis://u:inside@h?password-file=%s", path);
    struct bw_url url = parsed(text);
    setenv("BW_TEST_SECRET", "from env", 1);
    assert_int_equal(bw_url_secret(&url, "password", "BW_TEST_SECRET", secret, 16, why), 0);
    assert_string_equal(secret, "from file");
    assert_int_equal(bw_url_secret(&url, "password", "BW_TEST_SECRET", secret, 8, why), BW_EINVAL);
    assert_string_equal(secret, "");
    url = parsed("redis://u:inside@h");
    assert_int_equal(bw_url_secret(&url, "password", "BW_TEST_SECRET", secret, 16, why), 0);
    assert_string_equal(secret, "from env");
    unsetenv("BW_TEST_SECRET");
    assert_int_equal(bw_url_secret(&url, "password", "BW_TEST_SECRET", secret, 16, why), 0);
    assert_string_equal(secret, "inside");
    unlink(path);
    url = parsed(text);
    assert_int_equal(bw_url_secret(&url, "password", NULL, secret, 16, why), BW_EINVAL);
}

static void record_is_unchanged_after_packing_and_unpacking(void **state)
{
    (void)state;
    struct bw_store_record out = {.held = true,
                                  .clean = true,
                                  .request = UINT64_MAX,
                                  .token = 1ull << 63,
                                  .ttl_ns = 10 * BW_SEC,
                                  .until_wall_ns = 12345};
    struct bw_store_record in = {.version = 7, .left_ns = 5};
    char text[BW_RECORD_JSON_MAX];
    strcpy(out.holder, "a\"d\\a");
    memset(out.value, 1, BW_VALUE_MAX); /* every byte is escaped */
    memset(out.unconfirmed, '\n', BW_UNCONFIRMED_MAX);
    memset(out.containment, '\t', BW_CONTAINMENT_MAX);
    int length = bw_record_pack(&out, text, sizeof text);
    assert_true(length > 0);
    assert_int_equal(bw_record_unpack(text, (size_t)length, &in), 0);
    assert_int_equal(in.version, 7);
    assert_int_equal(in.left_ns, 5);
    in.version = 0;
    in.left_ns = 0;
    assert_memory_equal(&in, &out, sizeof in);
    assert_int_equal(bw_record_pack(&out, text, 100), BW_ELIMIT);
}

static int allocations_left; /* before the one that fails */

static void *allocate(size_t size)
{
    return allocations_left-- == 0 ? NULL : malloc(size);
}

/* A record without its token or TTL would be a claim that nobody can fence or wait for. */
static void record_is_complete_or_refused_when_an_allocation_fails(void **state)
{
    (void)state;
    struct bw_store_record out = {.holder = "b", .token = 7, .ttl_ns = 5, .held = true};
    char whole[1024], text[1024];
    int length = bw_record_pack(&out, whole, sizeof whole), n = 0;
    assert_true(length > 0);
    json_set_alloc_funcs(allocate, free);
    for (bool failed = true; failed; n++) {
        allocations_left = n;
        int got = bw_record_pack(&out, text, sizeof text);
        failed = allocations_left < 0;
        if (got > 0)
            assert_string_equal(text, whole);
        else
            assert_true(got == BW_ENOMEM || got == BW_ELIMIT);
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(n > 5);
}

static void record_is_unchanged_when_json_is_malformed(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "x",
        "[]",
        "{\"token\":5}",
        "{\"token\":\"-5\"}",
        "{\"token\":\"5x\"}",
        "{\"token\":\"18446744073709551616\"}",
        "{\"ttl_ns\":\"9223372036854775808\"}",
        "{\"held\":1}",
        "{\"holder\":{}}",
        "{\"holder\":\"a\\u0000b\"}",
        "{\"holder\":\"0123456789012345678901234567890123456789012345678901234567890123\"}",
        "{\"held\":true,\"held\":true}"};
    struct bw_store_record before = {.token = 3, .holder = "ada"}, record = before;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (bw_record_unpack(bad[i], strlen(bad[i]), &record) != BW_EMALFORMED)
            fail_msg("'%s' was taken", bad[i]);
    assert_memory_equal(&record, &before, sizeof record);
    assert_int_equal(bw_record_unpack("{\"new\":[1],\"held\":true}", 23, &record), 0);
    assert_true(record.held);
}

static void notes_and_candidates_are_unchanged_after_packing_and_unpacking(void **state)
{
    (void)state;
    struct bw_note note = {.kind = BW_NOTE_REFUSE, .serial = 9, .from = "a", .to = "b"}, read = {0};
    struct bw_candidate ada = {.id = "ada", .value = "v", .priority = -5}, again = {0};
    char text[BW_RECORD_JSON_MAX];
    int length = bw_note_pack(&note, text, sizeof text);
    assert_int_equal(bw_note_unpack(text, (size_t)length, &read), 0);
    assert_memory_equal(&read, &note, sizeof read);
    assert_int_equal(bw_note_unpack("{\"kind\":6}", 10, &read), BW_EMALFORMED);
    length = bw_candidate_pack(&ada, text, sizeof text);
    assert_int_equal(bw_candidate_unpack(text, (size_t)length, &again), 0);
    assert_memory_equal(&again, &ada, sizeof again);
    assert_int_equal(bw_candidate_unpack("{\"priority\":2147483648}", 23, &again), BW_EMALFORMED);
}

/* A store without a server: the test answers the jobs. */
struct world {
    uv_loop_t loop;
    struct bw_jobs jobs;
    unsigned replies, forgotten;
    uint64_t last_id, cancel_next;
    struct bw_store_reply last;
    struct bw_election_name *first, *end; /* of the names in a reply; NULL: not kept */
    bool closed;
};

static void on_reply(void *context, const struct bw_store_reply *reply)
{
    struct world *world = context;
    world->replies++;
    world->last = *reply;
    if (world->first && reply->count > 0) {
        *world->first = reply->elections[0];
        *world->end = reply->elections[reply->count - 1];
    }
    if (world->cancel_next)
        bw_jobs_cancel(&world->jobs, world->cancel_next);
}

static void on_forget(struct bw_job *job)
{
    struct world *world = job->jobs->context;
    world->forgotten++;
    world->last_id = job->request.id;
}

static void on_closed(struct bw_jobs *jobs)
{
    ((struct world *)jobs->context)->closed = true;
}

static void world_open(struct world *world)
{
    memset(world, 0, sizeof *world);
    struct bw_store_options options = {.context = world, .reply = on_reply};
    uv_loop_init(&world->loop);
    assert_int_equal(bw_jobs_open(&world->jobs, &world->loop, &options, on_forget, world), 0);
}

static void world_close(struct world *world)
{
    bw_jobs_close(&world->jobs, on_closed);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_true(world->closed);
    assert_int_equal(uv_loop_close(&world->loop), 0);
}

static struct bw_job *add(struct world *world, uint64_t id)
{
    char election[] = "e", candidate[] = "ada";
    struct bw_store_request request = {.id = id, .election = election, .candidate = candidate};
    struct bw_job *job = bw_jobs_add(&world->jobs, &request);
    memset(election, 'x', 1);
    memset(candidate, 'x', 3);
    assert_non_null(job);
    assert_string_equal(job->request.election, "e");
    assert_string_equal(job->request.candidate, "ada");
    assert_null(job->request.value);
    return job;
}

static void answer_is_delivered_once_and_from_the_loop(void **state)
{
    (void)state;
    struct world world;
    struct bw_store_record record = {.token = 5};
    world_open(&world);
    bw_job_done(add(&world, 1), &record);
    bw_job_refuse(add(&world, 2), &record, BW_EBUSY, "held by %s", "ben");
    assert_int_equal(world.replies, 0);
    assert_null(bw_jobs_find(&world.jobs, 1));
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(world.replies, 2);
    assert_int_equal(world.last.id, 2);
    assert_int_equal(world.last.record.token, 5);
    assert_string_equal(world.last.why, "held by ben");
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(world.replies, 2);
    assert_int_equal(world.forgotten, 0);
    world_close(&world);
}

static void cancelled_job_is_forgotten_even_when_answered(void **state)
{
    (void)state;
    struct world world;
    world_open(&world);
    add(&world, 1);
    bw_job_fail(add(&world, 2), BW_OUTCOME_UNKNOWN, BW_ETIMEDOUT, "late");
    bw_job_fail(add(&world, 3), BW_OUTCOME_UNKNOWN, BW_ETIMEDOUT, "late");
    bw_jobs_cancel(&world.jobs, 1);
    assert_int_equal(world.forgotten, 1);
    assert_int_equal(world.last_id, 1);
    bw_jobs_cancel(&world.jobs, 2);
    bw_jobs_cancel(&world.jobs, 99);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(world.replies, 1);
    assert_int_equal(world.last.id, 3);
    assert_int_equal(world.forgotten, 1);
    world_close(&world);
}

static void reply_callback_may_cancel_another_job(void **state)
{
    (void)state;
    struct world world;
    struct bw_store_record record = {0};
    world_open(&world);
    bw_job_done(add(&world, 1), &record);
    bw_job_done(add(&world, 2), &record);
    bw_job_done(add(&world, 3), &record);
    world.cancel_next = 2;
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(world.replies, 2);
    assert_int_equal(world.last.id, 3);
    world_close(&world);
}

static void close_forgets_pending_jobs(void **state)
{
    (void)state;
    struct world world;
    struct bw_candidate two[2] = {{.id = "a"}, {.id = "b"}};
    world_open(&world);
    for (uint64_t id = 1; id <= 2000; id++)
        add(&world, id << 32 | id);
    bw_job_list(add(&world, 7), two, 2);
    world_close(&world);
    assert_int_equal(world.replies, 0);
    assert_int_equal(world.forgotten, 2000);
}

static void job_is_rejected_when_maximum_is_reached(void **state)
{
    (void)state;
    struct world world;
    struct bw_store_request request = {.election = "e"};
    world_open(&world);
    for (request.id = 1; request.id <= BW_JOBS_MAX; request.id++)
        assert_non_null(bw_jobs_add(&world.jobs, &request));
    assert_null(bw_jobs_add(&world.jobs, &request));
    world_close(&world);
}

/* The endpoint receives signatures and tokens. */
static void http_endpoint_is_rejected_when_not_on_this_machine(void **state)
{
    (void)state;
    static const char *const good[] = {
        "https://h",        "https://h:8000",   "http://127.0.0.1:8000",
        "http://127.9.8.7", "http://localhost", "http://[::1]:1"};
    static const char *const bad[] = {"http://127.example.com",
                                      "http://127.0.0.1.example.com",
                                      "http://localhost.example.com",
                                      "http://[::1",
                                      "http://10.0.0.1",
                                      "http://",
                                      "ftp://h",
                                      "",
                                      "https://u@h",
                                      "https://h?x"};
    char why[BW_WHY_MAX + 1];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_non_null(bw_url_endpoint(good[i], false, why));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_null(bw_url_endpoint(bad[i], true, why));
    assert_string_equal(bw_url_endpoint("https://h/p", true, why), "h/p");
    assert_null(bw_url_endpoint("https://h/p", false, why));
}

static void default_ttl_respects_limits_of_the_store(void **state)
{
    (void)state;
    static const struct {
        bw_time least, most, wanted;
    } stores[] = {{0, 0, 10 * BW_SEC},
                  {2 * BW_SEC, 0, 10 * BW_SEC},
                  {15 * BW_SEC, 60 * BW_SEC, 15 * BW_SEC},
                  {BW_SEC, 5 * BW_SEC, 5 * BW_SEC}};
    assert_int_equal(bw_store_ttl_default(NULL), 10 * BW_SEC);
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++) {
        struct bw_store_ops ops = {
            .scheme = "x", .ttl_min_ns = stores[i].least, .ttl_max_ns = stores[i].most};
        char why[BW_WHY_MAX + 1];
        assert_int_equal(bw_store_ttl_default(&ops), stores[i].wanted);
        assert_int_equal(bw_store_ttl_check(&ops, stores[i].wanted, why), 0);
    }
}

/* ---- names of elections ---- */

/* Answers ELECTIONS with the names and frees them. Returns their number. */
static uint32_t answer_names(struct bw_names *names, struct bw_election_name *first,
                             struct bw_election_name *last)
{
    struct world world;
    world_open(&world);
    world.first = first;
    world.end = last;
    bw_names_answer(names, add(&world, 1));
    bw_names_free(names);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    assert_int_equal(world.replies, 1);
    assert_int_equal(world.last.outcome, BW_OUTCOME_DONE);
    world_close(&world);
    return world.last.count;
}

static void add_name(struct bw_names *names, const char *text)
{
    assert_int_equal(bw_names_add(names, text, strlen(text)), 0);
}

static void repeated_and_invalid_names_are_left_out(void **state)
{
    (void)state;
    static const char *const texts[] = {"b", "a", "b", "", "a/b", "a\tb", "a"};
    char longest[BW_ELECTION_NAME_MAX + 2] = "";
    struct bw_names names = {.rows = NULL};
    struct bw_election_name first, last;
    assert_int_equal(answer_names(&names, &first, &last), 0);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        add_name(&names, texts[i]);
    assert_int_equal(bw_names_add(&names, "c\0d", 3), 0);
    memset(longest, 'x', sizeof longest - 1);
    add_name(&names, longest);
    longest[BW_ELECTION_NAME_MAX] = '\0';
    add_name(&names, longest);
    assert_int_equal(answer_names(&names, &first, &last), 3);
    assert_string_equal(first.text, "a");
    assert_string_equal(last.text, longest);
}

static void names_are_bounded_however_often_they_repeat(void **state)
{
    (void)state;
    struct bw_names names = {.rows = NULL};
    struct bw_election_name first, last;
    char text[16];
    for (unsigned round = 0; round < 5; round++)
        for (unsigned i = 0; i < BW_STORE_NAMES_MAX - 1; i++) {
            snprintf(text, sizeof text, "%05u", i);
            add_name(&names, text);
        }
    assert_false(names.full);
    for (unsigned i = 0; !names.full && i < 3 * BW_STORE_NAMES_MAX; i++) {
        snprintf(text, sizeof text, "n%05u", i);
        add_name(&names, text);
    }
    assert_true(names.full);
    assert_int_equal(names.room, 2 * BW_STORE_NAMES_MAX);
    add_name(&names, "further");
    assert_int_equal(answer_names(&names, &first, &last), BW_STORE_NAMES_MAX);
    assert_string_equal(first.text, "00000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(url_is_parsed_into_parts),
        cmocka_unit_test(default_ttl_respects_limits_of_the_store),
        cmocka_unit_test(url_parts_are_optional),
        cmocka_unit_test(invalid_urls_are_rejected_with_a_message),
        cmocka_unit_test(unknown_url_setting_is_named_in_the_message),
        cmocka_unit_test(a_secret_comes_from_its_file_then_the_environment_then_the_url),
        cmocka_unit_test(http_endpoint_is_rejected_when_not_on_this_machine),
        cmocka_unit_test(record_is_unchanged_after_packing_and_unpacking),
        cmocka_unit_test(record_is_complete_or_refused_when_an_allocation_fails),
        cmocka_unit_test(record_is_unchanged_when_json_is_malformed),
        cmocka_unit_test(notes_and_candidates_are_unchanged_after_packing_and_unpacking),
        cmocka_unit_test(answer_is_delivered_once_and_from_the_loop),
        cmocka_unit_test(cancelled_job_is_forgotten_even_when_answered),
        cmocka_unit_test(reply_callback_may_cancel_another_job),
        cmocka_unit_test(close_forgets_pending_jobs),
        cmocka_unit_test(job_is_rejected_when_maximum_is_reached),
        cmocka_unit_test(repeated_and_invalid_names_are_left_out),
        cmocka_unit_test(names_are_bounded_however_often_they_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
