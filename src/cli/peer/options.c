/* The options of `bellwether peer`. The options for the work are those of `bellwether run`. */
#include "cli/peer/peer.h"

#include "core/base/parse_values.h"
#include "core/detect/detector.h"
#include "core/elect/elector.h"
#include "core/peer/member.h"
#include "net/loopback.h"
#include "store/kit/url.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define AT(field)     BW_JOB_AT(field)
#define CONFIG(field) BW_JOB_AT(config.field)
#define PEER(field)   offsetof(struct bw_peer_cli, field)

_Static_assert(offsetof(struct bw_peer_cli, job) == 0, "work_options.inc needs job at offset 0");

static const char *algorithm_word(unsigned i)
{
    const struct bw_elector_ops *ops = bw_elector_at(i);
    return ops ? ops->name : NULL;
}

static int set_word(const struct bw_option *option, void *target, const char *value, char *why)
{
    for (unsigned i = 0; option->word(i); i++)
        if (strcmp(option->word(i), value) == 0)
            return bw_set_text(option, target, value, why);
    return bw_unknown_word(why, option->name, value, option->word);
}

const struct bw_option bw_peer_option_rows[] = {
    {.help = "this peer"},
    {"id", "N", "unique number of this peer, from 1 (required)", bw_set_u32, PEER(id), 1,
     UINT32_MAX, NULL},
    {"name", "NAME", "name of this peer in output (default: the number)", bw_set_text, PEER(name),
     0, 0, NULL},
    {"listen", "ADDR", "HOST:PORT to listen on, for UDP and TCP (required)", bw_set_text,
     PEER(listen), 0, 0, NULL},
    {"advertise", "ADDR", "HOST:PORT at which other peers reach this peer (default: --listen)",
     bw_set_text, PEER(advertise), 0, 0, NULL},
    {"data", "DIR", "directory for this peer's persistent state; must not be shared (required)",
     bw_set_text, PEER(data), 0, 0, NULL},
    {"value", "V",
     "text to publish with the leadership, for example the leader's address (default: empty)",
     bw_set_text, CONFIG(value), 0, 0, NULL},
    {.help = "the other peers"},
    {"election", "NAME",
     "name of the election; peers of other elections are ignored (default: peer)", bw_set_text,
     CONFIG(election), 0, 0, NULL},
    {"join", "ADDR,...",
     "addresses of some peers, HOST:PORT,...; for a DNS name all its addresses are tried (required "
     "unless --members)",
     bw_set_text, PEER(join), 0, 0, NULL},
    {"expect", "N",
     "number of peers that form a new cluster; there is no leader before they have met (default: "
     "join an existing cluster)",
     bw_set_u32, PEER(expect), 1, BW_PEER_MEMBERS_MAX, NULL},
    {"members", "FILE",
     "file with the complete list of peers, instead of --join: ID HOST:PORT [priority=N] "
     "[ordinary] (default: none)",
     bw_set_text, PEER(members), 0, 0, NULL},
    {"on-split-brain", "CMD",
     "shell command that the lower-numbered of two simultaneous leaders runs; see peer recover "
     "(default: none)",
     bw_set_text, CONFIG(on_split_brain), 0, 0, NULL},
    {"leave", NULL,
     "leave the cluster for good when this peer exits, so that no peer waits for it (default: stay "
     "a member)",
     bw_set_switch, PEER(leave), 0, 0, NULL},
    {"shards", "N",
     "number of shards; each shard NAME.0 to NAME.(N-1) has its own leader; the same N on all "
     "peers (default: no shards)",
     bw_set_u32, AT(shards), 1, BW_SHARDS_MAX, NULL},
    {.help = "election algorithm"},
    {"algorithm", "A", "election algorithm; see bellwether sim compare (default: raft)", set_word,
     PEER(algorithm), 0, 0, algorithm_word},
    {"quorum", NULL,
     "add the quorum guard to an algorithm that can elect two leaders (default: off)",
     bw_set_switch, PEER(quorum), 0, 0, NULL},
    {"priority", "N",
     "prefer peers with a higher priority, if the algorithm ranks its members (default: 0)",
     bw_set_u32, PEER(priority), 0, 1000000, NULL},
    {"ordinary", NULL, "never become a candidate, if the algorithm supports it (default: off)",
     bw_set_switch, PEER(ordinary), 0, 0, NULL},
    {"detector", "NAME", "failure detector (default: phi)", set_word, PEER(detector), 0, 0,
     bw_word_detector},
    {"period", "D",
     "interval between heartbeats; the same on all peers (default: 100ms, or a fifth of --detect "
     "if that is less)",
     bw_set_duration, PEER(times.period_ns), 1, 0, NULL},
    {"detect", "D",
     "silence after which a peer is suspected; below 500ms the same on all peers (default: 500ms, "
     "or more: five times --period, ten times --latency)",
     bw_set_duration, PEER(times.detect_ns), 1, 0, NULL},
    {"latency", "D", "expected maximum latency of a message (default: 50ms)", bw_set_duration,
     PEER(times.latency_ns), 1, 0, NULL},
    {.help = "authentication"},
    {"key-file", "FILE",
     "file with the shared keys, one per line; see bellwether peer keygen (default: none)",
     bw_set_text, PEER(key_file), 0, 0, NULL},
    {"tls-cert", "FILE",
     "use TLS between peers, with this certificate of this peer (PEM) (default: no TLS)",
     bw_set_text, PEER(tls_cert), 0, 0, NULL},
    {"tls-key", "FILE", "private key of --tls-cert (default: none)", bw_set_text, PEER(tls_key), 0,
     0, NULL},
    {"tls-ca", "FILE", "CA certificates that sign the peers' certificates (default: none)",
     bw_set_text, PEER(tls_ca), 0, 0, NULL},
#include "cli/run/work_options.inc"
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};

