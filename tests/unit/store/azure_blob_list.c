/* The answer of List Blobs: which blobs are elections, and what is malformed. */
#include "store/azure/blob_list.h"
#include "store/azure/text.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAD                                                                                       \
    "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"                                     \
    "<EnumerationResults ServiceEndpoint=\"https://a/?x=>\" ContainerName='c'><Blobs>"
#define TAIL                "</Blobs><NextMarker /></EnumerationResults>"
#define EMPTY               "<Properties><Content-Length>0</Content-Length></Properties>"
#define BLOB(name, content) "<Blob><Name>" name "</Name>" content "</Blob>"

static struct bw_names names;
static char marker[AZURE_MARKER_MAX + 1];

static int parse(const char *body)
{
    bw_names_free(&names);
    return bw_azure_list_parse(body, strlen(body), &names, marker);
}

/* The number of elections in a page with this one blob. */
static uint32_t count(const char *blob)
{
    char body[4096];
    snprintf(body, sizeof body, HEAD "%s" TAIL, blob);
    assert_int_equal(parse(body), 0);
    return names.count;
}

static void elections_and_marker_are_read(void **state)
{
    (void)state;
    assert_int_equal(
        parse(HEAD BLOB("led", "<Properties><Etag>0x1</Etag><Content-Length>0</Content-Length>"
                               "</Properties><Metadata><Bellwether>{}</Bellwether></Metadata>")
                  BLOB("a &amp; &#98;&#x63;%25", EMPTY "<Metadata/>")
                      BLOB("led%note", EMPTY) "</Blobs><NextMarker>2!8&lt;</NextMarker>"
                                              "</EnumerationResults>"),
        0);
    assert_int_equal(names.count, 2);
    assert_string_equal(names.rows[0].text, "led");
    assert_string_equal(names.rows[1].text, "a & bc%");
    assert_string_equal(marker, "2!8<");
    assert_int_equal(parse(HEAD TAIL), 0);
    assert_string_equal(marker, "");
}

static void blobs_of_other_programs_are_left_out(void **state)
{
    (void)state;
    assert_int_equal(count(BLOB("e", EMPTY)), 1);
    assert_int_equal(count("<Blob>" EMPTY "</Blob>"), 0);
    assert_int_equal(count(BLOB("e", "")), 0);
    assert_int_equal(
        count(BLOB("e", "<Properties><Content-Length>1</Content-Length></Properties>")), 0);
    assert_int_equal(count(BLOB("e", EMPTY "<Metadata><color>red</color></Metadata>")), 0);
    assert_int_equal(count(BLOB("e", EMPTY "<Metadata><color/></Metadata>")), 0);
    assert_int_equal(count("<Blob><Name Encoded=\"true\">e</Name>" EMPTY "</Blob>"), 0);
    assert_int_equal(count("<BlobPrefix><Name>e</Name>" EMPTY "</BlobPrefix>"), 0);
    assert_int_equal(count(BLOB("e&unknown;", EMPTY)), 0);
    assert_int_equal(count(BLOB("e&#300;", EMPTY)), 0);
}

static void name_is_found_again_from_its_blob(void **state)
{
    static const char *const elections[] = {"e", "a.b",   "a.",   ".",
                                            "%", "50%25", "a\\b", "\xc3\xbc"};
    static const char *const others[] = {"",     "a%note", "%",  "%2", "%zz",
                                         "%2Ea", "a\\",    "a.", "%41"};
    char blob[AZURE_NAME_MAX + 1], found[BW_ELECTION_NAME_MAX + 1];
    char longest[BW_ELECTION_NAME_MAX + 2] = "";
    (void)state;
    for (size_t i = 0; i < sizeof elections / sizeof elections[0]; i++) {
        bw_azure_blob_name(elections[i], blob);
        assert_true(bw_azure_election_of(blob, found));
        assert_string_equal(found, elections[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(bw_azure_election_of(others[i], found));
    memset(longest, '%', sizeof longest - 2);
    bw_azure_blob_name(longest, blob);
    assert_true(bw_azure_election_of(blob, found));
    assert_string_equal(found, longest);
    memset(longest, 'x', sizeof longest - 1);
    assert_false(bw_azure_election_of(longest, found));
}

static void malformed_answers_are_refused(void **state)
{
    static const char *const bodies[] = {"",
                                         "text",
                                         "<",
                                         "<>",
                                         "</>",
                                         "<a",
                                         "<a b='>",
                                         "<html></html>",
                                         "<EnumerationResults>",
                                         "</EnumerationResults>",
                                         "<EnumerationResults></Blobs>",
                                         "<EnumerationResults><!-- --></EnumerationResults>",
                                         "<EnumerationResults/><EnumerationResults/>",
                                         "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>"};
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++)
        assert_int_equal(parse(bodies[i]), BW_EMALFORMED);
    static const char start[] = "<EnumerationResults><NextMarker>";
    static const char end[] = "</NextMarker></EnumerationResults>";
    static char body[AZURE_MARKER_MAX + 200];
    const size_t at = sizeof start - 1;
    memcpy(body, start, at);
    memset(body + at, 'm', AZURE_MARKER_MAX + 1);
    memcpy(body + at + AZURE_MARKER_MAX + 1, end, sizeof end);
    assert_int_equal(parse(body), BW_EMALFORMED);
    memcpy(body + at + AZURE_MARKER_MAX, end, sizeof end);
    assert_int_equal(parse(body), 0);
    assert_int_equal(strlen(marker), AZURE_MARKER_MAX);
}

/* Every prefix of an answer, and every answer with one byte changed, is parsed or refused. */
static void no_byte_of_an_answer_is_trusted(void **state)
{
    static const char body[] = HEAD BLOB("a&amp;", EMPTY) "</Blobs><NextMarker>x</NextMarker>"
                                                          "</EnumerationResults>";
    static const char changes[] = "<>/&;#!?\"' x";
    (void)state;
    for (size_t length = 0; length + 1 < sizeof body; length++) {
        char *part = malloc(length + 1);
        assert_non_null(part);
        memcpy(part, body, length);
        bw_names_free(&names);
        assert_int_equal(bw_azure_list_parse(part, length, &names, marker), BW_EMALFORMED);
        for (size_t i = 0; length > 0 && i < sizeof changes; i++) {
            memcpy(part, body, length);
            part[length - 1] = changes[i];
            bw_azure_list_parse(part, length, &names, marker);
        }
        free(part);
    }
    bw_names_free(&names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elections_and_marker_are_read),
        cmocka_unit_test(blobs_of_other_programs_are_left_out),
        cmocka_unit_test(name_is_found_again_from_its_blob),
        cmocka_unit_test(malformed_answers_are_refused),
        cmocka_unit_test(no_byte_of_an_answer_is_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
