/* The wire format of messages.
 *
 * Numbers are varints (LEB128: seven bits a byte, lowest first, the top bit marks that more follow)
 * in the shortest form, except where a width is given: those are little-endian of that width.
 *
 *     version        1 byte     1
 *     kind           1 byte     place in BW_MESSAGE_MAP, from 1; new kinds are added at the end
 *     flags          1 byte     enum bw_message_flag; unknown bits are rejected
 *     election       varint     below BW_ELECTIONS_MAX
 *     from, to       varint x2  ids, not 0
 *     term           varint
 *     fixed part     by kind:
 *       NOTHING        -
 *       PROBE          seq, target, incarnation
 *       BULLY          leader, penalty, version
 *       RING           initiator, best, hops
 *       HS             value, num, max
 *       GROUP          leader, size, counter
 *       PROMISE        leader, left_ns, echo 8 bytes
 *       VOTE           last_index, last_term, left_ns, ended 8 bytes
 *       APPEND         prev_index, prev_term, commit, echo 8 bytes, change op 1 byte, change entry,
 *                      change node, runs, then per run: term, count
 *       APPEND_REPLY   index, hint_term, rejected, echo 8 bytes
 *       SNAPSHOT       last_index, last_term, echo 8 bytes, voters
 *     waits          with the flag WAITS: count, span_ns, then per wait: node, term, left_ns
 *     list           kinds that have one: items, then per item:
 *       BYTES          1 byte
 *       NODES          id
 *       UPDATES        node, incarnation, status, by
 *       COUNTERS       node, value
 *
 * The frame ends here. The decoder rejects trailing bytes and varints that are longer than needed,
 * so each message has one encoding.
 *
 * Model: the bytes come from a peer that may be outdated, broken or hostile. The decoder trusts
 * none of them and writes only to the caller's buffers.
 *
 * Not done here: length prefix, checksum, authentication. The transport adds them. */
#include "core/base/codec.h"

#include "core/base/assert.h"
#include "core/base/bug.h"
#include "core/base/error.h"
#include "core/base/event.h"
#include "core/base/valid.h"

#include <string.h>

enum form { VARINT, FIXED };

/* One number of a struct: its offset, its width in memory, its wire form and its maximum. */
struct field {
    uint16_t offset;
    uint8_t width;
    uint8_t form;
    uint64_t max;
};

struct layout {
    const struct field *fields;
    uint16_t count;
    uint16_t size; /* for lists: bytes of an item in memory */
};

#define WIDTH(type, member) ((uint8_t)sizeof(((struct type *)0)->member))
#define IN(type, member, form, most)                                                               \
    {                                                                                              \
        offsetof(struct type, member), WIDTH(type, member), form, most                             \
    }
#define NUMBER(member)        IN(bw_message, member, VARINT, UINT64_MAX)
#define BOUNDED(member, most) IN(bw_message, member, VARINT, most)
#define SPAN(member)          IN(bw_message, member, VARINT, INT64_MAX)
#define INSTANT(member)       IN(bw_message, member, FIXED, INT64_MAX)
#define BYTE(member, most)    IN(bw_message, member, FIXED, most)
#define LAYOUT(table, size)                                                                        \
    {                                                                                              \
        table, sizeof(table) / sizeof((table)[0]), size                                            \
    }

static const struct field header_fields[] = {
    BYTE(kind, BW_MSG_COUNT - 1),
    BYTE(flags, UINT8_MAX),
    BOUNDED(election, BW_ELECTIONS_MAX - 1),
    NUMBER(from),
    NUMBER(to),
    NUMBER(term),
};
static const struct field items_field = NUMBER(items);

static const struct field probe_fields[] = {NUMBER(probe.seq), NUMBER(probe.target),
                                            NUMBER(probe.incarnation)};
static const struct field bully_fields[] = {NUMBER(bully.leader), NUMBER(bully.penalty),
                                            NUMBER(bully.version)};
static const struct field ring_fields[] = {NUMBER(ring.initiator), NUMBER(ring.best),
                                           NUMBER(ring.hops)};