void bw_peer_cli_init(struct bw_peer_cli *options)
{
    memset(options, 0, sizeof *options);
    bw_job_options_init(&options->job);
    options->job.config.path = "bellwether peer";
    options->job.config.store_error_prefix = "";
    options->job.config.store_down_text = "this peer is not part of a cluster yet";
    options->job.config.store_up_text = "this peer is part of the cluster";
    options->job.config.promise = true;
    options->job.config.election = "peer";
    /* A retry is cheap: the peer store is in this process. */
    options->job.config.retry_ns = 200 * BW_MS;
    options->job.accept_no_token = true; /* the supervisor warns at start instead */
    options->algorithm = "raft";
    options->detector = "phi";
}

/* ---- the URL ---- */

struct url {
    char *text;
    size_t used, size;
};

static void put(struct url *url, const char *text, bool encoded)
{
    static const char hex[] = "0123456789ABCDEF";
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = !encoded || isalnum(c) || strchr("-._~:/,[]", c);
        char three[4] = {(char)c, 0, 0, 0};
        if (!plain) {
            three[0] = '%';
            three[1] = hex[c >> 4];
            three[2] = hex[c & 15];
        }
        size_t length = strlen(three);
        if (url->used + length < url->size)
            memcpy(url->text + url->used, three, length + 1);
        url->used += length;
    }
}

static void put_key(struct url *url, const char *key, const char *value)
{
    if (!value || !value[0])
        return;
    put(url, strchr(url->text, '?') ? "&" : "?", false);
    put(url, key, false);
    put(url, "=", false);
    put(url, value, true);
}

static void put_number(struct url *url, const char *key, uint32_t number)
{
    char text[16];
    snprintf(text, sizeof text, "%u", (unsigned)number);
    put_key(url, key, number ? text : "");
}

static void put_time(struct url *url, const char *key, bw_time span)
{
    char text[32];
    snprintf(text, sizeof text, "%lldns", (long long)span);
    put_key(url, key, text);
}

static int make_url(const struct bw_cli_command *command, struct bw_peer_cli *o)
{
    struct url url = {.text = o->job.store_text, .size = sizeof o->job.store_text};
    char drift[32];
    snprintf(drift, sizeof drift, "%uppm", (unsigned)o->job.config.terms.drift_ppm);
    put(&url, "peer:///", false);
    put(&url, o->job.config.election, true);
    put_number(&url, "id", o->id);
    put_key(&url, "name", o->name);
    put_key(&url, "listen", o->listen);
    put_key(&url, "advertise", o->advertise);
    put_key(&url, "join", o->join);
    put_key(&url, "data", o->data);
    put_key(&url, "members", o->members);
    put_number(&url, "expect", o->expect);
    put_key(&url, "value", o->job.config.value);
    put_number(&url, "shards", o->job.shards);
    put_number(&url, "priority", o->priority);
    put_key(&url, "algorithm", o->algorithm);
    put_key(&url, "detector", o->detector);
    put_number(&url, "quorum", o->quorum);
    put_number(&url, "ordinary", o->ordinary);
    put_number(&url, "leave", o->leave);
    put_time(&url, "ttl", o->job.config.terms.ttl_ns);
    put_time(&url, "period", o->times.period_ns);
    put_time(&url, "detect", o->times.detect_ns);
    put_time(&url, "latency", o->times.latency_ns);
    put_key(&url, "drift", drift);
    put_key(&url, "key-file", o->key_file);
    put_key(&url, "tls-cert-file", o->tls_cert);
    put_key(&url, "tls-key-file", o->tls_key);
    put_key(&url, "tls-ca-file", o->tls_ca);
    put_number(&url, "insecure", o->job.insecure);
    if (url.used > BW_URL_TEXT_MAX || url.used >= url.size)
        return bw_usage_error(command,
                              "the names and paths are too long: more than %u bytes together",
                              BW_URL_TEXT_MAX);
    o->job.config.store = url.text;
    return BW_GO_ON;
}

/* ---- rules ---- */

