/* Alarms of nodes, as part of the replicated state. A node whose content exceeds its quota raises
 * the alarm through the log. While any node has it, every node refuses requests that need space:
 * puts, transactions with a put, and grants, as etcd does. Reads, deletes, compactions, revocations
 * and renewals go on. Lowering the size does not end the alarm; an administrator clears it.
 *
 * Alarms exist from level 3 of the registry on. */
#ifndef BW_CORE_REGISTRY_ALARM_H
#define BW_CORE_REGISTRY_ALARM_H

#include "core/registry/entry.h"

#define BW_ALARMS_MAX 64u /* nodes with an alarm; more than a cluster has members */

struct bw_alarms {
    uint64_t nodes[BW_ALARMS_MAX]; /* sorted */
    uint32_t count;
};

const struct bw_alarms *bw_registry_alarms(const struct bw_registry *registry);
/* From the log. Returns BW_REFUSED_NO_SPACE if too many nodes have an alarm. A change that is
 * already made has no effect. */
enum bw_refusal bw_registry_alarm_change(struct bw_registry *registry,
                                         const struct bw_alarm_change *change);
/* Bytes that the entry can add to the content; 0: the entry needs no space. Of a transaction, the
 * branch that needs more counts. */
uint64_t bw_entry_space(const struct bw_entry *entry);

#endif
