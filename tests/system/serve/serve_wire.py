"""A hand-written gRPC client: HTTP/2 frames on its own socket, so that a test can close it in every possible way.

Headers are sent as literals without Huffman coding (RFC 7541, 6.2.2); only messages of the responses are
parsed."""
import hashlib
import os
import socket
import struct

from store_lib import TIMEOUT_S

DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
GRANT, KEEP_ALIVE = "/etcdserverpb.Lease/LeaseGrant", "/etcdserverpb.Lease/LeaseKeepAlive"
WATCH = "/etcdserverpb.Watch/Watch"

PROOF = os.urandom(32)  # of a clean close: net/clean_close_proof.h
FAREWELL = {"bellwether_bind": "farewell=" + hashlib.sha256(PROOF).hexdigest()}


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def fields(**numbers):
    """A protobuf message of integers: f1=5 is field 1."""
    return b"".join(varint(int(name[1:]) << 3) + varint(value) for name, value in numbers.items())


def read_varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return number, at


def read_fields(data):
    """{field: last value}, integers and bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = read_varint(data, at)
        value, at = read_varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        found[key >> 3] = value
    return found


def literal(name, value):
    return b"\x10" + b"".join(bytes([len(x)]) + x.encode() for x in (name, value))


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


class Wire:
    """One connection. Streams are numbers."""

    def __init__(self, port, host="127.0.0.1", wrap=None):
        self.raw = socket.create_connection((host, port), TIMEOUT_S)
        self.socket = wrap(self.raw) if wrap else self.raw
        self.next, self.got, self.messages, self.partial, self.ended = 1, b"", {}, {}, {}
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))

    def call(self, path, message=None, last=True, **metadata):
        """Opens a stream: its head, and a first message if there is one."""
        stream, self.next = self.next, self.next + 2
        head = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "test"),
                ("content-type", "application/grpc"), ("te", "trailers")]
        head += [(name.replace("_", "-"), value) for name, value in metadata.items()]
        self.socket.sendall(frame(HEADERS, 4, stream, b"".join(literal(*pair) for pair in head)))
        self.messages[stream] = []
        if message is not None:
            self.send(stream, message, last)
        return stream

    def send(self, stream, message, last=False):
        body = b"\0" + struct.pack(">I", len(message)) + message
        self.socket.sendall(frame(DATA, 1 if last else 0, stream, body))

    def read_frame(self):
        while len(self.got) < 9 or len(self.got) < 9 + int.from_bytes(self.got[:3], "big"):
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("closed by the server")
            self.got += more
        length = int.from_bytes(self.got[:3], "big")
        kind, flags, stream = self.got[3], self.got[4], int.from_bytes(self.got[5:9], "big")
        body, self.got = self.got[9:9 + length], self.got[9 + length:]
        return kind, flags, stream, body

    def step(self):
        """Receives one frame."""
        kind, flags, stream, body = self.read_frame()
        if kind == SETTINGS and not flags & 1:
            self.socket.sendall(frame(SETTINGS, 1, 0))
        elif kind == PING and not flags & 1:
            self.socket.sendall(frame(PING, 1, 0, body))
        elif kind == DATA and body:
            self.take(stream, body, flags & 1)
        elif kind == RST_STREAM:
            self.ended[stream] = int.from_bytes(body, "big")
        if kind in (DATA, HEADERS) and flags & 1:
            self.ended[stream] = 0

    def take(self, stream, body, last):
        more = struct.pack(">I", len(body))
        self.socket.sendall(frame(WINDOW_UPDATE, 0, 0, more) + (b"" if last else frame(WINDOW_UPDATE, 0, stream, more)))
        data = self.partial.get(stream, b"") + body
        while len(data) >= 5 and len(data) >= 5 + int.from_bytes(data[1:5], "big"):
            length = int.from_bytes(data[1:5], "big")
            self.messages[stream].append(data[5:5 + length])
            data = data[5 + length:]
        self.partial[stream] = data

    def message(self, stream):
        """The next message; None: the call ended without one."""
        while not self.messages[stream]:
            if stream in self.ended:
                return None
            self.step()
        return self.messages[stream].pop(0)

    def end(self, stream):
        """Waits until the call has ended; returns the code of a reset, 0: normal end."""
        while stream not in self.ended:
            self.step()
        return self.ended[stream]

    def grant(self, ttl_s, **metadata):
        return read_fields(self.message(self.call(GRANT, fields(f1=ttl_s), **metadata)))[2]

    def keep_alive(self, lease, **metadata):
        """The granted TTL; 0: no such lease."""
        return read_fields(self.message(self.call(KEEP_ALIVE, fields(f1=lease), **metadata))).get(3, 0)

    # ---- ways to disconnect ----

    def close(self):
        self.socket.close()

    def reset(self):
        self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def farewell(self, proof=PROOF):
        """Sends a clean close like run/guardian/clean_close.c: outside TLS, after whatever was sent before."""
        self.raw.send(frame(0xbe, 0, 0, proof))
        self.raw.shutdown(socket.SHUT_WR)
