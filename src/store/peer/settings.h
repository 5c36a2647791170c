/* Settings of a peer URL: peer://[HOST:PORT,...]/ELECTION?id=N&listen=HOST:PORT&data=DIR&...
 *
 * - The hosts of the URL and `join` mean the same: the peers to contact first.
 * - The timings of electors and detectors follow from three settings: the interval between
 *   heartbeats (period), the time until a silent peer is suspected (detect), and the maximum
 *   message delay (latency).
 * - A voter's promise lasts longer than the longest lease (ttl), so that enough of the promise is
 *   left at every renewal. */
#ifndef BW_STORE_PEER_SETTINGS_H
#define BW_STORE_PEER_SETTINGS_H

#include "core/peer/times.h"
#include "peer/node.h"
#include "store/kit/url.h"

struct peer_settings {
    char listen[256], advertise[256], join[BW_URL_TEXT_MAX + 1];
    char data[512], members[512], key_file[512];
    char tls_cert[512], tls_key[512], tls_ca[512];
    char election[BW_ELECTION_NAME_MAX + 1]; /* empty: the first election that is requested */
    char name[BW_PEER_NAME_MAX + 1], value[BW_PEER_VALUE_MAX + 1];
    uint32_t id, expect, priority;
    uint32_t shards; /* 0: one election */
    const struct bw_elector_ops *algorithm;
    const struct bw_detector_ops *detector; /* NULL: none */
    bool quorum, ordinary, insecure;
    bool leave; /* closing the store removes the peer from the cluster for good */
    bw_time ttl_ns;
    struct bw_peer_times times;
    uint32_t drift_ppm;
};

/* Returns 0, or BW_EINVAL / BW_EDENIED and a line in why[BW_WHY_MAX + 1]. */
int peer_settings_read(struct peer_settings *settings, const char *text, char *why);

/* Does every leadership get a token? */
bool peer_settings_token(const struct peer_settings *settings);

/* Fills in all options except loop, keys and hooks. Strings are borrowed from the settings. */
void peer_settings_fill(const struct peer_settings *s, struct bw_peer_options *options);

#endif
