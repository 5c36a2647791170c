/* HTTP requests of a store; see http_client.h.
 *
 * - Each request has its own timer, which starts when the request is made. The timeout includes
 *   waiting for a connection, name lookup and handshake.
 * - libcurl callbacks only fill buffers. Lines and answers reach the caller after libcurl has
 *   returned.
 * - If a kept connection turns out to be closed, libcurl sends the request again on a new one.
 *   Callers may therefore only send requests that may arrive twice.
 * - http:// ignores http_proxy, because such URLs carry secrets to loopback or to the link-local
 *   address of a cloud's metadata service. https:// follows https_proxy. */
#include "store/kit/http_client.h"

#include "os/grow.h"
#include "store/kit/curl_loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define AT_ONCE_MAX 64u /* requests sent at the same time; others wait; streams do not count */

struct http_buffer {
    char *bytes;
    size_t used, size;
};

struct bw_http_request {
    struct bw_http *http;
    struct bw_http_request *next, *previous; /* neighbours in `list` */
    struct request_list *list;
    CURL *easy;
    struct curl_slist *fields;
    uv_timer_t timer;
    struct http_buffer headers, body; /* body of a stream: bytes not delivered yet */
    /* bytes of all header blocks, including those of interim responses (1xx) */
    size_t header_bytes;
    bool (*line)(void *context, const char *line, size_t length);
    void (*answer)(void *context, const struct bw_http_answer *answer);
    void *context;
    const char *abort_reason; /* why this side aborted the transfer; NULL: it did not */
    int error;
    bool paused, fresh, ended;
    char detail[CURL_ERROR_SIZE];
};

struct request_list {
    struct bw_http_request *first, *last;
    uint32_t count;
};

struct bw_http {
    struct bw_curl_loop curl;
    CURL *model; /* template with the options that all requests share */
    struct request_list urgent, waiting, running, streams;
    uint32_t requests; /* requests whose memory is not freed yet */
    bool closing, curl_closed;
    void (*closed)(void *context);
    void *context;
};

static void put(struct request_list *list, struct bw_http_request *request)
{
    request->list = list;
    request->next = NULL;
    request->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = request;
    list->last = request;
    list->count++;
}

static void take(struct bw_http_request *request)
{
    struct request_list *list = request->list;
    *(request->previous ? &request->previous->next : &list->first) = request->next;
    *(request->next ? &request->next->previous : &list->last) = request->previous;
    list->count--;
    request->list = NULL;
}

/* Appends bytes and a NUL; the buffer holds at most `max` bytes. Returns 0, BW_ELIMIT or
 * BW_ENOMEM. */
static int append(struct http_buffer *text, const char *bytes, size_t more, size_t max)
{
    if (more > max - text->used)
        return BW_ELIMIT;
    if (!bw_grow(&text->bytes, &text->size, text->used + more + 1, 512, 1))
        return BW_ENOMEM;
    memcpy(text->bytes + text->used, bytes, more);
    text->used += more;
    text->bytes[text->used] = '\0';
    return 0;
}

static size_t abort_transfer(struct bw_http_request *request, int error, const char *abort_reason)
{
    request->error = error;
    request->abort_reason = error == BW_ENOMEM ? "no memory for the response" : abort_reason;
    return 0; /* ends the transfer */
}

