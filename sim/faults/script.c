/* Parses fault scripts and fault options; script.h describes the language.
 *
 * One table of verbs defines everything: the meaning of a verb, its arguments, and the fault that
 * ends it when a span T1..T2 is given. A line is first split into words, so that no form has to
 * parse blanks. */
#include "sim/faults/script.h"

#include "core/base/error.h"
#include "core/base/parse_values.h"
#include "sim/stores/lease.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX  8u
#define GROUPS_MAX 255u
/* Highest id that a script can name. Whether the group has it is checked at the end. */
#define IDS_MAX BW_DETECTOR_MEMBERS_MAX
#define NO_UNDO ((enum bw_sim_fault_kind)0xff)

struct words {
    const char *at[WORDS_MAX];
    uint32_t count;
};

struct verb {
    const char *name;
    enum bw_sim_fault_kind kind;
    const char *form; /* arguments */
    int (*parse)(struct bw_sim_fault *fault, const char *const *word, char *why);
    enum bw_sim_fault_kind undo; /* fault at T2 of T1..T2 */
};

__attribute__((format(printf, 3, 4))) static int fail(char *why, int error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(why, BW_SCRIPT_WHY, format, args);
    va_end(args);
    return error;
}

/* ---- arguments of verbs ---- */

static int parse_id(const char *text, bw_node *out, char *why)
{
    uint64_t id;
    if (bw_text_number(text, strlen(text), IDS_MAX, &id) != 0 || id == 0)
        return fail(why, BW_EINVAL, "invalid node '%s': expected a node id from 1", text);
    *out = (bw_node)id;
    return 0;
}

static int parse_nothing(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    (void)fault, (void)word;
    why[0] = '\0';
    return 0;
}

static int parse_node(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    return parse_id(word[0], &fault->node, why);
}

static int parse_who(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    if (strcmp(word[0], "leader") == 0) {
        fault->node = BW_NODE_NONE;
        return 0;
    }
    if (parse_id(word[0], &fault->node, why) == 0)
        return 0;
    return fail(why, BW_EINVAL, "invalid node '%s': expected a node id from 1, or leader", word[0]);
}

static int parse_peer(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    return parse_id(word[0], &fault->peer, why);
}

static int parse_pair(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    int error = parse_id(word[0], &fault->node, why);
    return error ? error : parse_id(word[1], &fault->peer, why);
}

static int parse_link(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    const char *arrow = strchr(word[0], '>');
    uint64_t from, to;
    if (!arrow || bw_text_number(word[0], (size_t)(arrow - word[0]), IDS_MAX, &from) != 0 ||
        bw_text_number(arrow + 1, strlen(arrow + 1), IDS_MAX, &to) != 0 || from == 0 || to == 0)
        return fail(why, BW_EINVAL,
                    "invalid link '%s': expected FROM>TO, for example 1>3 (quote it in a shell)",
                    word[0]);
    if (from == to)
        return fail(why, BW_EINVAL, "invalid link '%s': expected two different nodes", word[0]);
    fault->node = (bw_node)from;
    fault->peer = (bw_node)to;
    return 0;
}

static int parse_rate(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    if (bw_text_ratio(word[0], strlen(word[0]), &fault->rate) == 0)
        return 0;
    return fail(why, BW_EINVAL,
                "invalid fraction '%s': expected a number from 0 to 1 or a percentage, for "
                "example 0.1 or 10%%",
                word[0]);
}

static int parse_latency(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    if (bw_script_latency(word[0], &fault->latency) == 0)
        return 0;
    return fail(why, BW_EINVAL,
                "invalid latency '%s': expected a duration or a range with units, for example 5ms, "
                "1ms..50ms or exp:5ms+20ms",
                word[0]);
}

static int parse_drift(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    const char *text = word[1];
    bool minus = text[0] == '-';
    double rate;
    if (parse_id(word[0], &fault->node, why) != 0)
        return BW_EINVAL;
    if (text[0] == '-' || text[0] == '+')
        text++;
    if (bw_text_ratio(text, strlen(text), &rate) != 0 || rate > 0.5)
        return fail(why, BW_EINVAL,
                    "invalid drift '%s': expected at most 50%%, for example +1%%, -0.01 or +200ppm",
                    word[1]);
    fault->rate = minus ? -rate : rate;
    return 0;
}

static int parse_span(const char *text, bw_time *out, char *why)
{
    if (bw_text_duration(text, strlen(text), out) == 0)
        return 0;
    return fail(why, BW_EINVAL,
                "invalid duration '%s': expected a number with a unit, for example 10s, 250ms, "
                "1.5s, 5m or 100us",
                text);
}

