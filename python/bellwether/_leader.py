"""Leadership as a block of code: `with`, `async with`, and a decorator.

Each leadership has one Python thread. It opens the store, waits until elected, waits for the loss,
and resigns when the block has ended. It spends its time inside the C library, without Python's
global lock. The main thread waits in Python, so signals such as Ctrl-C interrupt it."""
import asyncio
import contextlib
import dataclasses
import functools
import inspect
import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from ctypes import byref, c_void_p, sizeof
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from ._errors import EFORKED, EINTERRUPTED, EIO, Error, Forked, InvalidArgument, LeadershipLost, Loss
from ._library import (
    FOREVER,
    OVERDUE_ABORT,
    OVERDUE_REPORT,
    CampaignOptions,
    Info,
    Options,
    check,
    library,
    milliseconds,
    text,
    why,
)

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")  # of self or cls


@dataclasses.dataclass(frozen=True)
class _Settings:
    store: bytes
    election: bytes
    id: bytes | None
    value: bytes
    ttl_ms: int
    kill_after_ms: int
    margin_ms: int
    priority: int
    preferred: bool
    timeout_ms: int
    overdue: int


def _loss_of(number: int) -> Loss:
    """The reason of a loss. NONE: lost by the clock alone; a number of a newer library counts as that."""
    known = number in Loss._value2member_map_ and number != Loss.NONE.value
    return Loss(number) if known else Loss.EXPIRED


def _wait(future: "Future[None]") -> None:
    """Waits for the future. Python does not see a signal that comes just before it blocks, so it must
    not block for long."""
    while True:
        try:
            return future.result(1.0)
        except TimeoutError:
            if future.done():
                raise


class _Lost(threading.Event):
    """Set when the leadership is over. is_set() also compares the deadline with the clock."""

    def __init__(self, lead: "Leadership") -> None:
        super().__init__()
        self._lead = weakref.ref(lead)

    def is_set(self) -> bool:
        lead = self._lead()
        return super().is_set() or lead is None or not lead.is_leader


