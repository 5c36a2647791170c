/* The options of `bellwether peer`; what is said about the work is `bellwether run`'s own. */
#include "cli/peer/peer.h"

#include "core/base/text.h"
#include "core/cluster/member.h"
#include "core/detect/detector.h"
#include "core/elect/elector.h"
#include "net/loopback.h"
#include "store/kit/url.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define AT(field)     BW_JOB_AT(field)
#define CONFIG(field) BW_JOB_AT(config.field)
#define PEER(field)   offsetof(struct bw_peer_cli, field)

_Static_assert(offsetof(struct bw_peer_cli, job) == 0, "run_rows.inc counts from the job");

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
    {.help = "who this is"},
    {"id", "N", "this peer's number, its alone, from 1 (required)", bw_set_u32, PEER(id), 1,
     UINT32_MAX, NULL},
    {"name", "NAME", "its name for people (default: the number)", bw_set_text, PEER(name), 0, 0,
     NULL},
    {"listen", "ADDR", "HOST:PORT, UDP and TCP alike (required)", bw_set_text, PEER(listen), 0, 0,
     NULL},
    {"advertise", "ADDR", "where others reach it (default: as --listen)", bw_set_text,
     PEER(advertise), 0, 0, NULL},
    {"data", "DIR", "where it keeps what it must not forget; its alone (required)", bw_set_text,
     PEER(data), 0, 0, NULL},
    {"value", "V", "published with the leadership: the leader's address, say", bw_set_text,
     CONFIG(value), 0, 0, NULL},
    {.help = "the others"},
    {"election", "NAME", "what they elect for; peers of another name are not heard (default: peer)",
     bw_set_text, CONFIG(election), 0, 0, NULL},
    {"join", "ADDR,...", "where to find some of them; of a DNS name every address is tried",
     bw_set_text, PEER(join), 0, 0, NULL},
    {"expect", "N", "how many found the cluster: nobody leads before they have met", bw_set_u32,
     PEER(expect), 1, BW_PEER_MEMBERS_MAX, NULL},
    {"members", "FILE", "or exactly these are the cluster: ID HOST:PORT [priority=N] [ordinary]",
     bw_set_text, PEER(members), 0, 0, NULL},
    {"on-split-brain", "CMD",
     "when two led at once: a shell line at the lower-numbered of them, see peer recover",
     bw_set_text, CONFIG(on_split_brain), 0, 0, NULL},
    {"leave", NULL, "when it ends, it leaves for good: nobody waits for it to come back",
     bw_set_switch, PEER(leave), 0, 0, NULL},
    {"shards", "N",
     "one leadership per shard, NAME.0 to NAME.(N-1), spread over the peers; the same "
     "N for all of them",
     bw_set_u32, AT(shards), 1, BW_SHARDS_MAX, NULL},
    {.help = "how they elect"},
    {"algorithm", "A", "default raft; see bellwether sim compare", set_word, PEER(algorithm), 0, 0,
     algorithm_word},
    {"quorum", NULL, "puts the quorum guard around an algorithm that may split", bw_set_switch,
     PEER(quorum), 0, 0, NULL},
    {"priority", "N", "higher ones are elected first, where the algorithm ranks", bw_set_u32,
     PEER(priority), 0, 1000000, NULL},
    {"ordinary", NULL, "never a candidate, where the algorithm knows such members", bw_set_switch,
     PEER(ordinary), 0, 0, NULL},
    {"detector", "D", "who is alive? default phi", set_word, PEER(detector), 0, 0,
     bw_word_detector},
    {"period", "D", "how often they beat (default 100ms)", bw_set_duration, PEER(period_ns), 1, 0,
     NULL},
    {"detect", "D", "how soon silence is noticed (default 500ms)", bw_set_duration, PEER(detect_ns),
     1, 0, NULL},
    {"latency", "D", "how long a message may take (default 50ms)", bw_set_duration,
     PEER(latency_ns), 1, 0, NULL},
    {.help = "who may take part"},
    {"key-file", "FILE", "the keys they share, one per line; see bellwether peer keygen",
     bw_set_text, PEER(key_file), 0, 0, NULL},
    {"tls-cert", "FILE", "TLS between them as well: this peer's certificate (PEM)", bw_set_text,
     PEER(tls_cert), 0, 0, NULL},
    {"tls-key", "FILE", "its key", bw_set_text, PEER(tls_key), 0, 0, NULL},
    {"tls-ca", "FILE", "who signs theirs", bw_set_text, PEER(tls_ca), 0, 0, NULL},
#include "cli/run/rows.inc"
    {NULL, NULL, NULL, NULL, 0, 0, 0, NULL},
};

