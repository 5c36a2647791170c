/* Values of sharded elections, see value.h. */
#include "run/shards/value.h"

#include "core/base/error.h"
#include "core/base/parse_values.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

struct output {
    char *out;
    size_t used;
};

static void put_done(struct output *text, uint32_t shards, const struct bw_shard_set *done)
{
    if (bw_shard_set_count(done, shards) == 0)
        return;
    text->used += (size_t)snprintf(text->out + text->used, BW_VALUE_MAX + 1 - text->used, " done=");
    for (uint32_t i = 0; i < shards; i += 4)
        text->out[text->used++] = digits[done->bits[i / 8] >> (i % 8) & 15];
    text->out[text->used] = '\0';
}

/* Appends a range of shards. Returns false if it does not fit. */
static bool put_run(struct output *text, const char *before, uint32_t first, uint32_t last)
{
    char part[40];
    int length = first == last ? snprintf(part, sizeof part, "%s%u", before, first)
                               : snprintf(part, sizeof part, "%s%u-%u", before, first, last);
    bool fits = text->used + (size_t)length + 4 <= BW_VALUE_MAX;
    snprintf(text->out + text->used, BW_VALUE_MAX + 1 - text->used, "%s", fits ? part : ",...");
    text->used += fits ? (size_t)length : 4;
    return fits;
}

void bw_shards_value_write(char *out, uint32_t shards, const struct bw_shard_set *done,
                           const struct bw_shard_set *runs)
{
    struct output text = {out, (size_t)snprintf(out, BW_VALUE_MAX + 1, "shards=%u", shards)};
    const char *before = " runs=";
    put_done(&text, shards, done);
    for (uint32_t i = 0; i < shards; i++) {
        uint32_t last = i;
        if (!bw_shard_set_has(runs, i))
            continue;
        while (last + 1 < shards && bw_shard_set_has(runs, last + 1))
            last++;
        if (!put_run(&text, before, i, last))
            return;
        before = ",";
        i = last;
    }
}

static int read_done(const char *text, uint32_t shards, struct bw_shard_set *done)
{
    size_t length = strcspn(text, " ");
    if (length != (shards + 3) / 4)
        return BW_EINVAL;
    for (uint32_t i = 0; i < length; i++) {
        const char *digit = memchr(digits, text[i], sizeof digits - 1);
        if (!digit)
            return BW_EINVAL;
        for (uint32_t bit = 0; bit < 4 && 4 * i + bit < shards; bit++)
            if ((digit - digits) >> bit & 1)
                bw_shard_set_add(done, 4 * i + bit);
    }
    return 0;
}

int bw_shards_value_read(const char *text, uint32_t *shards, struct bw_shard_set *done)
{
    static const char begin[] = "shards=", middle[] = " done=";
    uint64_t number;
    memset(done, 0, sizeof *done);
    if (strncmp(text, begin, sizeof begin - 1) != 0)
        return BW_EINVAL;
    text += sizeof begin - 1;
    size_t length = strcspn(text, " ");
    if (bw_text_number(text, length, BW_SHARDS_MAX, &number) != 0 || number == 0)
        return BW_EINVAL;
    *shards = (uint32_t)number;
    text += length;
    if (strncmp(text, middle, sizeof middle - 1) == 0)
        return read_done(text + sizeof middle - 1, *shards, done);
    return 0;
}

int bw_shards_election(char *out, const char *name, uint32_t shard)
{
    int length = snprintf(out, BW_ELECTION_NAME_MAX + 1, "%s.%u", name, shard);
    return length > (int)BW_ELECTION_NAME_MAX ? BW_ELIMIT : 0;
}
