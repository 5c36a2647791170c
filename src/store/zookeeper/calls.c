/* The library's calls in one form; see client.h. Each call has its own memory block, because the
 * library keeps the pointer until the reply arrives. */
#include "core/base/assert.h"
#include "store/zookeeper/client.h"

#include <stdlib.h>
#include <string.h>

struct bw_zk_call {
    struct bw_zk_client *client;
    struct bw_zk_call *next; /* the call sent after this one */
    enum bw_zk_shape shape;  /* form of the reply */
    unsigned parts;
    bool refused; /* the library returned an error, and may still answer */
    bw_zk_done done;
    void *context;
    zoo_op_result_t results[BW_ZK_MULTI_MAX];
};

static struct bw_zk_call *begin(struct bw_zk_client *client, enum bw_zk_shape shape,
                                bw_zk_done done, void *context)
{
    bool open = client->ready && zoo_state(client->zh) == ZOO_CONNECTED_STATE;
    struct bw_zk_call *call = open ? calloc(1, sizeof *call) : NULL;
    if (!call)
        return NULL;
    call->client = client;
    call->shape = shape;
    call->done = done;
    call->context = context;
    return call;
}

/* If memory is exhausted, the library returns an error, but may keep the pointer to the call. Then
 * it waits for the reply to a request that it never sends, and takes the next reply for it. So the
 * connection ends, and the call stays until the library has closed its handle. */
static int refused(struct bw_zk_call *call, int rc)
{
    struct bw_zk_client *client = call->client;
    call->refused = true;
    call->next = client->refused_calls;
    client->refused_calls = call;
    bw_zk_client_break(client);
    return rc;
}

static int sent(struct bw_zk_call *call, int rc)
{
    struct bw_zk_client *client = call->client;
    if (rc != ZOK)
        return refused(call, rc);
    *(client->last_call ? &client->last_call->next : &client->first_call) = call;
    client->last_call = call;
    if (client->pending++ == 0)
        client->pending_since = uv_now(client->loop);
    return ZOK;
}

/* Replies arrive in the order of the calls. */
static void answer(const void *data, const struct bw_zk_reply *reply)
{
    struct bw_zk_call *call = (struct bw_zk_call *)data;
    struct bw_zk_client *client = call->client;
    if (call->refused)
        return;
    BW_ASSERT(client->first_call == call);
    client->first_call = call->next;
    if (!client->first_call)
        client->last_call = NULL;
    client->pending--;
    client->answers++;
    client->pending_since = uv_now(client->loop);
    if (call->done)
        call->done(call->context, reply);
    free(call);
}

void bw_zk_calls_free_refused(struct bw_zk_client *client)
{
    for (struct bw_zk_call *call = client->refused_calls, *next; call; call = next) {
        next = call->next;
        free(call);
    }
    client->refused_calls = NULL;
}

void bw_zk_calls_expect(const struct bw_zk_client *client, struct bw_zk_expected *expected)
{
    const struct bw_zk_call *call = client->first_call;
    *expected = (struct bw_zk_expected){.any = call != NULL};
    if (call) {
        expected->shape = call->shape;
        expected->parts = call->parts;
    }
}

/* If memory is exhausted, the library reports success without the content of the reply. Then the
 * call has the outcome of one whose reply is lost. Returns the reply's code. */
static int checked(const void *data, int rc, bool complete)
{
    const struct bw_zk_call *call = data;
    if (rc != ZOK || complete)
        return rc;
    bw_zk_client_break(call->client);
    return ZCONNECTIONLOSS;
}

static void on_string(int rc, const char *text, const void *data)
{
    (void)text;
    answer(data, &(struct bw_zk_reply){.rc = rc});
}

static void on_void(int rc, const void *data)
{
    answer(data, &(struct bw_zk_reply){.rc = rc});
}

static void on_multi(int rc, const void *data)
{
    const struct bw_zk_call *call = data;
    answer(data, &(struct bw_zk_reply){.rc = rc, .results = call->results});
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    answer(data, &(struct bw_zk_reply){.rc = rc, .stat = stat});
}

static void on_data(int rc, const char *text, int length, const struct Stat *stat, const void *data)
{
    answer(data, &(struct bw_zk_reply){.rc = checked(data, rc, text || length <= 0),
                                       .text = text,
                                       .length = length > 0 ? length : 0,
                                       .stat = stat});
}

