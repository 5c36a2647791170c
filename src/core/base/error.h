/* The table of error codes: code, name, text for users, and whether a retry can succeed.
 * Functions return 0 or a negative code. */
#ifndef BW_CORE_BASE_ERROR_H
#define BW_CORE_BASE_ERROR_H

#include <stdbool.h>

#define BW_ERROR_MAP(X)                                                                            \
    X(EINVAL, 1, "invalid argument", false)                                                        \
    X(ENOMEM, 2, "the memory given at init is too small", false)                                   \
    X(ELIMIT, 3, "limit exceeded", false)                                                          \
    X(ETRUNCATED, 4, "message is truncated", false)                                                \
    X(EMALFORMED, 5, "message is malformed", false)                                                \
    X(EVERSION, 6, "unknown version", false)                                                       \
    X(ENOTLEADER, 7, "not the leader", true)                                                       \
    X(ETRANSFERRING, 8, "leadership is being transferred", true)                                   \
    X(EBUSY, 9, "another operation of this kind is in progress", true)                             \
    X(ESTALE, 10, "stale: a newer token, term or epoch has been seen", false)                      \
    X(ENOTMEMBER, 11, "not a member of this group", false)                                         \
    X(ENOQUORUM, 12, "no quorum", true)                                                            \
    X(ECOMPACTED, 13, "the log no longer holds that entry", false)                                 \
    X(ELOST, 14, "overwritten by another leader before it was committed", true)                    \
    X(EIO, 15, "cannot read or write a file or a store", true)                                     \
    X(EDAMAGED, 16, "stored data is corrupt or was not written by Bellwether", false)              \
    X(EDENIED, 17, "not permitted", false)                                                         \
    X(EUNSUPPORTED, 18, "cannot be done safely on this system", false)                             \
    X(ENOTOKEN, 19, "missing fencing token", false)                                                \
    X(ETIMEDOUT, 20, "timed out", true)                                                            \
    X(EFORKED, 21, "the handle belongs to the parent process", false)                              \
    X(EOVERDUE, 22, "the task outlived its leadership", false)                                     \
    X(EINTERRUPTED, 23, "interrupted, or the handle is being closed", false)

enum bw_error {
#define X(name, code, text, retry) BW_##name = -(code),
    BW_ERROR_MAP(X)
#undef X
};

/* The name and the text of a code, as static strings; "UNKNOWN" and "unknown error" for any other
 * number. */
const char *bw_error_name(int code);
const char *bw_error_text(int code);
bool bw_error_retryable(int code);

#endif
