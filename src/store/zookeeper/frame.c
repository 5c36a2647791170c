/* Checks a server's frame; see frame.h. */
#include "store/zookeeper/frame.h"

#define STAT_BYTES 68u

enum { XID_EVENT = -1, XID_PING = -2, XID_AUTH = -4, XID_WATCHES = -8 };
enum { PART_ERROR = -1, PART_CREATE = 1, PART_DELETE = 2, PART_SET = 5, PART_CHECK = 13 };

/* The unread part of a frame. */
struct reader {
    const unsigned char *at;
    size_t left;
    bool good;
};

static int32_t number(const unsigned char *at)
{
    return (int32_t)((uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3]);
}

static void skip(struct reader *reader, size_t count)
{
    if (count > reader->left)
        reader->good = false;
    if (!reader->good)
        return;
    reader->at += count;
    reader->left -= count;
}

static int32_t next_number(struct reader *reader)
{
    const unsigned char *at = reader->at;
    skip(reader, 4);
    return reader->good ? number(at) : 0;
}

static void text(struct reader *reader, bool may_be_none)
{
    int32_t length = next_number(reader);
    if (length >= 0)
        skip(reader, (size_t)length);
    else if (length != -1 || !may_be_none)
        reader->good = false;
}

static void names(struct reader *reader)
{
    int32_t count = next_number(reader);
    if (count < 0 || (size_t)count > reader->left / 4)
        reader->good = false;
    for (int32_t i = 0; reader->good && i < count; i++)
        text(reader, false);
}

static void multi(struct reader *reader, unsigned parts)
{
    for (unsigned i = 0; reader->good && i <= parts; i++) {
        int32_t type = next_number(reader);
        const unsigned char *done = reader->at;
        skip(reader, 5);
        if (!reader->good || (*done != 0) != (i == parts)) {
            reader->good = false;
            return;
        }
        if (i == parts)
            return;
        if (type == PART_ERROR)
            skip(reader, 4);
        else if (type == PART_CREATE)
            text(reader, false);
        else if (type == PART_SET)
            skip(reader, STAT_BYTES);
        else if (type != PART_DELETE && type != PART_CHECK)
            reader->good = false;
    }
}

static void body(struct reader *reader, const struct bw_zk_expected *expected)
{
    switch (expected->shape) {
    case BW_ZK_NOTHING:
        break;
    case BW_ZK_TEXT:
        text(reader, false);
        break;
    case BW_ZK_STAT:
        skip(reader, STAT_BYTES);
        break;
    case BW_ZK_DATA:
        text(reader, true);
        skip(reader, STAT_BYTES);
        break;
    case BW_ZK_NAMES:
        names(reader);
        break;
    case BW_ZK_TEXT_STAT:
        text(reader, false);
        skip(reader, STAT_BYTES);
        break;
    case BW_ZK_MULTI:
        multi(reader, expected->parts);
        break;
    }
}

uint32_t bw_zk_frame_length(const unsigned char length[4])
{
    return (uint32_t)number(length);
}

bool bw_zk_frame_begins(const unsigned char *header, uint32_t length,
                        const struct bw_zk_expected *expected)
{
    int32_t xid = number(header);
    bool known = xid == XID_EVENT || xid == XID_PING || xid == XID_AUTH || xid == XID_WATCHES;
    return length >= BW_ZK_HEADER && length <= BW_ZK_FRAME_MAX && (known || expected->any);
}

bool bw_zk_frame_is_good(const unsigned char *frame, size_t length,
                         const struct bw_zk_expected *expected)
{
    struct reader reader = {.at = frame, .left = length, .good = true};
    if (length < BW_ZK_HEADER || !bw_zk_frame_begins(frame, (uint32_t)length, expected))
        return false;
    int32_t xid = number(frame), error = number(frame + 12);
    skip(&reader, BW_ZK_HEADER);
    if (xid == XID_EVENT) {
        skip(&reader, 8);
        text(&reader, false);
    } else if (xid != XID_PING && xid != XID_AUTH && xid != XID_WATCHES && error == 0) {
        body(&reader, expected);
    }
    return reader.good;
}
