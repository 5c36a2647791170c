"""Guards: storage that rejects the writes of a former leader."""
import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from ctypes import byref, c_void_p, create_string_buffer
from types import TracebackType
from typing import Any

from ._errors import EBUSY, EINVAL, ENOTOKEN, ESTALE, Error, InvalidArgument, StaleToken, error_of
from ._library import GUARD_WHY_SIZE, Verdict, library

TOKEN_MAX = 2**64 - 1
SQLITE_TOKEN_MAX = 2**63 - 1
HOLD_STEP_S = 0.1  # the wait for a lock returns this often, so that Python can handle signals


class Guard:
    """The guard of the file `path`. It keeps the highest token ever accepted in PATH.guard, durably.

    Any thread may use it; the checks run one after the other, and so do the blocks of hold()."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        guard, reason = c_void_p(), create_string_buffer(GUARD_WHY_SIZE)
        self._guard: c_void_p | None = None
        self._lock = threading.Lock()
        self._holder = threading.Lock()  # held by the thread that is inside hold()
        self._holding: int | None = None  # that thread
        name = os.fsencode(path)
        if b"\0" in name:
            raise InvalidArgument("invalid path: contains a zero byte", EINVAL)
        code = library().bw_guard_open(byref(guard), name, reason)
        if code:
            raise error_of(code, reason.value.decode(errors="replace"))
        self._guard = guard

    @contextlib.contextmanager
    def hold(self, token: int, timeout: float | None = None) -> Iterator[None]:
        """Checks the token and locks the guard for the block. Write to the file inside the block:

            with guard.hold(lead.token):
                file.write(...)

        A newer leader that uses hold(), too, waits until the block has ended, also if this process is
        stopped inside it. Raises StaleToken if a newer token was accepted before. Waits for other
        holders at most `timeout` seconds (default: forever); then raises Error with code EBUSY."""
        until = None if timeout is None else time.monotonic() + timeout
        if self._holding == threading.get_ident():
            raise InvalidArgument("this thread already holds the guard", EINVAL)
        if not self._holder.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise Error("another thread still holds the guard; gave up waiting", EBUSY)
        try:
            while not self._try_hold(token, until):
                pass
            self._holding = threading.get_ident()
            try:
                yield
            finally:
                self._holding = None
                with self._lock:
                    library().bw_guard_release(self._guard)
        finally:
            self._holder.release()

    def _try_hold(self, token: int, until: float | None) -> bool:
        """True: held. False: another process still holds it, and there is time left."""
        left = HOLD_STEP_S if until is None else max(until - time.monotonic(), 0)
        verdict = Verdict()

        def hold(reason: Any) -> int:
            return int(library().bw_guard_hold(self._guard, token, round(min(left, HOLD_STEP_S) * 1000), byref(verdict), reason))

        code, why = self._call(token, hold)
        if code == EBUSY and verdict.error == 0 and left > 0:
            return False
        if code:
            raise error_of(code, why)
        return True

    def check(self, token: int) -> None:
        """Accepts the token, and rejects every older one from now on. Raises StaleToken if a newer
        token was accepted before. A newer leader can write between this check and a write that
        follows it: use hold() if a late write must be impossible."""
        code, why = self._call(token, lambda reason: int(library().bw_guard_check(self._guard, token, None, reason)))
        if code:
            raise error_of(code, why)

    def _call(self, token: int, function: Callable[[Any], int]) -> tuple[int, str]:
        reason = create_string_buffer(GUARD_WHY_SIZE)
        if not 0 <= token <= TOKEN_MAX:
            raise InvalidArgument(f"invalid token {token}: expected 1 to 2^64-1", EINVAL)
        with self._lock:
            if not self._guard:
                raise InvalidArgument("the guard is closed", EINVAL)
            code = function(reason)
        return code, reason.value.decode(errors="replace")

    def close(self) -> None:
        """Closes the guard; the second call does nothing."""
        with self._lock:
            guard, self._guard = self._guard, None
            library().bw_guard_close(guard)

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


# The statements of src/fence/guard_sqlite.c: C programs and `bellwether guard` use the same rows.
_CREATE = """
CREATE TABLE IF NOT EXISTS bellwether_guard (
    resource TEXT NOT NULL PRIMARY KEY,
    token INTEGER NOT NULL CHECK (typeof(token) = 'integer' AND token > 0)
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS bellwether_guard_grows BEFORE UPDATE ON bellwether_guard
WHEN NEW.token < OLD.token OR NEW.resource <> OLD.resource BEGIN
    SELECT RAISE(ABORT, 'ESTALE: a token older than the highest seen, in bellwether_guard');
END;
CREATE TRIGGER IF NOT EXISTS bellwether_guard_stays BEFORE DELETE ON bellwether_guard BEGIN
    SELECT RAISE(ABORT, 'EDENIED: the highest token must not be forgotten');
END;
"""


def create_sqlite_guard(connection: sqlite3.Connection) -> None:
    """Creates the table of the guard, if it does not exist. Commits a pending transaction."""
    connection.executescript(_CREATE)


def check_sqlite(connection: sqlite3.Connection, resource: str, token: int) -> None:
    """Checks the token inside the transaction that writes. Call it first, then write, then commit.

        with connection:
            connection.execute("BEGIN IMMEDIATE")
            bellwether.check_sqlite(connection, "orders", lead.token)
            connection.execute("UPDATE orders ...")

    Raises StaleToken if a newer token has written; `with connection` then rolls back."""
    if token == 0:
        raise InvalidArgument(f"{resource}: no fencing token was given", ENOTOKEN)
    if not 0 < token <= SQLITE_TOKEN_MAX:
        raise InvalidArgument(f"invalid token {token}: expected 1 to 2^63-1", EINVAL)
    if not connection.in_transaction:
        raise InvalidArgument("no transaction is open: the check must be part of the one that writes", EINVAL)
    connection.execute(
        "INSERT INTO bellwether_guard (resource, token) VALUES (?1, ?2) "
        "ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token",
        (resource, token),
    )
    (highest,) = connection.execute("SELECT token FROM bellwether_guard WHERE resource = ?1", (resource,)).fetchone()
    if token < highest:
        raise StaleToken(f"{resource}: token {token} is older than {highest}", ESTALE)
