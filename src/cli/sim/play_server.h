/* A web server for one page: the playground of `bellwether sim play`. One thread, HTTP/1.1, one
 * request per connection. The page is served as it is stored, compressed with gzip. */
#ifndef BW_CLI_SIM_PLAY_SERVER_H
#define BW_CLI_SIM_PLAY_SERVER_H

#include <signal.h>
#include <stddef.h>

#define BW_PLAY_POLICY_MAX 1000u

struct bw_play_page {
    char *bytes; /* gzip */
    size_t size;
    char policy[BW_PLAY_POLICY_MAX + 1]; /* Content-Security-Policy, one line */
};

/* Serves until `*stopped`. The caller has blocked the signals that set it; they are delivered only
 * while the server waits. `listener` must not block. Returns 0, or the errno of the failed wait. */
int bw_play_serve(int listener, const struct bw_play_page *page,
                  const volatile sig_atomic_t *stopped);

#endif
