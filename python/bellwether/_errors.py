"""Exceptions, one per kind of error that a program handles differently."""
import enum

EINVAL, EVERSION, ENOTLEADER, EBUSY, ESTALE, EIO, EDAMAGED = -1, -6, -7, -9, -10, -15, -16
EDENIED, EUNSUPPORTED, ENOTOKEN, ETIMEDOUT, EFORKED, EINTERRUPTED = -17, -18, -19, -20, -21, -23


class Loss(enum.Enum):
    """Why a leadership ended; the numbers of `enum bw_loss`."""

    NONE = 0
    EXPIRED = 1
    TAKEN = 2
    RESIGNED = 3
    TRANSFERRED = 4
    UNHEALTHY = 5
    UNREACHABLE = 6
    SHUT_DOWN = 7
    FINISHED = 8


class Error(Exception):
    """An error of the library. `code` is the negative number of `enum bw_error`."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class InvalidArgument(Error, ValueError):
    """An argument, a store URL or an option is invalid; a retry fails again."""


class StoreError(Error):
    """The store, or the file of a guard, cannot be reached, read, written or understood."""


class NotElected(Error):
    """Not elected within the timeout."""


class Forked(Error):
    """The object belongs to the parent process, or the parent had a store open at the fork."""


class StaleToken(Error):
    """A guard has accepted a newer token: another leader has written. Stop the work."""


class LeadershipLost(Error):
    """The leadership is over, and so must be the work. `reason` says why."""

    def __init__(self, message: str, reason: Loss) -> None:
        super().__init__(message, ENOTLEADER)
        self.reason = reason


_KINDS: dict[int, type[Error]] = {
    EINVAL: InvalidArgument,
    EVERSION: StoreError,
    ESTALE: StaleToken,
    EIO: StoreError,
    EDAMAGED: StoreError,
    EDENIED: StoreError,
    EUNSUPPORTED: StoreError,
    ENOTOKEN: InvalidArgument,
    ETIMEDOUT: NotElected,
    EFORKED: Forked,
}


def error_of(code: int, why: str) -> Error:
    """The exception for an error code."""
    return _KINDS.get(code, Error)(why, code)
