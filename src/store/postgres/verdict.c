/* The effect of a request; see verdict.h. An acquire takes over from a holder only if the row still
 * has the version that the candidate watched for a whole TTL. A renewal and a release need the
 * row's token. */
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
    if (bw_record_is_result_of(record, request))
        /* the reply to the first attempt was lost */
        return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE};
    bool any = request->steal != 0 && BW_BUG(postgres_steals_any_version);
    if (!bw_record_may_acquire(record, request) && !any)
        return refused(BW_EBUSY, "held by another candidate");
    bw_record_acquire(record, request);
    return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE, .change = true, .take = true};
}

static struct bw_pg_verdict keep(struct bw_store_record *record,
                                 const struct bw_store_request *request, bool lost)
{
    bool release = request->op == BW_STORE_RELEASE;
    if (lost && !BW_BUG(postgres_keeps_what_was_forgotten))
        return refused(BW_ESTALE, "the server lost this leadership");
    if (!bw_record_is_leadership(record, request) && !BW_BUG(postgres_renews_anothers))
        return refused(BW_ESTALE, "another leadership has begun");
    if (!record->held && release) /* already released; that reply was lost */
        return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE};
    if (!record->held)
        return refused(BW_ESTALE, "this leadership was released");
    if (release)
        bw_record_release(record, request);
    else
        bw_record_renew(record, request);
    return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE, .change = true};
}

struct bw_pg_verdict bw_pg_decide(struct bw_store_record *record,
                                  const struct bw_store_request *request, bool lost)
{
    switch (request->op) {
    case BW_STORE_ACQUIRE:
        return acquire(record, request);
    case BW_STORE_RENEW:
    case BW_STORE_RELEASE:
        return keep(record, request, lost);
    case BW_STORE_NOTE:
        bw_record_put_note(record, &request->note);
        return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE, .change = true};
    default:
        return (struct bw_pg_verdict){.outcome = BW_OUTCOME_DONE};
    }
}
