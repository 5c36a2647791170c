/* Checks a recorded history of a registry: is it linearizable, and do revisions only grow?
 *
 *     check-history [--steps N] FILE...     - is standard input; each file is a separate history
 *
 * --steps: bound of the search for the order of one key (default: 2000000). A step takes up to 32
 * bytes of memory.
 *
 * Exit code:
 *   0  the history is linearizable
 *   1  it is not; prints the line of an operation that fits into no order
 *   2  a file cannot be read, or a line is malformed
 *   3  no error was found, but the check of some key exceeded its bound
 *
 * A file has one operation per line, each a JSON object; the order of the lines does not matter.
 *
 *     field     of              what
 *     client    all             number of the client; optional
 *     op        all             "put" "get" "delete" "cas" "grant" "keepalive" "revoke"
 *     key       put get delete cas   a string
 *     value     put cas         the new value, a string
 *     expect    cas             the value to compare with, a string; null: the key must not exist
 *     version   get             version found; optional. cas: compared instead of `expect`
 *                               (0: the key must not exist)
 *     lease     put cas         the lease of the key, a number; 0 or absent: none
 *               grant keepalive revoke   the lease (the id that the service assigned)
 *     result    get             the value found, a string; null: no such key
 *               delete          number of deleted keys, 0 or 1
 *               cas             true: the comparison held and the value was put; false: it did not
 *               grant           true, or false: the id already existed; absent: true
 *               keepalive       the TTL in the response; 0 proves nothing: no such lease, or
 *                               one that the leader is about to revoke
 *               revoke          true, or false: no such lease; absent: true
 *     call      all             when the request was sent, an integer in any unit, but on one clock
 *                               for all clients of the file (time.monotonic_ns())
 *     return    all             when the response arrived; not needed if the outcome is unknown
 *     outcome   all             "ok": answered. "fail": certainly not done (refused, never sent).
 *                               "unknown": no response, or one that does not tell the result
 *     revision  ok ones         header.revision of the response; optional; compared across all keys
 *
 * Operations of other kinds (ranges, transactions on several keys) are not recorded. But all
 * changes of the keys in the history must be: a key starts as absent. Leases may expire. */
#include "core/base/error.h"
#include "sim/checks/history.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES ((size_t)4 << 20)
#define STEPS_MAX      500000000u

static const char *problem; /* reported with the current line */

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

/* Reads a string, or null for an absent value. */
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
    if (!error && op->kind == BW_HISTORY_CAS && op->version == BW_LINEAR_NO_VERSION)
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
    op->version = BW_LINEAR_NO_VERSION;
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

static int judge(const char *name, const struct bw_history *history, uint32_t steps)
{
    struct bw_history_verdict verdict;
    int error = bw_history_judge(history, steps, &verdict);
    if (error) {
        fprintf(stderr, "check-history: %s: %s\n", name, bw_error_text(error));
        return 2;
    }
    if (verdict.backward_line) {
        printf("not linearizable: a revision is smaller than an earlier one\n");
        show_line(name, verdict.backward_line);
        return 1;
    }
    if (verdict.linear.judgement == BW_LINEAR_WRONG) {
        printf("not linearizable: no order of the %u operations on this key or lease explains more "
               "than "
               "%u of them\n",
               verdict.linear.known, verdict.linear.placed);
        show_line(name, verdict.linear.stuck_line);
        return 1;
    }
    printf("%s: %u operations, %s", name, history->count,
           verdict.linear.undecided ? "no error found" : "linearizable\n");
    if (verdict.linear.undecided)
        printf(", %u keys or leases undecided\n", verdict.linear.undecided);
    return verdict.linear.undecided ? 3 : 0;
}

/* Returns the index of the first file, or 0 if the arguments are invalid. */
static int read_steps(int argc, char **argv, uint32_t *steps)
{
    char *end = NULL;
    if (argc < 2 || strcmp(argv[1], "--steps") != 0)
        return argc < 2 ? 0 : 1;
    unsigned long number = argc > 3 ? strtoul(argv[2], &end, 10) : 0;
    *steps = (uint32_t)number;
    return end && *end == '\0' && number > 0 && number <= STEPS_MAX ? 3 : 0;
}

int main(int argc, char **argv)
{
    int worst = 0;
    uint32_t steps = BW_LINEAR_STEPS;
    int first = read_steps(argc, argv, &steps);
    if (first == 0) {
        fprintf(stderr, "usage: check-history [--steps N] FILE...\n");
        return 2;
    }
    for (int i = first; i < argc; i++) {
        struct bw_history history = {0};
        FILE *file = strcmp(argv[i], "-") == 0 ? stdin : fopen(argv[i], "r");
        if (!file)
            fprintf(stderr, "check-history: cannot read %s\n", argv[i]);
        int found =
            file && read_file(file, argv[i], &history) == 0 ? judge(argv[i], &history, steps) : 2;
        worst = found == 1 || worst == 0 ? found : worst;
        bw_history_deinit(&history);
        if (file && file != stdin)
            fclose(file);
    }
    return worst;
}
