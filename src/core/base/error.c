/* Look-ups in the error table. */
#include "core/base/error.h"

struct row {
    int code;
    const char *name, *text;
    bool retry;
};

static const struct row rows[] = {
#define X(name, code, text, retry) {-(code), #name, text, retry},
    BW_ERROR_MAP(X)
#undef X
};

static const struct row unknown = {0, "UNKNOWN", "unknown error", false};

static const struct row *find(int code)
{
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code)
            return &rows[i];
    return &unknown;
}

const char *bw_error_name(int code)
{
    return find(code)->name;
}

const char *bw_error_text(int code)
{
    return find(code)->text;
}

bool bw_error_retryable(int code)
{
    return find(code)->retry;
}
