/* How the parts of the interposer decide whether a call fails; see state.h and fail.c. */
#ifndef TORTURE_INTERPOSE_H
#define TORTURE_INTERPOSE_H

#include "system/torture/state.h"

#include <stdbool.h>

/* Counts a call of the function `name`. Returns the errno with which it must fail, or 0. `errors`
 * are the errnos that its manual page lists, ended by 0; `caller` is its return address. For an
 * allocation any errno of the list makes it return NULL. */
int torture_next(enum torture_kind kind, const char *name, const void *caller, const int *errors);

/* The next definition of a function after the interposer's, from the C library or a sanitizer. */
void *torture_real(const char *name);

/* What a descriptor refers to: it decides which errnos are possible. */
enum torture_file { TORTURE_REGULAR, TORTURE_SOCKET, TORTURE_LOCAL, TORTURE_PIPE, TORTURE_OTHER };
enum torture_file torture_file_of(int fd);

/* True if the return address is in a library whose file name begins like this. */
bool torture_in(const void *caller, const char *library);

#endif
