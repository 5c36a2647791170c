"""What an adversary checks in the responses to valid calls: that each response is complete.

The first violation is kept in `fault`."""
import struct


class Http1Responses:
    """Status lines, headers and bodies, one after the other."""

    def __init__(self):
        self.data, self.left, self.chunked, self.inside, self.fault, self.judged = bytearray(), 0, False, False, None, True

    def take(self, data):
        self.data += data
        while self.judged and self.step():
            pass
        return b""

    def step(self):
        if not self.inside:
            return self.head()
        if self.left:
            taken = min(self.left, len(self.data))
            del self.data[:taken]
            self.left -= taken
            if self.left:
                return False
            self.inside = self.chunked
            return True
        return self.chunk()

    def head(self):
        end = self.data.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(self.data[:end]).lower()
        del self.data[:end + 4]
        if head.startswith(b"http/1.1 100"):
            return True
        self.chunked = b"transfer-encoding: chunked" in head
        at = head.find(b"content-length: ")
        self.left = int(head[at + 16:].split(b"\r\n")[0]) if at >= 0 else 0
        self.inside = self.chunked or self.left > 0
        self.judged = self.chunked or at >= 0  # else the end of the connection ends the body
        return self.judged

    def chunk(self):
        end = self.data.find(b"\r\n")
        if end < 0:
            return False
        size = int(bytes(self.data[:end]), 16)
        del self.data[:end + 2]
        self.left = size + 2
        if not size:
            self.chunked = False
        return True

    def end(self):
        if self.judged and (self.inside or self.data):
            self.fault = f"an HTTP/1.1 response ended in the middle of its body, {self.left} bytes are missing"


class Http2Responses:
    """Frames; whole gRPC messages on each stream that ends."""

    def __init__(self):
        self.data, self.fault, self.streams, self.judged = bytearray(), None, {}, True

    def take(self, data):
        """Returns the window updates for what was read."""
        self.data += data
        back, at = b"", 0
        while len(self.data) - at >= 9:
            length = int.from_bytes(self.data[at:at + 3], "big")
            if len(self.data) - at < 9 + length:
                break
            back += self.frame(self.data[at + 3], self.data[at + 4], int.from_bytes(self.data[at + 5:at + 9], "big"), at + 9, length)
            at += 9 + length
        del self.data[:at]
        return back

    def frame(self, kind, flags, stream, at, length):
        if kind == 0 and length:
            self.body(stream, at, length)
            more = struct.pack(">I", length)
            head = struct.pack(">I", 4)[1:] + b"\x08\0"
            return head + b"\0\0\0\0" + more + (b"" if flags & 1 else head + struct.pack(">I", stream) + more)
        if kind == 4 and not flags & 1:
            return b"\0\0\0\x04\x01\0\0\0\0"
        if kind == 1 and flags & 1 and stream in self.streams:
            left = self.streams.pop(stream)
            if left[0] or left[1]:
                self.fault = f"stream {stream} ended in the middle of a message, {left[0]} bytes are missing"
        if kind == 3:
            self.streams.pop(stream, None)
        return b""

    def body(self, stream, at, length):
        """Follows the heads of the messages: [bytes missing, part of a head]."""
        left, end = self.streams.setdefault(stream, [0, b""]), at + length
        while at < end:
            if left[0]:
                taken = min(left[0], end - at)
                left[0] -= taken
                at += taken
                continue
            taken = min(5 - len(left[1]), end - at)
            left[1] += bytes(self.data[at:at + taken])
            at += taken
            if len(left[1]) == 5:
                left[0], left[1] = int.from_bytes(left[1][1:], "big"), b""

    def end(self):
        pass