static long status_of(const struct bw_http_request *request)
{
    long status = 0;
    curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static bool is_stream(const struct bw_http_request *request)
{
    return request->line && status_of(request) == 200;
}

static size_t on_header(char *bytes, size_t one, size_t count, void *context)
{
    struct bw_http_request *request = context;
    request->header_bytes += one * count;
    if (count >= 5 && strncmp(bytes, "HTTP/", 5) == 0)
        request->headers.used = 0; /* an interim response came before */
    int error = request->header_bytes > BW_HTTP_HEADERS_MAX
                    ? BW_ELIMIT
                    : append(&request->headers, bytes, one * count, BW_HTTP_HEADERS_MAX);
    if (error != 0)
        return abort_transfer(request, error, "response headers too long");
    if (count <= 2 && is_stream(request)) /* the empty line: all headers are here */
        uv_timer_stop(&request->timer);
    return one * count;
}

/* Pauses a stream that is faster than its reader, until the reader has received all complete
 * lines. */
static size_t on_body(char *bytes, size_t one, size_t count, void *context)
{
    struct bw_http_request *request = context;
    bool stream = is_stream(request);
    int error = append(&request->body, bytes, one * count, BW_HTTP_BODY_MAX);
    if (error == BW_ELIMIT && stream && memchr(request->body.bytes, '\n', request->body.used)) {
        request->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (error != 0)
        return abort_transfer(request, error,
                              stream ? "response line too long" : "response too long");
    request->fresh = stream;
    return one * count;
}

static void finish_close(struct bw_http *http)
{
    if (!http->closing || !http->curl_closed || http->requests)
        return;
    void (*closed)(void *) = http->closed;
    void *context = http->context;
    free(http);
    if (closed)
        closed(context);
}

static void on_request_closed(uv_handle_t *handle)
{
    struct bw_http_request *request = handle->data;
    struct bw_http *http = request->http;
    curl_slist_free_all(request->fields);
    free(request->headers.bytes);
    free(request->body.bytes);
    free(request);
    http->requests--;
    finish_close(http);
}

static void start_next(struct bw_http *http)
{
    while (http->running.count < AT_ONCE_MAX && !http->closing) {
        struct bw_http_request *request =
            http->urgent.first ? http->urgent.first : http->waiting.first;
        if (!request)
            return;
        take(request);
        put(&http->running, request);
        bw_curl_loop_add(&http->curl, request->easy);
    }
}

/* Removes the request from libcurl and from its list. Only its memory remains. */
static void detach(struct bw_http_request *request)
{
    struct bw_http *http = request->http;
    bool waits = request->list == &http->waiting || request->list == &http->urgent;
    request->ended = true;
    take(request);
    if (!waits)
        curl_multi_remove_handle(http->curl.multi, request->easy);
    curl_easy_cleanup(request->easy);
    request->easy = NULL;
    start_next(http);
}

/* Ends each header line with NULs instead of CR, LF and trailing blanks. */
static void split(struct http_buffer *headers)
{
    for (size_t i = 0; i < headers->used; i++)
        if (headers->bytes[i] == '\r' || headers->bytes[i] == '\n') {
            headers->bytes[i] = '\0';
            for (size_t at = i; at > 0 && strchr(" \t", headers->bytes[at - 1]); at--)
                headers->bytes[at - 1] = '\0';
        }
}

static void describe(struct bw_http_answer *answer, const struct bw_http_request *request,
                     CURLcode code)
{
    long sent = 0;
    curl_easy_getinfo(request->easy, CURLINFO_REQUEST_SIZE, &sent);
    answer->sent = sent > 0;
    answer->request = request;
    answer->body = "";
    if (code == CURLE_OK && !request->abort_reason) {
        answer->status = (int)status_of(request);
        answer->length = request->line && answer->status == 200 ? 0 : request->body.used;
        answer->body = answer->length ? request->body.bytes : "";
        return;
    }
    answer->error = request->abort_reason ? request->error : BW_EIO;
    const char *why = request->detail[0] ? request->detail : curl_easy_strerror(code);
    snprintf(answer->why, sizeof answer->why, "%s",
             request->abort_reason ? request->abort_reason : why);
}

static void finish(struct bw_http_request *request, CURLcode code)
{
    struct bw_http_answer answer = {.status = 0};
    describe(&answer, request, code);
    split(&request->headers);
    detach(request);
    if (request->answer)
        request->answer(request->context, &answer);
    uv_close((uv_handle_t *)&request->timer, on_request_closed);
}

static void on_timeout(uv_timer_t *timer)
{
    struct bw_http_request *request = timer->data;
    abort_transfer(request, BW_ETIMEDOUT, "no answer in time");
    finish(request, CURLE_OPERATION_TIMEDOUT);
}

/* Delivers the complete lines to the reader, in place, and moves the rest to the front. The reader
 * may cancel the request or close everything: the request's memory stays valid until the loop's
 * next turn. */
static void deliver_lines(struct bw_http_request *request)
{
    struct http_buffer *body = &request->body;
    size_t delivered = 0;
    char *end;
    request->fresh = false;
    while (delivered < body->used &&
           (end = memchr(body->bytes + delivered, '\n', body->used - delivered))) {
        char *line = body->bytes + delivered;
        *end = '\0';
        delivered += (size_t)(end - line) + 1;
        bool more = request->line(request->context, line, (size_t)(end - line));
        if (!more && !request->ended)
            finish(request, CURLE_OK);
        if (request->ended)
            return;
    }
    body->used -= delivered;
    if (delivered)
        memmove(body->bytes, body->bytes + delivered, body->used + 1);
}

static void deliver_stream(struct bw_http_request *request)
{
    deliver_lines(request);
    if (request->ended || !request->paused)
        return;
    request->paused = false;
    curl_easy_pause(request->easy, CURLPAUSE_CONT); /* may fill the buffer at once */
    if (request->abort_reason)
        finish(request, CURLE_WRITE_ERROR);
}

static struct bw_http_request *fresh_stream(struct bw_http *http)
{
    struct bw_http_request *request = http->streams.first;
    while (request && !request->fresh)
        request = request->next;
    return request;
}

/* Delivers the stream's remaining lines before its end. A last line without a newline counts only
 * if the transfer ended without an error. */
static void end_transfer(struct bw_http_request *request, CURLcode code)
{
    if (request->line && status_of(request) == 200) {
        if (code == CURLE_OK && request->body.used &&
            request->body.bytes[request->body.used - 1] != '\n')
            append(&request->body, "\n", 1, BW_HTTP_BODY_MAX + 1);
        deliver_lines(request);
    }
    if (!request->ended)
        finish(request, code);
}

/* Fails all requests that libcurl has, and gives the other ones a new multi handle. The requests to
 * be failed stand first in their list, because an answer may send further requests. */
static void recover(struct bw_http *http)
{
    struct request_list *lists[] = {&http->running, &http->streams};
    struct bw_http_request *request;
    for (size_t i = 0; i < 2; i++)
        for (request = lists[i]->first; request; request = request->next) {
            curl_multi_remove_handle(http->curl.multi, request->easy);
            if (request->abort_reason)
                continue;
            request->error = BW_ENOMEM;
            request->abort_reason = "the HTTP client ran out of memory";
        }
    bw_curl_loop_restart(&http->curl);
    for (size_t i = 0; i < 2; i++)
        while (!http->closing && (request = lists[i]->first) && request->abort_reason)
            finish(request, CURLE_OUT_OF_MEMORY);
}

static void on_turned(void *context)
{
    struct bw_http *http = context;
    struct bw_http_request *request;
    CURLMsg *message;
    int left;
    while (!http->closing && (request = fresh_stream(http)))
        deliver_stream(request);
    while (!http->closing && (message = curl_multi_info_read(http->curl.multi, &left))) {
        CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&request);
        end_transfer(request, code);
    }
    if (!http->closing && http->curl.broken)
        recover(http);
}

/* NULL keeps libcurl's default. */
static bool set_text(CURL *easy, CURLoption option, const char *text)
{
    return !text || curl_easy_setopt(easy, option, text) == CURLE_OK;
}

static bool set_pem(CURL *easy, CURLoption option, const char *pem)
{
    struct curl_blob blob = {.flags = CURL_BLOB_COPY};
    memcpy(&blob.data, &pem, sizeof pem); /* libcurl only reads it, but its type is not const */
    blob.len = pem ? strlen(pem) : 0;
    return !pem || curl_easy_setopt(easy, option, &blob) == CURLE_OK;
}

static void set_numbers(CURL *easy, const struct bw_http_options *options)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* do not wait for a slow name lookup when closing */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L); /* for streams */
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 15L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, options->verify_off ? 0L : 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, options->verify_off ? 0L : 2L);
    /* operators replace certificates while we run */
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 60L);
}

