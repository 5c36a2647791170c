/* Setters: convert the text of a value (core/base/parse_values.h) and store it where the option's
 * row says. */
#include "cli/options/options.h"

#include "core/base/error.h"
#include "core/base/parse_values.h"

#include <string.h>

static void *place(const struct bw_option *option, void *target)
{
    return (char *)target + option->offset;
}

static int invalid(char *why, const char *value, const char *what, const char *expected)
{
    snprintf(why, BW_WHY, "invalid %s '%.80s': %s", what, value, expected);
    return -1;
}

int bw_set_switch(const struct bw_option *option, void *target, const char *value, char *why)
{
    if (value) {
        snprintf(why, BW_WHY, "takes no value (got '%.80s')", value);
        return -1;
    }
    *(bool *)place(option, target) = true;
    return 0;
}

static int number(const struct bw_option *option, const char *value, uint64_t most, uint64_t *out,
                  char *why)
{
    uint64_t low = (uint64_t)option->low;
    uint64_t high = option->high > 0 ? (uint64_t)option->high : most;
    if (bw_text_number(value, strlen(value), high, out) == 0 && *out >= low)
        return 0;
    bool digits = *value && value[strspn(value, "0123456789")] == '\0';
    int used = snprintf(why, BW_WHY, "invalid number '%.80s': expected an integer ", value);
    if (option->high > 0 || digits)
        snprintf(why + used, BW_WHY - (size_t)used, "from %llu to %llu", (unsigned long long)low,
                 (unsigned long long)high);
    else
        snprintf(why + used, BW_WHY - (size_t)used, "of at least %llu", (unsigned long long)low);
    return -1;
}

int bw_set_u32(const struct bw_option *option, void *target, const char *value, char *why)
{
    uint64_t n;
    if (number(option, value, UINT32_MAX, &n, why) != 0)
        return -1;
    *(uint32_t *)place(option, target) = (uint32_t)n;
    return 0;
}

int bw_set_u64(const struct bw_option *option, void *target, const char *value, char *why)
{
    return number(option, value, UINT64_MAX, place(option, target), why);
}

int bw_set_decimal(const struct bw_option *option, void *target, const char *value, char *why)
{
    double n;
    if (bw_text_decimal(value, strlen(value), &n) != 0 || n < option->low || n > option->high) {
        snprintf(why, BW_WHY, "invalid number '%.80s': expected a number from %g to %g", value,
                 option->low, option->high);
        return -1;
    }
    *(double *)place(option, target) = n;
    return 0;
}

int bw_set_duration(const struct bw_option *option, void *target, const char *value, char *why)
{
    bw_time span;
    if (bw_text_duration(value, strlen(value), &span) != 0)
        return invalid(why, value, "duration",
                       "expected a number with a unit, for example 10s, 250ms, 1.5s, 5m or 100us");
    if (option->low > 0 && span <= 0)
        return invalid(why, value, "duration", "expected more than 0");
    *(bw_time *)place(option, target) = span;
    return 0;
}

int bw_set_range(const struct bw_option *option, void *target, const char *value, char *why)
{
    bw_time *out = place(option, target);
    if (bw_text_range(value, strlen(value), &out[0], &out[1]) != 0 || out[0] <= 0)
        return invalid(
            why, value, "range",
            "expected MIN..MAX above 0, for example 150ms..300ms, or one duration, for example 1s");
    return 0;
}

int bw_set_chance(const struct bw_option *option, void *target, const char *value, char *why)
{
    double *out = place(option, target), p;
    if (bw_text_ratio(value, strlen(value), &p) != 0)
        return invalid(why, value, "fraction",
                       "expected a number from 0 to 1 or a percentage, for example 0.1 or 10%");
    if (option->high > 0 && p > option->high) {
        snprintf(why, BW_WHY, "invalid fraction '%.80s': expected at most %g", value, option->high);
        return -1;
    }
    *out = p;
    return 0;
}

int bw_set_latency(const struct bw_option *option, void *target, const char *value, char *why)
{
    if (bw_script_latency(value, place(option, target)) != 0)
        return invalid(why, value, "latency",
                       "expected a duration or a range with units, for example 5ms, 1ms..50ms or "
                       "exp:5ms+20ms");
    return 0;
}

int bw_set_text(const struct bw_option *option, void *target, const char *value, char *why)
{
    if (*value == '\0') {
        snprintf(why, BW_WHY, "must not be empty; expected %s", option->form);
        return -1;
    }
    *(const char **)place(option, target) = value;
    return 0;
}

const char *bw_word_algorithm(unsigned i)
{
    const struct bw_elector_ops *ops = bw_sim_algorithm_at(i);
    return ops ? ops->name : NULL;
}

const char *bw_word_detector(unsigned i)
{
    const struct bw_detector_ops *ops = bw_detector_at(i);
    if (ops)
        return ops->name;
    return i > 0 && bw_detector_at(i - 1) ? "none" : NULL;
}

int bw_set_algorithm(const struct bw_option *option, void *target, const char *value, char *why)
{
    const struct bw_elector_ops *ops = bw_sim_algorithm_find(value);
    if (!ops)
        return bw_unknown_word(why, "algorithm", value, bw_word_algorithm);
    *(const struct bw_elector_ops **)place(option, target) = ops;
    return 0;
}

int bw_set_detector(const struct bw_option *option, void *target, const char *value, char *why)
{
    const struct bw_detector_ops *ops = bw_detector_find(value);
    if (!ops && strcmp(value, "none") != 0)
        return bw_unknown_word(why, "detector", value, bw_word_detector);
    *(const struct bw_detector_ops **)place(option, target) = ops;
    return 0;
}

int bw_set_nodes(const struct bw_option *option, void *target, const char *value, char *why)
{
    struct bw_node_list *list = place(option, target);
    int error = bw_text_nodes(value, strlen(value), list->at, BW_ELECTOR_MEMBERS_MAX, &list->count);
    if (error == BW_ELIMIT) {
        snprintf(why, BW_WHY, "too many nodes: expected at most %u", BW_ELECTOR_MEMBERS_MAX);
        return -1;
    }
    if (error != 0)
        return invalid(why, value, "list of nodes",
                       "expected distinct node ids from 1, for example 1,2,3");
    return 0;
}

const char *const bw_lease_options[] = {
    "ttl",           "grace",     "retry",      "kill-after",        "store-model",
    "store-expires", "store-lag", "store-down", "clock-uncertainty", NULL};

const char *bw_word_store(unsigned i)
{
    return bw_sim_store_name(i);
}

int bw_set_store(const struct bw_option *option, void *target, const char *value, char *why)
{
    for (unsigned i = 0; bw_word_store(i); i++)
        if (strcmp(bw_word_store(i), value) == 0) {
            *(enum bw_sim_store *)place(option, target) = (enum bw_sim_store)i;
            return 0;
        }
    return bw_unknown_word(why, "store model", value, bw_word_store);
}
