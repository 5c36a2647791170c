/* What a step has to tell besides what it does: state changes and why an event was ignored. A code
 * and three numbers; text is made by whoever shows it. */
#ifndef BW_BASE_TRACE_H
#define BW_BASE_TRACE_H

#include "core/base/types.h"

/* X(constant, text with %node, %a, %b) */
#define BW_TRACE_MAP(X)                                                                            \
    X(IGNORED_OLD, "ignored: term %a of %node is older than %b")                                   \
    X(IGNORED_LATE, "ignored: late answer %a of %node")                                            \
    X(IGNORED_STRANGER, "ignored: %node is no member")                                             \
    X(IGNORED_STATE, "ignored: event %a makes no sense in state %b")                               \
    X(IGNORED_PROMISED, "refused: promised to %node for %a more ns")                               \
    X(IGNORED_LEADER_ALIVE, "refused a vote for %node: a leader was heard %a ns ago")              \
    X(IGNORED_LOG, "refused a vote for %node: its log is behind")                                  \
    X(IGNORED_VOTED, "refused a vote for %node: voted for %a")                                     \
    X(IGNORED_FULL, "ignored: bound %a reached")                                                   \
    X(IGNORED_RANK, "refused: %node would lose it to %a at once")                                  \
    X(STATE, "state %a -> %b")                                                                     \
    X(ELECTION, "election %a started")                                                             \
    X(WON, "won %a")                                                                               \
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
