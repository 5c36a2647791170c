/* Byte format of the frames between peers; see frame.h. Numbers are little-endian. A text is a
 * length of one byte followed by that many non-zero bytes.
 *
 *   row       id 4, incarnation 4, directory 8, priority 4, flags 1 (1 ordinary, 2 left),
 *             family 1 (0, 4, 6), then unless 0: port 2, address 4 or 16, with 6 also scope 4;
 *             name text, value text
 *   rules     elections 2, flags 1 (1 quorum, 2 formed), age 8, promise 8, algorithm text
 *   JOIN      row, rules
 *   ROSTER    count 1, rows
 *   SYNC      answer 1, members 4, digest 8, rules
 *   FOUND     op 1, proposer 4, round 8, count 2, ids 4 each, ascending
 *   DEAD      election 2, node 4, incarnation 4, term 8
 *   HANDED    the same
 *   CLAIM     election 2, node 4, term 8, token 8, since 8, ago 8, flags 1 (1 done, 2 ended)
 *   QUERY     request 8, what 1, first 4
 *   VIEW      request 8, what 1, formed 1, first 4, total 4, count 1, then
 *             members: row, status 1, voter 1, level 4, since 8
 *             elections: election 2, leader 4, flags 1 (1 leading, 2 electing), flags 1 (1 busy,
 *             2 held), term 8, token 8, left 8, state text
 *   ORDER     request 8, kind 1, answer 1, error 1, election 2, node 4
 *   BATCH     (node_batch.c) repeated: kind 1, length 2, payload
 *
 * One set of functions both encodes and decodes, so that the two directions cannot disagree. */
#include "core/peer/frame.h"

#include "core/base/error.h"

#include <string.h>

struct walk {
    unsigned char *out;      /* writing; NULL: reading */
    const unsigned char *in; /* reading */
    size_t at, cap;
    int error;
};

static bool has_space(struct walk *w, size_t bytes)
{
    if (!w->error && bytes > w->cap - w->at)
        w->error = w->out ? BW_ELIMIT : BW_ETRUNCATED;
    return !w->error;
}

static uint64_t number(struct walk *w, uint64_t value, unsigned bytes)
{
    uint64_t read = 0;
    if (!has_space(w, bytes))
        return 0;
    for (unsigned i = 0; i < bytes; i++) {
        if (w->out)
            w->out[w->at + i] = (unsigned char)(value >> 8 * i);
        else
            read |= (uint64_t)w->in[w->at + i] << 8 * i;
    }
    w->at += bytes;
    return w->out ? value : read;
}

static void refuse(struct walk *w, bool wrong)
{
    if (wrong && !w->error)
        w->error = BW_EMALFORMED;
}

static void u8(struct walk *w, uint8_t *value)
{
    *value = (uint8_t)number(w, *value, 1);
}

static void u16(struct walk *w, uint16_t *value)
{
    *value = (uint16_t)number(w, *value, 2);
}

static void u32(struct walk *w, uint32_t *value)
{
    *value = (uint32_t)number(w, *value, 4);
}

static void u64(struct walk *w, uint64_t *value)
{
    *value = number(w, *value, 8);
}

static void flag(struct walk *w, bool *value)
{
    uint64_t read = number(w, w->out ? *value : 0, 1);
    refuse(w, read > 1);
    *value = read == 1;
}

static void flags(struct walk *w, bool *low, bool *high)
{
    unsigned both = w->out ? (unsigned)*low | (unsigned)*high << 1 : 0;
    uint64_t read = number(w, both, 1);
    refuse(w, read > 3);
    *low = read & 1;
    *high = (read & 2) != 0;
}

/* A value from 1 to `last`. */
static unsigned choice(struct walk *w, unsigned value, unsigned last)
{
    unsigned read = (unsigned)number(w, value, 1);
    refuse(w, read == 0 || read > last);
    return read;
}

