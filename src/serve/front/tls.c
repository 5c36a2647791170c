/* TLS on the service's port. Bytes are decrypted before the protocol sees them and encrypted when
 * they are sent; see net/tls/tls.h.
 *
 * The handshake must finish within the connection's first deadline. */
#include "serve/front/state.h"

#include <stdlib.h>

#define PIECE_BYTES 16384u /* one TLS record */

bool bw_conn_secure(struct bw_conn *conn)
{
    struct bw_credentials *credentials = conn->front->options.credentials;
    if (!credentials)
        return true;
    conn->tls = bw_tls_new_server(bw_credentials_server(credentials));
    return conn->tls;
}

static void take_sealed(struct bw_conn *conn)
{
    uint8_t piece[PIECE_BYTES];
    size_t length;
    while ((length = bw_tls_take(conn->tls, piece, sizeof piece)) > 0)
        bw_conn_put(conn, piece, length);
}

/* Encrypts the whole plaintext in `out`. Nothing is sent in between. */
bool bw_conn_seal(struct bw_conn *conn)
{
    unsigned char *clear = conn->out;
    size_t length = conn->out_used;
    bool sealed = true;
    conn->out = NULL;
    conn->out_used = conn->out_size = 0;
    for (size_t at = 0; at < length && sealed; at += PIECE_BYTES) {
        size_t piece = length - at < PIECE_BYTES ? length - at : PIECE_BYTES;
        sealed = bw_tls_write(conn->tls, clear + at, piece) == 0;
        take_sealed(conn);
    }
    take_sealed(conn); /* messages of TLS itself */
    free(clear);
    return sealed;
}

/* Sends close_notify if the socket accepts it at once; does not wait. */
void bw_conn_send_close_notify(struct bw_conn *conn)
{
    bw_tls_end(conn->tls);
    if (conn->out_used == 0 && uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp) == 0) {
        take_sealed(conn);
        uv_buf_t buffer = uv_buf_init((char *)conn->out, (unsigned)conn->out_used);
        if (conn->out_used)
            uv_try_write((uv_stream_t *)&conn->tcp, &buffer, 1);
    }
}

bool bw_conn_open_bytes(struct bw_conn *conn, const unsigned char *bytes, size_t length)
{
    static uint8_t clear[PIECE_BYTES]; /* callers use its content before the next read */
    char why[BW_TLS_WHY_MAX + 1] = "";
    if (bw_tls_feed(conn->tls, bytes, length, why) != 0) {
        bw_credentials_refused(conn->front->options.credentials, why);
        return false;
    }
    bw_conn_dirty(conn); /* TLS may have produced bytes to send */
    if (!bw_tls_is_up(conn->tls))
        return true;
    if (!conn->protocol)
        bw_tls_peer_name(conn->tls, conn->caller.name, sizeof conn->caller.name);
    int got = 0;
    while (!conn->closing && (got = bw_tls_read(conn->tls, clear, sizeof clear, why)) > 0)
        if (!bw_conn_take(conn, clear, (size_t)got))
            return false;
    return conn->closing || got == 0;
}
