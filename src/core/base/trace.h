/* Trace records of a step: state changes, and why an event was ignored. A record is a code and
 * three numbers; the program that shows it makes the text. */
#ifndef BW_CORE_BASE_TRACE_H
#define BW_CORE_BASE_TRACE_H

#include "core/base/types.h"

/* X(constant, text with %node, %a, %b) */
#define BW_TRACE_MAP(X)                                                                            \
    X(IGNORED_OLD, "ignored: %node sent the old term %a; current is %b")                           \
    X(IGNORED_LATE, "ignored: late reply %a from %node")                                           \
    X(IGNORED_NOT_A_MEMBER, "ignored: %node is not a member")                                      \
    X(IGNORED_STATE, "ignored: event %a is not expected in state %b")                              \
    X(IGNORED_PROMISED, "refused: a promise to %node binds for %a more ns")                        \
    X(IGNORED_LEADER_ALIVE, "refused a vote for %node: received from the leader %a ns ago")        \
    X(IGNORED_LOG, "refused a vote for %node: its log is not up to date")                          \
    X(IGNORED_VOTED, "refused a vote for %node: already voted for %a")                             \
    X(IGNORED_FULL, "ignored: limit %a reached")                                                   \
    X(IGNORED_RANK, "refused: %node would lose leadership to %a at once")                          \
    X(STATE, "state %a -> %b")                                                                     \
    X(ELECTION, "election %a started")                                                             \
    X(WON, "won election %a")                                                                      \
    X(STEP_DOWN, "stepped down at %a, reason %b")                                                  \
    X(LEADER, "follows %node, term %a")                                                            \
    X(SUSPECTS, "suspects %node, level %a/1000")                                                   \
    X(TRUSTS, "trusts %node")                                                                      \
    X(MEMBER_JOINED, "%node joined")                                                               \
    X(MEMBER_LEFT, "%node left")                                                                   \
    X(TRANSFER, "transfer to %node: step %a")                                                      \
    X(SPLIT_BRAIN, "split brain: %node also claims to lead (%a, ours %b)")

enum bw_trace_code {
#define X(constant, text) BW_TRACE_##constant,
    BW_TRACE_MAP(X)
#undef X
        BW_TRACE_COUNT
};

struct bw_trace_note {
    enum bw_trace_code code;
    bw_node node;
    uint64_t a, b;
};

const char *bw_trace_name(unsigned code);
const char *bw_trace_text(unsigned code);

#endif
