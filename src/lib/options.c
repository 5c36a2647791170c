/* Options: copies them whatever their size, fills in defaults, checks them. */
#include "lib/lib.h"

#include "core/base/limits.h"
#include "core/lease/derive.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define KILL_AFTER_MS 2000
#define DRIFT_PPM     10000u
#define MS_MAX        (BW_LEASE_TTL_MAX / BW_MS)

/* The program's struct may be shorter than ours (an older program) or longer (a newer one).
 * Missing fields become zero, unknown fields are ignored. */
int bw_lib_copy(void *out, size_t size, const void *from)
{
    size_t given;
    memset(out, 0, size);
    if (!from)
        return 0;
    memcpy(&given, from, sizeof given);
    if (given < sizeof given)
        return bw_lib_fail(
            BW_EINVAL, "options.size is not set: get the struct from its ..._default() function");
    memcpy(out, from, given < size ? given : size);
    return 0;
}

/* The caller's struct may be longer or shorter than ours, so only its own size counts. */
static int init(void *out, size_t size)
{
    if (!out || size < sizeof size)
        return bw_lib_fail(BW_EINVAL,
                           "cannot set a struct to its defaults: it is NULL or has %zu bytes; pass "
                           "its address and its size",
                           size);
    memset(out, 0, size);
    memcpy(out, &size, sizeof size);
    return 0;
}

int bw_options_init(struct bw_options *options, size_t size)
{
    return init(options, size);
}

int bw_campaign_options_init(struct bw_campaign_options *options, size_t size)
{
    return init(options, size);
}

int bw_run_options_init(struct bw_run_options *options, size_t size)
{
    return init(options, size);
}

int bw_leader_info_init(struct bw_leader_info *info, size_t size)
{
    return init(info, size);
}

static int make_id(char *out, size_t size)
{
    char host[BW_CANDIDATE_ID_MAX + 1] = "host";
    uint32_t random = 0;
    gethostname(host, sizeof host - 1);
    host[sizeof host - 1] = '\0';
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return bw_lib_fail(BW_EIO, "cannot read random numbers for the default id");
    snprintf(out, size, "%.40s-%ld-%08x", host, (long)getpid(), random);
    return 0;
}

int bw_lib_options(struct bw_handle *h, const struct bw_options *options)
{
    const struct bw_options *o = &h->options;
    int error = bw_lib_copy(&h->options, sizeof h->options, options);
    if (error)
        return error;
    int64_t times[] = {o->ttl_ms,   o->kill_after_ms, o->margin_ms,
                       o->retry_ms, o->grace_ms,      o->clock_uncertainty_ms};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        if (times[i] < 0 || times[i] > MS_MAX)
            return bw_lib_fail(BW_EINVAL, "invalid time in the options: expected 0 to 365 days");
    if (!o->id)
        return make_id(h->id, sizeof h->id);
    if (!o->id[0] || strlen(o->id) > BW_CANDIDATE_ID_MAX)
        return bw_lib_fail(BW_EINVAL, "invalid id: expected 1 to %u bytes", BW_CANDIDATE_ID_MAX);
    memcpy(h->id, o->id, strlen(o->id) + 1);
    return 0;
}

static bw_time or_default(int64_t ms, bw_time otherwise)
{
    return ms > 0 ? ms * BW_MS : otherwise;
}

int bw_lib_settings(const struct bw_handle *h, int64_t ttl_ms, struct settings *out)
{
    const struct bw_options *o = &h->options;
    if (ttl_ms < 0 || ttl_ms > MS_MAX)
        return bw_lib_fail(BW_EINVAL, "invalid ttl_ms: expected 0 to 365 days");
    const struct bw_store_ops *ops = bw_asker_store_ops(h->asker);
    struct bw_lease_given given = {.ttl_ns = or_default(ttl_ms, o->ttl_ms * BW_MS),
                                   .kill_after_ns = or_default(o->kill_after_ms, -1),
                                   .kill_default_ns = KILL_AFTER_MS * BW_MS,
                                   .margin_ns = o->margin_ms * BW_MS,
                                   .uncertainty_ns = o->clock_uncertainty_ms * BW_MS,
                                   .drift_ppm = o->drift_ppm ? o->drift_ppm : DRIFT_PPM,
                                   .ttl_default_ns = bw_store_ttl_default(ops),
                                   .ttl_max_ns = ops->ttl_max_ns};
    struct bw_lease_terms *terms = &out->terms;
    if (given.ttl_ns)
        given.kill_default_ns = bw_time_min(given.ttl_ns / 5, given.kill_default_ns);
    bw_lease_derive(terms, &given);
    bw_time ttl = terms->ttl_ns;
    out->retry_ns = or_default(o->retry_ms, bw_time_max(ttl / 5, 10 * BW_MS));
    out->grace_ns = o->grace_ms * BW_MS;
    enum bw_lease_rule rule = bw_lease_check(terms);
    char why[BW_WHY_MAX + 1];
    if (bw_store_ttl_check(ops, ttl, why) != 0)
        return bw_lib_fail(BW_EINVAL, "ttl %lld ms: %s", (long long)(ttl / BW_MS), why);
    if (terms->uncertainty_ns > 0 && !(ops->traits & BW_STORE_WALL))
        return bw_lib_fail(BW_EINVAL,
                           "store %s cannot keep the end of a lease as wall-clock time; set "
                           "clock_uncertainty_ms to 0",
                           ops->scheme);
    if (rule == BW_LEASE_RULE_NONE)
        return 0;
    return bw_lib_fail(BW_EINVAL,
                       "ttl %lld ms, kill_after %lld ms, margin %lld ms, drift %u ppm do not "
                       "fit together: required: %s",
                       (long long)(ttl / BW_MS), (long long)(terms->kill_after_ns / BW_MS),
                       (long long)(terms->margin_ns / BW_MS), terms->drift_ppm,
                       bw_lease_rule_text(rule));
}
