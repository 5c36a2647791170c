/* Names and texts of trace codes. */
#include "core/base/trace.h"

static const char *const names[] = {
#define X(constant, text) #constant,
    BW_TRACE_MAP(X)
#undef X
};

static const char *const texts[] = {
#define X(constant, text) text,
    BW_TRACE_MAP(X)
#undef X
};

const char *bw_trace_name(unsigned code)
{
    return code < BW_TRACE_COUNT ? names[code] : "UNKNOWN";
}

const char *bw_trace_text(unsigned code)
{
    return code < BW_TRACE_COUNT ? texts[code] : "unknown";
}