static const struct field hs_fields[] = {NUMBER(hs.value), NUMBER(hs.num), NUMBER(hs.max)};
static const struct field group_fields[] = {NUMBER(group.leader), NUMBER(group.size),
                                            NUMBER(group.counter)};
static const struct field promise_fields[] = {NUMBER(promise.leader), SPAN(promise.left_ns),
                                              INSTANT(promise.echo)};
static const struct field vote_fields[] = {NUMBER(vote.last_index), NUMBER(vote.last_term),
                                           SPAN(vote.left_ns), INSTANT(vote.ended)};
static const struct field append_fields[] = {
    NUMBER(append.prev_index),
    NUMBER(append.prev_term),
    NUMBER(append.commit),
    INSTANT(append.echo),
    BYTE(append.change.op, BW_CHANGE_REMOVE),
    NUMBER(append.change.entry),
    NUMBER(append.change.node),
    BOUNDED(append.runs, BW_RAFT_APPEND_RUNS_MAX),
};
static const struct field append_reply_fields[] = {
    NUMBER(append_reply.index), NUMBER(append_reply.hint_term), NUMBER(append_reply.rejected),
    INSTANT(append_reply.echo)};
static const struct field snapshot_fields[] = {NUMBER(snapshot.last_index),
                                               NUMBER(snapshot.last_term), INSTANT(snapshot.echo),
                                               BOUNDED(snapshot.voters, BW_RAFT_MEMBERS_MAX)};

static const struct field run_fields[] = {IN(bw_term_run, term, VARINT, UINT64_MAX),
                                          IN(bw_term_run, count, VARINT, UINT64_MAX)};
static const struct field wait_fields[] = {IN(bw_raft_wait, node, VARINT, UINT64_MAX),
                                           IN(bw_raft_wait, term, VARINT, UINT64_MAX),
                                           IN(bw_raft_wait, left_ns, VARINT, INT64_MAX)};
static const struct field waits_fields[] = {IN(bw_raft_waits, count, VARINT, BW_RAFT_WAITS_MAX),
                                            IN(bw_raft_waits, span_ns, VARINT, INT64_MAX)};
static const struct field node_fields[] = {{0, sizeof(bw_node), VARINT, UINT64_MAX}};
static const struct field update_fields[] = {
    IN(bw_swim_update, node, VARINT, UINT64_MAX),
    IN(bw_swim_update, incarnation, VARINT, UINT64_MAX),
    IN(bw_swim_update, status, VARINT, BW_MEMBER_DEAD),
    IN(bw_swim_update, by, VARINT, UINT64_MAX),
};
static const struct field counter_fields[] = {IN(bw_counter, node, VARINT, UINT64_MAX),
                                              IN(bw_counter, value, VARINT, UINT64_MAX)};
static const struct field byte_fields[] = {{0, 1, FIXED, UINT64_MAX}};

enum part {
    PART_NOTHING,
    PART_PROBE,
    PART_BULLY,
    PART_RING,
    PART_HS,
    PART_GROUP,
    PART_PROMISE,
    PART_VOTE,
    PART_APPEND,
    PART_APPEND_REPLY,
    PART_SNAPSHOT
};

static const struct layout header = LAYOUT(header_fields, 0);
static const struct layout runs = LAYOUT(run_fields, sizeof(struct bw_term_run));
static const struct layout wait = LAYOUT(wait_fields, sizeof(struct bw_raft_wait));
static const struct layout waits = LAYOUT(waits_fields, 0);
static const struct layout parts[] = {
    [PART_NOTHING] = {NULL, 0, 0},
    [PART_PROBE] = LAYOUT(probe_fields, 0),
    [PART_BULLY] = LAYOUT(bully_fields, 0),
    [PART_RING] = LAYOUT(ring_fields, 0),
    [PART_HS] = LAYOUT(hs_fields, 0),
    [PART_GROUP] = LAYOUT(group_fields, 0),
    [PART_PROMISE] = LAYOUT(promise_fields, 0),
    [PART_VOTE] = LAYOUT(vote_fields, 0),
    [PART_APPEND] = LAYOUT(append_fields, 0),
    [PART_APPEND_REPLY] = LAYOUT(append_reply_fields, 0),
    [PART_SNAPSHOT] = LAYOUT(snapshot_fields, 0),
};

