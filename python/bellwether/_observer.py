"""Follows the leader of an election without contending."""
import asyncio
import dataclasses
import os
import select
import threading
from collections import deque
from ctypes import byref, c_void_p, sizeof
from types import TracebackType

from ._errors import EFORKED, EINTERRUPTED, Error, Forked
from ._library import CampaignOptions, Info, LeaderChanged, Options, check, library, milliseconds, text


@dataclasses.dataclass(frozen=True)
class LeaderInfo:
    """A leader: its id, its fencing token (0: the store issues none) and the value it published."""

    id: str
    token: int
    value: str


def _info(id: bytes, token: int, value: bytes) -> LeaderInfo | None:
    return LeaderInfo(id.decode(errors="replace"), token, value.decode(errors="replace")) if id else None


class Observer:
    """Follows the leader of an election:

        with bellwether.Observer("etcd://db1", "nightly") as observer:
            for leader in observer:       # first the current leader, then each change
                print(leader)             # a LeaderInfo, or None: no leader

    `async with` and `async for` work, too. Changes in quick succession may be reported as one."""

    def __init__(self, store: str, election: str, *, ttl: float | None = None) -> None:
        self._election, self._pid = text("election", election), os.getpid()
        self._url, self._ttl_ms = text("store", store), milliseconds("ttl", ttl)
        self._handle: c_void_p | None = None
        self._lock = threading.Lock()  # one thread dispatches, or closes, at a time
        self._asking = threading.Lock()  # leader() runs, or close()
        self._seen: deque[LeaderInfo | None] = deque()
        self._wake_read, self._wake_write = -1, -1
        self._closing = False

        def changed(_leadership: int, leader: bytes, token: int, value: bytes, _context: int) -> None:
            self._seen.append(_info(leader, token, value))

        self._callback = LeaderChanged(changed)  # kept alive: C calls it inside bw_dispatch

    def open(self) -> None:
        """Opens the store; `with` does it."""
        c, options, campaign = library(), Options(), CampaignOptions()
        handle, candidacy = c_void_p(), c_void_p()
        check(c.bw_options_init(byref(options), sizeof(options)))
        options.ttl_ms, options.pollable, options.leader_changed = self._ttl_ms, True, self._callback
        check(c.bw_campaign_options_init(byref(campaign), sizeof(campaign)))
        campaign.observer = True
        check(c.bw_open(self._url, byref(options), byref(handle)))
        try:
            check(c.bw_contend(handle, self._election, byref(campaign), byref(candidacy)))
        except Error:
            c.bw_close(handle)
            raise
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._pid, self._handle, self._closing = os.getpid(), handle, False

    def close(self) -> None:
        """Closes the store; an iteration in another thread ends."""
        if os.getpid() != self._pid or self._closing or not self._handle:
            return
        self._closing = True
        os.write(self._wake_write, b"x")
        with self._lock, self._asking:
            library().bw_close(self._handle)
            self._handle = None
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _check(self) -> None:
        if os.getpid() != self._pid:
            raise Forked(f"this observer belongs to process {self._pid}", EFORKED)
        if self._closing or not self._handle:
            raise Error("the observer is not open; use it in a `with` block", EINTERRUPTED)

    def leader(self) -> LeaderInfo | None:
        """Reads the current leader from the store. None: no leader."""
        self._check()
        info = Info()
        check(library().bw_leader_info_init(byref(info), sizeof(info)))
        with self._asking:
            self._check()
            check(library().bw_leader(self._handle, self._election, byref(info)))
        return _info(info.id, info.token, info.value)

    def __enter__(self) -> "Observer":
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> "Observer":
        await asyncio.to_thread(self.open)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.close)

    def __iter__(self) -> "Observer":
        return self

    def __next__(self) -> LeaderInfo | None:
        self._check()
        with self._lock:
            while not self._seen and not self._closing:
                poll = select.poll()
                poll.register(library().bw_fd(self._handle), select.POLLIN)
                poll.register(self._wake_read, select.POLLIN)
                poll.poll()
                if not self._closing:
                    check(library().bw_dispatch(self._handle))
            if self._closing:
                raise StopIteration
            return self._seen.popleft()

    def __aiter__(self) -> "Observer":
        return self

    async def __anext__(self) -> LeaderInfo | None:
        self._check()
        loop, descriptors = asyncio.get_running_loop(), self._copies()
        ready = asyncio.Event()
        for descriptor in descriptors:
            loop.add_reader(descriptor, ready.set)
        try:
            while not self._seen:
                await ready.wait()
                ready.clear()
                with self._lock:
                    if self._closing:
                        raise StopAsyncIteration
                    check(library().bw_dispatch(self._handle))
            return self._seen.popleft()
        finally:
            for descriptor in descriptors:
                loop.remove_reader(descriptor)
                os.close(descriptor)

    def _copies(self) -> tuple[int, int]:
        """Copies of the descriptors to wait for: close() closes the originals while a task waits."""
        with self._lock:
            self._check()
            return os.dup(library().bw_fd(self._handle)), os.dup(self._wake_read)
