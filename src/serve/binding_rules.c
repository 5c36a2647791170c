/* Which close of a connection ends the leases bound to it, and when; see binding.h. */
#include "base/bug.h"
#include "serve/binding.h"

#include <string.h>

static bool is(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && memcmp(text, word, length) == 0;
}

enum bw_bind bw_bind_read(const char *text, size_t length)
{
    if (is(text, length, "connection"))
        return BW_BIND_CONNECTION;
    return is(text, length, "farewell") ? BW_BIND_FAREWELL : BW_BIND_NOT;
}

bw_time bw_bind_hold_off(bool loopback, bw_time elsewhere_ns)
{
    if (loopback)
        return BW_BUG(binding_holds_off_for_nothing) ? 1 : BW_BIND_LOOPBACK_NS;
    return elsewhere_ns > 0 ? bw_time_max(elsewhere_ns, BW_BIND_LEAST_NS) : 0;
}

bool bw_bind_ends(enum bw_bind bind, enum bw_hangup hangup)
{
    switch (bind) {
    case BW_BIND_NOT:
        return false;
    case BW_BIND_CONNECTION:
        return hangup != BW_HANGUP_OURS;
    case BW_BIND_FAREWELL:
        return hangup == BW_HANGUP_FAREWELL ||
               (BW_BUG(binding_takes_a_death_for_farewell) && hangup == BW_HANGUP_CLIENTS);
    }
    return false;
}
