"""The grammar of valid calls to `bellwether serve`, read from its sources, and random messages of that grammar.

src/net/api.proto gives the messages, src/serve/api/methods.c the calls. A call that is added to the service is attacked without
a change here. A message is a list of (field, value) pairs; to_protobuf and to_json encode it."""
import base64
import json
import os
import re
import struct

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
SCALARS = ("bytes", "string", "bool", "int32", "int64", "uint32", "uint64")
VALUE_MAX = 1 << 20

# Keys of the adversary begin with a letter. It reads everything, but it deletes only from its own keys on: the keys of the canary and
# the content of the world sort before them.
KEYS = [f"{letter}{number}".encode() for letter in "abk" for number in range(4)]
ELECTIONS = [b"e0", b"e1", b"e2"]
LEASES = range(1, 40)  # ids that the adversary grants, renews and revokes


class Field:
    def __init__(self, name, number, kind, repeated, choice):
        self.name, self.number, self.kind, self.repeated, self.choice = name, number, kind, repeated, choice


class Method:
    def __init__(self, path, json_path, request, streams):
        self.path, self.json_path, self.request, self.streams = path, json_path, request, streams
        self.name = path.rsplit("/", 1)[1]


def log_uniform(r, least, most):
    """A number whose logarithm is uniform: small ones are common, and every magnitude occurs."""
    low, high = least + 1.0, most + 2.0
    return int(low * (high / low) ** r.random()) - 1


def read_proto():
    """{message: [Field]} and {enum: its highest number}."""
    messages, enums, stack = {}, {}, []
    with open(os.path.join(TOP, "src/net/api.proto"), encoding="utf-8") as file:
        for line in file:
            line = line.split("//")[0].strip()
            if opened := re.match(r"(message|enum|oneof) (\w+) \{", line):
                stack.append(opened.groups())
                (messages if opened[1] == "message" else enums).setdefault(opened[2], [] if opened[1] == "message" else 0)
            elif line == "}":
                stack.pop()
            elif field := re.match(r"(repeated )?(\w+) (\w+) = (\d+);", line):
                owner = next(name for kind, name in reversed(stack) if kind == "message")
                choice = stack[-1][1] if stack[-1][0] == "oneof" else None
                messages[owner].append(Field(field[3], int(field[4]), field[2], bool(field[1]), choice))
            elif number := re.match(r"\w+ = (\d+);", line):
                enums[stack[-1][1]] = max(enums[stack[-1][1]], int(number[1]))
    return messages, enums


def read_methods(messages):
    by_snake = {re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower(): name for name in messages}
    with open(os.path.join(TOP, "src/serve/api/methods.c"), encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"\s+", " ", text[text.index("bw_methods[]"):])
    found = []
    for entry in re.findall(r'(?:(?:UNARY|KEEPING)\(|\{)"(/[\w.]+/\w+)", (NULL|"[^"]*"), (?:&api__)?(\w+?)(?:__descriptor)?,(.*?)[)}],', text):
        path, json_path, request, rest = entry
        found.append(Method(path, json_path.strip('"') if json_path != "NULL" else None, by_snake[request], "STREAM" in rest))
    assert len(found) > 40, f"methods.c has changed its shape: {len(found)} calls read"
    return found


MESSAGES, ENUMS = read_proto()
METHODS = read_methods(MESSAGES)
STORES = ("Put", "Txn", "LeaseGrant", "Campaign", "Lock", "Proclaim", "UserAdd")  # calls whose content the server keeps
# Without users every client is an administrator, and these take the service away from the canary by design.
TAKES_OVER = ("Alarm", "AuthEnable", "MemberAdd", "MemberRemove", "MemberUpdate", "MemberPromote", "MoveLeader")


# ---- random values ----

