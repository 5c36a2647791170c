/* A libuv loop that is opened without the risk of an abort. */
#ifndef BW_STORE_LOOP_H
#define BW_STORE_LOOP_H

struct uv_loop_s;

/* As uv_loop_init, with the same return codes. The first uv_loop_init of a process makes a pipe for
 * signals, and libuv calls abort() when that pipe cannot be made. This function first checks that
 * all descriptors of a loop can be had, and returns UV_EMFILE, UV_ENFILE or UV_ENOMEM otherwise.
 * Limit: when another thread takes the last descriptors between the check and the pipe, libuv still
 * aborts. */
int bw_loop_init(struct uv_loop_s *loop);

#endif
