#!/usr/bin/env python3
"""What an operator of `bellwether serve` can get wrong, and the sentence that answers it. Members are in serve_members.py, certificates,
roles and secrets in serve_tls.py, disks and copied directories in serve_faults.py.

    serve_operator.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from serve_lib import Nodes, b64
from store_lib import PATIENCE_S, Place, Suite, free_ports

SUITE = Suite()
USAGE, DATA, IO = 64, 65, 74


def refused(place, code, *words):
    """What it says when it does not start."""
    data = [] if "--data" in words else ["--data", os.path.join(place.dir, "data")]
    listen = [] if "--listen" in words else ["--listen", "127.0.0.1:0"]
    done = subprocess.run([os.path.abspath(SUITE.bellwether), "serve", *data, *listen, *words], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == code, f"{words}: {done}"
    assert done.stderr.count("\n") <= 2 and not done.stdout, f"one sentence, not {done}"
    return done.stderr


@SUITE.test
def times_that_do_not_fit_together_are_refused_and_the_inequality_is_named():
    with Place("operator") as place:
        for words, numbers in ((["--detect", "50ms", "--heartbeat", "40ms"], "(50 ms) must be at least 2.5 x --heartbeat (40 ms)"),
                               (["--detect", "150ms"], "(150 ms) must be at least 2.5 x --heartbeat (100 ms)"),
                               (["--heartbeat", "200ms"], "(250 ms) must be at least 2.5 x --heartbeat (200 ms)")):
            assert f"--detect {numbers}" in refused(place, USAGE, *words)
        assert "--bind-hold-off must be at least" in refused(place, USAGE, "--bind-hold-off", "1ms")
        assert "--heartbeat: '0s'" in refused(place, USAGE, "--heartbeat", "0s")
        assert "--detect: '-1s'" in refused(place, USAGE, "--detect", "-1s")
        assert "--detect: '99999999999999999999s'" in refused(place, USAGE, "--detect", "99999999999999999999s")
        assert not os.path.exists(os.path.join(place.dir, "data")), "refused, but the disk was touched"


@SUITE.test
def clusters_that_cannot_be_are_refused():
    with Place("operator") as place:
        assert "'a=1.2.3.4' is not NAME=HOST:PORT" in refused(place, USAGE, "--cluster", "a=1.2.3.4", "--node", "a")
        assert "'' is not NAME=HOST:PORT" in refused(place, USAGE, "--cluster", ",", "--node", "a")
        assert "'a' stands there twice" in refused(place, USAGE, "--cluster", "a=127.0.0.1:1,a=127.0.0.1:2", "--node", "a")
        assert "--cluster needs --node" in refused(place, USAGE, "--cluster", "a=127.0.0.1:1,b=127.0.0.1:2")
        assert "'c' is not in --cluster" in refused(place, USAGE, "--cluster", "a=127.0.0.1:1,b=127.0.0.1:2", "--node", "c")
        many = ",".join(f"n{i}=127.0.0.1:{i + 1}" for i in range(40))
        assert "--cluster" in refused(place, USAGE, "--cluster", many, "--node", "n1")


@SUITE.test
def addresses_that_cannot_be_are_refused():
    with Place("operator") as place:
        for address in ("nowhere", "127.0.0.1:99999", "127.0.0.1:", ":2379", "127.0.0.1:2379x"):
            assert f"--listen: '{address}' is not HOST:PORT" in refused(place, USAGE, "--listen", address)


@SUITE.test
def an_address_that_is_taken_is_told():
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
def a_directory_that_cannot_be_made_is_told():
    with Place("operator") as place:
        assert "cannot make /proc/nowhere" in refused(place, IO, "--data", "/proc/nowhere")
        assert "Not a directory" in refused(place, DATA, "--data", place.file("file", "") + "/inside")


@SUITE.test
def data_of_a_newer_version_is_refused_and_not_touched():
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
def a_segment_that_is_missing_is_told():
    with Place("operator") as place:
        nodes = Nodes(place, SUITE.bellwether)
        for number in range(20):
            assert nodes.post("/v3/kv/put", {"key": b64(f"k{number}"), "value": b64("v" * (1 << 20))})[0] == 200
        nodes.servers[0].kill()
        segments = sorted(glob.glob(place.folder("n0") + "/wal-0*.log"))
        assert len(segments) > 1
        os.remove(segments[0])
        said = refused(place, DATA, "--data", place.folder("n0"), "--node", "n0")
        assert "from a copy" in said, said


@SUITE.test
def settings_of_a_file_that_make_no_sense_are_told_with_their_line():
    with Place("operator") as place:
        said = refused(place, USAGE, "--config", place.file("a.conf", "[serve]\ndetekt = 1s\n"))
        assert "a.conf" in said and "2" in said and "detekt" in said, said
        said = refused(place, USAGE, "--config", place.file("b.conf", "[serve]\nheartbeat = soon\n"))
        assert "b.conf" in said and "soon" in said, said


@SUITE.test
def a_password_has_no_place_on_the_command_line():
    with Place("operator") as place:
        said = refused(place, USAGE, "--hash-password", "bob:admin:secret")
        assert "secret" not in said.replace("--hash-password", ""), said


if __name__ == "__main__":
    SUITE.main(at_once=3)
