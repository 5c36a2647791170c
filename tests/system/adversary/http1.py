"""HTTP/1.1 as an adversary writes it: a random connection as a list of steps; see http2.py."""
from grammar import brief_read, damaged, json_for, log_uniform, to_json

AHEAD_BYTES = 256 << 10  # as much as the server reads from a connection in one turn (src/serve/front/front.h)
PLAIN = [b"/health", b"/version", b"/metrics", b"/", b"/v3/nothing", b"*", b"/" + b"x" * 300]


class Http1:
    def __init__(self, r, methods):
        self.r, self.clean = r, True
        self.methods = [m for m in methods if m.json_path] or methods
        self.valid = r.random() < 0.5
        self.done = False  # the server ignores what follows

    def begin(self):
        return b""

    def body_of(self, body):
        """Framing headers and the framed body."""
        r = self.r
        if r.random() < 0.7:
            length = len(body)
            if not self.valid and r.random() < 0.08:
                self.clean, length = False, r.choice([length + 5, length // 2, 1 << 21, 1 << 62, -1])
            return b"Content-Length: %d\r\n" % length, body
        size = r.choice([1 if len(body) < 3000 else 4096, 100 if len(body) < 50000 else 4096, 65536])
        chunks = [body[at:at + size] for at in range(0, len(body), size)]
        framed = b"".join(b"%x\r\n" % len(c) + c + b"\r\n" for c in chunks) + b"0\r\n\r\n"
        if not self.valid and r.random() < 0.08:
            self.clean, framed = False, r.choice([framed.replace(b"\r\n", b"\n"), b"ffffffffffffffff\r\n" + framed, framed[:-3], damaged(r, framed)])
        return b"Transfer-Encoding: chunked\r\n", framed

    def post(self):
        r = self.r
        method = r.choice(self.methods)
        self.clean = self.clean and not method.streams  # a stream need not end
        framing, body = self.body_of(json_for(r, method))
        head = b"POST " + (method.json_path or "/health").encode() + b" HTTP/1.%d\r\nHost: localhost\r\n" % (r.random() > 0.05) + framing
        if r.random() < 0.1:
            head += r.choice([b"Expect: 100-continue\r\n", b"Grpc-Metadata-hasleader: true\r\n", b"Authorization: " + b"t" * 60 + b"\r\n",
                              b"X: " + b"y" * log_uniform(r, 1, 9000) + b"\r\n"])
        return f"POST {method.json_path}, {len(body)} bytes: {body[:40]!r}", head + b"\r\n" + body

    def get(self):
        r = self.r
        count, path = log_uniform(r, 1, 300) if r.random() < 0.4 else 1, r.choice(PLAIN)
        verb = r.choice([b"GET", b"GET", b"GET", b"HEAD", b"PUT", b"OPTIONS"])
        self.clean = self.clean and verb == b"GET"
        return f"{count} times {verb.decode()} {path[:20].decode()}", (verb + b" " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n") * count

    def ahead(self):
        """Many copies of one request, sent before the first response: up to what the server reads at once."""
        r = self.r
        method = r.choice(self.methods)
        brief = method.name == "Range" and r.random() < 0.5
        body = to_json(brief_read(r)) if brief else json_for(r, method)[:AHEAD_BYTES // 4]
        one = b"POST " + (method.json_path or "/health").encode() + b" HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        most = AHEAD_BYTES // len(one)
        count = most if r.random() < 0.5 else log_uniform(r, 1, most)
        self.clean = self.clean and not method.streams
        return f"{count} times ahead: POST {method.json_path}, {len(body)} bytes: {body[:40]!r}", one * count

    def last(self):
        """The last request of the connection."""
        text, out = self.post()
        self.done = True
        return "last: " + text, out.replace(b"Host: localhost\r\n", b"Host: localhost\r\nConnection: close\r\n", 1)

    def broken(self):
        r = self.r
        self.clean = False
        return "broken request", r.choice([
            b"\r\n" * log_uniform(r, 1, 5000), b"GET /health\r\n\r\n", b"GET /health HTTP/9.9\r\n\r\n", b"A" * log_uniform(r, 1, 70000), r.randbytes(100),
            b"POST /v3/kv/put HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST /v3/kv/put HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}   ",
            b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * log_uniform(r, 1, 10000) + b"\r\n", b"PRI * HTTP/2.0\r\n\r\n", b"GET /health HTTP/1.1\r\n x: y\r\n\r\n"])

    def truncated(self):
        text, out = self.post()
        self.clean = False
        if self.r.random() < 0.5:
            return "damaged: " + text, damaged(self.r, out)
        return "cut: " + text, out[:self.r.randrange(len(out) + 1)]

    def wait(self):
        return "wait", b""

    def acts(self):
        if self.done and self.valid:
            return {self.wait: 1}
        both = {self.post: 5, self.get: 1, self.last: 0.3}
        if not self.valid:
            both.update({self.broken: 0.4, self.truncated: 0.7})
        return both
