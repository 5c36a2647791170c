/* Who a caller is, and whether it may do what it asks for.
 *
 * A caller is known by a token that Authenticate gave it, or by its certificate's common name. The
 * least role for each method stands in a table; what is not in it is for admin. Every message is
 * looked at when it comes, by what this node knows of the users: that spares the log what would be
 * refused anyway. What counts is decided later: of a change where it stands in the log (users.h),
 * of a read when it is served.
 *
 *   token    NAME.END.MAC: END in seconds since 1970 as 16 hex digits, MAC as 64: HMAC-SHA256 of
 *            cluster, NAME and END under the user's password hash
 *
 * So every node takes it, nobody keeps it, and a new password or the user's removal ends it. Who
 * can read a node's directory or a backup can make tokens: they are secrets. */
#ifndef BW_SERVE_AUTH_H
#define BW_SERVE_AUTH_H

#include "serve/front/call.h"

#define BW_AUTH_TOKEN_S   86400 /* how long a token lasts */
#define BW_AUTH_TOKEN_MAX (BW_USER_NAME_MAX + 1 + 16 + 1 + 64)

/* The caller that shows this token. */
void bw_auth_take_token(struct bw_service *service, const char *text, size_t length,
                        struct bw_caller *caller);
/* A token for a user with a password, from now on. False: it cannot be made. */
bool bw_auth_token(struct bw_service *service, const struct bw_user *user,
                   char out[BW_AUTH_TOKEN_MAX + 1]);
/* May it, by what is known here now? False: the call has ended with the reason. */
bool bw_auth_may(struct bw_call *call);
/* The same for what takes this role. */
bool bw_auth_may_as(struct bw_call *call, enum bw_role least);
/* Who asks, as an entry has it. */
struct bw_by bw_auth_by(struct bw_call *call);

#endif
