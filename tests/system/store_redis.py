#!/usr/bin/env python3
"""The Redis store on real servers: one, five (Redlock), one behind sentinels, TLS; faults, strangers, hostile replies.

    store_redis.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from store_lib import Place, Server, Skip, Suite, free_ports, program  # noqa: E402

suite = Suite()


def redis(place, name="redis", port=None, more=()):
    """A server of its own: no file but its log, no memory of an earlier run."""
    port = port or free_ports()[0]
    words = [program("redis-server", "redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--dir", place.folder(name), "--daemonize", "no", *more]
    return Server(place, name, words, port=port)


@suite.test
def conformance_one():
    with Place("redis") as place:
        server = redis(place).start()
        suite.run_conformance("one", f"redis://127.0.0.1:{server.port}")


if __name__ == "__main__":
    suite.main()
