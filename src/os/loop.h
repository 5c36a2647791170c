/* A libuv loop that is opened and used without the risk of an abort. */
#ifndef BW_STORE_LOOP_H
#define BW_STORE_LOOP_H

struct addrinfo;
struct uv_getaddrinfo_s;
struct uv_loop_s;

/* As uv_loop_init, with the same return codes. The first uv_loop_init of a process makes a pipe for
 * signals, and libuv calls abort() when that pipe cannot be made. This function first checks that
 * all descriptors of a loop can be had, and returns UV_EMFILE, UV_ENFILE or UV_ENOMEM otherwise.
 * Limit: when another thread takes the last descriptors between the check and the pipe, libuv still
 * aborts. */
int bw_loop_init(struct uv_loop_s *loop);

/* As uv_getaddrinfo, with the same return codes. The first work of a process that libuv gives to
 * its pool starts the pool's threads, and libuv calls abort() when one cannot be started. This
 * function first checks that they can be, and returns UV_EAGAIN otherwise; the limit is the same.
 */
int bw_loop_look_up(struct uv_loop_s *loop, struct uv_getaddrinfo_s *request,
                    void (*found)(struct uv_getaddrinfo_s *request, int status,
                                  struct addrinfo *addresses),
                    const char *host, const char *service, const struct addrinfo *hints);

#endif
