"""Guards: storage that rejects the writes of a former leader."""
import os
import sqlite3
import threading
from ctypes import byref, c_void_p, create_string_buffer
from types import TracebackType

from ._errors import EINVAL, ENOTOKEN, ESTALE, InvalidArgument, StaleToken, error_of
from ._library import GUARD_WHY_SIZE, library

TOKEN_MAX = 2**64 - 1
SQLITE_TOKEN_MAX = 2**63 - 1


class Guard:
    """The guard of the file `path`. It keeps the highest token ever accepted in PATH.guard, durably.

    Any thread may use it; the checks run one after the other."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        guard, reason = c_void_p(), create_string_buffer(GUARD_WHY_SIZE)
        self._guard: c_void_p | None = None
        self._lock = threading.Lock()
        name = os.fsencode(path)
        if b"\0" in name:
            raise InvalidArgument("invalid path: contains a zero byte", EINVAL)
        code = library().bw_guard_open(byref(guard), name, reason)
        if code:
            raise error_of(code, reason.value.decode(errors="replace"))
        self._guard = guard

    def check(self, token: int) -> None:
        """Accepts the token, and rejects every older one from now on. Raises StaleToken if a newer
        token was accepted before."""
        reason = create_string_buffer(GUARD_WHY_SIZE)
        if not 0 <= token <= TOKEN_MAX:
            raise InvalidArgument(f"invalid token {token}: expected 1 to 2^64-1", EINVAL)
        with self._lock:
            if not self._guard:
                raise InvalidArgument("the guard is closed", EINVAL)
            code = library().bw_guard_check(self._guard, token, None, reason)
        if code:
            raise error_of(code, reason.value.decode(errors="replace"))

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