static int parse_jump(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    const char *text = word[1];
    bool minus = text[0] == '-';
    if (parse_id(word[0], &fault->node, why) != 0)
        return BW_EINVAL;
    if (text[0] == '-' || text[0] == '+')
        text++;
    if (parse_span(text, &fault->span, why) != 0)
        return BW_EINVAL;
    fault->span = minus ? -fault->span : fault->span;
    return 0;
}

static int parse_slow(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    int error = parse_id(word[0], &fault->node, why);
    return error ? error : parse_span(word[1], &fault->span, why);
}

/* Marks the ids of one group "1,2,3" in `groups`, which has IDS_MAX + 1 entries. */
static int mark_group(uint8_t *groups, const char *text, size_t length, uint8_t group, char *why)
{
    for (size_t at = 0, end; at <= length; at = end + 1) {
        uint64_t id;
        for (end = at; end < length && text[end] != ',';)
            end++;
        if (bw_text_number(text + at, end - at, IDS_MAX, &id) != 0 || id == 0)
            return fail(why, BW_EINVAL,
                        "invalid list of nodes '%.*s': expected groups such as 1,2,3/4,5",
                        (int)length, text);
        if (groups[id] != 0)
            return fail(why, BW_EINVAL, "duplicate node %u: each node belongs to one group",
                        (unsigned)id);
        groups[id] = group;
    }
    return 0;
}

static int parse_groups(struct bw_sim_fault *fault, const char *const *word, char *why)
{
    unsigned group = 0;
    fault->groups = calloc(IDS_MAX + 1, 1);
    if (!fault->groups)
        return fail(why, BW_ENOMEM, "out of memory");
    for (const char *at = word[0], *end; at; at = end ? end + 1 : NULL) {
        end = strchr(at, '/');
        size_t length = end ? (size_t)(end - at) : strlen(at);
        int error = ++group > GROUPS_MAX
                        ? fail(why, BW_ELIMIT, "too many groups: expected at most %u", GROUPS_MAX)
                        : mark_group(fault->groups, at, length, (uint8_t)group, why);
        if (error != 0) {
            free(fault->groups);
            fault->groups = NULL;
            return error;
        }
    }
    return 0;
}

static const struct verb verbs[] = {
    {"crash", BW_FAULT_CRASH, "ID|leader", parse_who, BW_FAULT_RESTART},
    {"restart", BW_FAULT_RESTART, "ID", parse_node, NO_UNDO},
    {"pause", BW_FAULT_PAUSE, "ID|leader", parse_who, BW_FAULT_RESUME},
    {"resume", BW_FAULT_RESUME, "ID", parse_node, NO_UNDO},
    {"partition", BW_FAULT_PARTITION, "ID,.../ID,...", parse_groups, BW_FAULT_HEAL},
    {"cut", BW_FAULT_CUT, "FROM>TO", parse_link, BW_FAULT_MEND},
    {"mend", BW_FAULT_MEND, "FROM>TO", parse_link, NO_UNDO},
    {"heal", BW_FAULT_HEAL, "", parse_nothing, NO_UNDO},
    {"loss", BW_FAULT_LOSS, "P", parse_rate, NO_UNDO},
    {"latency", BW_FAULT_LATENCY, "D..D", parse_latency, NO_UNDO},
    {"drift", BW_FAULT_DRIFT, "ID +P", parse_drift, NO_UNDO},
    {"jump", BW_FAULT_JUMP, "ID +D", parse_jump, NO_UNDO},
    {"disk-fail", BW_FAULT_DISK_FAIL, "ID|leader", parse_who, NO_UNDO},
    {"disk-slow", BW_FAULT_DISK_SLOW, "ID D", parse_slow, NO_UNDO},
    {"hint", BW_FAULT_HINT, "ID PEER", parse_pair, NO_UNDO},
    {"confirm-dead", BW_FAULT_CONFIRM, "ID", parse_node, NO_UNDO},
    {"join", BW_FAULT_JOIN, "ID", parse_node, NO_UNDO},
    {"leave", BW_FAULT_LEAVE, "ID|leader", parse_who, NO_UNDO},
    {"campaign", BW_FAULT_CAMPAIGN, "ID", parse_node, NO_UNDO},
    {"resign", BW_FAULT_RESIGN, "ID|leader", parse_who, NO_UNDO},
    {"transfer", BW_FAULT_TRANSFER, "ID", parse_peer, NO_UNDO},
    {"store-down", BW_FAULT_STORE_DOWN, "", parse_nothing, BW_FAULT_STORE_UP},
    {"store-up", BW_FAULT_STORE_UP, "", parse_nothing, NO_UNDO},
};
#define VERBS (sizeof verbs / sizeof *verbs)

