/* Planted bugs, which the tests must find.
 *
 * `BW_BUG(name)` is 0 in every ordinary build, and the compiler removes it. A mutant is the tree
 * with one file compiled with -DBW_MUTANT=BW_BUG_name, which turns on that one bug. `make mutants`
 * checks that the tests named in tests/mutants.txt then fail. Every bug name is listed in
 * bugs.inc. */
#ifndef BW_CORE_BASE_BUG_H
#define BW_CORE_BASE_BUG_H

#ifdef BW_MUTANT
enum bw_bug {
    BW_BUG_none,
#define X(name) BW_BUG_##name,
#include "core/base/bugs.inc"
#undef X
};
#define BW_BUG(name) (BW_MUTANT == BW_BUG_##name)
#else
#define BW_BUG(name) 0
#endif

#endif
