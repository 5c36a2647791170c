/* Who a caller is, and whether it may do what it asks for.
 *
 * A caller is known by a token that Authenticate gave it, or by its certificate's common name.
 * Every message of every call is looked at: the least role for each method stands in a table, and
 * what is not in it is for admin. Errors are etcd's.
 *
 *   token    NAME.END.MAC: END in seconds since 1970 as 16 hex digits, MAC as 64: HMAC-SHA256 of
 *            cluster, NAME and END under the user's password hash
 *
 * So every node with the same file of users takes it, nobody keeps it, and a new password or
 * the user's removal ends it. Who can read the file can make tokens: it is a secret. */
#ifndef BW_SERVE_AUTH_H
#define BW_SERVE_AUTH_H

#include "serve/call.h"
#include "serve/users.h"

#include <uv.h>

#define BW_AUTH_TOKEN_S   86400 /* how long a token lasts */
#define BW_AUTH_TOKEN_MAX (BW_USER_NAME_MAX + 1 + 16 + 1 + 64)

struct bw_auth;

struct bw_auth_options {
    uv_loop_t *loop;
    const char *path; /* of the file; must last */
    uint64_t cluster;
    void *context;
    void (*say)(void *context, const char *line);
};

int bw_auth_open(struct bw_auth **out, const struct bw_auth_options *options, char *why);
void bw_auth_close(struct bw_auth *auth);
/* Reads the file now, if it changed; it is looked at every few seconds anyway. */
void bw_auth_look(struct bw_auth *auth);

/* The caller that shows this token. `auth` NULL: nothing is asked of anybody. */
void bw_auth_take_token(const struct bw_auth *auth, const char *text, size_t length,
                        struct bw_caller *caller);
/* False: the call has ended with the reason. */
bool bw_auth_may(struct bw_call *call);

/* The method Authenticate. */
void bw_auth_authenticate(struct bw_call *call, const ProtobufCMessage *message);
void bw_auth_gone(struct bw_call *call);

#endif
