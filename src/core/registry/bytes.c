/* Encoding of numbers and slices; see bytes.h. */
#include "core/registry/bytes.h"
#include "core/base/assert.h"

#include <string.h>

void bw_write_number(struct bw_writer *writer, uint64_t number)
{
    do {
        if (writer->used >= writer->size) {
            writer->failed = true;
            return;
        }
        writer->at[writer->used++] = (unsigned char)((number & 127) | (number > 127 ? 128 : 0));
        number >>= 7;
    } while (number);
}

void bw_write_slice(struct bw_writer *writer, struct bw_slice slice)
{
    bw_write_number(writer, slice.length);
    if (writer->failed || writer->size - writer->used < slice.length) {
        writer->failed = true;
        return;
    }
    if (slice.length)
        memcpy(writer->at + writer->used, slice.at, slice.length);
    writer->used += slice.length;
}

/* Each number has one encoding: no zero group at the end, at most 64 bits. */
uint64_t bw_read_number(struct bw_reader *reader)
{
    uint64_t number = 0;
    for (unsigned shift = 0; BW_ALWAYS(shift < 70); shift += 7) {
        if (reader->used >= reader->size)
            break;
        uint64_t group = reader->at[reader->used++];
        if ((shift == 63 && group > 1) || (shift && group == 0))
            break;
        number |= (group & 127) << shift;
        if (group < 128)
            return number;
    }
    reader->failed = true;
    reader->used = reader->size;
    return 0;
}

uint64_t bw_read_below(struct bw_reader *reader, uint64_t max)
{
    uint64_t number = bw_read_number(reader);
    if (number <= max)
        return number;
    reader->failed = true;
    return 0;
}

int64_t bw_read_positive(struct bw_reader *reader)
{
    return (int64_t)bw_read_below(reader, INT64_MAX);
}

bool bw_read_bool(struct bw_reader *reader)
{
    return bw_read_below(reader, 1) != 0;
}

struct bw_slice bw_read_slice(struct bw_reader *reader)
{
    uint64_t length = bw_read_number(reader);
    if (reader->failed || length > reader->size - reader->used) {
        reader->failed = true;
        return (struct bw_slice){NULL, 0};
    }
    struct bw_slice slice = {reader->at + reader->used, (size_t)length};
    reader->used += slice.length;
    return slice;
}