class Leadership:
    """A leadership, from the election to the end of the block. Any thread may use it."""

    lost: threading.Event
    """Set when the leadership is over: stop the work."""

    def __init__(self, settings: _Settings) -> None:
        self._settings, self._pid = settings, os.getpid()
        # Protects the two pointers: the thread frees them. A signal handler may use the leadership
        # while its own thread holds the lock.
        self._lock = threading.RLock()
        self._handle: c_void_p | None = None
        self._pointer: c_void_p | None = None
        self._token, self._reason, self._id = 0, Loss.NONE, ""
        self._work_ended = threading.Event()
        self._elected: Future[None] = Future()
        self._closed: Future[None] = Future()
        self._listener: Callable[[], None] | None = None
        self._is_lost = False
        self.lost = _Lost(self)
        for future in (self._elected, self._closed):
            future.set_running_or_notify_cancel()  # only the thread completes them
        _live.add(self)

    # ---- the current state ----

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise Forked(f"this leadership belongs to process {self._pid}; a child process does not lead", EFORKED)

    @property
    def is_leader(self) -> bool:
        """True if this process may do leader's work at this instant. Compares the deadline of the
        lease with the clock. False in a forked child."""
        if os.getpid() != self._pid:
            return False
        with self._lock:
            return not self._is_lost and self._pointer is not None and bool(library().bw_is_leader(self._pointer))

    @property
    def token(self) -> int:
        """Fencing token: higher than that of every earlier leadership; 0 if the store issues none."""
        self._check_process()
        return self._token

    @property
    def id(self) -> str:
        """Our own id, as other candidates see it."""
        return self._id

    @property
    def valid(self) -> float:
        """Seconds until the work must have ended. Each renewal extends it; after a loss it is the
        time left to clean up."""
        if os.getpid() != self._pid:
            return 0.0
        with self._lock:
            return int(library().bw_valid_ms(self._pointer)) / 1000 if self._pointer else 0.0

    @property
    def reason(self) -> Loss:
        """Why the leadership was lost; NONE while it lasts."""
        return self._why() if os.getpid() == self._pid and not self.is_leader else self._reason

    def check(self) -> None:
        """Raises LeadershipLost unless this process leads at this instant."""
        self._check_process()
        if not self.is_leader:
            raise self._loss()

    def transfer(self, successor: str) -> None:
        """Asks another candidate to take over. If it is ready, the leadership is lost with reason
        TRANSFERRED; otherwise it stays."""
        self._call("bw_transfer", text("successor", successor))

    def healthy(self, healthy: bool) -> None:
        """Reports whether this program is fit to lead. An unhealthy leader loses its leadership."""
        self._call("bw_healthy", healthy)

    def _call(self, function: str, argument: object) -> None:
        self._check_process()
        with self._lock:
            if not self._pointer:
                raise self._loss()
            check(getattr(library(), function)(self._pointer, argument))

    def _why(self) -> Loss:
        """The reason of a loss, also if the thread has not noted it yet."""
        with self._lock:
            if self._reason is Loss.NONE and self._pointer:
                self._reason = _loss_of(library().bw_reason(self._pointer))
            return self._reason

    def _loss(self) -> LeadershipLost:
        self._why()
        name = self._settings.election.decode()
        return LeadershipLost(f"the leadership of '{name}' with token {self._token} is over: {self._reason.name.lower()}", self._reason)

    # ---- the thread ----

    def _start(self) -> None:
        """Starts the thread with signals blocked: a signal that it received would not wake the main
        thread, which runs the handlers."""
        faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
        try:
            threading.Thread(target=self._run, name="bellwether-leader", daemon=True).start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _run(self) -> None:
        try:
            self._open()
            self._campaign()
        except BaseException as error:  # for the thread that waits
            self._close()
            self._closed.set_result(None)
            self._elected.set_exception(error)
            return
        self._elected.set_result(None)
        if library().bw_wait_lost(self._pointer, FOREVER) == 0:
            self._note_loss()
        self._work_ended.wait()
        self._close()
        self._closed.set_result(None)

    def _open(self) -> None:
        c, s, options, handle = library(), self._settings, Options(), c_void_p()
        check(c.bw_options_init(byref(options), sizeof(options)))
        options.id, options.ttl_ms, options.kill_after_ms, options.margin_ms = s.id, s.ttl_ms, s.kill_after_ms, s.margin_ms
        check(c.bw_open(s.store, byref(options), byref(handle)))
        self._id = c.bw_id(handle).decode(errors="replace")
        with self._lock:
            self._handle = handle
        if self._work_ended.is_set():
            raise Error("interrupted", EINTERRUPTED)

    def _campaign(self) -> None:
        c, s, options, pointer = library(), self._settings, CampaignOptions(), c_void_p()
        check(c.bw_campaign_options_init(byref(options), sizeof(options)))
        if s.timeout_ms == FOREVER:
            self._warn_if_unreachable()
        options.value, options.priority, options.preferred, options.overdue = s.value, s.priority, s.preferred, s.overdue
        check(c.bw_campaign(self._handle, s.election, byref(options), s.timeout_ms, byref(pointer)))
        with self._lock:
            self._pointer, self._token = pointer, c.bw_token(pointer)

    def _warn_if_unreachable(self) -> None:
        """A wait without a limit reports nothing while the store does not answer."""
        info = Info()
        check(library().bw_leader_info_init(byref(info), sizeof(info)))
        if library().bw_leader(self._handle, self._settings.election, byref(info)) == EIO:
            logging.getLogger("bellwether").warning("cannot reach the store: %s; waiting for it without limit", why())

    def _note_loss(self) -> None:
        with self._lock:
            self._reason = _loss_of(library().bw_reason(self._pointer))
            self._is_lost, listener = True, self._listener
        self.lost.set()
        if listener:
            listener()

    def _close(self) -> None:
        """The work has ended: releases the leadership and closes the store."""
        with self._lock:
            pointer, self._pointer = self._pointer, None
        if pointer:
            library().bw_resign(pointer)
        with self._lock:
            handle, self._handle = self._handle, None
        if handle:
            library().bw_close(handle)
        self.lost.set()

    # ---- the block ----

    def _listen(self, listener: Callable[[], None]) -> None:
        """Calls `listener` at the loss, in any thread; at once if it has happened."""
        with self._lock:
            self._listener = listener
            if not self._is_lost:
                return
        listener()

    def _end(self) -> bool:
        """The block has ended. Returns whether the leadership was lost before."""
        lost = not self.is_leader
        if lost:
            self._why()
        self._work_ended.set()
        with self._lock:
            if self._handle:
                library().bw_interrupt(self._handle)
        return lost


