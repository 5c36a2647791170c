#!/usr/bin/env python3
"""`bellwether serve` whose members change while it runs: grown and shrunk under load, its leader removed, members
killed in the middle of a change, and everything an operator can get wrong.

    serve_members.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import http.client
import os
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402
from serve_lib import Cluster, b64  # noqa: E402
from store_lib import TIMEOUT_S, Place, Suite, free_ports  # noqa: E402

suite = Suite()


class Load:
    """Puts on one node after the other; everything acknowledged must be there in the end."""

    def __init__(self, cluster):
        self.cluster, self.done, self.stop = cluster, [], threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def put(self, number):
        ports = self.cluster.ports or [1]
        try:
            status, _ = self.cluster.post("/v3/kv/put", {"key": b64(f"load/{number:06}"), "value": b64("v")},
                                          port=ports[number % len(ports)])
            return status == 200
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def run(self):
        number = 0
        while not self.stop.is_set():
            if self.put(number):
                self.done.append(number)
            number += 1

    def more(self, count=30):
        """Waits until so many more were acknowledged."""
        goal = len(self.done) + count
        def moved():
            """writes to continue"""
            return len(self.done) >= goal
        wait_for(moved, TIMEOUT_S, 0.01)

    def end(self, name):
        self.stop.set()
        self.thread.join(TIMEOUT_S)
        shown = self.cluster.ctl("get", "load/", "--prefix", "--keys-only", endpoints=self.cluster.at(name)).stdout.split()
        lost = {f"load/{n:06}" for n in self.done} - set(shown)
        assert not lost, f"{len(lost)} of {len(self.done)} acknowledged writes are gone: {sorted(lost)[:5]}"


def on(count=3):
    """A test on so many nodes."""
    def wrap(function):
        def run():
            with Place("members") as place:
                function(Cluster(place, suite.bellwether, count))
        run.__name__ = function.__name__
        suite.test(run)
        return function
    return wrap


# ---- growing and shrinking ----

@on(3)
def cluster_grows_to_five_and_shrinks_to_three_others_under_load(cluster):
    load = Load(cluster)
    for name in "de":
        cluster.add(name, "b")
        cluster.votes(name, "b")
        load.more()
    assert cluster.ctl("endpoint", "health", endpoints=",".join(cluster.at(n) for n in "abcde")).returncode == 0
    for name in "ab":
        cluster.remove(name, "d")
        code, said = cluster.ends(name)
        assert code == 0 and "was removed from the cluster" in said, (code, said)
        load.more()
    assert sorted(m["name"] for m in cluster.members("d").values()) == ["c", "d", "e"]
    load.end("e")
    for name in "cde":  # none of the first members is needed; the command lines are outdated
        cluster.nodes[name].kill()
    for name in "cde":
        cluster.nodes[name].start(wait=False)
    for name in "cde":
        cluster.nodes[name].wait_ready()
    load.end("d")
    cluster.nodes["c"].kill()
    assert cluster.ctl("put", "after", "1", endpoints=cluster.at("d")).stdout == "OK\n"


@on(3)
def leader_can_be_removed(cluster):
    leader = cluster.leads()
    other = next(n for n in "abc" if n != leader)
    cluster.remove(leader, leader)
    code, said = cluster.ends(leader)
    assert code == 0 and "was removed from the cluster" in said, (code, said)
    assert cluster.ctl("put", "a", "1", endpoints=cluster.at(other)).stdout == "OK\n"
    code = cluster.nodes[leader].start(wait=False).process.wait(TIMEOUT_S)
    assert code == 0 and cluster.nodes[leader].tail().count("was removed") == 2, cluster.nodes[leader].tail()


@on(3)
def node_removed_while_down_ends_when_it_restarts(cluster):
    cluster.nodes["c"].kill()
    cluster.remove("c", "a")
    cluster.nodes["c"].start(wait=False)
    code, said = cluster.ends("c")
    assert code == 0 and "was removed from the cluster" in said, (code, said)
    cluster.add("d", "a")
    cluster.votes("d", "a")


@on(3)
def members_killed_in_the_middle_of_a_change(cluster):
    node = cluster.add("d", "a")
    def begun():
        """d to have started"""
        return os.path.exists(os.path.join(cluster.place.dir, "d", "identity"))
    wait_for(begun, TIMEOUT_S, 0.001)
    node.kill()
    cluster.nodes[cluster.leads()].restart(wait=False)
    node.start(wait=False)
    cluster.votes("d", "a")
    cluster.nodes["d"].restart()
    assert cluster.ctl("put", "a", "1", endpoints=cluster.at("d")).stdout == "OK\n"
    for node in cluster.nodes.values():
        node.kill()
    for node in cluster.nodes.values():
        node.start(wait=False)
    for node in cluster.nodes.values():
        node.wait_ready()
    assert cluster.ctl("get", "a", endpoints=cluster.at("d")).stdout == "a\n1\n"


@on(1)
def one_node_becomes_three(cluster):
    cluster.ctl("put", "a", "1")
    cluster.nodes["a"].kill()
    cluster.make("a", "--peer", cluster.peers("a")).start()  # only now it has an address for others
    for name in "bc":
        cluster.add(name, "a")
        cluster.votes(name, "a")
    cluster.nodes["a"].kill()
    assert cluster.ctl("get", "a", endpoints=cluster.at("c")).stdout == "a\n1\n"


@on(3)
def a_node_moves_to_another_address(cluster):
    number = cluster.number("c")
    cluster.nodes["c"].kill()
    cluster.give_ports("c")
    cluster.ctl("member", "update", format(number, "x"), f"--peer-urls=http://{cluster.peers('c')}", endpoints=cluster.at("a"))
    assert cluster.members("a")[number]["peerURLs"] == [f"http://{cluster.peers('c')}"]
    cluster.make("c", "--peer", cluster.peers("c")).start()
    cluster.nodes["b"].kill()
    assert cluster.ctl("put", "a", "1", endpoints=cluster.at("c")).stdout == "OK\n"


# ---- learners ----

@on(3)
def learner_serves_no_clients_until_it_is_promoted(cluster):
    cluster.ctl("put", "a", "1")
    early = cluster.ctl("member", "add", "x", "--peer-urls=http://127.0.0.1:1", "--learner", endpoints=cluster.at("a"))
    x = next(i for i, m in cluster.members("a").items() if m.get("isLearner"))
    assert early.returncode == 0
    refused = cluster.ctl("member", "promote", format(x, "x"), endpoints=cluster.at("b"), check=False)
    assert "can only promote a learner member which is in sync with leader" in refused.stderr, refused
    cluster.ctl("member", "remove", format(x, "x"), endpoints=cluster.at("b"))
    cluster.add("d", "a", "--learner")
    def fed():
        """the learner to have what was written"""
        return cluster.ctl("get", "a", "--consistency", "s", endpoints=cluster.at("d"), check=False).stdout == "a\n1\n"
    wait_for(fed, TIMEOUT_S, 0.05)
    for words in (["get", "a"], ["put", "a", "2"], ["lease", "grant", "5"]):
        refused = cluster.ctl(*words, endpoints=cluster.at("d"), check=False)
        assert refused.returncode == 1 and "rpc not supported for learner" in refused.stderr, refused
    assert "true" in cluster.ctl("endpoint", "status", endpoints=cluster.at("d")).stdout
    def promoted():
        """the learner to be promoted"""
        done = cluster.ctl("member", "promote", format(cluster.number("d", "a"), "x"), endpoints=cluster.at("a"), check=False)
        assert done.returncode == 0 or "which is in sync with leader" in done.stderr, done  # refused only until then
        return done.returncode == 0
    wait_for(promoted, TIMEOUT_S, 0.1)
    refused = cluster.ctl("member", "promote", format(cluster.number("d", "a"), "x"), endpoints=cluster.at("a"), check=False)
    assert "can only promote a learner member" in refused.stderr, refused
    cluster.nodes["d"].wait_ready()
    assert cluster.ctl("put", "a", "2", endpoints=cluster.at("d")).stdout == "OK\n"


@on(3)
def new_node_gets_the_members_by_snapshot(cluster):
    """More changes than Raft keeps after a snapshot: a node that joins then receives a snapshot."""
    for i in range(20):
        cluster.ctl("member", "add", "x", f"--peer-urls=http://127.0.0.1:{i + 1}", "--learner", endpoints=cluster.at("a"))
        x = next(n for n, m in cluster.members("a").items() if m.get("isLearner"))
        cluster.ctl("member", "remove", format(x, "x"), endpoints=cluster.at("a"))
    def saved():
        """a snapshot"""
        return any(name.startswith("snapshot-0") for name in os.listdir(os.path.join(cluster.place.dir, "a")))
    wait_for(saved, TIMEOUT_S, 0.05)
    cluster.add("d", "a")
    cluster.votes("d", "a")
    assert cluster.number("d") == 24, "numbers are given once"
    cluster.nodes["d"].restart()
    for name in "abc":
        cluster.nodes[name].restart()
    assert sorted(m["name"] for m in cluster.members("d").values()) == ["a", "b", "c", "d"]


# ---- operator mistakes ----

@on(3)
def a_refused_start_leaves_an_empty_directory_in_which_the_node_can_join(cluster):
    folder = os.path.join(cluster.place.dir, "c")
    cluster.nodes["c"].kill()
    shutil.rmtree(folder)
    os.mkdir(folder, 0o700)
    cluster.nodes["c"].start(wait=False)  # with --cluster, as the first time
    code, said = cluster.ends("c")
    assert code == 65 and "remove this node from the cluster and add it again" in said, (code, said)
    assert os.listdir(folder) == [], "files of a start that was refused"
    assert cluster.remove("c", "a").returncode == 0
    cluster.nodes["c"].start(wait=False)  # the same mistake again: its id was removed
    code, said = cluster.ends("c")
    assert os.listdir(folder) == [], f"files of a start that was refused: {said}"
    cluster.add("c", "a")
    cluster.votes("c", "a")
    assert cluster.ctl("put", "joined", "1", endpoints=cluster.at("c")).stdout == "OK\n"


@on(1)
def a_start_that_fails_leaves_an_empty_directory(cluster):
    folder = cluster.place.folder("new")
    port = cluster.client["a"]
    for words in (["--listen", f"127.0.0.1:{port}"],
                  ["--listen", "127.0.0.1:0", "--node", "x", "--cluster", f"x=127.0.0.1:{port},y=127.0.0.1:1"],
                  ["--listen", "127.0.0.1:0", "--cert", "/nowhere", "--key", "/nowhere"]):
        done = subprocess.run([cluster.bellwether, "serve", "--data", folder, *words], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        assert done.returncode not in (0, None), done
        assert os.listdir(folder) == [], f"{os.listdir(folder)} after {done.stderr}"


@on(3)
def a_change_that_loses_the_quorum_is_refused(cluster):
    cluster.nodes["c"].kill()
    other = "b" if cluster.leads() == "a" else "a"
    def noticed():
        """the dead node to be detected"""
        refused = cluster.remove(other, cluster.leads(), check=False)
        assert refused.returncode != 0, "it would have left one of two"
        return "not enough started members" in refused.stderr
    wait_for(noticed, TIMEOUT_S, 0.1)
    assert "member not found" in cluster.ctl("member", "remove", "99", endpoints=cluster.at("a"), check=False).stderr
    assert "Peer URLs already exists" in cluster.ctl("member", "add", "x", f"--peer-urls=http://{cluster.peers('a')}", check=False,
                                                    endpoints=cluster.at("a")).stderr
    cluster.remove("c", "a")
    assert cluster.ctl("put", "a", "1", endpoints=cluster.at("b")).stdout == "OK\n"


@on(1)
def the_last_member_cannot_be_removed(cluster):
    refused = cluster.remove("a", "a", check=False)
    assert "not enough started members" in refused.stderr, refused


@on(3)
def node_that_was_not_added_cannot_join(cluster):
    cluster.give_ports("x")
    node = cluster.joiner("x", "ab").start(wait=False)
    code = node.process.wait(TIMEOUT_S)
    assert code == 65 and "add it first" in node.tail(), node.tail()
    assert not os.path.exists(os.path.join(cluster.place.dir, "x")), "nothing is made before it is known who this is"


@on(3)
def a_node_that_lost_its_data_cannot_join_as_if_it_were_new(cluster):
    cluster.add("d", "a")
    cluster.votes("d", "a")
    cluster.nodes["d"].kill()
    shutil.rmtree(os.path.join(cluster.place.dir, "d"))
    cluster.nodes["d"].start(wait=False)
    code, said = cluster.ends("d")
    assert code == 65 and "remove that member and add it again" in said, (code, said)
    cluster.remove("d", "a")
    cluster.add("d", "a")
    cluster.votes("d", "a")


@on(3)
def a_directory_of_another_node_or_cluster_is_refused(cluster):
    for node in cluster.nodes.values():
        node.kill()
    shutil.copytree(os.path.join(cluster.place.dir, "a"), os.path.join(cluster.place.dir, "copy"))
    def said(*words):
        done = subprocess.run([os.path.abspath(suite.bellwether), "serve", "--listen", "127.0.0.1:0", *words], timeout=TIMEOUT_S,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 65, done
        return done.stderr
    copy, own = os.path.join(cluster.place.dir, "copy"), os.path.join(cluster.place.dir, "a")
    there = ",".join(f"{n}=127.0.0.1:{p}" for n, p in zip("abc", free_ports(3)))
    assert "holds the data of node a, not of b" in said("--node", "b", "--data", copy)
    assert "of a cluster other than --cluster" in said("--node", "a", "--cluster", there, "--data", copy)
    shutil.copy(os.path.join(cluster.place.dir, "b", "wal-0000000000000001.log"), copy)
    assert "a log of another cluster or node" in said("--data", copy)
    os.remove(os.path.join(own, "identity"))
    assert "the file identity is missing" in said("--node", "a", "--data", own)


if suite.small:
    suite.wanted = suite.wanted or ["shrinks_to_three_others", "leader_can_be_removed", "learner_serves", "lost_its_data"]
suite.main(2)
