"""Reads the file that the interposer of torture.py writes; state.h describes it."""
import collections
import mmap
import struct

KINDS = ["alloc", "call"]
# struct torture_state, struct torture_frame and struct torture_entry
HEAD, FRAME, ENTRY = struct.Struct("<IIIIIiII32s"), struct.Struct("<56sQ"), struct.Struct("<IIQQ24s")
FRAMES, ENTRIES = 24, 400000
SIZE = HEAD.size + FRAMES * FRAME.size + ENTRIES * ENTRY.size

Call = collections.namedtuple("Call", "kind index site stack name")
State = collections.namedtuple("State", "armed allocs calls failed entries error pid depth name frames")


def text(raw):
    return raw.rstrip(b"\0").decode()


def read_state(path):
    with open(path, "rb") as file:
        raw = file.read(HEAD.size + FRAMES * FRAME.size)
    head = HEAD.unpack_from(raw)
    frames = [FRAME.unpack_from(raw, HEAD.size + i * FRAME.size) for i in range(min(head[7], FRAMES))]
    return State(*head[:8], text(head[8]), [(text(module), offset) for module, offset in frames])


def read_calls(path):
    """All counted calls, in their order."""
    count = min(read_state(path).entries, ENTRIES)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), SIZE, prot=mmap.PROT_READ) as raw:
        rows = [ENTRY.unpack_from(raw, HEAD.size + FRAMES * FRAME.size + i * ENTRY.size) for i in range(count)]
    return [Call(KINDS[kind], index, site, stack, text(name)) for kind, index, site, stack, name in rows if index]


def new_state(path):
    with open(path, "wb") as file:
        file.write(struct.pack("<I", 1))
        file.truncate(SIZE)


def callers(state):
    """The names of the modules that lead to the failed call, its caller first, without the interposer and the C library."""
    modules = [module for module, _ in state.frames]
    while modules and modules[0].startswith(("torture", "libc.", "libasan")):
        modules.pop(0)
    return modules


def is_allocation(state):
    return state.name.endswith("alloc")
