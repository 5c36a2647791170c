/* Settings of a peer URL; see settings.h. */
#include "store/peer/settings.h"

#include "core/base/bug.h"
#include "core/base/drift.h"
#include "core/base/limits.h"
#include "core/base/parse_values.h"
#include "net/loopback.h"

#include <stdio.h>
#include <string.h>

#define TTL_NS (10 * BW_SEC)

static const char *const keys[] = {
    "id",        "listen", "advertise", "join",          "data",         "members",
    "expect",    "name",   "value",     "priority",      "ordinary",     "leave",
    "algorithm", "quorum", "detector",  "ttl",           "period",       "detect",
    "latency",   "drift",  "key-file",  "tls-cert-file", "tls-key-file", "tls-ca-file",
    "insecure",  "shards", NULL};

static int read_text(const struct bw_url *url, const char *key, char *out, size_t size, char *why)
{
    const char *value = bw_url_query(url, key);
    int length = snprintf(out, size, "%s", value ? value : "");
    if (length < 0 || (size_t)length >= size)
        return bw_store_explain(why, BW_EINVAL, "invalid peer URL: %s= is too long", key);
    return 0;
}

static int read_texts(struct peer_settings *s, const struct bw_url *url, char *why)
{
    const struct {
        const char *key;
        char *out;
        size_t size;
    } texts[] = {{"listen", s->listen, sizeof s->listen},
                 {"advertise", s->advertise, sizeof s->advertise},
                 {"data", s->data, sizeof s->data},
                 {"members", s->members, sizeof s->members},
                 {"name", s->name, sizeof s->name},
                 {"value", s->value, sizeof s->value},
                 {"key-file", s->key_file, sizeof s->key_file},
                 {"tls-cert-file", s->tls_cert, sizeof s->tls_cert},
                 {"tls-key-file", s->tls_key, sizeof s->tls_key},
                 {"tls-ca-file", s->tls_ca, sizeof s->tls_ca}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int error = read_text(url, texts[i].key, texts[i].out, texts[i].size, why);
        if (error)
            return error;
    }
    if (strlen(url->path) > BW_ELECTION_NAME_MAX)
        return bw_store_explain(why, BW_EINVAL,
                                "invalid peer URL: the election name has more than %u bytes",
                                BW_ELECTION_NAME_MAX);
    memcpy(s->election, url->path, strlen(url->path) + 1);
    return 0;
}

static int read_numbers(struct peer_settings *s, const struct bw_url *url, char *why)
{
    const struct {
        const char *key;
        uint32_t *out;
        uint64_t max;
    } numbers[] = {{"id", &s->id, UINT32_MAX},
                   {"expect", &s->expect, BW_PEER_MEMBERS_MAX},
                   {"priority", &s->priority, 1000000},
                   {"shards", &s->shards, BW_SHARDS_MAX}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *text = bw_url_query(url, numbers[i].key);
        uint64_t number = 0;
        if (text && bw_text_number(text, strlen(text), numbers[i].max, &number) != 0)
            return bw_store_explain(why, BW_EINVAL,
                                    "invalid peer URL: %s=%.60s: expected a number up to %llu",
                                    numbers[i].key, text, (unsigned long long)numbers[i].max);
        *numbers[i].out = (uint32_t)number;
    }
    return 0;
}

static int read_times(struct peer_settings *s, const struct bw_url *url, char *why)
{
    const struct {
        const char *key;
        bw_time *out, otherwise;
    } times[] = {{"ttl", &s->ttl_ns, TTL_NS},
                 {"period", &s->times.period_ns, 0},
                 {"detect", &s->times.detect_ns, 0},
                 {"latency", &s->times.latency_ns, 0}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        const char *text = bw_url_query(url, times[i].key);
        *times[i].out = times[i].otherwise;
        if (text && (bw_text_duration(text, strlen(text), times[i].out) != 0 ||
                     *times[i].out < BW_MS || *times[i].out > BW_LEASE_TTL_MAX))
            return bw_store_explain(
                why, BW_EINVAL, "invalid peer URL: %s=%.60s: expected a duration of 1ms or more",
                times[i].key, text);
    }
    const char *drift = bw_url_query(url, "drift");
    double ratio = 0.01;
    if (drift && (bw_text_ratio(drift, strlen(drift), &ratio) != 0 || ratio > 0.3))
        return bw_store_explain(why, BW_EINVAL,
                                "invalid peer URL: drift=%.60s: expected a percentage up to 30%%",
                                drift);
    s->drift_ppm = (uint32_t)(ratio * 1e6 + 0.5);
    bw_peer_times_derive(&s->times);
    if (!bw_peer_times_fit(&s->times))
        return bw_store_explain(why, BW_EINVAL,
                                "invalid peer URL: detect= must be at least 3 times period=");
    return 0;
}

