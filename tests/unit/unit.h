/* Includes cmocka.h after the headers that it requires. */
#ifndef BW_TESTS_UNIT_UNIT_H
#define BW_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#endif