_live: "weakref.WeakSet[Leadership]" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for lead in list(_live):
        lead.lost = threading.Event()  # another thread of the parent may have held the lock of the old one
        lead.lost.set()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """None: a function in C that does not tell."""
    try:
        return inspect.signature(function)
    except ValueError:
        return None


def _place_of_leadership(function: Callable[..., Any]) -> int:
    """Where the decorator inserts the leadership among the arguments: 1 for a method, after self or
    cls; otherwise 0. Raises TypeError for a function that it cannot run as leader."""
    kind = type(function).__name__
    if isinstance(function, staticmethod | classmethod):
        raise TypeError(f"cannot decorate a {kind}: write @{kind} above the decorator of Leader")
    if not callable(function):
        raise TypeError(f"Leader decorates a function, got {kind}")
    name = getattr(function, "__qualname__", repr(function))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"cannot decorate the generator function {name}: its body would run after the leadership has ended; use 'with' inside it")
    signature = _signature_of(function)
    if not signature:
        return 0
    parameters = list(signature.parameters.values())
    place = 1 if parameters and parameters[0].name in ("self", "cls") else 0
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    takes_any = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    if not takes_any and (len(parameters) <= place or parameters[place].kind not in positional):
        where = f"after {parameters[0].name}" if place else "in the first place"
        raise TypeError(f"cannot decorate {name}: it needs a parameter for the leadership {where}")
    return place


def _signature_for_callers(function: Callable[..., Any], place: int) -> inspect.Signature | None:
    """The signature without the parameter that the decorator fills in."""
    signature = _signature_of(function)
    if not signature:
        return None
    parameters = list(signature.parameters.values())
    if len(parameters) > place and parameters[place].kind is not inspect.Parameter.VAR_POSITIONAL:
        del parameters[place]
    return signature.replace(parameters=parameters)