static int read_switches(struct peer_settings *s, const struct bw_url *url, char *why)
{
    const struct {
        const char *key;
        bool *out;
    } switches[] = {{"quorum", &s->quorum},
                    {"ordinary", &s->ordinary},
                    {"leave", &s->leave},
                    {"insecure", &s->insecure}};
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        const char *text = bw_url_query(url, switches[i].key);
        *switches[i].out = text && strcmp(text, "1") == 0;
        if (text && !*switches[i].out && strcmp(text, "0") != 0)
            return bw_store_explain(why, BW_EINVAL, "invalid peer URL: %s= must be 0 or 1",
                                    switches[i].key);
    }
    return 0;
}

static int read_choices(struct peer_settings *s, const struct bw_url *url, char *why)
{
    const char *algorithm = bw_url_query(url, "algorithm");
    const char *detector = bw_url_query(url, "detector");
    if (!algorithm)
        algorithm = "raft";
    if (!detector)
        detector = "phi";
    s->algorithm = bw_elector_find(algorithm);
    if (!s->algorithm)
        return bw_store_explain(why, BW_EINVAL, "invalid peer URL: unknown algorithm '%.60s'",
                                algorithm);
    s->detector = bw_detector_find(detector);
    if (!s->detector && strcmp(detector, "none") != 0)
        return bw_store_explain(why, BW_EINVAL, "invalid peer URL: unknown detector '%.60s'",
                                detector);
    if (!s->detector && !(s->algorithm->traits & BW_TRAIT_OWN_TIMERS))
        return bw_store_explain(
            why, BW_EINVAL,
            "invalid peer URL: algorithm %s needs a detector to notice a dead leader",
            s->algorithm->name);
    if (s->quorum && !(s->algorithm->traits & BW_TRAIT_GUARDABLE))
        return bw_store_explain(
            why, BW_EINVAL, "invalid peer URL: quorum=1 cannot be used with algorithm %s%s",
            s->algorithm->name,
            s->algorithm->traits & BW_TRAIT_MAY_SPLIT ? "" : ", which does not split anyway");
    return 0;
}

/* Appends the hosts of the URL to `join`. */
static int read_join(struct peer_settings *s, const struct bw_url *url, char *why)
{
    const char *given = bw_url_query(url, "join");
    int used = snprintf(s->join, sizeof s->join, "%s", given ? given : "");
    for (uint32_t i = 0; i < url->hosts; i++) {
        const struct bw_url_host *host = &url->host[i];
        bool six = strchr(host->name, ':') != NULL;
        if (host->port == 0)
            return bw_store_explain(why, BW_EINVAL, "invalid peer URL: host %.60s: missing port",
                                    host->name);
        if (used >= 0 && (size_t)used < sizeof s->join)
            used += snprintf(s->join + used, sizeof s->join - (size_t)used, "%s%s%s%s:%u",
                             used ? "," : "", six ? "[" : "", host->name, six ? "]" : "",
                             (unsigned)host->port);
    }
    if (used < 0 || (size_t)used >= sizeof s->join)
        return bw_store_explain(why, BW_EINVAL, "invalid peer URL: join= is too long");
    return 0;
}

