#!/usr/bin/env python3
"""Mistakes of an operator of `bellwether serve`, and the messages that explain them. Members are in
serve_members.py, certificates, roles and secrets in serve_tls.py, disks and copied directories in
serve_faults.py.

    serve_operator.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from serve_lib import Nodes, b64
from store_lib import TIMEOUT_S, Place, Skip, Suite, free_ports

SUITE = Suite()
USAGE, DATA, IO = 64, 65, 74


def refused(place, code, *words):
    """Its output when it refuses to start."""
    data = [] if "--data" in words else ["--data", os.path.join(place.dir, "data")]
    listen = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]
    done = subprocess.run([os.path.abspath(SUITE.bellwether), "serve", *data, *listen, *words], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    assert done.returncode == code, f"{words}: {done}"
    assert done.stderr.count("\n") <= 2 and not done.stdout, f"one sentence, not {done}"
    return done.stderr


@SUITE.test
def inconsistent_times_are_refused_with_the_values_that_would_do():
    with Place("operator") as place:
        for words, values in ((["--detect", "50ms", "--heartbeat", "40ms"], "use --detect 100ms or more, or --heartbeat 20ms or less"),
                              (["--detect", "150ms", "--heartbeat", "1s"], "use --detect 2.5s or more, or --heartbeat 60ms or less")):
            assert values in refused(place, USAGE, *words)
        assert "use --bind-hold-off 100ms or more" in refused(place, USAGE, "--bind-hold-off", "1ms")
        assert "--heartbeat: invalid duration '0s'" in refused(place, USAGE, "--heartbeat", "0s")
        assert "--detect: invalid duration '-1s'" in refused(place, USAGE, "--detect", "-1s")
        assert "--detect: invalid duration '99999999999999999999s'" in refused(place, USAGE, "--detect", "99999999999999999999s")
        assert not os.path.exists(os.path.join(place.dir, "data")), "refused, but the disk was touched"


@SUITE.test
def limit_of_the_address_space_is_named():
    if "ASAN_OPTIONS" in os.environ:
        raise Skip("AddressSanitizer needs more address space itself")
    with Place("operator") as place:
        done = subprocess.run(["prlimit", "--as=4000000000", os.path.abspath(SUITE.bellwether), "serve", "--data", place.folder("data"),
                               "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == IO, done
        assert "cannot reserve" in done.stderr and "raise `ulimit -v`" in done.stderr, done.stderr


@SUITE.test
def invalid_clusters_are_refused():
    with Place("operator") as place:
        assert "'a=1.2.3.4': expected NAME=HOST:PORT" in refused(place, USAGE, "--cluster", "a=1.2.3.4", "--node", "a")
        assert "'': expected NAME=HOST:PORT" in refused(place, USAGE, "--cluster", ",", "--node", "a")
        assert "duplicate node a" in refused(place, USAGE, "--cluster", "a=127.0.0.1:1,a=127.0.0.1:2", "--node", "a")
        assert "--cluster needs --node" in refused(place, USAGE, "--cluster", "a=127.0.0.1:1,b=127.0.0.1:2")
        assert "'c' is not in --cluster" in refused(place, USAGE, "--cluster", "a=127.0.0.1:1,b=127.0.0.1:2", "--node", "c")
        many = ",".join(f"n{i}=127.0.0.1:{i + 1}" for i in range(40))
        assert "--cluster" in refused(place, USAGE, "--cluster", many, "--node", "n1")


@SUITE.test
def invalid_addresses_are_refused():
    with Place("operator") as place:
        for address in ("nowhere", "127.0.0.1:99999", "127.0.0.1:", ":2379", "127.0.0.1:2379x"):
            assert f"invalid --listen '{address}': expected HOST:PORT" in refused(place, USAGE, "--listen", address)


@SUITE.test
def address_in_use_is_reported():
    with Place("operator") as place:
        nodes = Nodes(place, SUITE.bellwether)
        said = refused(place, IO, "--listen", f"127.0.0.1:{nodes.ports[0]}")
        assert str(nodes.ports[0]) in said and "address already in use" in said, said


@SUITE.test
def a_directory_that_is_in_use_is_refused():
    with Place("operator") as place:
        nodes = Nodes(place, SUITE.bellwether)
        said = refused(place, IO, "--data", place.folder("n0"), "--node", "n0")
        assert f"{place.folder('n0')} is in use by another process" in said, said
        assert nodes.post("/v3/kv/put", {"key": b64("k"), "value": b64("v")})[0] == 200


@SUITE.test
def directory_that_cannot_be_created_is_reported():
    with Place("operator") as place:
        assert "cannot create data directory /proc/nowhere" in refused(place, IO, "--data", "/proc/nowhere")
        assert "Not a directory" in refused(place, DATA, "--data", place.file("file", "") + "/inside")


@SUITE.test
def data_of_a_newer_version_is_refused_and_unchanged():
    with Place("operator") as place:
        nodes = Nodes(place, SUITE.bellwether)
        nodes.servers[0].kill()
        path = sorted(glob.glob(place.folder("n0") + "/wal-0*.log"))[0]
        with open(path, "r+b") as file:
            file.seek(7)
            file.write(b"\x63")
        before = open(path, "rb").read()
        said = refused(place, DATA, "--data", place.folder("n0"), "--node", "n0")
        assert "a log of a newer version of bellwether" in said and "a newer one" in said, said
        assert open(path, "rb").read() == before


@SUITE.test
def missing_segment_is_reported():
    with Place("operator") as place:
        nodes = Nodes(place, SUITE.bellwether)
        for number in range(20):
            assert nodes.post("/v3/kv/put", {"key": b64(f"k{number}"), "value": b64("v" * (1 << 20))})[0] == 200
        nodes.servers[0].kill()
        segments = sorted(glob.glob(place.folder("n0") + "/wal-0*.log"))
        assert len(segments) > 1
        os.remove(segments[0])
        said = refused(place, DATA, "--data", place.folder("n0"), "--node", "n0")
        assert "from a backup" in said, said


@SUITE.test
def invalid_settings_of_a_file_are_reported_with_their_line():
    with Place("operator") as place:
        said = refused(place, USAGE, "--config", place.file("a.conf", "[serve]\ndetekt = 1s\n"))
        assert "a.conf" in said and "2" in said and "detekt" in said, said
        said = refused(place, USAGE, "--config", place.file("b.conf", "[serve]\nheartbeat = soon\n"))
        assert "b.conf" in said and "soon" in said, said


@SUITE.test
def password_on_the_command_line_is_refused():
    with Place("operator") as place:
        said = refused(place, USAGE, "--hash-password", "bob:admin:secret")
        assert "secret" not in said.replace("--hash-password", ""), said


if __name__ == "__main__":
    SUITE.main(at_once=3)