static void raw(struct walk *w, void *bytes, size_t length)
{
    if (!has_space(w, length))
        return;
    if (w->out)
        memcpy(w->out + w->at, bytes, length);
    else
        memcpy(bytes, w->in + w->at, length);
    w->at += length;
}

/* At most `max` bytes; `value` has space for one more, the terminating zero. */
static void text(struct walk *w, char *value, size_t max)
{
    size_t length = 0;
    while (w->out && length <= max && value[length])
        length++;
    length = (size_t)number(w, length, 1);
    refuse(w, length > max);
    if (w->error)
        return;
    raw(w, value, length);
    if (w->out || w->error)
        return;
    value[length] = '\0';
    refuse(w, strlen(value) != length);
}

static void node(struct walk *w, bw_node *id)
{
    u32(w, id);
    refuse(w, *id == BW_NODE_NONE);
}

static void address(struct walk *w, struct bw_peer_address *a)
{
    u8(w, &a->family);
    refuse(w, a->family != 0 && a->family != 4 && a->family != 6);
    if (w->error || a->family == 0)
        return;
    u16(w, &a->port);
    raw(w, a->bytes, a->family == 4 ? 4 : 16);
    if (a->family == 6)
        u32(w, &a->scope);
}

static void row(struct walk *w, struct bw_peer_row *r)
{
    node(w, &r->id);
    u32(w, &r->incarnation);
    u64(w, &r->directory);
    u32(w, &r->priority);
    flags(w, &r->ordinary, &r->left);
    address(w, &r->address);
    text(w, r->name, BW_PEER_NAME_MAX);
    text(w, r->value, BW_PEER_VALUE_MAX);
}

static void rules(struct walk *w, struct bw_peer_rules *r)
{
    u16(w, &r->elections);
    flags(w, &r->quorum, &r->formed);
    u64(w, &r->age_ms);
    u64(w, &r->promise_ns);
    text(w, r->algorithm, BW_PEER_ALGORITHM_MAX);
}

static void rows(struct walk *w, struct bw_peer_rows *list)
{
    list->count = (uint32_t)number(w, list->count, 1);
    refuse(w, list->count > BW_PEER_ROWS_MAX);
    for (uint32_t i = 0; !w->error && i < list->count; i++)
        row(w, &list->at[i]);
}

static void founding(struct walk *w, struct bw_peer_founding *f)
{
    f->op = (enum bw_peer_found_op)choice(w, f->op, BW_PEER_FOUND_FOUNDED);
    node(w, &f->proposer);
    u64(w, &f->round);
    f->count = (uint32_t)number(w, f->count, 2);
    refuse(w, f->count > BW_PEER_FOUNDERS_MAX);
    bool listed = f->op == BW_PEER_FOUND_PROPOSE || f->op == BW_PEER_FOUND_FOUNDED;
    refuse(w, listed != (f->count > 0));
    for (uint32_t i = 0; !w->error && i < f->count; i++) {
        node(w, &f->set[i]);
        refuse(w, i > 0 && f->set[i] <= f->set[i - 1]);
    }
}

static void death(struct walk *w, struct bw_peer_death *d)
{
    u16(w, &d->election);
    node(w, &d->node);
    u32(w, &d->incarnation);
    u64(w, &d->term);
}

static void seen(struct walk *w, struct bw_peer_member_view *s)
{
    row(w, &s->row);
    s->status = (enum bw_member_status)(choice(w, (unsigned)s->status + 1, 3) - 1);
    flag(w, &s->voter);
    u32(w, &s->level_milli);
    u64(w, &s->since_ms);
}

static void standing(struct walk *w, struct bw_peer_election_view *s)
{
    u16(w, &s->election);
    u32(w, &s->leader);
    flags(w, &s->leading, &s->electing);
    flags(w, &s->busy, &s->held);
    u64(w, &s->term);
    u64(w, &s->token);
    u64(w, &s->left_ms);
    text(w, s->state, BW_PEER_STATE_MAX);
}