enum list { LIST_NONE, LIST_BYTES, LIST_NODES, LIST_UPDATES, LIST_COUNTERS };

static const struct layout lists[] = {
    [LIST_NONE] = {NULL, 0, 0},
    [LIST_BYTES] = LAYOUT(byte_fields, 1),
    [LIST_NODES] = LAYOUT(node_fields, sizeof(bw_node)),
    [LIST_UPDATES] = LAYOUT(update_fields, sizeof(struct bw_swim_update)),
    [LIST_COUNTERS] = LAYOUT(counter_fields, sizeof(struct bw_counter)),
};

struct row {
    uint8_t part, list;
};

static const struct row rows[BW_MSG_COUNT] = {
#define X(constant, name, owner, fixed, list) [BW_MSG_##constant] = {PART_##fixed, LIST_##list},
    BW_MESSAGE_MAP(X)
#undef X
};

/* ---- numbers in memory ---- */

static uint64_t load(const struct field *field, const unsigned char *base)
{
    const unsigned char *at = base + field->offset;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (field->width) {
    case 1:
        return *at;
    case 2:
        memcpy(&two, at, sizeof two);
        return two;
    case 4:
        memcpy(&four, at, sizeof four);
        return four;
    default:
        memcpy(&eight, at, sizeof eight);
        return eight;
    }
}

static void store(const struct field *field, unsigned char *base, uint64_t value)
{
    unsigned char *at = base + field->offset;
    uint16_t two = (uint16_t)value;
    uint32_t four = (uint32_t)value;
    switch (field->width) {
    case 1:
        *at = (unsigned char)value;
        break;
    case 2:
        memcpy(at, &two, sizeof two);
        break;
    case 4:
        memcpy(at, &four, sizeof four);
        break;
    default:
        memcpy(at, &value, sizeof value);
        break;
    }
}

/* ---- encoding ---- */

struct writer {
    unsigned char *at, *end; /* at == NULL: the buffer was too small */
};

static void put_byte(struct writer *writer, unsigned char byte)
{
    if (writer->at == writer->end)
        writer->at = writer->end = NULL;
    if (writer->at)
        *writer->at++ = byte;
}

static void put_number(struct writer *writer, const struct field *field, uint64_t value)
{
    if (field->form == FIXED) {
        for (unsigned i = 0; i < field->width; i++)
            put_byte(writer, (unsigned char)(value >> (8 * i)));
        return;
    }
    for (; value >= 0x80; value >>= 7)
        put_byte(writer, (unsigned char)(value | 0x80));
    put_byte(writer, (unsigned char)value);
}

static void put_layout(struct writer *writer, const struct layout *layout, const void *base)
{
    for (unsigned i = 0; i < layout->count; i++)
        put_number(writer, &layout->fields[i], load(&layout->fields[i], base));
}

static void put_list(struct writer *writer, const struct layout *item, const void *at,
                     uint32_t count)
{
    const unsigned char *from = at;
    for (uint32_t i = 0; i < count && writer->at; i++, from += item->size)
        put_layout(writer, item, from);
}

int bw_message_encode(const struct bw_message *msg, unsigned char *out, size_t cap)
{
    int error = bw_message_check(msg);
    if (error)
        return error;
    const struct row *row = &rows[msg->kind];
    struct writer writer = {out, out + cap};
    put_byte(&writer, BW_CODEC_VERSION);
    put_layout(&writer, &header, msg);
    put_layout(&writer, &parts[row->part], msg);
    if (row->part == PART_APPEND)
        put_list(&writer, &runs, msg->append.run, msg->append.runs);
    if (msg->flags & BW_FLAG_WAITS) {
        const struct bw_raft_waits *all = bw_message_waits(msg);
        put_layout(&writer, &waits, all);
        put_list(&writer, &wait, all->at, all->count);
    }
    if (row->list != LIST_NONE) {
        put_number(&writer, &items_field, msg->items);
        put_list(&writer, &lists[row->list], msg->data, msg->items);
    }
    return writer.at ? (int)(writer.at - out) : BW_ELIMIT;
}

