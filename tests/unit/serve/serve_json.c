/* JSON in the form of etcd's gateway, and heads of HTTP/1.1 requests: accepted and refused
 * inputs. */
#include "core/base/error.h"
#include "net/api.pb-c.h"
#include "serve/front/base64.h"
#include "serve/front/http1_head.h"
#include "serve/front/json.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ProtobufCMessage *reads(const ProtobufCMessageDescriptor *kind, const char *text)
{
    ProtobufCMessage *message;
    char why[BW_JSON_WHY_MAX + 1] = "";
    size_t used;
    if (bw_json_read(kind, text, strlen(text), &message, &used, why) != 0)
        fail_msg("%s: %s", text, why);
    return message;
}

static void refuses(const ProtobufCMessageDescriptor *kind, const char *text, const char *word)
{
    ProtobufCMessage *message;
    char why[BW_JSON_WHY_MAX + 1] = "";
    size_t used;
    assert_int_not_equal(bw_json_read(kind, text, strlen(text), &message, &used, why), 0);
    assert_null(message);
    if (!strstr(why, word))
        fail_msg("%s: '%s' does not say '%s'", text, why, word);
}

static void writes(const ProtobufCMessage *message, const char *expected)
{
    struct bw_json_text text = {0};
    bw_json_write(&text, message);
    bw_json_put(&text, "");
    assert_int_equal(text.used, strlen(expected));
    assert_memory_equal(text.at, expected, text.used);
    free(text.at);
}

static void names_and_numbers_may_be_written_in_two_ways(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"key\":\"YQ==\",\"range_end\":\"Yg==\",\"limit\":\"7\",\"sort_order\":\"DESCEND\","
        "\"sort_target\":\"MOD\",\"keys_only\":true,\"unknown\":{\"x\":[1]},\"revision\":null}",
        " {\"key\":\"YQ==\",\"rangeEnd\":\"Yg==\",\"limit\":7,\"sortOrder\":2,\"sortTarget\":3,"
        "\"keysOnly\":true}\n"};
    for (size_t i = 0; i < 2; i++) {
        ProtobufCMessage *message = reads(&api__range_request__descriptor, texts[i]);
        writes(message, "{\"key\":\"YQ==\",\"range_end\":\"Yg==\",\"limit\":\"7\",\"sort_order\":"
                        "\"DESCEND\",\"sort_target\":\"MOD\",\"keys_only\":true}");
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

static void empty_text_is_the_empty_message(void **state)
{
    (void)state;
    for (const char *const *text = (const char *const[]){"", "  \r\n", "{}", NULL}; *text; text++) {
        ProtobufCMessage *message = reads(&api__put_request__descriptor, *text);
        writes(message, "{}");
        protobuf_c_message_free_unpacked(message, NULL);
    }
}

static void numbers_keep_all_their_bits(void **state)
{
    (void)state;
    Api__Header *header = (Api__Header *)reads(
        &api__header__descriptor, "{\"cluster_id\":\"18446744073709551615\",\"revision\":"
                                  "\"-9223372036854775808\",\"raft_term\":9223372036854775807}");
    assert_true(header->cluster_id == UINT64_MAX && header->revision == INT64_MIN);
    writes(&header->base, "{\"cluster_id\":\"18446744073709551615\",\"revision\":"
                          "\"-9223372036854775808\",\"raft_term\":\"9223372036854775807\"}");
    protobuf_c_message_free_unpacked(&header->base, NULL);
}

static void texts_are_escaped(void **state)
{
    (void)state;
    Api__WatchResponse answer = API__WATCH_RESPONSE__INIT;
    answer.cancel_reason = (char *)"a \"b\" \\ \n";
    answer.canceled = true;
    writes(&answer.base, "{\"canceled\":true,\"cancel_reason\":\"a \\\"b\\\" \\\\ \\u000a\"}");
}

static void json_error_names_the_invalid_field(void **state)
{
    (void)state;
    const ProtobufCMessageDescriptor *range = &api__range_request__descriptor;
    refuses(range, "{", "byte");
    refuses(range, "[]", "object");
    refuses(range, "{\"key\":\"%\"}", "\"key\": expected base64");
    refuses(range, "{\"key\":\"YR==\"}", "base64"); /* the unused low bits are not zero */
    refuses(range, "{\"key\":7}", "\"key\": expected base64");
    refuses(range, "{\"limit\":\"\"}", "\"limit\": expected an integer");
    refuses(range, "{\"limit\":\"9223372036854775808\"}", "\"limit\": expected an integer");
    refuses(range, "{\"limit\":1.5}", "\"limit\": expected an integer");
    refuses(range, "{\"sort_order\":\"SIDEWAYS\"}", "\"sort_order\"");
    refuses(range, "{\"serializable\":\"yes\"}", "\"serializable\": expected true or false");
    refuses(range, "{\"range_end\":\"Yg==\",\"rangeEnd\":\"Yg==\"}", "\"range_end\"");
    refuses(&api__header__descriptor, "{\"cluster_id\":-1}", "\"cluster_id\"");
    refuses(&api__alarm_request__descriptor, "{\"alarm\":2147483648}", "32-bit");
    refuses(&api__txn_request__descriptor, "{\"success\":{}}",
            "\"success\": expected a single list");
    refuses(&api__txn_request__descriptor, "{\"success\":[null]}", "\"success\"");
    refuses(&api__txn_request__descriptor,
            "{\"compare\":[{\"version\":1,\"create_revision\":\"1\"}]}",
            "at most one of these alternatives");
}

static void json_with_too_many_parts_is_refused_before_parsing(void **state)
{
    (void)state;
    char text[BW_JSON_PARTS_MAX + 2];
    memset(text, ',', sizeof text - 1);
    text[0] = '{';
    text[sizeof text - 1] = '\0';
    refuses(&api__range_request__descriptor, text, "parts");
}

static void base64_accepts_only_the_canonical_encoding(void **state)
{
    (void)state;
    unsigned char bytes[256], back[256];
    char text[400];
    size_t length;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bw_base64_write(text, bytes, i);
        assert_true(bw_base64_read(text, bw_base64_length(i), back, &length));
        assert_int_equal(length, i);
        assert_memory_equal(bytes, back, i);
    }
    assert_false(bw_base64_read("YQ=", 3, back, &length));
    assert_false(bw_base64_read("Y===", 4, back, &length));
    assert_false(bw_base64_read("YQ==YQ==", 8, back, &length));
    assert_false(bw_base64_read("YW_-", 4, back, &length));
}