static bool has_all(const struct String_vector *names)
{
    for (int i = 0; i < names->count; i++)
        if (!names->data[i])
            return false;
    return true;
}

static void on_names(int rc, const struct String_vector *names, const void *data)
{
    answer(data, &(struct bw_zk_reply){.rc = checked(data, rc, rc != ZOK || has_all(names)),
                                       .names = names});
}

static void on_created(int rc, const char *text, const struct Stat *stat, const void *data)
{
    answer(data, &(struct bw_zk_reply){.rc = checked(data, rc, text != NULL),
                                       .text = text,
                                       .length = text ? (int)strlen(text) : 0,
                                       .stat = stat});
}

/* The library also reports session events to every watch; on_session in client.c handles them. */
static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *number)
{
    struct bw_zk_client *client = (struct bw_zk_client *)zoo_get_context(zh);
    (void)state;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        client->hooks.changed(client, (uintptr_t)number);
}

/* The library passes a pointer through. It carries a number, because the watch's owner may be freed
 * before the watch fires. */
static void *as_context(uint64_t number)
{
    uintptr_t word = (uintptr_t)number;
    void *context;
    memcpy(&context, &word, sizeof context);
    return context;
}

static watcher_fn watcher(uint64_t number)
{
    return number ? on_watch : NULL;
}

int bw_zk_sync(struct bw_zk_client *client, const char *path, bw_zk_done done, void *context)
{
    struct bw_zk_call *call = begin(client, BW_ZK_TEXT, done, context);
    return call ? sent(call, zoo_async(client->zh, path, on_string, call)) : ZINVALIDSTATE;
}

int bw_zk_exists(struct bw_zk_client *client, const char *path, uint64_t watch, bw_zk_done done,
                 void *context)
{
    struct bw_zk_call *call = begin(client, BW_ZK_STAT, done, context);
    return call ? sent(call, zoo_awexists(client->zh, path, watcher(watch), as_context(watch),
                                          on_stat, call))
                : ZINVALIDSTATE;
}

int bw_zk_get(struct bw_zk_client *client, const char *path, bw_zk_done done, void *context)
{
    struct bw_zk_call *call = begin(client, BW_ZK_DATA, done, context);
    return call ? sent(call, zoo_awget(client->zh, path, NULL, NULL, on_data, call))
                : ZINVALIDSTATE;
}

int bw_zk_children(struct bw_zk_client *client, const char *path, uint64_t watch, bw_zk_done done,
                   void *context)
{
    struct bw_zk_call *call = begin(client, BW_ZK_NAMES, done, context);
    return call ? sent(call, zoo_awget_children(client->zh, path, watcher(watch), as_context(watch),
                                                on_names, call))
                : ZINVALIDSTATE;
}

int bw_zk_create(struct bw_zk_client *client, const char *path, const char *data, int mode,
                 bw_zk_done done, void *context)
{
    struct bw_zk_call *call =
        begin(client, mode == ZOO_CONTAINER ? BW_ZK_TEXT : BW_ZK_TEXT_STAT, done, context);
    if (!call)
        return ZINVALIDSTATE;
    int length = (int)strlen(data);
    if (mode == ZOO_CONTAINER)
        return sent(
            call, zoo_acreate(client->zh, path, data, length, client->acl, mode, on_string, call));
    return sent(call,
                zoo_acreate2(client->zh, path, data, length, client->acl, mode, on_created, call));
}

int bw_zk_delete(struct bw_zk_client *client, const char *path, bw_zk_done done, void *context)
{
    struct bw_zk_call *call = begin(client, BW_ZK_NOTHING, done, context);
    return call ? sent(call, zoo_adelete(client->zh, path, -1, on_void, call)) : ZINVALIDSTATE;
}

int bw_zk_multi(struct bw_zk_client *client, const zoo_op_t *ops, int count, bw_zk_done done,
                void *context)
{
    struct bw_zk_call *call = begin(client, BW_ZK_MULTI, done, context);
    if (call)
        call->parts = (unsigned)count;
    return call ? sent(call, zoo_amulti(client->zh, count, ops, call->results, on_multi, call))
                : ZINVALIDSTATE;
}
