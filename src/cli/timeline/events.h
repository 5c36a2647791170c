/* Reads events of an incident from files: lines of `observe --json`, and of the JSON logs of `run`
 * and `peer`.
 *
 * A line is a JSON object with at least "time" (RFC 3339, UTC), "event" and "election". A log line
 * has the "id" of its writer, a line of `observe` the "leader". Empty lines are ignored. Texts are
 * made printable. Bounds: BW_EVENTS_MAX events, BW_EVENT_LINE_MAX bytes per line. */
#ifndef BW_CLI_TIMELINE_EVENTS_H
#define BW_CLI_TIMELINE_EVENTS_H

#include "core/base/types.h"

#include <stdbool.h>
#include <stddef.h>

#define BW_EVENTS_MAX     200000u
#define BW_EVENT_LINE_MAX 65536u
#define BW_EVENT_WHO_MAX  127u
#define BW_EVENTS_WHY_MAX 511u

enum bw_event_source {
    BW_FROM_LOG,     /* written by the candidate itself */
    BW_FROM_OBSERVER /* seen in the store */
};

struct bw_incident_event {
    bw_time at; /* wall clock of the machine that wrote it, since 1970 */
    enum bw_event_source source;
    char who[BW_EVENT_WHO_MAX + 1];    /* candidate; "": none */
    char holder[BW_EVENT_WHO_MAX + 1]; /* earlier leader that the line is about; "": none */
    char event[32], reason[64];
    char message[200]; /* of a log line; "": none */
    bw_token token;
    bool alarming;  /* its level is warning or error */
    uint32_t order; /* place among all lines read */
};

struct bw_incident_events {
    struct bw_incident_event *at;
    size_t count, size;
    char election[256]; /* of all events; "": no event yet */
    uint64_t skipped;   /* invalid lines that were ignored */
};

enum bw_events_invalid { BW_INVALID_REFUSE, BW_INVALID_SKIP };

/* Adds the events of a file ("-": standard input). `election` NULL: all must be of one election.
 * Returns an exit code, and the reason with file and line in why[BW_EVENTS_WHY_MAX + 1]; or 0. */
int bw_events_read(struct bw_incident_events *events, const char *path, const char *election,
                   enum bw_events_invalid invalid, char *why);
/* Sorts by time; events of the same time stay in the order in which they were read. */
void bw_events_sort(struct bw_incident_events *events);
void bw_events_deinit(struct bw_incident_events *events);

#endif
