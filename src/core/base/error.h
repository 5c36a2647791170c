/* One table of everything that can go wrong: code, name, text for people, whether trying again can
 * help. Functions return 0 or a negative code. */
#ifndef BW_BASE_ERROR_H
#define BW_BASE_ERROR_H

#include <stdbool.h>

#define BW_ERROR_MAP(X)                                                                            \
    X(EINVAL, 1, "invalid argument", false)                                                        \
    X(ENOMEM, 2, "out of memory given at init", false)                                             \
    X(ELIMIT, 3, "a bound of limits.h was reached", false)                                         \
    X(ETRUNCATED, 4, "message ends too early", false)                                              \
    X(EMALFORMED, 5, "message is malformed", false)                                                \
    X(EVERSION, 6, "message of an unknown version", false)                                         \
    X(ENOTLEADER, 7, "not the leader", true)                                                       \
    X(ETRANSFERRING, 8, "leadership is being transferred", true)                                   \
    X(EBUSY, 9, "another operation of this kind is under way", true)                               \
    X(ESTALE, 10, "an older token, term or epoch than already seen", false)                        \
    X(ENOTMEMBER, 11, "not a member of this group", false)                                         \
    X(ENOQUORUM, 12, "no quorum", true)                                                            \
    X(ECOMPACTED, 13, "the log no longer holds that entry", false)                                 \
    X(ELOST, 14, "overwritten by another leader before it was committed", true)                    \
    X(EIO, 15, "a file or a store could not be read or written", true)                             \
    X(EDAMAGED, 16, "stored data is damaged or not ours", false)                                   \
    X(EDENIED, 17, "not permitted", false)                                                         \
    X(EUNSUPPORTED, 18, "cannot be done safely here", false)                                       \
    X(ENOTOKEN, 19, "no fencing token was given", false)                                           \
    X(ETIMEDOUT, 20, "not done in the time given", true)                                           \
    X(EFORKED, 21, "the handle belongs to the parent process", false)                              \
    X(EOVERDUE, 22, "the task outlived its leadership", false)                                     \
    X(EINTERRUPTED, 23, "interrupted, or the handle is being closed", false)

enum bw_error {
#define X(name, code, text, retry) BW_##name = -(code),
    BW_ERROR_MAP(X)
#undef X
};

/* Name and text of a code; "unknown error" for any other number. Static strings. */
const char *bw_error_name(int code);
const char *bw_error_text(int code);
bool bw_error_retryable(int code);

#endif
