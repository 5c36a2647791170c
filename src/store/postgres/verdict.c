/* See verdict.h. A leadership is taken from a holder only under the version that somebody
 * watched standing still, and kept only by the one whose token the row has. */
#include "store/postgres/verdict.h"

#include "core/base/bug.h"
#include "store/kit/record.h"

static struct bw_pg_verdict refused(int error, const char *why)
{
    return (struct bw_pg_verdict){.outcome = BW_OUTCOME_REFUSED, .error = error, .why = why};
}

static struct bw_pg_verdict acquire(struct bw_store_record *record,
                                    const struct bw_store_request *request)
{
    if (bw_record_is_answer(record, request))
        return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE}; /* the first reply was lost */
    bool any = request->steal != 0 && BW_BUG(postgres_steals_any_version);
    if (!bw_record_may_take(record, request) && !any)
        return refused(BW_EBUSY, "held by another");
    bw_record_take(record, request);
    return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE, .change = true, .take = true};
}

static struct bw_pg_verdict keep(struct bw_store_record *record,
                                 const struct bw_store_request *request, bool ghost)
{
    bool release = request->op == BW_STORE_RELEASE;
    if (ghost && !BW_BUG(postgres_keeps_what_was_forgotten))
        return refused(BW_ESTALE, "the server has forgotten this leadership");
    if (!bw_record_is(record, request) && !BW_BUG(postgres_renews_anothers))
        return refused(BW_ESTALE, "another leadership has begun");
    if (!record->held && release)
        return (struct bw_pg_verdict){.outcome =
                                          BW_OUTCOME_DONE}; /* before, by a request unheard of */
    if (!record->held)
        return refused(BW_ESTALE, "this leadership was released");
    if (release)
        bw_record_release(record, request->clean);
    else
        bw_record_renew(record, request);
    return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE, .change = true};
}

struct bw_pg_verdict bw_pg_decide(struct bw_store_record *record,
                                  const struct bw_store_request *request, bool ghost)
{
    switch (request->op) {
    case BW_STORE_ACQUIRE:
        return acquire(record, request);
    case BW_STORE_RENEW:
    case BW_STORE_RELEASE:
        return keep(record, request, ghost);
    case BW_STORE_NOTE:
        bw_record_note(record, &request->note);
        return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE, .change = true};
    default:
        return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE};
    }
}
