/* Opens a libuv loop and resolves names on it. Returns an error in cases where libuv itself calls
 * abort(). */
#ifndef BW_OS_LOOP_H
#define BW_OS_LOOP_H

struct addrinfo;
struct uv_getaddrinfo_s;
struct uv_loop_s;

/* Works like uv_loop_init, with the same return codes. The first uv_loop_init of a process
 * creates a pipe for signals, and libuv calls abort() if that fails. This function first checks
 * that all descriptors of a loop can be created. If not, it returns UV_EMFILE, UV_ENFILE or
 * UV_ENOMEM.
 *
 * Not guaranteed: if another thread takes the last descriptors between the check and the creation
 * of the pipe, libuv still aborts. */
int bw_loop_init(struct uv_loop_s *loop);

/* Works like uv_getaddrinfo, with the same return codes. The first work item of a process starts
 * the threads of libuv's pool, and libuv calls abort() if one cannot be started. This function
 * first checks that they can be started, and returns UV_EAGAIN otherwise. Not guaranteed: libuv
 * still aborts if the last free threads are taken between the check and the start of its pool. */
int bw_loop_look_up(struct uv_loop_s *loop, struct uv_getaddrinfo_s *request,
                    void (*found)(struct uv_getaddrinfo_s *request, int status,
                                  struct addrinfo *addresses),
                    const char *host, const char *service, const struct addrinfo *hints);

/* Starts the threads of libuv's pool now, so that uv_queue_work and file operations cannot abort
 * later. Returns 0 or UV_EAGAIN, as bw_loop_look_up does. */
int bw_loop_start_pool(struct uv_loop_s *loop);

#endif