static int check_who(const struct bw_cli_command *command, struct bw_peer_cli *o)
{
    if (o->id == 0)
        return bw_usage_error(command, "missing option: --id N; see '%s --help'", command->path);
    if (!o->listen)
        return bw_usage_error(command, "missing option: --listen HOST:PORT; see '%s --help'",
                              command->path);
    if (!o->data)
        return bw_usage_error(command, "missing option: --data DIR; see '%s --help'",
                              command->path);
    if (o->members && (o->join || o->expect))
        return bw_usage_error(
            command,
            "--members conflicts with --join and --expect; give only one way to find the peers");
    if (!o->members && !o->join && o->expect != 1)
        return bw_usage_error(command,
                              "need --join HOST:PORT,... and --expect N, or --members FILE");
    if (strlen(o->job.config.value) > BW_PEER_VALUE_MAX)
        return bw_usage_error(command, "invalid --value: longer than %u bytes", BW_PEER_VALUE_MAX);
    if (o->name && strlen(o->name) > BW_CANDIDATE_ID_MAX)
        return bw_usage_error(command, "invalid --name: longer than %u bytes", BW_CANDIDATE_ID_MAX);
    snprintf(o->job.id_text, sizeof o->job.id_text, "%u", (unsigned)o->id);
    o->job.config.id = o->name ? o->name : o->job.id_text;
    return BW_GO_ON;
}

static int check_how(const struct bw_cli_command *command, const struct bw_peer_cli *o)
{
    const struct bw_elector_ops *algorithm = bw_elector_find(o->algorithm);
    bool guardable = algorithm->traits & BW_TRAIT_GUARDABLE;
    if (o->quorum && !guardable)
        return bw_usage_error(
            command, "--quorum does not support the algorithm %s%s", o->algorithm,
            algorithm->traits & BW_TRAIT_MAY_SPLIT ? "" : ", which never elects two leaders");
    if (strcmp(o->detector, "none") == 0 && !(algorithm->traits & BW_TRAIT_OWN_TIMERS))
        return bw_usage_error(
            command, "--detector none: %s needs a detector to notice that the leader failed",
            o->algorithm);
    if (o->job.shards && algorithm == &bw_elect_lowest)
        return bw_usage_error(command, "--shards: %s has one leader for all shards", o->algorithm);
    if (o->job.shards && strcmp(o->detector, "none") == 0)
        return bw_usage_error(command,
                              "--shards needs a detector, because shards move between live peers");
    return BW_GO_ON;
}

static int derive_times(const struct bw_cli_command *command, struct bw_peer_cli *o)
{
    const struct {
        const char *name;
        bw_time value, least, most;
    } times[] = {{"period", o->times.period_ns, BW_PEER_PERIOD_MIN, BW_PEER_TIME_MAX},
                 {"latency", o->times.latency_ns, BW_MS, BW_PEER_TIME_MAX},
                 {"detect", o->times.detect_ns, BW_PEER_DETECT_MIN, BW_PEER_DETECT_MAX}};
    char text[4][BW_SPAN_TEXT];
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        bool detect = times[i].most == BW_PEER_DETECT_MAX;
        bw_time least = detect ? bw_time_max(times[i].least, 3 * times[0].value) : times[i].least;
        if (times[i].value != 0 &&
            (times[i].value < times[i].least || times[i].value > times[i].most))
            return bw_usage_error(command, "use --%s %s or more, at most %s", times[i].name,
                                  bw_span_exact(text[0], least),
                                  bw_span_exact(text[1], times[i].most));
    }
    bw_peer_times_derive(&o->times);
    if (bw_peer_times_fit(&o->times))
        return BW_GO_ON;
    return bw_usage_error(
        command,
        "use --detect %s or more, or --period %s or less: --detect %s is less than three times "
        "--period %s",
        bw_span_exact(text[0], 3 * o->times.period_ns),
        bw_span_exact(text[1], o->times.detect_ns / 3), bw_span_exact(text[2], o->times.detect_ns),
        bw_span_exact(text[3], o->times.period_ns));
}

static int check_secure(const struct bw_cli_command *command, const struct bw_peer_cli *o)
{
    if (!o->tls_cert != !o->tls_key || !o->tls_cert != !o->tls_ca)
        return bw_usage_error(command, "--tls-cert, --tls-key and --tls-ca must be given together");
    if (!o->key_file && !o->job.insecure && !bw_net_address_is_loopback(o->listen))
        return bw_usage_error(command,
                              "--listen %.80s is reachable from other machines, which could pose "
                              "as peers; give all peers the same key (umask 077; bellwether peer "
                              "keygen > FILE) with --key-file FILE, or use --insecure",
                              o->listen);
    return BW_GO_ON;
}

int bw_peer_cli_finish(const struct bw_cli_command *command, struct bw_peer_cli *o,
                       const struct bw_parsed *parsed)
{
    bw_job_derive_terms(&o->job, NULL);
    int code = check_who(command, o);
    if (code == BW_GO_ON)
        code = check_how(command, o);
    if (code == BW_GO_ON)
        code = derive_times(command, o);
    if (code == BW_GO_ON)
        code = check_secure(command, o);
    if (code == BW_GO_ON)
        code = make_url(command, o);
    if (code == BW_GO_ON)
        code = bw_job_options_finish(command, &o->job, parsed);
    if (code != BW_GO_ON)
        return code;
    if (mkdir(o->data, 0700) != 0 && errno != EEXIST)
        return bw_usage_error(command, "cannot use --data %.200s: %s", o->data, strerror(errno));
    return BW_GO_ON;
}