const char *bw_script_verb(unsigned i, const char **form)
{
    if (i >= VERBS)
        return NULL;
    *form = verbs[i].form;
    return verbs[i].name;
}

static uint32_t form_words(const struct verb *verb)
{
    uint32_t count = verb->form[0] != '\0';
    for (const char *c = verb->form; *c; c++)
        count += *c == ' ';
    return count;
}

static const struct verb *find_verb(const char *name, char *why)
{
    const struct verb *nearest = NULL;
    for (size_t i = 0; i < VERBS; i++) {
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
        if (bw_text_similar(name, verbs[i].name) &&
            (!nearest ||
             bw_text_distance(name, verbs[i].name) < bw_text_distance(name, nearest->name)))
            nearest = &verbs[i];
    }
    size_t used =
        (size_t)fail(why, 0, "unknown event '%.40s'; expected one of", name) + strlen(why);
    for (size_t i = 0; i < VERBS && used < BW_SCRIPT_WHY; i++)
        used += (size_t)snprintf(why + used, BW_SCRIPT_WHY - used, "%s %s", i ? "," : "",
                                 verbs[i].name);
    if (nearest && used < BW_SCRIPT_WHY)
        snprintf(why + used, BW_SCRIPT_WHY - used, " (did you mean %s?)", nearest->name);
    return NULL;
}

/* ---- one event ---- */

static int add_fault(struct bw_script *script, const struct bw_sim_fault *fault,
                     struct bw_script_place place, char *why)
{
    if (script->count == BW_SIM_FAULTS_MAX)
        return fail(why, BW_ELIMIT, "too many events: expected at most %u", BW_SIM_FAULTS_MAX);
    script->faults[script->count] = *fault;
    script->places[script->count++] = place;
    return 0;
}

static int parse_when(const char *text, const struct verb *verb, bw_time *from, bw_time *to,
                      char *why)
{
    if (bw_text_range(text, strlen(text), from, to) != 0)
        return fail(why, BW_EINVAL, "invalid time '%s': expected a time such as 2s%s", text,
                    verb->undo == NO_UNDO ? "" : " or 2s..5s");
    if (!strstr(text, ".."))
        *to = BW_TIME_NEVER;
    else if (verb->undo == NO_UNDO)
        return fail(why, BW_EINVAL, "invalid time '%s': %s happens at one time, for example 2s",
                    text, verb->name);
    return 0;
}

static int add_event(struct bw_script *script, struct bw_script_place place,
                     const struct verb *verb, const char *when, const struct words *behind,
                     char *why)
{
    struct bw_sim_fault fault = {.kind = verb->kind};
    bw_time to;
    if (behind->count != form_words(verb))
        return fail(why, BW_EINVAL, "wrong number of words after '%s': expected %s%s%s", verb->name,
                    verb->name, verb->form[0] ? " " : "", verb->form);
    int error = parse_when(when, verb, &fault.at, &to, why);
    if (error == 0)
        error = verb->parse(&fault, behind->at, why);
    if (error != 0)
        return error;
    error = add_fault(script, &fault, place, why);
    if (error != 0)
        free(fault.groups);
    if (error != 0 || to == BW_TIME_NEVER)
        return error;
    fault.kind = verb->undo;
    fault.at = to;
    fault.groups = NULL;
    return add_fault(script, &fault, place, why);
}

int bw_script_flag(struct bw_script *script, const char *verb, const char *value, char *why)
{
    char copy[4096];
    const struct verb *known = find_verb(verb, why);
    struct words behind = {.at = {copy}, .count = known && known->form[0] ? 1 : 0};
    const char *when = strrchr(value, '@');
    if (!known)
        return BW_EINVAL;
    if (!behind.count) /* --store-down 2s..5s */
        return add_event(script, (struct bw_script_place){known->name, 0}, known, value, &behind,
                         why);
    if (!when)
        return fail(why, BW_EINVAL, "missing time in '%.100s': expected %s@%s", value, known->form,
                    known->undo == NO_UNDO ? "T" : "T1..T2 or @T");
    if ((size_t)(when - value) >= sizeof copy)
        return fail(why, BW_ELIMIT, "longer than %zu bytes", sizeof copy);
    memcpy(copy, value, (size_t)(when - value));
    copy[when - value] = '\0';
    return add_event(script, (struct bw_script_place){known->name, 0}, known, when + 1, &behind,
                     why);
}

