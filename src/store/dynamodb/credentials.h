/* Obtains AWS keys if neither the environment nor a file contains them. The keys come from the
 * container's endpoint, or from the machine's metadata service (IMDSv2: a session, the role's name,
 * the role's keys). They are cached, and requested again every few minutes, well before they
 * expire. */
#ifndef BW_STORE_DYNAMODB_CREDENTIALS_H
#define BW_STORE_DYNAMODB_CREDENTIALS_H

#include "core/base/rng.h"
#include "store/dynamodb/settings.h"
#include "store/kit/http_client.h"

#include <uv.h>

struct dynamodb_asker {
    struct bw_http *http;
    struct dynamodb_settings *settings; /* its keys are set here */
    uv_timer_t *timer;                  /* NULL: not in use */
    struct bw_http_request *asked;
    struct bw_rng rng;        /* for retry delays */
    char session[512];        /* session header, for the machine's endpoint */
    char why[BW_WHY_MAX + 1]; /* why there are no keys */
};

/* Does nothing if there are keys already. Returns 0 or BW_ENOMEM. */
int bw_dynamodb_asker_open(struct dynamodb_asker *asker, uv_loop_t *loop, struct bw_http *http,
                           struct dynamodb_settings *settings);
/* Call before closing the HTTP client it was opened with. */
void bw_dynamodb_asker_close(struct dynamodb_asker *asker);

#endif