static void view(struct walk *w, struct bw_peer_view *v)
{
    u64(w, &v->request);
    v->what = (enum bw_peer_question)choice(w, v->what, BW_PEER_ASK_ELECTIONS);
    flag(w, &v->formed);
    u32(w, &v->first);
    u32(w, &v->total);
    v->count = (uint32_t)number(w, v->count, 1);
    refuse(w, v->count > BW_PEER_ROWS_MAX || v->count > v->total || v->first > v->total - v->count);
    for (uint32_t i = 0; !w->error && i < v->count; i++) {
        if (v->what == BW_PEER_ASK_MEMBERS)
            seen(w, &v->seen[i]);
        else
            standing(w, &v->standing[i]);
    }
}

static void order(struct walk *w, struct bw_peer_hand_over *o)
{
    u64(w, &o->request);
    o->kind = (uint8_t)choice(w, o->kind, 11);
    flag(w, &o->answer);
    u8(w, &o->error);
    refuse(w, o->error && !o->answer);
    u16(w, &o->election);
    u32(w, &o->node);
}

static void lead(struct walk *w, struct bw_peer_claim_frame *l)
{
    u16(w, &l->election);
    u32(w, &l->node);
    refuse(w, l->node == BW_NODE_NONE);
    u64(w, &l->term);
    u64(w, &l->token);
    u64(w, &l->since_ms);
    u64(w, &l->ago_ms);
    flags(w, &l->done, &l->ended);
}

static void sync_part(struct walk *w, struct bw_peer_sync *s)
{
    flag(w, &s->answer);
    u32(w, &s->members);
    u64(w, &s->digest);
    rules(w, &s->rules);
}

static void walk_frame(struct walk *w, struct bw_peer_frame *f)
{
    switch (f->kind) {
    case BW_PEER_JOIN:
        f->rows.count = 1;
        row(w, &f->rows.at[0]);
        rules(w, &f->rows.rules);
        break;
    case BW_PEER_ROSTER:
        rows(w, &f->rows);
        break;
    case BW_PEER_SYNC:
        sync_part(w, &f->sync);
        break;
    case BW_PEER_FOUND:
        founding(w, &f->founding);
        break;
    case BW_PEER_DEAD:
    case BW_PEER_HANDED:
        death(w, &f->death);
        break;
    case BW_PEER_CLAIM:
        lead(w, &f->lead);
        break;
    case BW_PEER_QUERY:
        u64(w, &f->query.request);
        f->query.what = (enum bw_peer_question)choice(w, f->query.what, BW_PEER_ASK_ELECTIONS);
        u32(w, &f->query.first);
        break;
    case BW_PEER_VIEW:
        view(w, &f->view);
        break;
    case BW_PEER_ORDER:
        order(w, &f->order);
        break;
    case BW_PEER_INSTANCE:
    case BW_PEER_BATCH:
    case BW_PEER_FRAME_KINDS:
    default:
        refuse(w, true);
    }
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the walk writes through it */
int bw_peer_frame_encode(const struct bw_peer_frame *frame, unsigned char *out, size_t cap)
{
    struct walk w = {.out = out, .cap = cap < INT32_MAX ? cap : INT32_MAX};
    /* a copy, because the walk is shared with the decoder and also writes to the frame */
    struct bw_peer_frame copy = *frame;
    walk_frame(&w, &copy);
    return w.error ? w.error : (int)w.at;
}

int bw_peer_frame_decode(struct bw_peer_frame *frame, const unsigned char *in, size_t length)
{
    struct walk w = {.in = in, .cap = length};
    walk_frame(&w, frame);
    refuse(&w, w.at != length);
    return w.error;
}

size_t bw_peer_row_bytes(const struct bw_peer_row *r)
{
    size_t family = r->address.family == 6 ? 22 : r->address.family == 4 ? 6 : 0;
    return 4 + 4 + 8 + 4 + 1 + 1 + family + 1 + strlen(r->name) + 1 + strlen(r->value);
}

size_t bw_peer_member_view_bytes(const struct bw_peer_member_view *s)
{
    return bw_peer_row_bytes(&s->row) + 14;
}
