"""Leader election: exactly one of many instances acts.

    with bellwether.Leader("etcd://db1,db2,db3", "nightly") as lead:
        for row in rows:
            lead.check()                  # raises LeadershipLost
            store(row, token=lead.token)  # the storage rejects older tokens

`Leader` works with `with`, with `async with` and as a decorator; `Observer` follows the leader;
`Guard` and `check_sqlite` reject the writes of a former leader. The store URLs are those of
the command `bellwether` and of the C library, which does the work (libbellwether.so.0)."""
from ._errors import (
    Error,
    Forked,
    InvalidArgument,
    LeadershipLost,
    Loss,
    NotElected,
    StaleToken,
    StoreError,
)
from ._guard import Guard, check_sqlite, create_sqlite_guard
from ._leader import Leader, Leadership
from ._library import library_version
from ._observer import LeaderInfo, Observer

__all__ = [
    "Error",
    "Forked",
    "Guard",
    "InvalidArgument",
    "Leader",
    "LeaderInfo",
    "Leadership",
    "LeadershipLost",
    "Loss",
    "NotElected",
    "Observer",
    "StaleToken",
    "StoreError",
    "check_sqlite",
    "create_sqlite_guard",
    "library_version",
]
