"""HTTP/2 as an adversary writes it: a random connection as a list of steps.

The writer knows what it has opened, so that most of what it sends is valid and reaches deep code. It never looks at responses:
the steps follow from the random numbers alone, and a run can be repeated. RFC 9113 gives the frames, RFC 7541 the header blocks."""
import struct

from grammar import damaged, grpc, json_for, log_uniform, protobuf_for

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, WITH_PRIORITY = 1, 4, 8, 32
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAM_WINDOW, CONNECTION_WINDOW = 1 << 20, 4 << 20  # of the server; the writer stays below unless it wants to break them
FRAME_MAX = 16384
OPEN_MAX = 100
CONTINUATIONS_MAX = 8  # of nghttp2, per header block


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def prefixed(number, bits, first):
    """An integer of RFC 7541, 5.1."""
    most = (1 << bits) - 1
    if number < most:
        return bytes([first | number])
    out, number = bytes([first | most]), number - most
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def literal(name, value, first=0x10):
    return bytes([first]) + b"".join(prefixed(len(x), 7, 0) + x for x in (name, value))


class Http2:
    """Writes one connection. self.clean: nothing sent so far breaks the protocol."""

    def __init__(self, r, methods):
        self.r, self.methods = r, methods
        self.open, self.next, self.sent, self.total, self.clean = {}, 1, {}, 0, True
        self.valid = r.random() < 0.5  # a client that only sends valid calls, in unusual ways

    def begin(self):
        r, settings = self.r, b""
        if r.random() < 0.4:
            settings += struct.pack(">HI", 4, r.choice([0, 0, 1, 5, 100, 65535, 1 << 20, (1 << 31) - 1]))
        if r.random() < 0.1:
            settings += struct.pack(">HI", 1, r.choice([0, 1, 4096, 1 << 31]))
        if r.random() < 0.1:
            settings += struct.pack(">HI", 5, r.choice([16384, (1 << 24) - 1]))
        out = PREFACE + frame(SETTINGS, 0, 0, settings)
        if r.random() < 0.4:
            out += frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", r.choice([1, 65536, (1 << 31) - 65536])))
        return out

    # ---- calls ----

    def head(self, method, as_json):
        r = self.r
        pairs = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", method.path.encode()), (b":authority", b"a"),
                 (b"content-type", b"application/grpc"), (b"te", b"trailers")]
        if as_json:
            pairs[2], pairs[4:] = (b":path", (method.json_path or "/health").encode()), [(b"content-type", b"application/json")]
        if r.random() < 0.1:
            pairs.append((b"hasleader", b"true"))
        if r.random() < 0.05:
            pairs.append((b"bellwether-bind", r.choice([b"connection", b"farewell=" + b"ab" * 32, b"x"])))
        if r.random() < 0.1:
            pairs.append((b"grpc-timeout", r.choice([b"1n", b"1S", b"99999999H", b"-1S"])))
        if not self.valid and r.random() < 0.1:
            self.clean = False
            pairs.insert(r.randrange(len(pairs) + 1), r.choice([
                (b":path", b"/x"), (b":status", b"200"), (b"Upper", b"x"), (b"content-length", b"%d" % r.getrandbits(40)), (b"", b""),
                (b"connection", b"close"), (b"token", r.randbytes(50)), (b"grpc-encoding", b"gzip"), (b"x" * 300, b"y" * 60000)]))
        first = r.choice([0x10, 0x00, 0x40])
        return b"".join(literal(name, value, first) for name, value in pairs)

    def headers(self, stream, block, last):
        """A HEADERS frame, perhaps padded, with the block split over CONTINUATION frames."""
        r, flags, before, after = self.r, END_STREAM if last else 0, b"", b""
        pieces = [block]
        if r.random() < 0.2:
            size = r.choice([-(-len(block) // 7), 50 if len(block) < 400 or not self.valid else len(block), 1 if not self.valid else len(block)])
            self.clean = self.clean and len(block) <= CONTINUATIONS_MAX * size
            pieces = [block[at:at + size] for at in range(0, len(block), size)]
        elif len(block) > FRAME_MAX - 300:
            pieces = [block[at:at + 10000] for at in range(0, len(block), 10000)]
        if r.random() < 0.1:
            flags, before, after = flags | PADDED, bytes([200]), b"\0" * 200
        if r.random() < 0.1:
            flags, before = flags | WITH_PRIORITY, before + struct.pack(">IB", r.choice([0, 3, 1 << 31 | 5]) if stream > 5 else 0, 10)
        end = [0] * (len(pieces) - 1) + [END_HEADERS]
        out = frame(HEADERS, flags | end[0], stream, before + pieces[0] + after)
        return out + b"".join(frame(CONTINUATION, flag, stream, piece) for flag, piece in zip(end[1:], pieces[1:]))

    def data(self, stream, body, last):
        """DATA frames that hold the body, within the server's windows."""
        r = self.r
        room = min(STREAM_WINDOW - self.sent[stream], CONNECTION_WINDOW - self.total)
        body = body[:max(room, 0)]
        self.sent[stream] += len(body)
        self.total += len(body)
        size = r.choice([FRAME_MAX, FRAME_MAX, FRAME_MAX, 1000, 1 if len(body) < 2000 else FRAME_MAX])
        pieces = [body[at:at + size] for at in range(0, len(body), size)] or [b""]
        out = []
        for number, piece in enumerate(pieces):
            flags = END_STREAM if last and number == len(pieces) - 1 else 0
            if len(piece) < FRAME_MAX - 256 and r.random() < 0.03:
                pad = r.choice([0, 1, 255])
                self.sent[stream] += pad + 1
                flags, piece = flags | PADDED, bytes([pad]) + piece + b"\0" * pad
            out.append(frame(DATA, flags, stream, piece))
        return b"".join(out)

    def request(self, method, as_json):
        r = self.r
        if as_json:
            return json_for(r, method)
        message = protobuf_for(r, method, self.valid)
        if not self.valid and r.random() < 0.06:
            return grpc(message, r.choice([0, len(message) // 2, len(message) + 10, 1 << 20, 0xffffffff]), r.choice([0, 0, 1, 200]))
        return grpc(message)

    def call(self, same=None):
        """Opens a stream; one message in most cases, none or several in the others. same: the method, and the message to send."""
        r = self.r
        if self.next > 2 * OPEN_MAX and self.valid:  # the writer does not know which of them have ended
            return "wait", b""
        method, as_json = (same[0], False) if same else (r.choice(self.methods), r.random() < 0.08)
        stream, self.next = self.next, self.next + 2
        self.sent[stream], self.open[stream] = 0, (method, as_json)
        count = r.choice([1, 1, 1, 1, 0] if self.valid or as_json else [1, 1, 1, 0, 2, 3])
        last = r.random() < (0.3 if method.streams else 0.75)
        if not count and not method.streams:
            last = last and not self.valid
        out = self.headers(stream, self.head(method, as_json), last and not count)
        for number in range(count):
            out += self.data(stream, same[1] if same else self.request(method, as_json), last and number == count - 1)
        if last:
            del self.open[stream]
        return f"call {method.name} on {stream}, {count} messages{', half-closed' if last else ''}{', JSON' if as_json else ''}", out

    def calls(self):
        """Many calls at once, in most cases the same one."""
        r, out, text, method = self.r, [], "", self.r.choice(self.methods)
        same = (method, self.request(method, False)) if r.random() < 0.7 else None
        count = log_uniform(r, 2, 150)
        for _ in range(count):
            text, more = self.call(same)
            out.append(more)
        return f"{count} {'same' if same else 'different'} calls, the last: {text}{', ' + repr(same[1][:40]) if same else ''}", b"".join(out)

    def pick(self):
        return self.r.choice(sorted(self.open)) if self.open else None

    def more(self):
        """Another message on an open stream."""
        stream = self.pick()
        if stream is None:
            return self.call()
        method, as_json = self.open[stream]
        if not method.streams:
            self.clean = False
        return f"another message on {stream} ({method.name})", self.data(stream, self.request(method, as_json), False)

    def flood(self):
        """The same message many times on one stream, preferably on one that takes many."""
        r, opened = self.r, b""
        streaming = sorted(s for s, (m, _) in self.open.items() if m.streams)
        stream = r.choice(streaming) if streaming else self.pick()
        if stream is None or (self.next < 2 * OPEN_MAX and r.random() < 0.5):  # on a stream of its own: the server may take nothing more from others
            method, stream, self.next = r.choice([m for m in self.methods if m.streams] or self.methods), self.next, self.next + 2
            self.sent[stream], self.open[stream] = 0, (method, False)
            opened = self.headers(stream, self.head(method, False), False)
        method, as_json = self.open[stream]
        self.clean = self.clean and method.streams
        body, count = self.request(method, as_json), log_uniform(r, 10, 16384)
        count = min(count, STREAM_WINDOW // (len(body) + 1))
        return f"{count} times {body[:40]!r} on {stream} ({method.name})", opened + self.data(stream, body * count, False)

    def half_close(self):
        stream = self.pick()
        if stream is None:
            return self.call()
        del self.open[stream]
        return f"half-close {stream}", frame(DATA, END_STREAM, stream)

    def reset(self):
        r = self.r
        streams = sorted(self.open) if r.random() < 0.3 else [self.pick()] if self.open else [max(1, self.next - 2)]
        out = b""
        for stream in streams:
            out += frame(RST_STREAM, 0, stream, struct.pack(">I", r.choice([8, 8, 0, 1, 77])))
            self.open.pop(stream, None)
        return f"reset {streams[:5]}{'...' if len(streams) > 5 else ''}", out

    # ---- the connection ----

    def window(self):
        r, stream = self.r, self.pick() or 0
        stream = r.choice([0, stream])
        return f"window of {stream}", frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", r.choice([1, 1, 10, 1000, 65535, 1 << 20])))

    def settings(self):
        r = self.r
        size = r.choice([0, 1, 1000, 65535, 1 << 20])
        return f"initial window {size}", frame(SETTINGS, 0, 0, struct.pack(">HI", 4, size)) * r.choice([1, 1, 1, log_uniform(r, 1, 300)])

    def pings(self):
        count = log_uniform(self.r, 1, 500)
        self.clean = self.clean and count < 100
        return f"{count} pings", frame(PING, 0, 0, b"12345678") * count

    def unknown(self):
        r = self.r
        return "unknown frames", r.choice([
            frame(0xbe, 0, 0, r.randbytes(32)), frame(PRIORITY, 0, max(3, self.next), struct.pack(">IB", 0, 1)), frame(0x77, 255, 9, b"x" * 99),
            frame(PING, 1, 0, b"12345678"), frame(SETTINGS, 0, 0, struct.pack(">HI", 0x99, 7))]) * log_uniform(r, 1, 50)

    def trailers(self):
        stream = self.pick()
        if stream is None:
            return self.call()
        del self.open[stream]
        return f"trailers on {stream}", self.headers(stream, literal(b"x", b"y" * 20), True)

    def broken(self):
        """Something that no valid client sends."""
        r = self.r
        self.clean = False
        stream = self.pick() or 1
        return "broken frames", r.choice([
            frame(DATA, 0, self.next + 20, b"x" * 9), frame(DATA, PADDED, stream, b"\xff"), frame(SETTINGS, 0, 0, b"123"),
            frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\0"), frame(WINDOW_UPDATE, 0, stream, b"\x7f\xff\xff\xff") * 2, frame(PING, 0, 0, b"1"),
            frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 31)), frame(RST_STREAM, 0, 0, b"\0\0\0\0"), frame(PUSH_PROMISE, 4, stream, b"\0\0\0\2"),
            frame(HEADERS, 4, 2, literal(b":method", b"GET")), frame(HEADERS, 0, self.next, b"\xff\xff\xff\xff\xff"), frame(CONTINUATION, 4, stream, b"x"),
            frame(GOAWAY, 0, 0, b"\0" * 8), frame(HEADERS, 0, self.next, b"\x10") + frame(CONTINUATION, 0, self.next, b"") * log_uniform(r, 1, 2000),
            frame(HEADERS, 4, self.next, b"\x3f\xe1\xff\x03" + b"\xbe" * 10), struct.pack(">I", r.getrandbits(24))[1:] + bytes([r.randrange(12), 0]) + struct.pack(">I", stream),
            frame(DATA, 0, stream, b"\0" * FRAME_MAX) * 70 if stream in self.open else b"GET / HTTP/1.1\r\n\r\n", r.randbytes(r.randrange(200))])

    def truncated(self):
        """A valid call that loses bytes, or breaks off and never goes on."""
        text, out = self.call()
        self.clean = False
        if self.r.random() < 0.5:
            return "damaged: " + text, damaged(self.r, out)
        return "cut: " + text, out[:self.r.randrange(len(out) + 1)]

    def acts(self):
        """{action: weight}."""
        both = {self.call: 4, self.calls: 2, self.flood: 2, self.more: 1, self.half_close: 0.7, self.reset: 1, self.window: 0.7,
                self.settings: 0.5, self.pings: 0.2, self.unknown: 0.2}
        if not self.valid:
            both.update({self.more: 3, self.trailers: 0.3, self.broken: 0.3, self.truncated: 0.3, self.pings: 0.5})
        return both
