"""Memory per kind of attack: each kind is repeated N times and then 4 N times, and what is left afterwards is compared.

A kind is a call of the grammar and a way to abuse it. The content of the server may grow, since some calls store something; what the
server uses beyond its content must not."""
import random
import socket

from grammar import METHODS, TAKES_OVER, a_message, grpc, to_json, to_protobuf
from http1 import Http1
from http2 import END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, Http2, frame
from programs import Connection
from target import MB, resident

N = 150
SLACK = 24 * MB
BATCH = 50  # calls per connection: below the limit of open streams


def writer(r, method):
    made = Http2(r, [method])
    made.valid = True
    return made


def head(made, method, last):
    """Opens the next stream; returns its number and the bytes."""
    stream, made.next = made.next, made.next + 2
    made.sent[stream] = 0
    return stream, made.headers(stream, made.head(method, False), last)


def connection(connect, data, reads="none"):
    made = Connection(connect, reads, Http2)
    made.send(data)
    return made


def unread_calls(connect, r, method, times):
    """Complete calls whose responses are not read."""
    message, held = grpc(to_protobuf(a_message(r, method.request))), []
    for _ in range(max(1, times // BATCH)):
        made = writer(r, method)
        out = made.begin()
        for _ in range(BATCH):
            stream, block = head(made, method, False)
            out += block + made.data(stream, message, True)
        held.append(connection(connect, out))
    return held


def messages_on_one_stream(connect, r, method, times):
    made, message = writer(r, method), grpc(to_protobuf(a_message(r, method.request)))
    stream, block = head(made, method, False)
    return [connection(connect, made.begin() + block + made.data(stream, message * times, False))]


def calls_that_are_reset(connect, r, method, times):
    """A call, and its reset at once."""
    made, message = writer(r, method), grpc(to_protobuf(a_message(r, method.request)))
    out = made.begin()
    for _ in range(times):
        stream, block = head(made, method, False)
        out += block + made.data(stream, message[:1000], False) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")
    return [connection(connect, out)]


def heads_without_a_body(connect, r, method, times):
    held = []
    for _ in range(max(1, times // BATCH)):
        made = writer(r, method)
        held.append(connection(connect, made.begin() + b"".join(head(made, method, False)[1] for _ in range(BATCH))))
    return held


def pipelined_requests(connect, r, method, times):
    body = to_json(a_message(r, method.request))
    one = b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % ((method.json_path or "/health").encode(), len(body)) + body
    made = Connection(connect, "none", Http1)
    made.send(one * times)
    return [made]


def frames_of_the_connection(connect, r, method, times):
    made = writer(r, method)
    out = b"".join(r.choice([frame(PING, 0, 0, b"12345678"), frame(SETTINGS, 0, 0), frame(0x77, 0, 0, b"x" * 50),
                             frame(HEADERS, END_STREAM | 4, 2 * i + 1, b"\x82")]) for i in range(times))
    return [connection(connect, made.begin() + out)]


WAYS = (unread_calls, messages_on_one_stream, calls_that_are_reset, heads_without_a_body, pipelined_requests, frames_of_the_connection)


def kinds(count=None, seed="1"):
    """[(way, method)], all of them or `count` random ones."""
    every = [(way, method) for method in METHODS if method.name not in TAKES_OVER for way in WAYS]
    return every if count is None else random.Random(seed).sample(every, count)


def repeat(attack, way, method, times, seed):
    """Attacks, lets everything go, and returns the resident memory and the content of the server."""
    def connect():
        return socket.create_connection(("127.0.0.1", attack.nodes.ports[0]), 5)
    held = way(connect, random.Random(seed), method, times)
    attack.sync()
    attack.sync()
    peak = resident(attack.target.pid)[0]
    for at in held:
        at.close("reset")
    attack.drain()
    return resident(attack.target.pid)[0], attack.metric("bellwether_content_bytes"), peak


def grew(attack, before, content_before, after, content_after):
    return after - before - 3 * max(0, content_after - content_before) > attack.factor * SLACK


def judge_kind(attack, way, method):
    """None, or what is wrong with the memory of the server after this kind of attack."""
    repeat(attack, way, method, N, 1)  # what the server allocates once
    one, content_one, _ = repeat(attack, way, method, N, 1)
    four, content_four, peak = repeat(attack, way, method, 4 * N, 1)
    if grew(attack, one, content_one, four, content_four):
        # Memory that the server keeps for reuse is bounded; what it loses grows again.
        again, content_again, _ = repeat(attack, way, method, 4 * N, 1)
        lost = grew(attack, four, content_four, again, content_again)
    else:
        lost = False
    if lost:
        return f"{way.__name__} of {method.name}: {N} times leave {one / MB:.0f} MB, {4 * N} times {four / MB:.0f} MB"
    most = attack.most(4 * N // BATCH)
    return f"{way.__name__} of {method.name}: {peak / MB:.0f} MB resident, expected at most {most / MB:.0f}" if peak > most else None