static unsigned head_of(struct bw_http1_head *head, const char *text)
{
    return bw_http1_head_read(head, text, strlen(text));
}

static void http1_head_describes_its_body(void **state)
{
    (void)state;
    struct bw_http1_head head;
    assert_int_equal(head_of(&head,
                             "POST /v3/kv/put?x=1 HTTP/1.1\r\nhost: a\r\nContent-Length:  12 "
                             "\r\nExpect: 100-Continue\r\n\r\n"),
                     0);
    assert_int_equal(head.verb, BW_VERB_POST);
    assert_string_equal(head.path, "/v3/kv/put?x=1");
    assert_true(head.length == 12 && head.expects_continue && !head.close && !head.chunked);
    assert_int_equal(head_of(&head, "GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n"), 0);
    assert_true(head.is_http10 && !head.close);
    assert_int_equal(head_of(&head, "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: x ,close\r\n"
                                    "Transfer-Encoding: CHUNKED\r\n\r\n"),
                     0);
    assert_true(head.close && head.chunked && head.verb == BW_VERB_HEAD);
}

static void ambiguous_http1_head_is_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned status;
        const char *lines;
    } heads[] = {{400, "Content-Length: 1\r\nContent-Length: 2\r\n"},
                 {400, "Content-Length: 1, 1\r\n"},
                 {400, "Content-Length: +1\r\n"},
                 {400, "Content-Length: 99999999999999999999999\r\n"},
                 {400, "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"},
                 {501, "Transfer-Encoding: gzip, chunked\r\n"},
                 {400, "Content-Length : 1\r\n"},
                 {400, "A: b\r\n c\r\n"},
                 {400, "A: b\nContent-Length: 5\r\n"},
                 {400, "A: b\r c\r\n"},
                 {400, ": b\r\n"},
                 {400, "Host: again\r\n"},
                 {417, "Expect: wonders\r\n"}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        struct bw_http1_head head;
        char text[256];
        snprintf(text, sizeof text, "POST / HTTP/1.1\r\nHost: a\r\n%s\r\n", heads[i].lines);
        if (head_of(&head, text) != heads[i].status)
            fail_msg("%s", heads[i].lines);
    }
}

