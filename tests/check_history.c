/* Judges a recorded history of a registry: was it linearizable, and did revisions only grow?
 *
 *     check-history FILE...          - is standard input; each file is a history by itself
 *
 * Exit 0: it was. 1: it was not; the line that has no place is printed. 2: a file cannot be read or
 * a line is malformed. 3: nothing wrong was found, but some key was too hard to decide.
 *
 * A file has one operation per line, each a JSON object; the order of the lines does not matter.
 *
 *     field     of              what
 *     client    all             who asked, a number; optional
 *     op        all             "put" "get" "delete" "cas" "grant" "keepalive" "revoke"
 *     key       put get delete cas   a string
 *     value     put cas         a string: what is put
 *     expect    cas             the value compared with, a string; null: the key must not exist
 *     version   get             version found; optional. cas: compared instead of `expect`
 *                               (0: the key must not exist)
 *     lease     put cas         the lease it is put under, a number; 0 or absent: none
 *               grant keepalive revoke   which lease (the id that the service gave)
 *     result    get             the value found, a string; null: no such key
 *               delete          how many were deleted, 0 or 1
 *               cas             true: the comparison held and it was put; false: it did not
 *               grant           true, or false: there was a lease of this id; absent: true
 *               keepalive       the TTL that the answer gave; 0 proves nothing: no such lease, or
 *                               one that the node that leads is about to revoke
 *               revoke          true, or false: no such lease; absent: true
 *     call      all             when it was asked, a whole number, in any unit, but on one clock
 *     return    all             for all clients of the file (time.monotonic_ns()); when the
 *                               answer came. Not needed of an unknown one
 *     outcome   all             "ok": answered. "fail": certainly not done (refused, never sent).
 *                               "unknown": no answer, or one that does not say whether it was done
 *     revision  ok ones         the answer's header.revision; optional; compared across all keys
 *
 * What an operation of another kind did (ranges, transactions on many keys) is left out, but nobody
 * may change the keys of the history unrecorded: a key begins as absent. Leases may expire. */
#include "core/base/error.h"
#include "sim/checks/history.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES ((size_t)4 << 20)

static const char *problem; /* with the line being read */

static int wrong(const char *what)
{
    problem = what;
    return -1;
}

static int read_word(const json_t *line, const char *name, const char *const *words, int *out)
{
    const char *word = json_string_value(json_object_get(line, name));
    for (int i = 0; word && words[i]; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = i;
            return 0;
        }
    return wrong(name);
}

static int read_name(const json_t *value, uint64_t *out, const char *what)
{
    if (!json_is_string(value))
        return wrong(what);
    *out = bw_history_name(json_string_value(value), json_string_length(value));
    return 0;
}

/* A string, or null for what is not there. */
static int read_value(const json_t *value, uint64_t *out, const char *what)
{
    *out = BW_LINEAR_ABSENT;
    return json_is_null(value) ? 0 : read_name(value, out, what);
}

static int read_result(const json_t *line, struct bw_history_op *op)
{
    const json_t *result = json_object_get(line, "result");
    if (op->outcome != BW_LINEAR_OK || op->kind == BW_HISTORY_PUT)
        return 0;
    if (op->kind == BW_HISTORY_GET)
        return read_value(result, &op->value, "result");
    bool may_lack = op->kind == BW_HISTORY_GRANT || op->kind == BW_HISTORY_REVOKE;
    op->done = json_is_true(result) || json_integer_value(result) > 0 || (!result && may_lack);
    if (!json_is_boolean(result) && !json_is_integer(result) && !(may_lack && !result))
        return wrong("result");
    return 0;
}

static int read_key(const json_t *line, struct bw_history_op *op)
{
    const json_t *version = json_object_get(line, "version");
    int error = read_name(json_object_get(line, "key"), &op->key, "key");
    if (json_is_integer(version) && json_integer_value(version) >= 0)
        op->version = json_integer_value(version);
    else if (version && !json_is_null(version))
        return wrong("version");
    if (!error && (op->kind == BW_HISTORY_PUT || op->kind == BW_HISTORY_CAS))
        error = read_name(json_object_get(line, "value"), &op->value, "value");
    if (!error && op->kind == BW_HISTORY_CAS && op->version == BW_LINEAR_UNTOLD)
        error = read_value(json_object_get(line, "expect"), &op->expect, "expect");
    return error;
}

