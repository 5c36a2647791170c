/* Streams a snapshot of the registry for a backup (snapshot_file.h). It contains everything that
 * was committed before the request.
 *
 * A forked copy of the process writes the snapshot into a pipe. If the client does not read, the
 * data stays in the pipe and the copy blocks. The parent computes the SHA-256 at the end: OpenSSL
 * must not be called in a forked copy of a process with threads. */
#include "core/base/error.h"
#include "serve/api/service.h"

#include <errno.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#define PIECE_BYTES 65536u
#define RETRY_MS    5u
#define RUNNING_MAX 4u /* concurrent copies: each may cost as much memory as is changed meanwhile */

struct backup {
    struct bw_call *call;
    pid_t writer;
    EVP_MD_CTX *sha;
    uv_pipe_t pipe;
    uv_timer_t retry; /* runs while the client does not read */
    unsigned handles;
    unsigned char piece[PIECE_BYTES];
};

static unsigned running;

static void on_closed(uv_handle_t *handle)
{
    struct backup *backup = handle->data;
    if (--backup->handles > 0)
        return;
    running--;
    EVP_MD_CTX_free(backup->sha);
    free(backup);
}

/* Reaps the writer. Returns true if its snapshot is complete. */
static bool reap(const struct backup *backup)
{
    int status = -1;
    while (waitpid(backup->writer, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void backup_close(struct backup *backup)
{
    uv_close((uv_handle_t *)&backup->pipe, on_closed);
    uv_close((uv_handle_t *)&backup->retry, on_closed);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    struct backup *backup = handle->data;
    (void)suggested;
    *out = uv_buf_init((char *)backup->piece, sizeof backup->piece);
}

static void on_piece(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer);

static void on_retry(uv_timer_t *timer)
{
    struct backup *backup = timer->data;
    if (!backup->call->is_full(backup->call)) {
        uv_timer_stop(timer);
        uv_read_start((uv_stream_t *)&backup->pipe, on_alloc, on_piece);
    }
}

static void send_piece(const struct backup *backup, const unsigned char *bytes, size_t length)
{
    Api__SnapshotResponse out = API__SNAPSHOT_RESPONSE__INIT;
    Api__Header header;
    bw_service_header(backup->call->service, &header, 0);
    out.header = &header;
    out.blob = (ProtobufCBinaryData){.data = (uint8_t *)bytes, .len = length};
    bw_call_send(backup->call, &out.base);
}

static void finish(struct backup *backup)
{
    struct bw_call *call = backup->call;
    unsigned char sha[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    bool complete = reap(backup) && EVP_DigestFinal_ex(backup->sha, sha, &length) == 1;
    if (complete)
        send_piece(backup, sha, length);
    call->state = NULL;
    backup_close(backup);
    if (complete)
        bw_call_end(call, BW_CODE_OK, NULL);
    else
        bw_call_end(call, BW_CODE_INTERNAL, "etcdserver: cannot write the snapshot");
}

static void on_piece(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer)
{
    struct backup *backup = stream->data;
    if (count < 0)
        finish(backup);
    if (count <= 0)
        return;
    EVP_DigestUpdate(backup->sha, buffer->base, (size_t)count);
    send_piece(backup, (const unsigned char *)buffer->base, (size_t)count);
    if (!backup->call->is_full(backup->call))
        return;
    uv_read_stop(stream);
    uv_timer_start(&backup->retry, on_retry, RETRY_MS, RETRY_MS);
}

static struct backup *backup_new(void)
{
    struct backup *backup = running < RUNNING_MAX ? calloc(1, sizeof *backup) : NULL;
    if (!backup)
        return NULL;
    backup->sha = EVP_MD_CTX_new();
    if (backup->sha && EVP_DigestInit_ex(backup->sha, EVP_sha256(), NULL) == 1)
        return backup;
    EVP_MD_CTX_free(backup->sha);
    free(backup);
    return NULL;
}

/* Everything before the call has been applied here. */
static void begin(struct bw_call *call, int64_t number, bw_time ttl_ns)
{
    struct backup *backup = backup_new();
    int fd = -1;
    (void)number;
    (void)ttl_ns;
    if (!backup || bw_replica_backup(bw_service_replica(call->service), &fd, &backup->writer)) {
        if (backup)
            EVP_MD_CTX_free(backup->sha);
        free(backup);
        bw_call_end(call, BW_CODE_EXHAUSTED, "etcdserver: too many requests");
        return;
    }
    running++;
    backup->call = call;
    backup->handles = 2;
    uv_pipe_init(bw_service_loop(call->service), &backup->pipe, 0);
    uv_timer_init(bw_service_loop(call->service), &backup->retry);
    backup->pipe.data = backup->retry.data = backup;
    call->state = backup;
    uv_pipe_open(&backup->pipe, fd);
    uv_read_start((uv_stream_t *)&backup->pipe, on_alloc, on_piece);
}

void bw_cluster_snapshot(struct bw_call *call, const ProtobufCMessage *message)
{
    (void)message;
    if (call->waits || call->state) {
        bw_call_end(call, BW_CODE_INVALID, "etcdserver: only one snapshot per call");
        return;
    }
    bw_service_read(call, begin);
}

void bw_cluster_snapshot_gone(struct bw_call *call)
{
    struct backup *backup = call->state;
    if (!backup)
        return;
    call->state = NULL;
    kill(backup->writer, SIGKILL);
    reap(backup);
    backup_close(backup);
}