static enum bw_origin origin_of(const char *fields)
{
    struct bw_http1_head head;
    char text[256];
    snprintf(text, sizeof text, "POST / HTTP/1.1\r\n%s\r\n\r\n", fields);
    assert_int_equal(head_of(&head, text), 0);
    return head.origin;
}

static void request_of_another_sites_page_is_recognized(void **state)
{
    static const struct {
        enum bw_origin origin;
        const char *fields;
    } heads[] = {{BW_ORIGIN_NONE, "Host: 10.0.0.1:2379"},
                 {BW_ORIGIN_ADDRESS, "Host: 10.0.0.1:2379\r\nOrigin: http://10.0.0.1:2379"},
                 {BW_ORIGIN_ADDRESS, "Origin: https://[::1]:2379\r\nHost: [::1]:2379"},
                 {BW_ORIGIN_ADDRESS, "Host: localhost\r\nOrigin: HTTP://LOCALHOST"},
                 {BW_ORIGIN_NAME, "Host: 10.0.0.1.evil\r\nOrigin: http://10.0.0.1.evil"},
                 {BW_ORIGIN_NAME, "Host: [::1\r\nOrigin: http://[::1"},
                 {BW_ORIGIN_FOREIGN, "Host: 10.0.0.1:2379\r\nOrigin: http://10.0.0.2:2379"},
                 {BW_ORIGIN_FOREIGN, "Host: 10.0.0.1:2379\r\nOrigin: http://10.0.0.1"},
                 {BW_ORIGIN_FOREIGN, "Host: 10.0.0.1\r\nOrigin: null"},
                 {BW_ORIGIN_FOREIGN, "Host: 10.0.0.1\r\nOrigin:"},
                 {BW_ORIGIN_FOREIGN, "Host:\r\nOrigin: http://"}};
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        if (origin_of(heads[i].fields) != heads[i].origin)
            fail_msg("%s", heads[i].fields);
    struct bw_http1_head head;
    assert_int_equal(head_of(&head, "POST / HTTP/1.1\r\nHost: a\r\nOrigin: b\r\nOrigin: c\r\n\r\n"),
                     400);
}

static void chunk_size_is_parsed(void **state)
{
    (void)state;
    uint64_t size;
    assert_true(bw_http1_chunk_read("1aF", 3, &size) && size == 0x1af);
    assert_true(bw_http1_chunk_read("5 ;a=b", 6, &size) && size == 5);
    for (const char *const *bad =
             (const char *const[]){"", "-1", "0x5", "g", "ffffffffffffffffff", ";", "5 5", NULL};
         *bad; bad++)
        assert_false(bw_http1_chunk_read(*bad, strlen(*bad), &size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers_may_be_written_in_two_ways),
        cmocka_unit_test(empty_text_is_the_empty_message),
        cmocka_unit_test(numbers_keep_all_their_bits),
        cmocka_unit_test(texts_are_escaped),
        cmocka_unit_test(json_error_names_the_invalid_field),
        cmocka_unit_test(json_with_too_many_parts_is_refused_before_parsing),
        cmocka_unit_test(base64_accepts_only_the_canonical_encoding),
        cmocka_unit_test(http1_head_describes_its_body),
        cmocka_unit_test(ambiguous_http1_head_is_refused),
        cmocka_unit_test(request_of_another_sites_page_is_recognized),
        cmocka_unit_test(chunk_size_is_parsed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
