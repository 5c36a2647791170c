#!/usr/bin/env python3
"""Writes znodes only with a token at least as high as the highest that their guard has seen.

    zookeeper_guard.py HOSTS GUARD TOKEN [PATH VALUE]...

GUARD is a znode that contains the highest token in decimal digits. One transaction (a multi, here kazoo's) sets GUARD, if it
still has the version that was read, and writes the other znodes. ZooKeeper does all of it or nothing. If another client wrote in
between, the transaction fails and is tried again. In any language: get GUARD; compare the tokens; multi(setData GUARD TOKEN if
version, setData PATH ...). Every writer must use this guard. Do not delete GUARD.

Exit code 0: written. 77: ESTALE, the token is older. 64: ENOTOKEN, or wrong usage. 74: ZooKeeper did not answer."""
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.handlers.threading import KazooTimeoutError


class Stale(Exception):
    pass


def guarded_write(client, guard, token, pairs, tries=10):
    """Raises Stale if a newer leader has written. After any other exception either nothing or everything was written."""
    if token <= 0:
        raise ValueError("ENOTOKEN: no fencing token was given")
    for _ in range(tries):
        transaction = client.transaction()
        try:
            seen, stat = client.get(guard)
            if token < int(seen or b"0"):
                raise Stale(f"ESTALE: token {token} is older than {int(seen)}, the highest seen")
            transaction.set_data(guard, b"%d" % token, stat.version)
        except NoNodeError:
            client.ensure_path(guard.rpartition("/")[0] or "/")
            transaction.create(guard, b"%d" % token)
        for path, value in pairs:
            if client.exists(path):
                transaction.set_data(path, value)
            else:
                transaction.create(path, value)
        failed = [x for x in transaction.commit() if isinstance(x, Exception)]
        if not failed:
            return
        again = (BadVersionError, NodeExistsError, NoNodeError, RolledBackError, RuntimeInconsistency)
        for error in failed:
            if not isinstance(error, again):
                raise error
    raise TimeoutError("other clients changed the guard during every attempt, or a parent of a path is missing")


def main(hosts, guard, token, *words):
    if len(words) % 2 or not token.isdigit() or int(token) == 0:
        print("ENOTOKEN, or usage: zookeeper_guard.py HOSTS GUARD TOKEN [PATH VALUE]...", file=sys.stderr)
        return 64
    client = KazooClient(hosts=hosts, timeout=10)
    try:
        client.start(10)
        guarded_write(client, guard, int(token), [(p, v.encode()) for p, v in zip(words[::2], words[1::2])])
    except Stale as stale:
        print(stale, file=sys.stderr)
        return 77
    except (KazooException, KazooTimeoutError, TimeoutError) as error:
        print(f"ZooKeeper: {type(error).__name__} {error}", file=sys.stderr)
        return 74
    finally:
        client.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 3 else 64)
