/* Keys that stand nowhere: asked for at the container's endpoint, or at the machine's own (IMDSv2:
 * a session, the role's name, the role's keys), kept, and asked for again every few minutes, well
 * before they end. */
#ifndef BW_STORE_DYNAMODB_KEYS_H
#define BW_STORE_DYNAMODB_KEYS_H

#include "core/base/rng.h"
#include "store/dynamodb/settings.h"
#include "store/kit/http.h"

#include <uv.h>

struct dynamodb_asker {
    struct bw_http *http;
    struct dynamodb_settings *settings; /* its keys are set here */
    uv_timer_t *timer;                  /* NULL: not in use */
    struct bw_http_request *asked;
    struct bw_rng rng;        /* for pauses */
    char session[512];        /* a header, for the machine's endpoint */
    char why[BW_WHY_MAX + 1]; /* there are none */
};

/* Does nothing if there are keys already. Returns 0 or BW_ENOMEM. */
int bw_dynamodb_asker_open(struct dynamodb_asker *asker, uv_loop_t *loop, struct bw_http *http,
                           struct dynamodb_settings *settings);
/* Before the HTTP it was opened with. */
void bw_dynamodb_asker_close(struct dynamodb_asker *asker);

#endif
