/* Identifies a caller and decides whether it is authorized.
 *
 * A caller is identified by a token from Authenticate or by the common name of its certificate. A
 * table lists the lowest sufficient role for each method; a method outside the table requires
 * admin. Every message is checked on arrival against the users known to this node, which keeps
 * refused requests out of the log. The binding decision follows later: for a change at its place in
 * the log (core/registry/users.h), for a read when it is served.
 *
 *   token    NAME.END.MAC: END in seconds since 1970 as 16 hex digits; MAC as 64 hex digits:
 *            HMAC-SHA256 of cluster, NAME and END under the user's password hash
 *
 * Every node can verify a token, and no node stores it. A new password or the removal of the user
 * invalidates it. A reader of a node's directory or of a backup can forge tokens, so both must be
 * kept secret. */
#ifndef BW_SERVE_API_AUTH_H
#define BW_SERVE_API_AUTH_H

#include "serve/front/call.h"

#define BW_AUTH_TOKEN_S   86400 /* lifetime of a token */
#define BW_AUTH_TOKEN_MAX (BW_USER_NAME_MAX + 1 + 16 + 1 + 64)

/* Sets *caller to the user of this token. */
void bw_auth_take_token(struct bw_service *service, const char *text, size_t length,
                        struct bw_caller *caller);
/* Makes a token for a user with a password, valid from now on. Returns false if that fails. */
bool bw_auth_token(struct bw_service *service, const struct bw_user *user,
                   char out[BW_AUTH_TOKEN_MAX + 1]);
/* Checks the caller's role for the method, by the users known here now. Returns false after ending
 * the call with the reason. */
bool bw_auth_may(struct bw_call *call);
/* Like bw_auth_may, but requires at least the role `least`. */
bool bw_auth_may_as(struct bw_call *call, enum bw_role least);
/* Checks whether the caller may read or write all of these keys. Returns false after ending the
 * call with the reason. */
bool bw_auth_permits(struct bw_call *call, enum bw_perm_type needs, const struct bw_keys *keys);
/* The caller in the form that log entries use. */
struct bw_requester bw_auth_by(struct bw_call *call);

#endif
