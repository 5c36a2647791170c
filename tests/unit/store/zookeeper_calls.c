/* The calls of the ZooKeeper store when its client library runs out of memory: the library returns
 * an error but answers the call later, or reports success without the content of the reply. */
#include "store/zookeeper/client.h"
#include "unit/unit.h"

#include <string.h>

static struct {
    int rc;                 /* what a call returns */
    data_completion_t data; /* what the library would call */
    strings_completion_t names;
    string_stat_completion_t created;
    const void *context;
    unsigned breaks;
} library;

static unsigned answers;
static int answer;

/* ---- the library ---- */

const int ZOO_CONNECTED_STATE = 3, ZOO_EPHEMERAL = 1, ZOO_CONTAINER = 4, ZOO_SESSION_EVENT = -1;

int zoo_state(zhandle_t *zh)
{
    (void)zh;
    return ZOO_CONNECTED_STATE;
}

const void *zoo_get_context(zhandle_t *zh)
{
    return zh;
}

int zoo_awget(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
              data_completion_t completion, const void *data)
{
    (void)zh, (void)path, (void)watcher, (void)watcherCtx;
    library.data = completion;
    library.context = data;
    return library.rc;
}

int zoo_awget_children(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
                       strings_completion_t completion, const void *data)
{
    (void)zh, (void)path, (void)watcher, (void)watcherCtx;
    library.names = completion;
    library.context = data;
    return library.rc;
}

int zoo_acreate2(zhandle_t *zh, const char *path, const char *value, int valuelen,
                 const struct ACL_vector *acl, int mode, string_stat_completion_t completion,
                 const void *data)
{
    (void)zh, (void)path, (void)value, (void)valuelen, (void)acl, (void)mode;
    library.created = completion;
    library.context = data;
    return library.rc;
}

/* Not called here. */
int zoo_async(zhandle_t *zh, const char *path, string_completion_t completion, const void *data)
{
    (void)zh, (void)path, (void)completion, (void)data;
    return ZUNIMPLEMENTED;
}

int zoo_awexists(zhandle_t *zh, const char *path, watcher_fn watcher, void *watcherCtx,
                 stat_completion_t completion, const void *data)
{
    (void)zh, (void)path, (void)watcher, (void)watcherCtx, (void)completion, (void)data;
    return ZUNIMPLEMENTED;
}

int zoo_acreate(zhandle_t *zh, const char *path, const char *value, int valuelen,
                const struct ACL_vector *acl, int mode, string_completion_t completion,
                const void *data)
{
    (void)zh, (void)path, (void)value, (void)valuelen, (void)acl, (void)mode;
    (void)completion, (void)data;
    return ZUNIMPLEMENTED;
}

int zoo_adelete(zhandle_t *zh, const char *path, int version, void_completion_t completion,
                const void *data)
{
    (void)zh, (void)path, (void)version, (void)completion, (void)data;
    return ZUNIMPLEMENTED;
}

int zoo_amulti(zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results,
               void_completion_t completion, const void *data)
{
    (void)zh, (void)count, (void)ops, (void)results, (void)completion, (void)data;
    return ZUNIMPLEMENTED;
}

void bw_zk_client_break(struct bw_zk_client *client)
{
    client->ready = false;
    library.breaks++;
}

/* ---- a client ---- */

static void on_answer(void *context, const struct bw_zk_reply *reply)
{
    (void)context;
    answers++;
    answer = reply->rc;
}

static void begin(struct bw_zk_client *client, uv_loop_t *loop)
{
    memset(&library, 0, sizeof library);
    memset(client, 0, sizeof *client);
    uv_loop_init(loop);
    client->loop = loop;
    client->ready = true;
    answers = 0;
    answer = ZOK;
}

static void refused_call_may_still_be_answered(void **state)
{
    struct bw_zk_client client;
    uv_loop_t loop;
    (void)state;
    begin(&client, &loop);
    library.rc = ZMARSHALLINGERROR;
    assert_int_equal(bw_zk_get(&client, "/a", on_answer, NULL), ZMARSHALLINGERROR);
    assert_int_equal(library.breaks, 1);
    library.data(ZCLOSING, NULL, 0, NULL, library.context); /* when its handle is closed */
    assert_int_equal(answers, 0);                           /* the error was the answer */
    bw_zk_calls_free_refused(&client);
    assert_null(client.refused_calls);
    uv_loop_close(&loop);
}

static void refused_call_does_not_delay_earlier_ones(void **state)
{
    struct bw_zk_client client;
    uv_loop_t loop;
    (void)state;
    begin(&client, &loop);
    assert_int_equal(bw_zk_get(&client, "/a", on_answer, NULL), ZOK);
    const void *first = library.context;
    library.rc = ZMARSHALLINGERROR;
    assert_int_equal(bw_zk_get(&client, "/b", on_answer, NULL), ZMARSHALLINGERROR);
    library.data(ZOK, "x", 1, &(struct Stat){.version = 1}, first);
    assert_int_equal(answers, 1);
    assert_int_equal(answer, ZOK);
    assert_int_equal(client.pending, 0);
    bw_zk_calls_free_refused(&client);
    uv_loop_close(&loop);
}

static void reply_without_content_counts_as_lost(void **state)
{
    struct bw_zk_client client;
    struct String_vector names = {.count = 2, .data = (char *[]){"n1", NULL}};
    uv_loop_t loop;
    (void)state;
    begin(&client, &loop);
    bw_zk_get(&client, "/a", on_answer, NULL);
    library.data(ZOK, NULL, 7, &(struct Stat){.version = 1}, library.context);
    assert_int_equal(answer, ZCONNECTIONLOSS);
    assert_int_equal(library.breaks, 1);
    uv_loop_close(&loop);
    begin(&client, &loop);
    bw_zk_children(&client, "/a", 0, on_answer, NULL);
    library.names(ZOK, &names, library.context);
    assert_int_equal(answer, ZCONNECTIONLOSS);
    uv_loop_close(&loop);
    begin(&client, &loop);
    bw_zk_create(&client, "/a", "x", ZOO_EPHEMERAL, on_answer, NULL);
    library.created(ZOK, NULL, &(struct Stat){.version = 0}, library.context);
    assert_int_equal(answer, ZCONNECTIONLOSS);
    assert_int_equal(library.breaks, 1);
    uv_loop_close(&loop);
}

static void node_without_data_has_an_empty_text(void **state)
{
    struct bw_zk_client client;
    uv_loop_t loop;
    (void)state;
    begin(&client, &loop);
    bw_zk_get(&client, "/a", on_answer, NULL);
    library.data(ZOK, NULL, -1, &(struct Stat){.version = 1}, library.context);
    assert_int_equal(answer, ZOK);
    assert_int_equal(library.breaks, 0);
    uv_loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_call_may_still_be_answered),
        cmocka_unit_test(refused_call_does_not_delay_earlier_ones),
        cmocka_unit_test(reply_without_content_counts_as_lost),
        cmocka_unit_test(node_without_data_has_an_empty_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
