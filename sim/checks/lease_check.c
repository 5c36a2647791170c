/* The state of the lease checker. */
#include "sim/checks/lease_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bw_lease_check_clear(struct bw_lease_check *c, double bound)
{
    struct bw_lease_row *rows = c->rows;
    uint32_t cap = c->cap;
    memset(c, 0, sizeof *c);
    c->rows = rows;
    c->cap = cap;
    c->bound = bound;
}

void bw_lease_check_deinit(struct bw_lease_check *c)
{
    free(c->rows);
    memset(c, 0, sizeof *c);
}

void bw_lease_check_violate(struct bw_lease_check *c, bw_time at, const char *format, ...)
{
    if (c->found[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->found, sizeof c->found, format, arguments);
    va_end(arguments);
    c->found_at = at;
}

const char *bw_lease_check_violation(const struct bw_lease_check *c, bw_time *at)
{
    *at = c->found_at;
    return c->found[0] ? c->found : NULL;
}

/* Searches the newest rows first: most queries concern new leases. */
static struct bw_lease_row *row_of(struct bw_lease_check *c, int64_t lease)
{
    for (uint32_t i = c->count; i > 0; i--)
        if (c->rows[i - 1].id == lease)
            return &c->rows[i - 1];
    if (c->count == c->cap) {
        uint32_t cap = c->cap ? c->cap * 2 : 64;
        struct bw_lease_row *larger = realloc(c->rows, cap * sizeof *larger);
        if (!larger) {
            bw_lease_check_violate(c, 0, "out of memory for the lease checker");
            return NULL;
        }
        c->rows = larger;
        c->cap = cap;
    }
    c->rows[c->count] = (struct bw_lease_row){.id = lease, .sent = -1, .ended = BW_TIME_NEVER};
    return &c->rows[c->count++];
}

static double seconds(bw_time t)
{
    return (double)t / (double)BW_SEC;
}

/* Allows one nanosecond of rounding on each clock. */
static void check_end(struct bw_lease_check *c, bw_time at, const struct bw_lease_row *row)
{
    bw_time earliest = row->sent + (bw_time)((double)row->ttl_ns / (1 + c->bound)) - 2;
    if (row->sent >= 0 && row->ended != BW_TIME_NEVER && !row->given_up && row->ended < earliest)
        bw_lease_check_violate(c, at,
                               "lease %lld of %.3f s ended at %.6f s, although it was renewed by a "
                               "request sent at %.6f s",
                               (long long)row->id, seconds(row->ttl_ns), seconds(row->ended),
                               seconds(row->sent));
}

void bw_lease_check_renewed(struct bw_lease_check *c, bw_time at, int64_t lease, bw_time ttl_ns,
                            bw_time sent)
{
    struct bw_lease_row *row = row_of(c, lease);
    if (!row)
        return;
    row->ttl_ns = ttl_ns;
    row->sent = bw_time_max(row->sent, sent);
    c->renewed++;
    check_end(c, at, row);
}

void bw_lease_check_given_up(struct bw_lease_check *c, int64_t lease)
{
    struct bw_lease_row *row = row_of(c, lease);
    if (row)
        row->given_up = true;
}

void bw_lease_check_ended(struct bw_lease_check *c, bw_time at, int64_t lease)
{
    struct bw_lease_row *row = row_of(c, lease);
    if (!row || row->ended <= at)
        return;
    row->ended = at;
    c->ended++;
    check_end(c, at, row);
}

void bw_lease_check_acts(struct bw_lease_check *c, bw_time at, uint32_t client, uint32_t election,
                         int64_t token, struct bw_act_window window)
{
    bool begins = c->windows[client].until <= at || c->election_of[client] != election;
    c->windows[client] = window;
    c->election_of[client] = election;
    if (window.until <= window.from)
        return;
    for (uint32_t i = 0; i < BW_LEASE_CHECK_CLIENTS; i++)
        if (i != client && c->election_of[i] == election &&
            bw_time_max(c->windows[i].from, window.from) <
                bw_time_min(c->windows[i].until, window.until))
            bw_lease_check_violate(c, at, "clients %u and %u may both act for election %u", client,
                                   i, election);
    if (begins && token < c->token[election])
        bw_lease_check_violate(c, at, "client %u acts with token %lld after token %lld", client,
                               (long long)token, (long long)c->token[election]);
    if (token > c->token[election])
        c->token[election] = token;
}