class Leader:
    """A candidate of one election. Enter it to wait until elected:

        with bellwether.Leader("sqlite:/var/lib/app/elections.db", "nightly") as lead:
            ...

    `with` raises LeadershipLost at the end of the block if the leadership was lost inside it.
    `async with` also cancels the block at the loss, and raises LeadershipLost in its place.
    As a decorator, each call of the function waits until elected and passes the leadership on:

        @bellwether.Leader("sqlite:/var/lib/app/elections.db", "nightly")
        def report(lead): ...

    A method receives it after self: def report(self, lead). Write @classmethod or @staticmethod
    above the decorator.

    timeout: maximum time to wait for the election in seconds (0: only if it is free; default: forever)
    id: our id, unique among all candidates (default: host, process and a random number)
    value: published with the leadership, for example an address
    ttl, kill_after, margin: times of the lease in seconds, as in the C library
    priority, preferred: candidates with a higher priority go first; a preferred one asks for a transfer
    overdue: "report": work that outlives its leadership goes on, and only guards stop its writes;
        "abort": the process ends before another candidate can lead"""

    def __init__(
        self,
        store: str,
        election: str,
        *,
        timeout: float | None = None,
        id: str | None = None,
        value: str = "",
        ttl: float | None = None,
        kill_after: float | None = None,
        margin: float | None = None,
        priority: int = 0,
        preferred: bool = False,
        overdue: Literal["report", "abort"] = "report",
    ) -> None:
        if overdue not in ("report", "abort"):
            raise InvalidArgument(f"invalid overdue '{overdue}': expected 'report' or 'abort'")
        if not -(2**31) <= priority < 2**31:
            raise InvalidArgument(f"invalid priority {priority}: expected a 32-bit integer")
        if timeout is not None and not 0 <= timeout <= 1e9:
            raise InvalidArgument(f"invalid timeout: expected 0 to 1e9 seconds, got {timeout}")
        self._settings = _Settings(
            store=text("store", store),
            election=text("election", election),
            id=None if id is None else text("id", id),
            value=text("value", value),
            ttl_ms=milliseconds("ttl", ttl),
            kill_after_ms=milliseconds("kill_after", kill_after),
            margin_ms=milliseconds("margin", margin),
            priority=priority,
            preferred=preferred,
            timeout_ms=FOREVER if timeout is None else round(timeout * 1000),
            overdue=OVERDUE_ABORT if overdue == "abort" else OVERDUE_REPORT,
        )
        self._lead: Leadership | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        self._cancelled = False  # by the loss

    def _begin(self) -> Leadership:
        if self._lead:
            raise InvalidArgument("this Leader is already entered; make one for each block")
        library()  # if it cannot be loaded, this thread reports it
        self._lead, self._task, self._cancelled = Leadership(self._settings), None, False
        self._lead._start()
        return self._lead

    def _leave(self) -> Leadership:
        lead, self._lead = self._lead, None
        assert lead is not None
        return lead

    # ---- with ----

    def __enter__(self) -> Leadership:
        lead = self._begin()
        try:
            _wait(lead._elected)
        except BaseException:
            self._leave()._end()
            _wait(lead._closed)
            raise
        return lead

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        lead = self._leave()
        if os.getpid() != lead._pid:
            return  # a forked child: the leadership is the parent's
        lost = lead._end()
        _wait(lead._closed)
        if lost and kind is None:
            raise lead._loss()

    # ---- async with ----

    async def __aenter__(self) -> Leadership:
        lead = self._begin()
        try:
            await asyncio.wrap_future(lead._elected)
        except BaseException:
            self._leave()._end()
            await asyncio.wrap_future(lead._closed)
            raise
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling = self._task.cancelling()
        loop = asyncio.get_running_loop()

        def notify() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._cancel, lead)

        lead._listen(notify)
        return lead

    def _cancel(self, lead: Leadership) -> None:
        if self._lead is lead and self._task:  # the block has not ended
            self._cancelled = True
            self._task.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        lead = self._leave()
        if os.getpid() != lead._pid:
            return
        lost = lead._end()
        cancelled_by_others = False
        if self._cancelled and self._task:
            cancelled_by_others = self._task.uncancel() > self._cancelling
        await asyncio.wrap_future(lead._closed)
        if cancelled_by_others:
            return
        if (lost and kind is None) or (self._cancelled and kind is asyncio.CancelledError):
            raise lead._loss() from error

    # ---- decorator ----

    def _copy(self) -> "Leader":
        copy = Leader.__new__(Leader)
        copy.__dict__.update(self.__dict__, _lead=None, _task=None, _cancelled=False)
        return copy

    @overload
    def __call__(self, function: Callable[Concatenate[Leadership, P], R]) -> Callable[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[S, Leadership, P], R]) -> Callable[Concatenate[S, P], R]: ...

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        place = _place_of_leadership(function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._copy() as lead:
                return function(*args[:place], lead, *args[place:], **kwargs)

        @functools.wraps(function)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            async with self._copy() as lead:
                return await function(*args[:place], lead, *args[place:], **kwargs)

        decorated = run_async if inspect.iscoroutinefunction(function) else run
        decorated.__signature__ = _signature_for_callers(function, place)  # type: ignore[attr-defined]
        return decorated