static bool set_texts(CURL *easy, const struct bw_http_options *options)
{
    return set_text(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           set_text(easy, CURLOPT_CAINFO, options->ca_file) &&
           set_text(easy, CURLOPT_CAPATH, options->ca_directory) &&
           set_text(easy, CURLOPT_SSLCERT, options->cert_file) &&
           set_text(easy, CURLOPT_SSLKEY, options->key_file) &&
           set_pem(easy, CURLOPT_CAINFO_BLOB, options->ca_pem) &&
           set_pem(easy, CURLOPT_SSLCERT_BLOB, options->cert_pem) &&
           set_pem(easy, CURLOPT_SSLKEY_BLOB, options->key_pem) &&
           set_text(easy, CURLOPT_UNIX_SOCKET_PATH, options->unix_socket);
}

/* Returns NULL unless libcurl has copied every text: without CAINFO it would trust the system's
 * CAs, and without UNIX_SOCKET_PATH it would connect to the host in the URL. */
static CURL *make_model(const struct bw_http_options *options)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        return NULL;
    set_numbers(easy, options);
    if (set_texts(easy, options))
        return easy;
    curl_easy_cleanup(easy);
    return NULL;
}

int bw_http_open(struct bw_http **out, struct uv_loop_s *loop,
                 const struct bw_http_options *options, char *why)
{
    static const struct bw_http_options none;
    struct bw_http *http = calloc(1, sizeof *http);
    if (!http || bw_curl_loop_open(&http->curl, loop, (long)AT_ONCE_MAX, on_turned, http) != 0) {
        free(http);
        return bw_store_explain(why, BW_ENOMEM, "cannot create an HTTP client: out of memory");
    }
    http->model = make_model(options ? options : &none);
    if (!http->model) {
        bw_http_close(http, NULL, NULL);
        return bw_store_explain(why, BW_ENOMEM, "cannot create an HTTP client: out of memory");
    }
    *out = http;
    return 0;
}