void bw_peer_cli_init(struct bw_peer_cli *options)
{
    memset(options, 0, sizeof *options);
    bw_job_options_init(&options->job);
    options->job.config.path = "bellwether peer";
    options->job.config.store_said = "";
    options->job.config.store_away_said = "this peer takes no part yet";
    options->job.config.store_back_said = "this peer takes part";
    options->job.config.promise = true;
    options->job.config.election = "peer";
    /* Asking costs nothing: the one asked is this process. */
    options->job.config.retry_ns = 200 * BW_MS;
    options->job.accept_no_token = true; /* said at start instead */
    options->algorithm = "raft";
    options->detector = "phi";
    options->period_ns = 100 * BW_MS;
    options->detect_ns = 500 * BW_MS;
    options->latency_ns = 50 * BW_MS;
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
    snprintf(drift, sizeof drift, "%uppm", (unsigned)(o->job.drift * 1e6 + 0.5));
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
    put_time(&url, "period", o->period_ns);
    put_time(&url, "detect", o->detect_ns);
    put_time(&url, "latency", o->latency_ns);
    put_key(&url, "drift", drift);
    put_key(&url, "key-file", o->key_file);
    put_key(&url, "tls-cert-file", o->tls_cert);
    put_key(&url, "tls-key-file", o->tls_key);
    put_key(&url, "tls-ca-file", o->tls_ca);
    put_number(&url, "insecure", o->job.insecure);
    if (url.used > BW_URL_TEXT_MAX || url.used >= url.size)
        return bw_usage_error(command, "names and paths together have more than %u bytes",
                              BW_URL_TEXT_MAX);
    o->job.config.store = url.text;
    return BW_GO_ON;
}

/* ---- rules ---- */

static int check_who(const struct bw_cli_command *command, struct bw_peer_cli *o)
{
    if (o->id == 0)
        return bw_usage_error(command, "which peer is this? Write --id N");
    if (!o->listen)
        return bw_usage_error(command, "where do the others reach it? Write --listen HOST:PORT");
    if (!o->data)
        return bw_usage_error(command, "where does it keep what it must not forget? Write --data "
                                       "DIR");
    if (o->members && (o->join || o->expect))
        return bw_usage_error(command, "--members says who the others are; --join and --expect "
                                       "find that out: one or the other");
    if (!o->members && !o->join && o->expect != 1)
        return bw_usage_error(command,
                              "who are the others? Write --join HOST:PORT,... and --expect "
                              "N, or --members FILE");
    if (strlen(o->job.config.value) > BW_PEER_VALUE_MAX)
        return bw_usage_error(command, "--value: at most %u bytes", BW_PEER_VALUE_MAX);
    if (o->name && strlen(o->name) > BW_CANDIDATE_ID_MAX)
        return bw_usage_error(command, "--name: at most %u bytes", BW_CANDIDATE_ID_MAX);
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
            command, "--quorum: no guard fits around %s%s", o->algorithm,
            algorithm->traits & BW_TRAIT_MAY_SPLIT ? "" : "; it needs none: it does not split");
    if (strcmp(o->detector, "none") == 0 && !(algorithm->traits & BW_TRAIT_OWN_TIMERS))
        return bw_usage_error(command, "--detector none: %s notices no dead leader without one",
                              o->algorithm);
    if (o->job.shards && algorithm == &bw_elect_lowest)
        return bw_usage_error(command, "--shards: %s has one leader for all of them", o->algorithm);
    if (o->job.shards && strcmp(o->detector, "none") == 0)
        return bw_usage_error(command, "--shards: they are spread over who is alive; that needs a "
                                       "detector");
    if (o->detect_ns < 3 * o->period_ns)
        return bw_usage_error(command, "--detect, --period: it must hold that detect >= 3 period; "
                                       "one lost beat is no silence");
    return BW_GO_ON;
}

static int check_secure(const struct bw_cli_command *command, const struct bw_peer_cli *o)
{
    if (!o->tls_cert != !o->tls_key || !o->tls_cert != !o->tls_ca)
        return bw_usage_error(command, "--tls-cert, --tls-key and --tls-ca go together");
    if (!o->key_file && !o->job.insecure && !bw_net_address_is_loopback(o->listen))
        return bw_usage_error(
            command,
            "--listen %.80s: others can reach it and could pose as a peer; give "
            "all peers one key (umask 077; bellwether peer keygen > FILE) by --key-file "
            "FILE, or say --insecure",
            o->listen);
    return BW_GO_ON;
}

int bw_peer_cli_finish(const struct bw_cli_command *command, struct bw_peer_cli *o,
                       const struct bw_parsed *parsed)
{
    if (o->job.config.terms.ttl_ns == 0)
        o->job.config.terms.ttl_ns = bw_store_ttl_default(NULL);
    int code = check_who(command, o);
    if (code == BW_GO_ON)
        code = check_how(command, o);
    if (code == BW_GO_ON)
        code = check_secure(command, o);
    if (code == BW_GO_ON)
        code = make_url(command, o);
    if (code == BW_GO_ON)
        code = bw_job_options_finish(command, &o->job, parsed);
    if (code != BW_GO_ON)
        return code;
    if (mkdir(o->data, 0700) != 0 && errno != EEXIST)
        return bw_usage_error(command, "--data %.200s: %s", o->data, strerror(errno));
    return BW_GO_ON;
}