/* ---- a whole script ---- */

/* Splits a line into words in place. A '#' at the start of a word begins a comment. */
static int split(char *line, struct words *words, char *why)
{
    words->count = 0;
    for (char *at = line; *at;) {
        at += strspn(at, " \t\r");
        if (*at == '\0' || *at == '#')
            break;
        if (words->count == WORDS_MAX)
            return fail(why, BW_EINVAL, "too many words: expected at most %u", WORDS_MAX);
        words->at[words->count++] = at;
        at += strcspn(at, " \t\r");
        if (*at)
            *at++ = '\0';
    }
    return 0;
}

static int parse_setting(struct bw_script *script, struct bw_script_place place,
                         const struct words *words, char *why)
{
    if (script->count > 0 || script->steps_count > 0)
        return fail(why, BW_EINVAL,
                    "setting after the first event; move '%s' up, or write an event, for example "
                    "'at 2s crash 3'",
                    words->at[0]);
    if (words->count > 2)
        return fail(why, BW_EINVAL,
                    "expected a setting with a name and a value, for example 'nodes 5', or an "
                    "event, for example 'at 2s crash 3'");
    if (script->settings_count == BW_SCRIPT_SETTINGS_MAX)
        return fail(why, BW_ELIMIT, "too many settings: expected at most %u",
                    BW_SCRIPT_SETTINGS_MAX);
    script->settings[script->settings_count++] =
        (struct bw_script_setting){words->at[0], words->count == 2 ? words->at[1] : NULL, place};
    return 0;
}

/* Takes the rest of a `do` line, without comment and trailing blanks. */
static int parse_step(struct bw_script *script, char *text, struct bw_script_place place, char *why)
{
    if (script->steps_count == BW_SCRIPT_STEPS_MAX)
        return fail(why, BW_ELIMIT, "too many actions: expected at most %u", BW_SCRIPT_STEPS_MAX);
    text += strspn(text, " \t\r");
    text[strcspn(text, "#")] = '\0';
    for (size_t length = strlen(text); length > 0 && strchr(" \t\r", text[length - 1]); length--)
        text[length - 1] = '\0';
    script->step_places[script->steps_count] = place;
    script->steps[script->steps_count++] = text;
    return 0;
}

static int parse_line(struct bw_script *script, char *line, struct bw_script_place place, char *why)
{
    struct words words, behind = {.count = 0};
    char *start = line + strspn(line, " \t\r");
    if (strncmp(start, "do ", 3) == 0)
        return parse_step(script, start + 3, place, why);
    int error = split(line, &words, why);
    if (error != 0 || words.count == 0)
        return error;
    if (strcmp(words.at[0], "at") != 0)
        return parse_setting(script, place, &words, why);
    if (words.count < 3)
        return fail(why, BW_EINVAL,
                    "incomplete event: expected a time and a fault, for example 'at 2s crash 3'");
    const struct verb *verb = find_verb(words.at[2], why);
    if (!verb)
        return BW_EINVAL;
    for (uint32_t i = 3; i < words.count; i++)
        behind.at[behind.count++] = words.at[i];
    return add_event(script, place, verb, words.at[1], &behind, why);
}

/* Puts FILE:LINE (or the option) before the reason. */
static int with_place(struct bw_script_place place, int error, char *why)
{
    char text[BW_SCRIPT_WHY];
    snprintf(text, sizeof text, "%s", why);
    if (place.line)
        snprintf(why, BW_SCRIPT_WHY, "%.120s:%u: %.*s", place.source, place.line, 260, text);
    else
        snprintf(why, BW_SCRIPT_WHY, "--%.120s: %.*s", place.source, 260, text);
    return error;
}

static int parse_owned(struct bw_script *script, const char *name, char *why)
{
    unsigned line = 0;
    for (char *at = script->text, *end; at && *at; at = end) {
        struct bw_script_place place = {name, ++line};
        end = strchr(at, '\n');
        if (end)
            *end++ = '\0';
        int error = parse_line(script, at, place, why);
        if (error != 0)
            return with_place(place, error, why);
    }
    return 0;
}

int bw_script_parse(struct bw_script *script, const char *text, const char *name, char *why)
{
    free(script->text);
    script->text = strdup(text);
    if (!script->text)
        return fail(why, BW_ENOMEM, "out of memory");
    return parse_owned(script, name, why);
}

