/* `bellwether status` and `candidates`: show the current state of an election. */
#include "cli/commands.h"
#include "cli/election/change.h"
#include "cli/election/record_print.h"
#include "cli/election/status_list.h"
#include "cli/election/status_shards.h"
#include "cli/store/client.h"
#include "core/base/parse_values.h"

#include <inttypes.h>
#include <string.h>

/* `candidates` has no history_dir. */
struct status {
    struct bw_look look; /* first, as the look options require */
    const char *history_dir;
};

static const struct bw_option status_options[] = {
    BW_LOOK_STORE,
    BW_LOOK_STORE_FILE,
    BW_LOOK_ELECTION_OR_ALL,
    BW_LOOK_JSON,
    BW_LOOK_TIMEOUT,
    {.name = "history-dir",
     .form = "DIR",
     .help = "directory of the history that has the ages, as given to run or peer (default: those "
             "of this host and of this user)",
     .set = bw_set_text,
     .offset = offsetof(struct status, history_dir)},
    {.name = NULL},
};

static const struct bw_option options[] = {
    BW_LOOK_STORE, BW_LOOK_STORE_FILE, BW_LOOK_ELECTION,
    BW_LOOK_JSON,  BW_LOOK_TIMEOUT,    {.name = NULL},
};

static bool lists(const struct bw_client *client)
{
    return client->ops->traits & BW_STORE_LISTS;
}

static int list(struct bw_client *client)
{
    struct bw_store_request request = bw_client_request(client, BW_STORE_LIST);
    int code = bw_client_ask(client, &request);
    if (code == BW_GO_ON && client->reply.outcome != BW_OUTCOME_DONE)
        return bw_client_fail(client, BW_EXIT_UNAVAILABLE, "%s", client->reply.why);
    return code;
}

static void print_unconfirmed(const char *unconfirmed)
{
    while (*unconfirmed) {
        int line = (int)strcspn(unconfirmed, "\n"), id = (int)strcspn(unconfirmed, "\t\n");
        char name[BW_UNCONFIRMED_MAX + 1], place[BW_UNCONFIRMED_MAX + 1];
        snprintf(name, sizeof name, "%.*s", id, unconfirmed);
        snprintf(place, sizeof place, "%.*s", id < line ? line - id - 1 : 0, unconfirmed + id + 1);
        bool many = strcmp(name, "*") == 0;
        printf("unconfirmed work of %s may still run%s%s%s\n",
               many ? "earlier holders" : bw_shown(name), place[0] ? " (" : "", bw_shown(place),
               place[0] ? ")" : "");
        unconfirmed += line + (unconfirmed[line] == '\n');
    }
}

/* Prints a word for a shell. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_@%+=:,./-";
    if (word[strspn(word, plain)] == '\0') {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (const char *c = word; *c; c++)
        if (*c == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*c);
    putchar('\'');
}

/* The store options of a command that shall use the same store. */
static void print_store(const struct bw_look *look)
{
    if (look->is_default)
        return;
    fputs(look->store_file ? " --store-file " : " --store ", stdout);
    print_word(bw_shown(look->store_file ? look->store_file : look->shown));
}

/* Explains what happens to unconfirmed work: the holder handles it before it starts its own
 * work. */
static void print_to_do(const struct bw_look *look, const struct bw_store_record *record)
{
    if (!record->unconfirmed[0])
        return;
    printf("            %s kills it if it is on the leader's host, and fences it elsewhere if "
           "fencing is configured\n",
           record->held ? bw_shown(record->holder) : "the next leader");
    fputs("            after you have seen it dead: bellwether recover --election ", stdout);
    print_word(bw_shown(look->election));
    print_store(look);
    fputs(" --settle ID\n", stdout);
    if (record->held)
        printf("            recover makes %s stop its work first; once its work has started, %s "
               "removes this entry itself at its next renewal\n",
               bw_shown(record->holder), bw_shown(record->holder));
}

static void print_lease(const struct bw_store_record *record)
{
    char ttl[BW_SPAN_TEXT], left[BW_SPAN_TEXT];
    if (record->ttl_ns)
        bw_span_exact(ttl, record->ttl_ns);
    else /* a record of another program */
        snprintf(ttl, sizeof ttl, "TTL unknown");
    if (!record->held && record->clean)
        printf("lease       free; the last work is confirmed dead\n");
    else if (!record->held)
        printf("lease       free; %s\n",
               record->unconfirmed[0] ? "work of earlier leaders is not confirmed dead"
                                      : "its last holder did not confirm that its work is dead");
    else if (record->proved_dead)
        printf("lease       its holder is proved dead\n");
    else if (record->left_ns == BW_TIME_NEVER)
        printf("lease       %s, renewed by its holder\n", ttl);
    else if (record->left_ns == 0)
        printf("lease       %s, expired\n", ttl);
    else
        printf("lease       %s, %s left\n", ttl, bw_span_round(left, record->left_ns));
}

static void print_age(const struct bw_age *age)
{
    char text[BW_SPAN_TEXT];
    if (age->span != BW_TIME_NEVER)
        printf("age         %s%s\n", age->is_minimum ? "at least " : "",
               bw_span_round(text, age->span));
}

static void print_record(const struct bw_look *look, const struct bw_store_record *record,
                         const struct bw_age *age)
{
    const struct bw_note *note = &record->note;
    printf("election    %s\n", bw_shown(look->election));
    printf("leader      %s\n", record->held ? bw_shown(record->holder) : "none");
    if (!record->held && record->holder[0])
        printf("last        %s\n", bw_shown(record->holder));
    print_age(age);
    if (record->token != BW_TOKEN_NONE)
        printf("token       %" PRIu64 "\n", record->token);
    if (record->held && record->value[0])
        printf("value       %s\n", bw_shown(record->value));
    print_lease(record);
    print_unconfirmed(record->unconfirmed);
    print_to_do(look, record);
    if (bw_note_is_open(record))
        printf("note        %s%s%s, from %s\n", bw_note_name(note->kind), note->to[0] ? " to " : "",
               bw_shown(note->to), bw_shown(note->from));
}

