/* Planted bugs. `BW_BUG(name)` is 0 in every ordinary build and vanishes. A mutant is the tree with
 * one file compiled with -DBW_MUTANT=BW_BUG_name: that one bug is then on, and the tests must
 * notice (`make mutants`, tests/mutants.txt). Every name used anywhere stands in this list. */
#ifndef BW_BASE_BUG_H
#define BW_BASE_BUG_H

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
