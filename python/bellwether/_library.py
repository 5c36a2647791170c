"""The C library, loaded when it is first needed: its structs and functions, as in <bellwether.h>.

No callback runs on the library's own thread. There it would wait for Python's global lock, and the
library could renew nothing meanwhile."""
import ctypes
import functools
import os
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

from ._errors import Error, InvalidArgument, error_of

FOREVER = -1
GUARD_WHY_SIZE = 512
OVERDUE_ABORT, OVERDUE_REPORT = 1, 2
LeaderChanged = CFUNCTYPE(None, c_void_p, c_char_p, c_uint64, c_char_p, c_void_p)


class Options(Structure):
    """struct bw_options"""

    _fields_ = [
        ("size", c_size_t),
        ("id", c_char_p),
        ("ttl_ms", c_int64),
        ("kill_after_ms", c_int64),
        ("margin_ms", c_int64),
        ("retry_ms", c_int64),
        ("grace_ms", c_int64),
        ("drift_ppm", c_uint32),
        ("pollable", c_bool),
        ("elected", c_void_p),
        ("lost", c_void_p),
        ("leader_changed", LeaderChanged),
        ("prepare", c_void_p),
        ("clock_uncertainty_ms", c_int64),
    ]


class CampaignOptions(Structure):
    """struct bw_campaign_options"""

    _fields_ = [
        ("size", c_size_t),
        ("value", c_char_p),
        ("ttl_ms", c_int64),
        ("priority", c_int32),
        ("preferred", c_bool),
        ("observer", c_bool),
        ("overdue", c_int),
        ("context", c_void_p),
    ]


class Verdict(Structure):
    """struct bw_guard_verdict"""

    _fields_ = [("error", c_int), ("token", c_uint64), ("highest", c_uint64), ("newer", c_bool)]


class Info(Structure):
    """struct bw_leader_info"""

    _fields_ = [("size", c_size_t), ("id", c_char * 64), ("token", c_uint64), ("value", c_char * 1024)]


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "bw_version": (c_char_p, []),
    "bw_why": (c_char_p, []),
    "bw_options_init": (c_int, [POINTER(Options), c_size_t]),
    "bw_campaign_options_init": (c_int, [POINTER(CampaignOptions), c_size_t]),
    "bw_leader_info_init": (c_int, [POINTER(Info), c_size_t]),
    "bw_open": (c_int, [c_char_p, POINTER(Options), POINTER(c_void_p)]),
    "bw_close": (c_int, [c_void_p]),
    "bw_interrupt": (None, [c_void_p]),
    "bw_id": (c_char_p, [c_void_p]),
    "bw_campaign": (c_int, [c_void_p, c_char_p, POINTER(CampaignOptions), c_int64, POINTER(c_void_p)]),
    "bw_contend": (c_int, [c_void_p, c_char_p, POINTER(CampaignOptions), POINTER(c_void_p)]),
    "bw_resign": (c_int, [c_void_p]),
    "bw_transfer": (c_int, [c_void_p, c_char_p]),
    "bw_healthy": (c_int, [c_void_p, c_bool]),
    "bw_is_leader": (c_bool, [c_void_p]),
    "bw_valid_ms": (c_int64, [c_void_p]),
    "bw_token": (c_uint64, [c_void_p]),
    "bw_reason": (c_int, [c_void_p]),
    "bw_wait_lost": (c_int, [c_void_p, c_int64]),
    "bw_leader": (c_int, [c_void_p, c_char_p, POINTER(Info)]),
    "bw_fd": (c_int, [c_void_p]),
    "bw_dispatch": (c_int, [c_void_p]),
    "bw_guard_open": (c_int, [POINTER(c_void_p), c_char_p, c_char_p]),
    "bw_guard_check": (c_int, [c_void_p, c_uint64, c_void_p, c_char_p]),
    "bw_guard_hold": (c_int, [c_void_p, c_uint64, c_int64, POINTER(Verdict), c_char_p]),
    "bw_guard_release": (None, [c_void_p]),
    "bw_guard_close": (None, [c_void_p]),
}


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded library, with the types of all functions that this package calls."""
    name = os.environ.get("BELLWETHER_LIBRARY") or "libbellwether.so.0"
    try:
        loaded = ctypes.CDLL(name)
        for function, (result, arguments) in _FUNCTIONS.items():
            getattr(loaded, function).restype = result
            getattr(loaded, function).argtypes = arguments
    except (OSError, AttributeError) as error:
        raise Error(
            f"cannot load {name}: {error}; install libbellwether0 0.2.0 or newer, or set BELLWETHER_LIBRARY to the path of the library"
        ) from error
    return loaded


def library_version() -> str:
    """Version of the loaded C library, for example "0.2.0"."""
    return str(library().bw_version().decode())


def why() -> str:
    """Cause of the last failed call of this thread."""
    return str(library().bw_why().decode(errors="replace"))


def check(code: int) -> None:
    """Raises the exception for an error code."""
    if code < 0:
        raise error_of(code, why())


def text(name: str, value: str) -> bytes:
    """A string for C."""
    if not isinstance(value, str):
        raise TypeError(f"invalid {name}: expected a string, got {type(value).__name__}")
    if "\0" in value:
        raise InvalidArgument(f"invalid {name}: contains a zero byte")
    return value.encode()


def milliseconds(name: str, seconds: float | None) -> int:
    """A time for an option; None is the default of the library."""
    if seconds is None:
        return 0
    if not 0.001 <= seconds <= 365 * 86400:
        raise InvalidArgument(f"invalid {name}: expected 0.001 to 31536000 seconds, got {seconds}")
    return round(seconds * 1000)
