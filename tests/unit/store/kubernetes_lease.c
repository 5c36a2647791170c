/* Leases as records: what the spec of client-go and our annotations mean together, and whose work
 * is unconfirmed. */
#include "store/kit/record.h"
#include "store/kubernetes/lease.h"
#include "store/kubernetes/yaml.h"
#include "unit/unit.h"

#include <string.h>

#define IDENTITY "ada_0123456789abcdef"
#define NOW_US   1136214245000006 /* 2006-01-02T15:04:05.000006Z */

static void set_version(json_t *lease, const char *version)
{
    json_object_set_new(json_object_get(lease, "metadata"), "resourceVersion",
                        json_string(version));
}

static json_t *spec_of(json_t *lease)
{
    return json_object_get(lease, "spec");
}

static const char *spec_text(json_t *lease, const char *key)
{
    return json_string_value(json_object_get(spec_of(lease), key));
}

/* Returns the Lease after a change of `before` (consumed) was written at this version. */
static json_t *change(json_t *before, enum bw_kube_change kind, struct bw_store_record *record,
                      const char *version)
{
    struct bw_kube_draft draft = {.change = kind,
                                  .before = before,
                                  .namespace = "testing",
                                  .name = "e",
                                  .election = "e",
                                  .identity = IDENTITY,
                                  .record = record,
                                  .now_us = NOW_US};
    json_t *lease = bw_kube_lease_make(&draft);
    assert_non_null(lease);
    set_version(lease, version);
    json_decref(before);
    return lease;
}

static json_t *taken_by_ada(const char *version)
{
    struct bw_store_record record = {.version = 0};
    struct bw_store_request request = {.id = 77,
                                       .candidate = "ada",
                                       .value = "http://ada",
                                       .containment = "cgroup:/ada",
                                       .ttl_ns = 1500 * BW_MS};
    bw_record_acquire(&record, &request);
    return change(NULL, BW_KUBE_TAKE, &record, version);
}

static struct bw_store_record read_lease(const json_t *lease)
{
    struct bw_store_record record;
    assert_int_equal(bw_kube_lease_read(lease, &record), 0);
    return record;
}

/* client-go acquires or renews: only the spec changes. */
static void foreign_writes(json_t *lease, const char *identity, const char *time, int transitions,
                           const char *version)
{
    json_object_set_new(spec_of(lease), "holderIdentity", json_string(identity));
    json_object_set_new(spec_of(lease), "acquireTime", json_string(time));
    json_object_set_new(spec_of(lease), "leaseTransitions", json_integer(transitions));
    json_object_set_new(spec_of(lease), "leaseDurationSeconds", json_integer(15));
    set_version(lease, version);
}

static void times_have_six_digits_in_utc(void **state)
{
    (void)state;
    char text[32];
    bw_kube_time(text, NOW_US);
    assert_string_equal(text, "2006-01-02T15:04:05.000006Z");
}

static void new_lease_has_the_fields_of_client_go(void **state)
{
    (void)state;
    json_t *lease = taken_by_ada("41");
    assert_string_equal(spec_text(lease, "holderIdentity"), IDENTITY);
    assert_string_equal(spec_text(lease, "acquireTime"), "2006-01-02T15:04:05.000006Z");
    assert_string_equal(spec_text(lease, "renewTime"), "2006-01-02T15:04:05.000006Z");
    assert_int_equal(json_integer_value(json_object_get(spec_of(lease), "leaseTransitions")), 0);
    assert_int_equal(json_integer_value(json_object_get(spec_of(lease), "leaseDurationSeconds")),
                     3); /* 1.5 s rounded up, plus the second that client-go does not see */
    assert_int_equal(json_object_size(spec_of(lease)), 5);
    json_decref(lease);
}

static void token_is_the_resource_version_of_the_acquisition(void **state)
{
    (void)state;
    json_t *lease = taken_by_ada("41");
    struct bw_store_record record = read_lease(lease);
    assert_int_equal(record.token, 41);
    assert_string_equal(record.holder, "ada");
    assert_int_equal(record.request, 77);
    assert_int_equal(record.ttl_ns, 1500 * BW_MS);
    lease = change(lease, BW_KUBE_RENEW, &record, "55");
    record = read_lease(lease);
    assert_int_equal(record.version, 55);
    assert_int_equal(record.token, 41);
    json_decref(lease);
}