def a_number(r, name):
    if name.lower() in ("lease", "id", "watch_id"):
        return r.choice([0, -1, r.choice(LEASES), r.choice(LEASES), r.choice(LEASES), r.getrandbits(63)])
    if name == "TTL":
        return r.choice([1, 5, 60, 60, 600, 0, -1, 1 << 40])
    if "revision" in name or name == "rev":
        return r.choice([0, 1, 1, r.randrange(1, 200), -1, 1 << 62])
    return r.choice([0, 1, 2, r.randrange(100), -1, r.getrandbits(32), (1 << 63) - 1])


def some_bytes(r, name):
    if name == "value":
        size = r.choice([0, 1, 10, log_uniform(r, 1, 1 << 14), log_uniform(r, 1, 1 << 17)])
        return bytes([r.randrange(256)]) * size
    if name == "name":
        return r.choice(ELECTIONS)
    if name == "range_end":
        return r.choice([b"", b"\0", r.choice(KEYS), b"b", b"l", b"z"])
    return r.choice([*(r.choice(KEYS) for _ in range(6)), r.choice(ELECTIONS) + b"/" + b"%x" % r.choice(LEASES), b"",
                     b"k" * log_uniform(r, 1, 5000)])


def some_text(r, name):
    return r.choice(["", "root", "u1", "admin", "http://127.0.0.1:1", "x" * log_uniform(r, 1, 3000), "\u00e9\u20ac", name])


def a_value(r, field, depth):
    if field.kind == "bytes":
        return some_bytes(r, field.name)
    if field.kind == "string":
        return some_text(r, field.name)
    if field.kind == "bool":
        return r.random() < 0.5
    if field.kind in ENUMS and field.kind not in MESSAGES:
        return r.choice([r.randint(0, ENUMS[field.kind]), r.randint(0, ENUMS[field.kind]), 77])
    if field.kind in SCALARS:
        return a_number(r, field.name)
    return a_message(r, field.kind, depth + 1)


# How often an optional field is present. The others: 0.4. The same watch id for many watches is refused.
LIKELY = {"key": 0.95, "name": 0.9, "TTL": 0.9, "ID": 0.8, "start_revision": 0.7, "watch_id": 0.1, "revision": 0.2}
READS = ("RangeRequest", "WatchCreateRequest")


def everything(r, name):
    """A read or a watch of all keys, perhaps from the first revision on."""
    values = {"key": b"\0", "range_end": b"\0", "start_revision": r.choice([0, 1]), "keys_only": r.random() < 0.2, "prev_kv": r.random() < 0.5,
              "serializable": r.random() < 0.5, "sort_order": r.randint(0, 2), "sort_target": r.randint(0, 4)}
    return [(field, values[field.name]) for field in MESSAGES[name] if values.get(field.name)]


def a_message(r, name, depth=0):
    """A random message; nested ones become rarer with depth."""
    chosen = {}
    for field in MESSAGES[name]:
        if field.choice:
            chosen.setdefault(field.choice, []).append(field)
    if name in READS and r.random() < 0.4:
        return everything(r, name)
    picks = {choice: r.choice(fields) for choice, fields in chosen.items() if r.random() < 0.95}
    out = []
    for field in MESSAGES[name]:
        nested = field.kind in MESSAGES
        if field.choice:
            if picks.get(field.choice) is not field or (nested and depth > 6):
                continue
        elif name != "DeleteRangeRequest" and (depth > 3 or r.random() > LIKELY.get(field.name, 0.4)):
            continue
        count = log_uniform(r, 0, 130 if depth == 0 and r.random() < 0.1 else 4) if field.repeated else 1
        if name == "CompactionRequest" and field.name == "revision":
            out.append((field, r.choice([-1, 0, 1, 2, 1 << 62])))  # the history is worth an attack: keep most of it
            continue
        if name == "DeleteRangeRequest" and field.name == "key":
            out.append((field, r.choice(KEYS)))  # an empty key with a range would delete everything
            continue
        same = [a_value(r, field, depth)] if count > 8 else None
        out += [(field, same[0] if same else a_value(r, field, depth)) for _ in range(count)]
    return out