static void print_names(const struct bw_candidate *at, uint32_t count)
{
    printf("candidates  %u%s", count, count ? ":" : "");
    for (uint32_t i = 0; i < count; i++)
        printf(" %s%s", bw_shown(at[i].id), at[i].holder ? "*" : "");
    putchar('\n');
}

/* Finds shards when no candidate is listed. An election with shards has no record of its own
 * name. */
static int find_shards(struct bw_client *client, uint32_t *shards)
{
    struct bw_store_request request = bw_client_request(client, BW_STORE_READ);
    int code = bw_client_ask(client, &request);
    bool none = client->reply.outcome == BW_OUTCOME_DONE && client->reply.record.version == 0;
    return code == BW_GO_ON && none ? bw_status_find_shards(client, shards) : code;
}

static int show_election(struct bw_client *client, const struct bw_ages *ages)
{
    bool listed = lists(client);
    int code = listed ? list(client) : BW_GO_ON;
    if (code != BW_GO_ON)
        return code;
    uint32_t shards = listed ? bw_status_shards(&client->reply) : 0, count = client->reply.count;
    if (!listed)
        code = find_shards(client, &shards);
    if (code != BW_GO_ON)
        return code;
    if (shards)
        return bw_status_show_shards(client, ages, shards);
    code = bw_client_read(client);
    if (code != BW_GO_ON)
        return code;
    struct bw_store_record record = client->reply.record;
    struct bw_age age = bw_ages_find(ages, client->look->election, &record);
    if (client->look->json) {
        json_t *value = bw_json_record(client->look->election, &record);
        bw_age_json(value, &age);
        if (listed)
            json_object_set_new(value, "candidates", bw_json_candidates(client->candidates, count));
        bw_json_line(value);
    } else {
        print_record(client->look, &record, &age);
        if (listed)
            print_names(client->candidates, count);
    }
    return record.held ? BW_EXIT_OK : BW_EXIT_FAILED;
}

static int show_status(struct bw_client *client)
{
    const struct status *status = (const struct status *)(const void *)client->look;
    struct bw_ages ages;
    bw_ages_init(&ages, status->history_dir);
    int code =
        client->look->election ? show_election(client, &ages) : bw_status_list(client, &ages);
    bw_ages_deinit(&ages);
    return code;
}

static int show_candidates(struct bw_client *client)
{
    if (!lists(client))
        return bw_client_fail(client, BW_EXIT_UNAVAILABLE,
                              "cannot list candidates: store %s does not keep a list",
                              client->ops->scheme);
    int code = list(client);
    if (code != BW_GO_ON)
        return code;
    const struct bw_store_reply *reply = &client->reply;
    if (client->look->json) {
        bw_json_line(bw_json_candidates(reply->candidates, reply->count));
        return BW_EXIT_OK;
    }
    for (uint32_t i = 0; i < reply->count; i++) {
        const struct bw_candidate *one = &reply->candidates[i];
        printf("%s%s", bw_shown(one->id), one->holder ? "  leader" : "");
        if (one->priority != 0)
            printf("  priority %d", (int)one->priority);
        printf("%s%s\n", one->value[0] ? "  " : "", bw_shown(one->value));
    }
    return BW_EXIT_OK;
}

static int look_once(const struct bw_cli_command *command, int argc, char **argv,
                     int (*show)(struct bw_client *client))
{
    struct status status = {.look = {.all = show == show_status, .reads_only = true}};
    struct bw_look *look = &status.look;
    struct bw_parsed parsed;
    struct bw_client client;
    int code = bw_look_parse(command, argc, argv, look, &parsed);
    if (code == BW_GO_ON)
        code = bw_client_open(&client, command, look);
    if (code != BW_GO_ON)
        return code;
    code = show(&client);
    bw_client_close(&client);
    return code;
}

static int run_status(const struct bw_cli_command *command, int argc, char **argv)
{
    return look_once(command, argc, argv, show_status);
}

static int run_candidates(const struct bw_cli_command *command, int argc, char **argv)
{
    return look_once(command, argc, argv, show_candidates);
}

const struct bw_cli_command bw_command_status = {
    .name = "status",
    .path = "bellwether status",
    .usage = "[--election NAME] [--store URL | --store-file FILE] [--json]",
    .about = "show the leader, its lease and its token; without --election, of all elections",
    .text =
        "Without --election, the command prints a line per election: the leader, its token, the\n"
        "time left of its lease, the number of candidates, and the time for which the leader has\n"
        "led (age). The age comes from the history of this host; > means that it began earlier.\n"
        "Exit code: 0 there is a leader, or the elections are listed; 1 there is no leader; 64 "
        "the\n"
        "store cannot list its elections; 66 no such store or election; 69 the store is\n"
        "unreachable.\n",
    .options = status_options,
    .run = run_status,
};

const struct bw_cli_command bw_command_candidates = {
    .name = "candidates",
    .path = "bellwether candidates",
    .usage = "--election NAME [--store URL | --store-file FILE] [--json]",
    .about =
        "list the candidates, in the order in which they will lead if the store keeps an order",
    .text = "Exit code: 0 listed (the list can be empty); 66 no such store; 69 the store is "
            "unreachable\n"
            "or does not keep a list of candidates.\n",
    .options = options,
    .run = run_candidates,
};
