/* Derives leaderships from the events of an incident, as a timeline for cli/sim/timeline_svg.c.
 * Pure.
 *
 * A leadership is a candidate and a token. It begins when its candidate logs `elected`, or when an
 * observer sees it. Its candidate acts from `started` (a sidecar: from `elected`; if only observers
 * tell of it: from when they see it) until it logs that the work is dead or that it released.
 *
 * A supervisor that dies does not log when its work was dead. Then its successor, its guardian or
 * an observer tells of the end. They may be late, so the work is drawn at most until the next
 * leader acts. Such a picture cannot show an overlap.
 *
 * Not guaranteed: that clocks of different machines agree. The picture shows what each machine
 * wrote. */
#ifndef BW_CLI_TIMELINE_INCIDENT_H
#define BW_CLI_TIMELINE_INCIDENT_H

#include "cli/sim/timeline.h"
#include "cli/timeline/events.h"

#define BW_INCIDENT_LANES_MAX 50u

struct bw_incident {
    struct bw_timeline timeline; /* names, spans, strips and marks; the times count from `begin` */
    bw_time begin;               /* time of the first event, since 1970 */
    const char *names[BW_INCIDENT_LANES_MAX + 1];
    struct bw_mark *marks;
    char (*texts)[96]; /* of the marks */
    bool runs_commands[BW_INCIDENT_LANES_MAX + 1], is_sidecar[BW_INCIDENT_LANES_MAX + 1];
    char figures[200];
    uint32_t leaderships;
    /* Total time in which no candidate acted, total time in which two or more acted, and the
     * longest interval in which none acted. */
    bw_time none_ns, two_ns, longest_ns;
};

/* The events must be sorted and must stay in memory. Returns 0, BW_ENOMEM, or BW_ELIMIT (too many
 * candidates). */
int bw_incident_init(struct bw_incident *incident, const struct bw_incident_events *events);
void bw_incident_deinit(struct bw_incident *incident);

#endif