# ---- encodings ----

def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def to_protobuf(message):
    out = b""
    for field, value in message:
        if isinstance(value, int):
            out += varint(field.number << 3) + varint(int(value))
            continue
        body = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else to_protobuf(value)
        out += varint(field.number << 3 | 2) + varint(len(body)) + body
    return out


def as_object(message):
    out = {}
    for field, value in message:
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        elif isinstance(value, list):
            value = as_object(value)
        elif field.kind in ("int64", "uint64") and value % 2:
            value = str(value)  # 64-bit integers may be strings
        if field.repeated:
            out.setdefault(field.name, []).append(value)
        else:
            out[field.name] = value
    return out


def to_json(message):
    return json.dumps(as_object(message)).encode()


def brief_read(r):
    """A read that looks at all keys, but returns little: a small request and a small response for much work."""
    values = {"key": b"\0", "range_end": b"\0", "limit": r.choice([1, 1, 10]), "keys_only": True, "serializable": r.random() < 0.5,
              "sort_order": r.randint(1, 2), "sort_target": r.randint(0, 4)}
    return [(field, values[field.name]) for field in MESSAGES["RangeRequest"] if values.get(field.name)]


# ---- nesting and damage ----

def deep_protobuf(r):
    """A transaction in a transaction in a transaction ..."""
    body, depth = b"", log_uniform(r, 1, 20000)
    for _ in range(depth):
        body = b"\x22" + varint(len(body)) + body        # RequestOp.request_txn
        body = b"\x12" + varint(len(body)) + body        # TxnRequest.success
        if len(body) > VALUE_MAX // 2:
            break
    return body


def deep_json(r):
    depth = log_uniform(r, 1, 100000)
    opening = r.choice([b"[", b'{"a":', b'{"success":[{"request_txn":', b'[{"":'])
    return opening * min(depth, VALUE_MAX // len(opening))


def damaged(r, body):
    """The bytes with one fault."""
    if not body:
        return r.randbytes(r.randrange(40))
    at, kind = r.randrange(len(body)), r.randrange(6)
    if kind == 0:
        return body[:at] + bytes([body[at] ^ 1 << r.randrange(8)]) + body[at + 1:]
    if kind == 1:
        return body[:at]
    if kind == 2:
        return body[:at] + r.randbytes(r.randrange(1, 20)) + body[at:]
    if kind == 3:
        return body + body[at:]
    if kind == 4:
        return body[:at] + b"\xff" * r.randrange(1, 12) + body[at + 1:]
    return body[:at] + b"\0" * log_uniform(r, 1, 200) + body[at:]


def protobuf_for(r, method, valid=False):
    """The bytes of a request, mostly valid. An invalid one ends its stream."""
    if not valid and r.random() < 0.02:
        return deep_protobuf(r)
    body = to_protobuf(a_message(r, method.request))
    return damaged(r, body) if not valid and r.random() < 0.08 else body


def json_for(r, method):
    """A body for the gateway: one message, or for streams many, with white space between them."""
    if r.random() < 0.03:
        return deep_json(r)
    count = log_uniform(r, 1, 20000) if r.random() < (0.5 if method.streams else 0.05) else 1
    one = r.choice([b"{}", to_json(a_message(r, method.request)), to_json(a_message(r, method.request))])
    space = r.choice([b" ", b"\n", b"\t"]) * (log_uniform(r, 0, 200) if r.random() < 0.5 else 0)
    body = (one + space) * max(1, min(count, int(1.5e6) // (len(one) + len(space))))
    return damaged(r, body) if r.random() < 0.08 else body


def grpc(message, length=None, compressed=0):
    """A message with its five-byte head."""
    return bytes([compressed]) + struct.pack(">I", len(message) if length is None else length) + message
