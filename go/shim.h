/* What the Go package needs in C: callbacks that wake a goroutine through a pipe. The library's
 * thread never calls Go code. */
#ifndef BW_GO_SHIM_H
#define BW_GO_SHIM_H

#include <bellwether.h>

struct bw_go_watch; /* must outlive the handle whose callbacks use it */

/* `wake` is the non-blocking write end of a pipe. NULL: out of memory. */
struct bw_go_watch *bw_go_watch_new(int wake);
void bw_go_watch_free(struct bw_go_watch *watch);

/* Writes a byte to the pipe when the leadership is lost. */
void bw_go_watch_loss(struct bw_go_watch *watch, struct bw_options *options,
                      struct bw_campaign_options *campaign);
/* Keeps the latest leader, and writes a byte to the pipe at each change. */
void bw_go_watch_leader(struct bw_go_watch *watch, struct bw_options *options,
                        struct bw_campaign_options *campaign);
void bw_go_watch_latest(struct bw_go_watch *watch, struct bw_leader_info *out);

#endif
