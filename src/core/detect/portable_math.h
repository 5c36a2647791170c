/* Functions of <math.h> whose last bits differ between C libraries. A run of the simulator must
 * give the same trace on every machine and in the browser, so decision modules use these instead.
 * They use only + - * / and sqrt, which IEEE 754 defines exactly; the build turns off fused
 * multiply-add.
 *
 * Relative error: below 2e-15 for log, log1p, log10 and exp, and below 2e-13 for erfc. */
#ifndef BW_CORE_DETECT_PORTABLE_MATH_H
#define BW_CORE_DETECT_PORTABLE_MATH_H

/* Results outside of the function's range are those of <math.h>: -infinity, infinity, NaN or 0. */
double bw_log(double x);
double bw_log1p(double x);
/* Exact for powers of ten from 1 to 1e22. */
double bw_log10(double x);
double bw_exp(double x);
double bw_erfc(double x);

#endif