static int read_times(const json_t *line, struct bw_history_op *op)
{
    const json_t *call = json_object_get(line, "call"), *back = json_object_get(line, "return");
    if (!json_is_integer(call))
        return wrong("call");
    op->call = json_integer_value(call);
    op->back = json_is_integer(back) ? json_integer_value(back) : BW_TIME_NEVER;
    if (op->outcome == BW_LINEAR_OK && (!json_is_integer(back) || op->back < op->call))
        return wrong("return");
    return 0;
}

static int read_op(const json_t *line, struct bw_history_op *op)
{
    static const char *const kinds[] = {"put",   "get",       "delete", "cas",
                                        "grant", "keepalive", "revoke", NULL};
    static const char *const outcomes[] = {"ok", "fail", "unknown", NULL};
    int kind = 0, outcome = 0;
    if (!json_is_object(line))
        return wrong("not an object");
    if (read_word(line, "op", kinds, &kind) || read_word(line, "outcome", outcomes, &outcome))
        return -1;
    op->kind = (enum bw_history_kind)kind;
    op->outcome = (enum bw_linear_outcome)outcome;
    op->version = BW_LINEAR_UNTOLD;
    op->client = (uint32_t)json_integer_value(json_object_get(line, "client"));
    op->lease = json_integer_value(json_object_get(line, "lease"));
    op->revision = json_integer_value(json_object_get(line, "revision"));
    int error = kind <= BW_HISTORY_CAS ? read_key(line, op) : 0;
    if (kind > BW_HISTORY_CAS && op->lease == 0 && op->outcome == BW_LINEAR_OK)
        return wrong("lease");
    if (!error)
        error = read_times(line, op);
    return error ? error : read_result(line, op);
}

static int read_file(FILE *file, const char *name, struct bw_history *history)
{
    char *text = NULL;
    size_t size = 0;
    uint32_t number = 0;
    int error = 0;
    while (!error && getline(&text, &size, file) >= 0) {
        json_error_t why;
        struct bw_history_op op = {.line = ++number};
        if (strspn(text, " \n") == strlen(text))
            continue;
        json_t *line = strlen(text) > LINE_MAX_BYTES ? NULL : json_loads(text, 0, &why);
        problem = "not JSON";
        error = line ? read_op(line, &op) : -1;
        json_decref(line);
        if (error)
            fprintf(stderr, "check-history: %s:%u: %s\n", name, number, problem);
        else if ((error = bw_history_add(history, &op)) != 0)
            fprintf(stderr, "check-history: %s: %s\n", name, bw_error_text(error));
    }
    free(text);
    return error;
}

static void show_line(const char *name, uint32_t wanted)
{
    FILE *file = strcmp(name, "-") == 0 ? NULL : fopen(name, "r");
    char *text = NULL;
    size_t size = 0;
    printf("%s:%u: ", name, wanted);
    for (uint32_t number = 1; file && getline(&text, &size, file) >= 0; number++)
        if (number == wanted)
            printf("%s", text);
    if (!file)
        printf("\n");
    free(text);
    if (file)
        fclose(file);
}

static int judge(const char *name, const struct bw_history *history)
{
    struct bw_history_verdict verdict;
    int error = bw_history_judge(history, 0, &verdict);
    if (error) {
        fprintf(stderr, "check-history: %s: %s\n", name, bw_error_text(error));
        return 2;
    }
    if (verdict.backward_line) {
        printf("not linearizable: a revision that is older than what was known before\n");
        show_line(name, verdict.backward_line);
        return 1;
    }
    if (verdict.linear.judgement == BW_LINEAR_WRONG) {
        printf(
            "not linearizable: of %u operations on this key or lease %u find a place, then not\n",
            verdict.linear.known, verdict.linear.placed);
        show_line(name, verdict.linear.stuck_line);
        return 1;
    }
    printf("%s: %u operations, %s", name, history->count,
           verdict.linear.undecided ? "nothing wrong found" : "linearizable\n");
    if (verdict.linear.undecided)
        printf(", %u keys or leases not decided\n", verdict.linear.undecided);
    return verdict.linear.undecided ? 3 : 0;
}

int main(int argc, char **argv)
{
    int worst = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: check-history FILE...\n");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        struct bw_history history = {0};
        FILE *file = strcmp(argv[i], "-") == 0 ? stdin : fopen(argv[i], "r");
        if (!file)
            fprintf(stderr, "check-history: cannot read %s\n", argv[i]);
        int found = file && read_file(file, argv[i], &history) == 0 ? judge(argv[i], &history) : 2;
        worst = found == 1 || worst == 0 ? found : worst;
        bw_history_deinit(&history);
        if (file && file != stdin)
            fclose(file);
    }
    return worst;
}
