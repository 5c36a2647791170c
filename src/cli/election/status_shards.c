/* Prints the shards of an election, one record each; see status_shards.h. */
#include "cli/election/status_shards.h"

#include "cli/election/record_print.h"
#include "run/shards/value.h"

#include <inttypes.h>
#include <stdlib.h>

uint32_t bw_status_shards(const struct bw_store_reply *reply)
{
    struct bw_shard_set done;
    uint32_t shards = 0;
    for (uint32_t i = 0; i < reply->count; i++)
        if (bw_shards_value_read(reply->candidates[i].value, &shards, &done) == 0)
            return shards;
    return 0;
}

/* Reads the shard's record into client->reply and returns BW_GO_ON. A shard that never had a leader
 * has an empty record. */
static int read_shard(struct bw_client *client, char *election, uint32_t shard)
{
    struct bw_store_request request = bw_client_request(client, BW_STORE_READ);
    if (bw_shards_election(election, client->look->election, shard) != 0)
        return bw_client_fail(client, BW_EXIT_FAILED,
                              "invalid election name: the name of shard %u would be too long",
                              shard);
    request.election = election;
    int code = bw_client_ask(client, &request);
    if (code == BW_GO_ON && client->reply.outcome != BW_OUTCOME_DONE)
        return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "%s", client->reply.why);
    return code;
}

int bw_status_find_shards(struct bw_client *client, uint32_t *shards)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    int code = BW_GO_ON;
    for (*shards = 0; *shards < BW_SHARDS_MAX; ++*shards) {
        code = read_shard(client, election, *shards);
        if (code != BW_GO_ON || client->reply.record.version == 0)
            break;
    }
    return code;
}

static void print_shard(uint32_t shard, const struct bw_store_record *record,
                        const struct bw_age *age)
{
    char text[BW_AGE_TEXT];
    printf("shard %-5u %s", shard, record->held ? bw_shown(record->holder) : "none");
    if (record->held && record->token != BW_TOKEN_NONE)
        printf("  token %" PRIu64, record->token);
    if (age->span != BW_TIME_NEVER)
        printf("  age %s", bw_age_text(text, age));
    if (record->held && record->value[0])
        printf("  value %s", bw_shown(record->value));
    putchar('\n');
}

static json_t *json_of(const char *election, const struct bw_store_record *record,
                       const struct bw_age *age)
{
    json_t *value = bw_json_record(election, record);
    bw_age_json(value, age);
    return value;
}

static void print_head(const struct bw_client *client, uint32_t shards, uint32_t count)
{
    printf("election    %s\nshards      %u\n", bw_shown(client->look->election), shards);
    if (!(client->ops->traits & BW_STORE_LISTS))
        return;
    printf("candidates  %u:", count);
    for (uint32_t i = 0; i < count; i++)
        printf(" %s", bw_shown(client->candidates[i].id));
    putchar('\n');
}

int bw_status_show_shards(struct bw_client *client, const struct bw_ages *ages, uint32_t shards)
{
    char election[BW_ELECTION_NAME_MAX + 1];
    uint32_t led = 0, count = client->reply.count;
    json_t *list = json_array();
    int code = BW_GO_ON;
    if (!client->look->json)
        print_head(client, shards, count);
    for (uint32_t i = 0; i < shards && code == BW_GO_ON; i++) {
        code = read_shard(client, election, i);
        if (code != BW_GO_ON)
            break;
        const struct bw_store_record *record = &client->reply.record;
        struct bw_age age = bw_ages_find(ages, election, record);
        led += record->held;
        if (client->look->json)
            json_array_append_new(list, json_of(election, record, &age));
        else
            print_shard(i, record, &age);
    }
    if (code == BW_GO_ON && client->look->json) {
        bool listed = client->ops->traits & BW_STORE_LISTS;
        json_t *names = listed ? bw_json_candidates(client->candidates, count) : json_null();
        bw_json_line(json_pack("{s:o, s:O, s:i, s:o}", "election",
                               bw_json_text(client->look->election), "shards", list, "led",
                               (int)led, "candidates", names));
    }
    json_decref(list);
    if (code != BW_GO_ON)
        return code;
    return led == shards ? BW_EXIT_OK : BW_EXIT_FAILED;
}