static void release_has_the_form_of_client_go(void **state)
{
    (void)state;
    json_t *lease = taken_by_ada("41");
    struct bw_store_record record = read_lease(lease);
    bw_record_vacate(&record, true);
    lease = change(lease, BW_KUBE_RELEASE, &record, "42");
    assert_string_equal(spec_text(lease, "holderIdentity"), "");
    assert_int_equal(json_integer_value(json_object_get(spec_of(lease), "leaseDurationSeconds")),
                     1);
    record = read_lease(lease);
    assert_false(record.held);
    assert_true(record.clean);
    assert_string_equal(record.holder, "ada");
    json_decref(lease);
}

static void annotations_are_ignored_when_the_holder_differs(void **state)
{
    (void)state;
    json_t *lease = taken_by_ada("41");
    foreign_writes(lease, "ada_fedcba9876543210", "2006-01-02T16:00:00.000000Z", 1, "60");
    struct bw_store_record record = read_lease(lease);
    assert_true(record.held);
    assert_int_equal(record.request, 0);
    assert_int_equal(record.token, 60);
    assert_int_equal(record.ttl_ns, 15 * BW_SEC);
    assert_string_equal(record.value, "");
    /* The same id in another process: the end of ada's earlier work is unconfirmed. */
    assert_string_equal(record.holder, "ada");
    assert_string_equal(record.unconfirmed, "ada\tcgroup:/ada\n");
    json_decref(lease);
}

static void foreign_release_confirms_no_death(void **state)
{
    (void)state;
    json_t *lease = taken_by_ada("41");
    foreign_writes(lease, "go-1_x", "2006-01-02T16:00:00.000000Z", 1, "60");
    assert_string_equal(read_lease(lease).holder, "go-1_x");
    foreign_writes(lease, "", "2006-01-02T17:00:00.000000Z", 1, "61");
    struct bw_store_record record = read_lease(lease);
    assert_false(record.held);
    assert_false(record.clean);
    assert_string_equal(record.holder, "*");
    assert_string_equal(record.unconfirmed, "ada\tcgroup:/ada\n");
    bw_record_present(&record);
    assert_false(record.clean);
    json_decref(lease);
}

/* We release, then a foreign client acquires and releases. The spec has the same (empty) holder
 * and transitions may have any value, but acquireTime differs. */
static void clean_release_does_not_count_after_a_foreign_leadership(void **state)
{
    (void)state;
    json_t *lease = taken_by_ada("41");
    struct bw_store_record record = read_lease(lease);
    bw_record_vacate(&record, true);
    lease = change(lease, BW_KUBE_RELEASE, &record, "42");
    foreign_writes(lease, "", "2006-01-02T17:00:00.000000Z", 1, "61");
    record = read_lease(lease);
    bw_record_present(&record);
    assert_false(record.clean);
    json_decref(lease);
}

static void lease_that_was_never_held_is_free_and_clean(void **state)
{
    (void)state;
    json_t *lease =
        json_pack("{s:{s:s, s:s}, s:{}}", "metadata", "name", "e", "resourceVersion", "9", "spec");
    struct bw_store_record record = read_lease(lease);
    bw_record_present(&record);
    assert_false(record.held);
    assert_true(record.clean);
    assert_int_equal(record.version, 9);
    json_decref(lease);
}

static void note_survives_a_new_holder_and_keeps_a_foreign_spec(void **state)
{
    (void)state;
    json_t *lease = taken_by_ada("41");
    foreign_writes(lease, "go", "2006-01-02T16:00:00.000000Z", 1, "60");
    struct bw_store_record record = read_lease(lease);
    struct bw_note note = {.kind = BW_NOTE_RESIGN, .from = "ben"};
    bw_record_put_note(&record, &note);
    lease = change(lease, BW_KUBE_NOTE, &record, "62");
    record = read_lease(lease);
    assert_int_equal(record.note.serial, 1);
    assert_string_equal(record.note.from, "ben");
    assert_string_equal(record.holder, "go");
    assert_string_equal(spec_text(lease, "holderIdentity"), "go");
    assert_string_equal(record.unconfirmed, "ada\tcgroup:/ada\n");
    json_decref(lease);
}

static void renewal_changes_renew_time_after_the_clock_was_set_back(void **state)
{
    (void)state;
    json_t *lease = taken_by_ada("41");
    struct bw_store_record record = read_lease(lease);
    struct bw_kube_draft draft = {.change = BW_KUBE_RENEW,
                                  .before = lease,
                                  .namespace = "testing",
                                  .name = "e",
                                  .election = "e",
                                  .identity = IDENTITY,
                                  .record = &record,
                                  .now_us = NOW_US + 5,
                                  .renewed_long_ago = true};
    json_t *renewed = bw_kube_lease_make(&draft);
    assert_string_equal(spec_text(renewed, "renewTime"), "2006-01-02T15:04:06.000011Z");
    json_decref(renewed);
    json_decref(lease);
}