static int check(const struct peer_settings *s, char *why)
{
    if (s->id == 0)
        return bw_store_explain(why, BW_EINVAL, "invalid peer URL: missing id=N (1 or more)");
    if (!s->listen[0] || !s->data[0])
        return bw_store_explain(why, BW_EINVAL,
                                "invalid peer URL: missing %s=", s->listen[0] ? "data" : "listen");
    if (!s->members[0] && !s->join[0] && s->expect != 1)
        return bw_store_explain(
            why, BW_EINVAL,
            "invalid peer URL: need join= or members=, or expect=1 for a single peer");
    if (s->shards && (!s->election[0] || strlen(s->election) + 11 > BW_ELECTION_NAME_MAX))
        return bw_store_explain(why, BW_EINVAL,
                                "invalid peer URL: shards= needs an election name of at most %u "
                                "bytes",
                                BW_ELECTION_NAME_MAX - 11);
    if (s->shards > 1 && !s->detector)
        return bw_store_explain(why, BW_EINVAL, "invalid peer URL: shards= needs a detector");
    if (s->shards > 1 && s->algorithm == &bw_elect_lowest)
        return bw_store_explain(
            why, BW_EINVAL,
            "invalid peer URL: algorithm %s has one leader for all shards; use another",
            s->algorithm->name);
    if (!s->tls_cert[0] != !s->tls_key[0] || !s->tls_cert[0] != !s->tls_ca[0])
        return bw_store_explain(
            why, BW_EINVAL,
            "invalid peer URL: tls-cert-file, tls-key-file and tls-ca-file must be given together");
    if (!s->key_file[0] && !s->insecure && !bw_net_address_is_loopback(s->listen))
        return bw_store_explain(
            why, BW_EDENIED,
            "%.80s is reachable from other machines without authentication; use "
            "the same key-file= for all peers (bellwether peer keygen), or "
            "insecure=1",
            s->listen);
    return 0;
}

int peer_settings_read(struct peer_settings *settings, const char *text, char *why)
{
    struct bw_url url;
    memset(settings, 0, sizeof *settings);
    int error = bw_url_parse(&url, text, why);
    if (!error)
        error = bw_url_check_keys(&url, keys, why);
    if (!error)
        error = read_texts(settings, &url, why);
    if (!error)
        error = read_numbers(settings, &url, why);
    if (!error)
        error = read_times(settings, &url, why);
    if (!error)
        error = read_switches(settings, &url, why);
    if (!error)
        error = read_choices(settings, &url, why);
    if (!error)
        error = read_join(settings, &url, why);
    return error ? error : check(settings, why);
}

bool peer_settings_token(const struct peer_settings *settings)
{
    return settings->quorum || (settings->algorithm->traits & BW_TRAIT_TOKEN);
}

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

/* Duration of a voter's promise. When a renewal arrives, up to a period after the heartbeat that
 * the promise answered, a TTL must be left, with clocks that drift on both sides. All peers must
 * use the same duration; it depends on the drift only above 9 %, where a quarter is too little. */
static bw_time promise(const struct peer_settings *s)
{
    bw_time periods = 2 * s->times.period_ns;
    bw_time usual = bw_time_add(s->ttl_ns + s->ttl_ns / 4, periods);
    if (s->drift_ppm <= 90000u || BW_BUG(peer_promise_ignores_drift))
        return usual;
    return bw_drift_lengthen(s->ttl_ns + s->ttl_ns / 8 + periods, s->drift_ppm);
}

void peer_settings_fill(const struct peer_settings *s, struct bw_peer_options *options)
{
    options->self = s->id;
    options->cluster = or_null(s->election);
    options->name = or_null(s->name);
    options->value = or_null(s->value);
    options->listen = s->listen;
    options->advertise = or_null(s->advertise);
    options->join = or_null(s->join);
    options->members_file = or_null(s->members);
    options->directory = s->data;
    options->expect = s->expect;
    options->algorithm = s->algorithm;
    options->quorum = s->quorum;
    options->detector = s->detector;
    options->elections = s->shards ? s->shards : 1;
    options->priority = s->priority;
    options->ordinary = s->ordinary;
    options->elect.count = s->expect; /* for timeouts that grow with the ring */
    bw_elector_defaults(&options->elect, s->times.latency_ns, s->times.period_ns);
    options->elect.timeout_min_ns = s->times.detect_ns;
    options->elect.timeout_max_ns = s->times.detect_ns + s->times.detect_ns * 2 / 5;
    options->elect.promise_ns = promise(s);
    options->elect.drift_ppm = s->drift_ppm;
    bw_detector_defaults(&options->detect, s->times.period_ns);
    options->detect.timeout_ns = s->times.detect_ns;
    options->detect.limit_ns = bw_time_max(options->detect.limit_ns, s->times.detect_ns);
}
