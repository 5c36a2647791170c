/* HTTP/1.1 on the service's port. */
#include "serve/front_state.h"

bool bw_http1_begin(struct bw_conn *conn)
{
    (void)conn;
    return false;
}

static bool http1_bytes(struct bw_conn *conn, const unsigned char *bytes, size_t length)
{
    (void)conn;
    (void)bytes;
    (void)length;
    return false;
}

static void http1_nothing(struct bw_conn *conn)
{
    (void)conn;
}

const struct bw_speech bw_speech_http1 = {http1_bytes, http1_nothing, http1_nothing};
