/* libFuzzer: any bytes on the service's port, and any message to its methods, end in responses or a
 * closed connection, never in a crash, a leak or an endless loop. The services and the registry are
 * the real ones; the replica decides everything at once.
 *
 * The first byte selects how the rest is used:
 *   0   HTTP/2 after its preface
 *   1   HTTP/1.1
 *   2   a protobuf request to the method that the second byte selects
 *   3   a JSON request to that method
 *   +4  the same, but sent in small pieces
 *   +8  a program of client actions (front_client.h) */
#include "fuzz/front_client.h"

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length);

/* ---- the entry points ---- */

static void turn(struct bw_conn *conn)
{
    decide_all(bw_service_replica(conn->front->options.service));
    conn->dirty = false;
    conn->protocol->flush(conn);
    conn->out_used = 0;
}

static void feed(struct bw_conn *conn, const unsigned char *bytes, size_t length, size_t piece)
{
    bool good = true;
    for (size_t at = 0; good && !conn->close_when_sent && at < length; at += piece) {
        good = conn->protocol->bytes(conn, bytes + at, length - at < piece ? length - at : piece);
        if (good)
            turn(conn);
    }
    if (good && conn->protocol->no_more && conn->protocol->no_more(conn))
        turn(conn);
}

static void send_all(struct bw_front *front, bool h2, const unsigned char *bytes, size_t length,
                     size_t piece)
{
    struct bw_conn *conn = conn_new(front, h2 ? &bw_protocol_h2 : &bw_protocol_http1);
    feed(conn, bytes, length, piece);
    conn_end(conn);
}

static void on_send(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)call;
    BW_ASSERT(protobuf_c_message_get_packed_size(message) < SIZE_MAX / 2);
}

static void on_end(struct bw_call *call, enum bw_code code, const char *text)
{
    (void)call;
    BW_ASSERT(code == BW_CODE_OK || (text && text[0]));
}

static bool on_is_full(struct bw_call *call)
{
    (void)call;
    return false;
}

static const struct bw_method *method_of(unsigned char byte)
{
    uint32_t count = 0;
    while (bw_methods[count].path)
        count++;
    return &bw_methods[byte % count];
}

/* Sends the message twice: the second time it meets its own effects. */
static void call_method(struct bw_front *front, const struct bw_method *method,
                        const unsigned char *bytes, size_t length)
{
    struct bw_call call = {.service = front->options.service,
                           .method = method,
                           .send = on_send,
                           .end = on_end,
                           .is_full = on_is_full,
                           .is_crowded = on_is_full};
    for (unsigned i = 0; i < 2 && !call.ended; i++) {
        ProtobufCMessage *message = protobuf_c_message_unpack(method->request, NULL, length, bytes);
        if (!message)
            break;
        if (bw_call_may_take(&call))
            bw_call_take(&call, message, length);
        protobuf_c_message_free_unpacked(message, NULL);
        decide_all(bw_service_replica(front->options.service));
    }
    bw_call_no_more(&call);
    bw_call_gone(&call);
}

static void check_head(struct bw_gateway *gateway, unsigned status, const char *type,
                       int64_t length)
{
    (void)gateway;
    (void)length;
    BW_ASSERT(status >= 200 && status < 600 && type);
}

static void check_body(struct bw_gateway *gateway, const void *bytes, size_t length)
{
    (void)gateway;
    BW_ASSERT(bytes || !length);
}

static void check_end(struct bw_gateway *gateway)
{
    BW_ASSERT(gateway->begun);
}

static bool is_not_full(struct bw_gateway *gateway)
{
    (void)gateway;
    return false;
}

static bool is_admitted(struct bw_gateway *gateway, size_t bytes)
{
    (void)gateway;
    return bytes < SIZE_MAX / 2;
}

static void call_json(struct bw_front *front, const struct bw_method *method,
                      const unsigned char *bytes, size_t length)
{
    static const struct bw_gateway_wire wire = {check_head,  check_body,  check_end,
                                                is_not_full, is_not_full, is_admitted};
    struct bw_gateway gateway = {.front = front, .wire = &wire};
    const char *path = method->json ? method->json : "/v3/"; /* some methods exist only in gRPC */
    bw_gateway_ask(&gateway, BW_VERB_POST, path, (const char *)bytes, length);
    decide_all(bw_service_replica(front->options.service));
    bw_gateway_gone(&gateway);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    struct bw_front front;
    bool closed;
    if (length < 2)
        return 0;
    world_open(&front, &closed);
    size_t piece = bytes[0] & 4 ? 7 : 65536;
    if (bytes[0] & 8) {
        play(&front, bytes + 1, length - 1);
        world_close(&front, &closed);
        return 0;
    }
    switch (bytes[0] & 3) {
    case 0:
    case 1:
        send_all(&front, (bytes[0] & 1) == 0, bytes + 1, length - 1, piece);
        break;
    case 2:
        call_method(&front, method_of(bytes[1]), bytes + 2, length - 2);
        break;
    default:
        call_json(&front, method_of(bytes[1]), bytes + 2, length - 2);
        break;
    }
    world_close(&front, &closed);
    return 0;
}