static bool add_field(struct bw_http_request *request, const char *field)
{
    struct curl_slist *longer = curl_slist_append(request->fields, field);
    if (longer)
        request->fields = longer;
    return longer != NULL;
}

static bool set_fields(struct bw_http_request *request, const struct bw_http_ask *ask)
{
    bool typed = false, good = true;
    for (size_t i = 0; good && ask->headers && ask->headers[i]; i++) {
        good = add_field(request, ask->headers[i]);
        typed = typed || strncasecmp(ask->headers[i], "Content-Type:", 13) == 0;
    }
    if (good && !typed) /* an empty Content-Type: otherwise libcurl adds its own */
        good = add_field(request, "Content-Type:");
    return good && curl_easy_setopt(request->easy, CURLOPT_HTTPHEADER, request->fields) == CURLE_OK;
}

static bool set_body(CURL *easy, const struct bw_http_ask *ask)
{
    bool puts = strcmp(ask->method, "PUT") == 0 || strcmp(ask->method, "POST") == 0;
    if (strcmp(ask->method, "HEAD") == 0)
        return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    if (ask->body || puts) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)(ask->body ? ask->length : 0));
        if (curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, ask->body ? ask->body : "") != CURLE_OK)
            return false;
    }
    return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, ask->method) == CURLE_OK;
}

static bool set_ask(struct bw_http_request *request, const struct bw_http_ask *ask)
{
    CURL *easy = request->easy;
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, request);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->detail);
    /* plain text must not leave this machine */
    const char *proxy = strncmp(ask->url, "http://", 7) == 0 ? "" : NULL;
    bool good = set_text(easy, CURLOPT_PROXY, proxy) && set_text(easy, CURLOPT_URL, ask->url) &&
                set_fields(request, ask) && set_body(easy, ask);
    if (good && ask->sigv4)
        good = curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, ask->sigv4) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_USERPWD, ask->user) == CURLE_OK;
    request->line = ask->line;
    request->answer = ask->answer;
    request->context = ask->context;
    return good;
}

static struct bw_http_request *make_request(struct bw_http *http, const struct bw_http_ask *ask)
{
    struct bw_http_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    request->http = http;
    request->easy = curl_easy_duphandle(http->model);
    if (!request->easy || !set_ask(request, ask)) {
        curl_easy_cleanup(request->easy);
        curl_slist_free_all(request->fields);
        free(request);
        return NULL;
    }
    uv_timer_init(http->curl.loop, &request->timer);
    request->timer.data = request;
    http->requests++;
    return request;
}

struct bw_http_request *bw_http_send(struct bw_http *http, const struct bw_http_ask *ask)
{
    if (http->closing || http->requests >= BW_HTTP_REQUESTS_MAX)
        return NULL;
    struct bw_http_request *request = make_request(http, ask);
    if (!request)
        return NULL;
    uv_update_time(http->curl.loop);
    uv_timer_start(&request->timer, on_timeout, (uint64_t)(ask->within_ns / BW_MS), 0);
    if (ask->line) {
        put(&http->streams, request);
        bw_curl_loop_add(&http->curl, request->easy);
    } else {
        put(ask->urgent ? &http->urgent : &http->waiting, request);
        start_next(http);
    }
    return request;
}

void bw_http_cancel(struct bw_http *http, struct bw_http_request *request)
{
    (void)http;
    if (request->ended)
        return;
    request->answer = NULL;
    detach(request);
    uv_close((uv_handle_t *)&request->timer, on_request_closed);
}

const char *bw_http_header_next(const struct bw_http_answer *answer, const char *line)
{
    const struct http_buffer *headers = answer->request ? &answer->request->headers : NULL;
    if (!headers || !headers->bytes)
        return NULL;
    const char *end = headers->bytes + headers->used;
    line = line ? line + strlen(line) : headers->bytes;
    while (line < end && !*line)
        line++;
    return line < end ? line : NULL;
}

const char *bw_http_header(const struct bw_http_answer *answer, const char *name)
{
    const char *line = NULL;
    size_t length = strlen(name);
    while ((line = bw_http_header_next(answer, line)))
        if (strncasecmp(line, name, length) == 0 && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, " \t");
    return NULL;
}

static void on_curl_closed(void *context)
{
    struct bw_http *http = context;
    http->curl_closed = true;
    finish_close(http);
}

void bw_http_close(struct bw_http *http, void (*closed)(void *context), void *context)
{
    struct request_list *lists[] = {&http->urgent, &http->waiting, &http->running, &http->streams};
    http->closing = true;
    http->closed = closed;
    http->context = context;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        while (lists[i]->first)
            bw_http_cancel(http, lists[i]->first);
    curl_easy_cleanup(http->model);
    bw_curl_loop_close(&http->curl, on_curl_closed);
}
