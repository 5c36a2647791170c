/* What a peer URL says: peer://[HOST:PORT,...]/ELECTION?id=N&listen=HOST:PORT&data=DIR&...
 *
 * The hosts of the URL and `join` are the same: whom to ask first. Times that electors and
 * detectors need follow from three figures: how often one beats (period), how soon silence is
 * noticed (detect), how long a message may take (latency); and a promise of the quorum outlasts the
 * longest lease (ttl) that is asked for, so that a renewal always finds enough of it left. */
#ifndef BW_STORE_PEER_SETTINGS_H
#define BW_STORE_PEER_SETTINGS_H

#include "peer/node.h"
#include "store/kit/url.h"

struct peer_settings {
    char listen[256], advertise[256], join[BW_URL_TEXT_MAX + 1];
    char data[512], members[512], key_file[512];
    char tls_cert[512], tls_key[512], tls_ca[512];
    char election[BW_ELECTION_NAME_MAX + 1]; /* empty: whichever is asked for first */
    char name[BW_PEER_NAME_MAX + 1], value[BW_PEER_VALUE_MAX + 1];
    uint32_t id, expect, priority;
    uint32_t shards; /* 0: one election */
    const struct bw_elector_ops *algorithm;
    const struct bw_detector_ops *detector; /* NULL: none */
    bool quorum, ordinary, insecure;
    bool leave; /* closing it means leaving the cluster for good */
    bw_time ttl_ns, period_ns, detect_ns, latency_ns;
    uint32_t drift_ppm;
};

/* Returns 0, or BW_EINVAL or BW_EDENIED with a line in why[BW_WHY_MAX + 1]. */
int peer_settings_read(struct peer_settings *settings, const char *text, char *why);

/* Does every leadership have a token? */
bool peer_settings_token(const struct peer_settings *settings);

/* Everything of the options but loop, keys and hooks; strings are borrowed from the settings. */
void peer_settings_fill(const struct peer_settings *s, struct bw_peer_options *options);

#endif
