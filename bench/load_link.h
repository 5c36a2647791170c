/* The client side of gRPC for the load programs: connections with or without TLS, requests, streams
 * and figures. One thread, epoll and nghttp2; messages are encoded by hand.
 *
 * Environment: LOAD_CA names a file with the certificate authority of the server, and turns TLS on;
 * LOAD_TOKEN is sent with every request as etcd's token of a user. */
#ifndef BW_BENCH_LOAD_LINK_H
#define BW_BENCH_LOAD_LINK_H

#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#define CONNS_MAX   512u
#define MESSAGE_MAX 256u

struct message { /* a message to send, with its five bytes of header */
    unsigned char *bytes;
    size_t length, sent;
    bool more; /* a stream: more messages follow */
};

struct conn {
    int fd;
    SSL *tls; /* NULL: no TLS */
    nghttp2_session *h2;
    unsigned char *out;
    size_t out_used, out_size;
    bool dirty, want_write, broken;
    char host[64];
    uint16_t port;
};

struct client {
    struct conn *conn;
    unsigned id, phase;
    int64_t lease;
    uint64_t since;
    int32_t stream;
    int status;
    unsigned char *in; /* what has arrived of the response; it grows */
    size_t in_used, in_size;
    struct message message;
    void (*done)(struct client *client);
    /* streams: called for each message, which is complete at `in` */
    void (*answer)(struct client *client);
};

extern struct conn conns[CONNS_MAX];
extern unsigned conn_count;
extern struct client *clients;
extern uint64_t deadline, finished, errors;

uint64_t now_ns(void);
_Noreturn void die(const char *what);

/* Protobuf: each writes a field to `at` and returns the bytes used. */
size_t varint(unsigned char *at, uint64_t value);
size_t put_bytes(unsigned char *at, unsigned field, const void *bytes, size_t length);
size_t put_number(unsigned char *at, unsigned field, uint64_t value);
/* Returns the number in field `wanted` of a message; 0: absent. */
uint64_t get_number(const unsigned char *at, size_t length, unsigned wanted);
/* How often field `wanted` occurs in a message. */
unsigned count_fields(const unsigned char *at, size_t length, unsigned wanted);

void message_reserve(struct message *message, size_t bytes);
void set_message(struct client *client, const unsigned char *body, size_t length);
/* Sends the message of the client as a request to this method. */
void call(struct client *client, const char *path);
/* The length of the body of the message at `in`. */
size_t answer_length(const struct client *client);

/* Opens `count` connections to one endpoint. */
void open_conns(const char *address, unsigned count);
/* Opens a connection to each of several endpoints. */
void open_each(const char *addresses);
void make_clients(unsigned count);
/* Runs until `until` returns true. */
void run(bool (*until)(void), int wait_ms);

void note_latency(uint64_t since);
/* Forgets the latencies noted so far. */
void forget_latencies(void);
/* Sorts the latencies; a percentile in microseconds. */
void sort_latencies(void);
double percentile(double part);
/* Prints one line of JSON: the figures since `before`. */
void report(const char *what, double seconds, const struct rusage *before);

#endif
