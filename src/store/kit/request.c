/* Checks that all stores share: sizes and TTLs of store.h; and messages for the user. */
#include "store/store.h"

#include "core/base/bug.h"
#include "core/base/limits.h"
#include "core/base/parse_values.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int bw_store_explain(char *why, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, BW_WHY_MAX + 1, format, arguments);
    va_end(arguments);
    return error;
}

#define TTL_DEFAULT_NS (10 * BW_SEC)

bw_time bw_store_ttl_default(const struct bw_store_ops *ops)
{
    if (!ops || BW_BUG(store_default_ttl_ignores_the_store))
        return TTL_DEFAULT_NS;
    bw_time ttl = bw_time_max(TTL_DEFAULT_NS, ops->ttl_min_ns);
    return ops->ttl_max_ns ? bw_time_min(ttl, ops->ttl_max_ns) : ttl;
}

int bw_store_ttl_check(const struct bw_store_ops *ops, bw_time ttl_ns, char *why)
{
    char least[BW_SPAN_TEXT], most[BW_SPAN_TEXT];
    bw_span_exact(least, ops->ttl_min_ns);
    bw_span_exact(most, ops->ttl_max_ns);
    if (ops->ttl_max_ns && (ttl_ns < ops->ttl_min_ns || ttl_ns > ops->ttl_max_ns))
        return bw_store_explain(why, BW_EINVAL, "the %s store supports leases from %s to %s",
                                ops->scheme, least, most);
    if (ttl_ns < ops->ttl_min_ns)
        return bw_store_explain(why, BW_EINVAL, "the %s store supports leases of %s or more",
                                ops->scheme, least);
    return 0;
}

static size_t length_of(const char *text, size_t max)
{
    return strnlen(text, max + 1);
}

/* Printable: no control bytes. Bytes above 127 (UTF-8) are accepted unchecked. */
static bool is_printable(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at < 0x20 || *at == 0x7f)
            return false;
    return true;
}

static bool is_name(const char *text, size_t max)
{
    size_t length = text ? length_of(text, max) : 0;
    return length > 0 && length <= max && is_printable(text);
}

static bool is_absent_or_fits(const char *text, size_t max)
{
    return !text || length_of(text, max) <= max;
}

static bool is_note(const struct bw_note *note)
{
    return note->kind >= BW_NOTE_NONE && note->kind <= BW_NOTE_REFUSE &&
           length_of(note->from, BW_CANDIDATE_ID_MAX) <= BW_CANDIDATE_ID_MAX &&
           length_of(note->to, BW_CANDIDATE_ID_MAX) <= BW_CANDIDATE_ID_MAX &&
           is_printable(note->from) && is_printable(note->to);
}

bool bw_store_is_election(const char *text)
{
    return is_name(text, BW_ELECTION_NAME_MAX) && !strchr(text, '/');
}

bool bw_store_asks_names(const struct bw_store_request *request)
{
    return request->op == BW_STORE_ELECTIONS && request->election && !request->election[0] &&
           !request->candidate;
}

int bw_store_request_check(const struct bw_store_request *request, bw_time ttl_min_ns)
{
    enum bw_store_op op = request->op;
    bool writes_lease = op == BW_STORE_ACQUIRE || op == BW_STORE_RENEW;
    bool needs_candidate =
        writes_lease || op == BW_STORE_RELEASE || op == BW_STORE_ENTER || op == BW_STORE_LEAVE;
    if (op > BW_STORE_NOTE || !bw_store_is_election(request->election))
        return BW_EINVAL;
    if ((needs_candidate || request->candidate) &&
        !is_name(request->candidate, BW_CANDIDATE_ID_MAX))
        return BW_EINVAL;
    if (!is_absent_or_fits(request->value, BW_VALUE_MAX) ||
        !is_absent_or_fits(request->containment, BW_CONTAINMENT_MAX) ||
        (request->containment && !is_printable(request->containment)))
        return BW_EINVAL;
    if (writes_lease && (request->ttl_ns < ttl_min_ns || request->ttl_ns <= 0 ||
                         request->ttl_ns > BW_LEASE_TTL_MAX))
        return BW_EINVAL;
    return op == BW_STORE_NOTE && !is_note(&request->note) ? BW_EINVAL : 0;
}