/* ---- decoding ---- */

struct reader {
    const unsigned char *at, *end;
    int error; /* the first error; the reader stops there */
};

static void fail(struct reader *reader, int error)
{
    if (!reader->error)
        reader->error = error;
    reader->at = reader->end;
}

static unsigned char get_byte(struct reader *reader)
{
    if (reader->at == reader->end) {
        fail(reader, BW_ETRUNCATED);
        return 0;
    }
    return *reader->at++;
}

static uint64_t get_varint(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        unsigned char byte = get_byte(reader);
        uint64_t bits = byte & 0x7fu;
        if (bits << shift >> shift != bits)
            break;
        value |= bits << shift;
        if (byte & 0x80)
            continue;
        if (byte == 0 && shift > 0 && !BW_BUG(codec_takes_long_varints))
            break;
        return value;
    }
    fail(reader, BW_EMALFORMED);
    return 0;
}

static uint64_t get_number(struct reader *reader, const struct field *field)
{
    uint64_t value = 0;
    if (field->form == VARINT)
        value = get_varint(reader);
    else
        for (unsigned i = 0; i < field->width; i++)
            value |= (uint64_t)get_byte(reader) << (8 * i);
    uint64_t most = field->width == 8 ? UINT64_MAX : ((uint64_t)1 << (8 * field->width)) - 1;
    if (value > most || value > field->max)
        fail(reader, BW_EMALFORMED);
    return value;
}

static void get_layout(struct reader *reader, const struct layout *layout, void *base)
{
    for (unsigned i = 0; i < layout->count && !reader->error; i++)
        store(&layout->fields[i], base, get_number(reader, &layout->fields[i]));
}

static void get_list(struct reader *reader, const struct layout *item, void *at, uint32_t count)
{
    unsigned char *to = at;
    for (uint32_t i = 0; i < count && !reader->error; i++, to += item->size) {
        memset(to, 0, item->size);
        get_layout(reader, item, to);
    }
}

static void get_waits(struct reader *reader, struct bw_message *msg)
{
    size_t at = bw_message_waits_at(msg->kind);
    struct bw_raft_waits *all = (void *)((unsigned char *)msg + at);
    if (at == 0) {
        fail(reader, BW_EMALFORMED);
        return;
    }
    get_layout(reader, &waits, all);
    if (!reader->error)
        get_list(reader, &wait, all->at, all->count);
}

static void get_items(struct reader *reader, struct bw_message *msg, void *data, size_t data_cap)
{
    const struct layout *item = &lists[rows[msg->kind].list];
    uint64_t items = get_number(reader, &items_field);
    if (items > bw_message_items_max(msg->kind) || items * item->size > data_cap) {
        fail(reader, BW_ELIMIT);
        return;
    }
    msg->items = (uint32_t)items;
    msg->data = items > 0 ? data : NULL;
    BW_ASSERT(((uintptr_t)msg->data & 7u) == 0);
    get_list(reader, item, data, msg->items);
}

int bw_message_decode(struct bw_message *msg, const unsigned char *in, size_t len, void *data,
                      size_t data_cap)
{
    struct reader reader = {in, in + len, 0};
    if (len > 0 && get_byte(&reader) != BW_CODEC_VERSION)
        return BW_EVERSION;
    memset(msg, 0, sizeof *msg);
    get_layout(&reader, &header, msg);
    const struct row *row = &rows[msg->kind < BW_MSG_COUNT ? msg->kind : BW_MSG_NONE];
    get_layout(&reader, &parts[row->part], msg);
    if (row->part == PART_APPEND && !reader.error)
        get_list(&reader, &runs, msg->append.run, msg->append.runs);
    if ((msg->flags & BW_FLAG_WAITS) && !reader.error)
        get_waits(&reader, msg);
    if (row->list != LIST_NONE && !reader.error)
        get_items(&reader, msg, data, data_cap);
    if (reader.error)
        return reader.error;
    if (reader.at != reader.end && !BW_BUG(codec_takes_trailing_bytes))
        return BW_EMALFORMED;
    return bw_message_check(msg);
}