static void invalid_lease_is_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}", "{\"metadata\":{\"name\":\"e\",\"resourceVersion\":\"1\"}}",
        "{\"metadata\":5,\"spec\":{}}", "{\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{}}",
        "{\"metadata\":{\"name\":[],\"resourceVersion\":\"1\"},\"spec\":{}}"};
    struct bw_store_record record;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        json_t *lease = json_loads(bad[i], 0, NULL);
        assert_int_equal(bw_kube_lease_read(lease, &record), BW_EMALFORMED);
        json_decref(lease);
    }
    static const char *const versions[] = {
        "", "0", "x", "1x", "-1", "18446744073709551615", "99999999999999999999999"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        json_t *lease = taken_by_ada(versions[i]);
        assert_int_equal(bw_kube_lease_read(lease, &record), BW_EUNSUPPORTED);
        json_decref(lease);
    }
}

static void invalid_annotations_count_as_foreign(void **state)
{
    (void)state;
    json_t *lease = taken_by_ada("41");
    json_t *annotations = json_object_get(json_object_get(lease, "metadata"), "annotations");
    json_object_set_new(annotations, "bellwether/record", json_string("{\"holder\":5}"));
    json_object_set_new(annotations, "bellwether/note", json_string("[[["));
    struct bw_store_record record = read_lease(lease);
    assert_true(record.held);
    assert_string_equal(record.holder, "ada");
    assert_int_equal(record.request, 0);
    assert_int_equal(record.note.serial, 0);
    json_decref(lease);
}

static void different_elections_get_different_lease_names(void **state)
{
    (void)state;
    static const char *const names[] = {"e",   "E",    "e-1",    "-e", "e.",   "a..b", "a.-b",
                                        "a b", "bw32", "bw32-a", "ä",  "\xff", "*",    "bw32-me"};
    char made[sizeof names / sizeof names[0]][BW_KUBE_NAME_MAX + 1],
        longest[BW_ELECTION_NAME_MAX + 1];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bw_kube_name(made[i], names[i]);
        assert_true(bw_kube_is_name(made[i]));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(made[i], made[j]);
    }
    assert_string_equal(made[0], "e");
    assert_string_equal(made[1], "bw32-iu"); /* RFC 4648 of "E" */
    memset(longest, '%', BW_ELECTION_NAME_MAX);
    longest[BW_ELECTION_NAME_MAX] = '\0';
    bw_kube_name(made[0], longest);
    assert_true(bw_kube_is_name(made[0]));
}

static void yaml_becomes_json(void **state)
{
    (void)state;
    char why[BW_WHY_MAX + 1] = "";
    static const char text[] = "a: &x {k: \"v\", l: [1, true]}\nb: *x\nc: |\n  two\n  lines\n";
    json_t *root = bw_kube_yaml(text, strlen(text), why);
    assert_non_null(root);
    json_t *wanted = json_loads("{\"a\":{\"k\":\"v\",\"l\":[\"1\",\"true\"]},\"b\":{\"k\":\"v\","
                                "\"l\":[\"1\",\"true\"]},\"c\":\"two\\nlines\\n\"}",
                                0, NULL);
    assert_true(json_equal(root, wanted));
    json_decref(root);
    json_decref(wanted);
    static const char *const bad[] = {"", "a: [", "a: *none", "? [x]\n: y", "\t"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        why[0] = '\0';
        assert_null(bw_kube_yaml(bad[i], strlen(bad[i]), why));
        assert_true(why[0] != '\0');
    }
    static const char loop[] = "a: &a [*a]\n"; /* contains itself */
    assert_null(bw_kube_yaml(loop, strlen(loop), why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_have_six_digits_in_utc),
        cmocka_unit_test(new_lease_has_the_fields_of_client_go),
        cmocka_unit_test(token_is_the_resource_version_of_the_acquisition),
        cmocka_unit_test(release_has_the_form_of_client_go),
        cmocka_unit_test(annotations_are_ignored_when_the_holder_differs),
        cmocka_unit_test(foreign_release_confirms_no_death),
        cmocka_unit_test(clean_release_does_not_count_after_a_foreign_leadership),
        cmocka_unit_test(lease_that_was_never_held_is_free_and_clean),
        cmocka_unit_test(note_survives_a_new_holder_and_keeps_a_foreign_spec),
        cmocka_unit_test(renewal_changes_renew_time_after_the_clock_was_set_back),
        cmocka_unit_test(invalid_lease_is_rejected),
        cmocka_unit_test(invalid_annotations_count_as_foreign),
        cmocka_unit_test(different_elections_get_different_lease_names),
        cmocka_unit_test(yaml_becomes_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