int bw_script_read(struct bw_script *script, FILE *file, const char *name, char *why)
{
    free(script->text);
    script->text = calloc(BW_SCRIPT_TEXT_MAX + 1, 1);
    if (!script->text)
        return fail(why, BW_ENOMEM, "out of memory");
    size_t size = fread(script->text, 1, BW_SCRIPT_TEXT_MAX + 1, file);
    if (ferror(file))
        return fail(why, BW_EINVAL, "cannot read %.120s", name);
    if (size > BW_SCRIPT_TEXT_MAX)
        return fail(why, BW_ELIMIT, "cannot read %.120s: longer than %u bytes", name,
                    BW_SCRIPT_TEXT_MAX);
    if (memchr(script->text, '\0', size))
        return fail(why, BW_EINVAL,
                    "cannot read %.120s: it contains a zero byte; expected plain text", name);
    return parse_owned(script, name, why);
}

void bw_script_init(struct bw_script *script)
{
    memset(script, 0, sizeof *script);
}

void bw_script_deinit(struct bw_script *script)
{
    for (uint32_t i = 0; i < script->count; i++)
        free(script->faults[i].groups);
    free(script->text);
    memset(script, 0, sizeof *script);
}

int bw_script_latency(const char *text, struct bw_sim_latency *out)
{
    struct bw_sim_latency latency = {.dist = BW_DIST_UNIFORM};
    bw_time mean;
    if (strncmp(text, "exp:", 4) != 0) {
        int error = bw_text_range(text, strlen(text), &latency.min, &latency.max);
        if (error == 0)
            *out = latency;
        return error;
    }
    const char *least = text + 4, *plus = strchr(least, '+');
    if (!plus || bw_text_duration(least, (size_t)(plus - least), &latency.min) != 0 ||
        bw_text_duration(plus + 1, strlen(plus + 1), &mean) != 0)
        return BW_EINVAL;
    latency.dist = BW_DIST_EXPONENTIAL;
    latency.max = bw_time_add(latency.min, mean);
    *out = latency;
    return 0;
}

/* ---- when the group's size is known ---- */

static int check_id(bw_node id, uint32_t known, char *why)
{
    if (id <= known)
        return 0;
    return fail(why, BW_EINVAL, "node %u does not exist; the nodes are 1..%u (see --nodes)", id,
                known);
}

static int check_fault(const struct bw_sim_fault *fault, uint32_t known, uint32_t nodes, char *why)
{
    if (fault->kind == BW_FAULT_JOIN && fault->node <= nodes)
        return fail(why, BW_EINVAL,
                    "node %u is a member from the start; a joining node is %u or higher",
                    fault->node, nodes + 1);
    int error = check_id(fault->node, known, why);
    if (error == 0)
        error = check_id(fault->peer, known, why);
    for (bw_node id = known + 1; error == 0 && fault->groups && id <= IDS_MAX; id++)
        if (fault->groups[id])
            error = check_id(id, known, why);
    return error;
}

static int make_room(const struct bw_script *script, struct bw_sim_config *config, char *why)
{
    for (uint32_t i = 0; i < script->count; i++) {
        const struct bw_sim_fault *fault = &script->faults[i];
        if (fault->kind != BW_FAULT_JOIN || fault->node <= config->nodes + config->spare)
            continue;
        if (fault->node > config->nodes + BW_ELECTOR_MEMBERS_MAX) {
            fail(why, BW_EINVAL, "join skips an id: node %u given, but the next free id is %u",
                 fault->node, config->nodes + 1);
            return with_place(script->places[i], BW_EINVAL, why);
        }
        config->spare = fault->node - config->nodes;
    }
    return 0;
}

/* Sorts by time. The sort is stable: of two faults at one instant the first in the script happens
 * first. */
static void sort_faults(struct bw_script *script)
{
    for (uint32_t i = 1; i < script->count; i++) {
        struct bw_sim_fault fault = script->faults[i];
        struct bw_script_place place = script->places[i];
        uint32_t j = i;
        for (; j > 0 && script->faults[j - 1].at > fault.at; j--) {
            script->faults[j] = script->faults[j - 1];
            script->places[j] = script->places[j - 1];
        }
        script->faults[j] = fault;
        script->places[j] = place;
    }
}

int bw_script_finish(struct bw_script *script, struct bw_sim_config *config, char *why)
{
    int error = make_room(script, config, why);
    uint32_t known = config->nodes + config->spare + bw_sim_stores(config);
    for (uint32_t i = 0; i < script->count && error == 0; i++) {
        error = check_fault(&script->faults[i], known, config->nodes, why);
        if (error != 0)
            return with_place(script->places[i], error, why);
    }
    if (error != 0)
        return error;
    sort_faults(script);
    config->faults = script->faults;
    config->faults_count = script->count;
    return 0;
}
