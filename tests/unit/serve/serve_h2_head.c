/* Heads of HTTP/2 requests: which are well formed, and that any authority is accepted. */
#include "serve/front/h2_head.h"

#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

static enum bw_h2_field field(struct bw_h2_head *head, const char *name, const char *value)
{
    return bw_h2_head_field(head, (const uint8_t *)name, strlen(name), (const uint8_t *)value,
                            strlen(value));
}

static struct bw_h2_head post(const char *authority)
{
    struct bw_h2_head head = {0};
    assert_int_equal(field(&head, ":method", "POST"), BW_H2_TAKE);
    assert_int_equal(field(&head, ":scheme", "http"), BW_H2_TAKE);
    assert_int_equal(field(&head, ":path", "/etcdserverpb.KV/Range"), BW_H2_TAKE);
    assert_int_equal(field(&head, ":authority", authority), BW_H2_TAKE);
    return head;
}

static void any_authority_is_accepted(void **state)
{
    static const char *const sent[] = {"10.0.0.1:2379", "http://10.0.0.1:2379", "unix://x:1",
                                       "#initially=[http://10.0.0.1:2379;http://10.0.0.2:2379]",
                                       ""};
    (void)state;
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++) {
        struct bw_h2_head head = post(sent[i]);
        assert_int_equal(field(&head, "content-type", "application/grpc"), BW_H2_TAKE);
        assert_true(bw_h2_head_end(&head));
    }
}

static void request_of_another_sites_page_is_recognized(void **state)
{
    (void)state;
    struct bw_h2_head none = post("10.0.0.1:2379"), same = none, other = none, twice = none;
    struct bw_h2_head name = post("evil.example"), nameless = post("");
    char authority[BW_H2_AUTHORITY_MAX + 2], origin[BW_H2_AUTHORITY_MAX + 10];
    assert_int_equal(none.origin, BW_ORIGIN_NONE);
    assert_int_equal(field(&same, "origin", "https://10.0.0.1:2379"), BW_H2_TAKE);
    assert_int_equal(same.origin, BW_ORIGIN_ADDRESS);
    assert_int_equal(field(&other, "origin", "https://10.0.0.2:2379"), BW_H2_TAKE);
    assert_int_equal(other.origin, BW_ORIGIN_FOREIGN);
    assert_int_equal(field(&name, "origin", "https://evil.example"), BW_H2_TAKE);
    assert_int_equal(name.origin, BW_ORIGIN_NAME);
    assert_int_equal(field(&nameless, "origin", "https://"), BW_H2_TAKE);
    assert_int_equal(nameless.origin, BW_ORIGIN_FOREIGN);
    assert_int_equal(field(&twice, "origin", "https://10.0.0.1:2379"), BW_H2_TAKE);
    assert_int_equal(field(&twice, "origin", "https://10.0.0.1:2379"), BW_H2_BAD);
    memset(authority, 'a', sizeof authority - 1);
    authority[sizeof authority - 1] = '\0';
    snprintf(origin, sizeof origin, "https://%s", authority);
    struct bw_h2_head large = post(authority);
    assert_int_equal(field(&large, "origin", origin), BW_H2_TAKE);
    assert_int_equal(large.origin, BW_ORIGIN_FOREIGN);
}

static void a_head_needs_method_scheme_and_path(void **state)
{
    static const char *const names[] = {":method", ":scheme", ":path"};
    (void)state;
    for (size_t without = 0; without < 3; without++) {
        struct bw_h2_head head = {0};
        for (size_t i = 0; i < 3; i++)
            if (i != without)
                assert_int_equal(field(&head, names[i], "x"), BW_H2_TAKE);
        assert_false(bw_h2_head_end(&head));
    }
}

static void pseudo_fields_come_once_and_first(void **state)
{
    (void)state;
    struct bw_h2_head twice = post("x"), late = post("x"), other = {0}, empty = {0}, broken = {0};
    assert_int_equal(field(&twice, ":path", "/"), BW_H2_BAD);
    late.seen = 0;
    assert_int_equal(field(&late, "a", "b"), BW_H2_TAKE);
    assert_int_equal(field(&late, ":path", "/"), BW_H2_BAD);
    assert_int_equal(field(&other, ":status", "200"), BW_H2_BAD);
    assert_int_equal(field(&empty, ":path", ""), BW_H2_BAD);
    assert_int_equal(field(&broken, ":path", "/a\nb"), BW_H2_BAD);
}

static void trailers_have_no_pseudo_fields(void **state)
{
    (void)state;
    struct bw_h2_head head = {0}, length = post("x");
    (void)bw_h2_head_end(&head);
    assert_int_equal(field(&head, ":path", "/"), BW_H2_BAD);
    assert_true(bw_h2_head_end(&length));
    assert_int_equal(field(&length, "content-length", "7"), BW_H2_TAKE);
    assert_false(length.has_length); /* too late to announce a length */
}

static void connection_specific_fields_are_refused(void **state)
{
    static const char *const names[] = {"connection",        "keep-alive", "proxy-connection",
                                        "transfer-encoding", "upgrade",    "te"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct bw_h2_head head = post("x");
        assert_int_equal(field(&head, names[i], "x"), BW_H2_BAD);
    }
    struct bw_h2_head head = post("x");
    assert_int_equal(field(&head, "te", "trailers"), BW_H2_TAKE);
}

static void invalid_regular_field_is_ignored(void **state)
{
    (void)state;
    struct bw_h2_head head = post("x");
    assert_int_equal(field(&head, "Token", "x"), BW_H2_PASS);
    assert_int_equal(field(&head, "token", "x\ny"), BW_H2_PASS);
    assert_int_equal(field(&head, "", "x"), BW_H2_PASS);
    assert_int_equal(field(&head, "token", "x"), BW_H2_TAKE);
}

static void body_must_match_content_length(void **state)
{
    static const char *const wrong[] = {"", "-1", "1 ", "x", "9999999999999999999"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct bw_h2_head head = post("x");
        assert_int_equal(field(&head, "content-length", wrong[i]), BW_H2_BAD);
    }
    struct bw_h2_head head = post("x"), free = post("x");
    assert_int_equal(field(&head, "content-length", "10"), BW_H2_TAKE);
    assert_true(bw_h2_head_end(&head));
    assert_true(bw_h2_head_body(&head, 9));
    assert_false(bw_h2_head_whole(&head));
    assert_true(bw_h2_head_body(&head, 1));
    assert_true(bw_h2_head_whole(&head));
    assert_false(bw_h2_head_body(&head, 1));
    assert_int_equal(field(&free, "content-length", "1"), BW_H2_TAKE);
    assert_int_equal(field(&free, "content-length", "1"), BW_H2_BAD);
    struct bw_h2_head none = post("x");
    assert_true(bw_h2_head_body(&none, 5) && bw_h2_head_whole(&none));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_authority_is_accepted),
        cmocka_unit_test(request_of_another_sites_page_is_recognized),
        cmocka_unit_test(a_head_needs_method_scheme_and_path),
        cmocka_unit_test(pseudo_fields_come_once_and_first),
        cmocka_unit_test(trailers_have_no_pseudo_fields),
        cmocka_unit_test(connection_specific_fields_are_refused),
        cmocka_unit_test(invalid_regular_field_is_ignored),
        cmocka_unit_test(body_must_match_content_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
