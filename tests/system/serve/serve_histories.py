#!/usr/bin/env python3
"""Histories of real nodes under kills, pauses and network cuts, checked for linearizability.

    serve_histories.py BELLWETHER CHECK_HISTORY [--long] [--seed N] [--seconds N] [--keep DIRECTORY]

Clients ask random nodes to put, read, compare and put, delete, grant, renew and revoke. They record when they
asked, what they were answered and when. Values have up to 1.4 MB. Meanwhile nodes are killed and started, stopped
and continued, and cut off one way or both, in an order that follows from the seed. In the end everything is healed
and read once more. In one history of each round the nodes have a small quota and become full.
check-history (tests/check_history.c) is the judge."""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import Tap, wait_for
from serve_lib import b64
from serve_net import Net, own_network
from store_lib import TIMEOUT_S, Place, Skip

import argparse
import base64
import zlib

CLIENTS = 6
KEYS = 3  # at one time; new ones start four times a second, so that each history stays short enough to be checked
STEPS = 20_000_000  # bound for the judgement of one key; measured: up to 200 on a busy machine
PATIENCE = 1.5  # of a client: then the outcome is unknown
LARGEST = 1_400_000
SIZES = (0,) * 48 + (2_000,) * 8 + (20_000,) * 6 + (400_000,) * 2 + (LARGEST,)  # bytes that are added to the name of a value
QUOTA = ["--quota-bytes", str(4 << 20)]  # of nodes that become full
NO_SPACE = "database space exceeded"
REQUEST_MAX = 1_500_000  # the limit is 1.5 MiB
FAULTS = ("kill", "stop", "part", "one way", "leader killed", "leader stopped", "leader cut off", "leader deaf", "leader mute")


def whole(name):
    """The value with this name, as it is sent. The history has only names; sizes are mixed."""
    return name + "." * SIZES[zlib.crc32(name.encode()) % len(SIZES)]


def name_of(value):
    name = value.rstrip(".")
    assert whole(name) == value, f"the value {name} has {len(value)} bytes"
    return name


class Client(threading.Thread):
    def __init__(self, number, net, seed, began, over):
        super().__init__(daemon=True)
        self.number, self.net, self.began, self.over = number, net, began, over
        self.random = random.Random(seed * 1000 + number)
        self.links = [node.link(PATIENCE) for node in net.nodes]
        self.ops, self.reported, self.lease, self.serial = [], {}, None, 0

    def run(self):
        try:
            while not self.over.is_set():
                self.once()
        except Exception:  # noqa: BLE001 shown by the caller of judge
            self.ops.append({"broken": traceback.format_exc()})

    def key(self):
        return f"{int(4 * (time.monotonic() - self.began))}/{self.random.randrange(KEYS)}"

    def value(self):
        self.serial += 1
        return f"c{self.number}-{self.serial}"

    def ask(self, op, path, body, changes=True):
        """Asks; returns the answer or None. The outcome of an unanswered change is unknown."""
        op.update(client=self.number, call=time.monotonic_ns())
        self.ops.append(op)
        try:
            status, answer = self.random.choice(self.links).post(path, body)
        except OSError:
            status, answer = 0, None
        op["return"] = time.monotonic_ns()
        if status == 200:
            op["outcome"] = "ok"
            if "key" in op and int(answer.get("header", {}).get("revision", 0)):  # that of a lease need not grow
                op["revision"] = int(answer["header"]["revision"])
            return answer
        op["full"] = NO_SPACE in str(answer)
        refused = "no leader" in str(answer) or op["full"]  # then it was certainly not executed
        op["outcome"] = "unknown" if changes and not refused else "fail"
        if status == 0:
            time.sleep(0.02)
        return None

    def once(self):
        doing = self.random.choices((self.get, self.put, self.cas, self.delete, self.grant, self.renew, self.revoke),
                                    (30, 22, 20, 5, 3, 8, 2))[0]
        doing()

    def get(self, key=None):
        op = {"op": "get", "key": key or self.key()}
        answer = self.ask(op, "/v3/kv/range", {"key": b64(op["key"])}, changes=False)
        if answer is not None:
            kvs = answer.get("kvs", [])
            op["result"] = name_of(base64.b64decode(kvs[0].get("value", "")).decode()) if kvs else None
            op["version"] = int(kvs[0]["version"]) if kvs else 0
            self.reported = {op["key"]: op["result"]}
        return op

    def put(self):
        op = {"op": "put", "key": self.key(), "value": self.value()}
        body = {"key": b64(op["key"]), "value": b64(whole(op["value"]))}
        if self.lease and self.random.random() < 0.3:
            op["lease"] = self.lease
            body["lease"] = str(self.lease)
        if self.ask(op, "/v3/kv/put", body) is None and "lease" in op:
            self.lease = None  # perhaps it expired; either way the outcome is unknown

    def cas(self):
        key = self.key()
        op = {"op": "cas", "key": key, "expect": self.reported.get(key), "value": self.value()}
        if len(whole(op["expect"] or "")) + len(whole(op["value"])) > REQUEST_MAX:
            return
        compare = {"key": b64(key), "target": "VALUE", "value": b64(whole(op["expect"]))} if op["expect"] else {
            "key": b64(key), "target": "CREATE", "create_revision": "0"}
        put = {"key": b64(key), "value": b64(whole(op["value"]))}
        answer = self.ask(op, "/v3/kv/txn", {"compare": [compare], "success": [{"request_put": put}]})
        if answer is not None:
            op["result"] = bool(answer.get("succeeded", False))

    def delete(self):
        op = {"op": "delete", "key": self.key()}
        answer = self.ask(op, "/v3/kv/deleterange", {"key": b64(op["key"])})
        if answer is not None:
            op["result"] = int(answer.get("deleted", 0))

    def grant(self):
        number = self.random.getrandbits(52) + 1
        op = {"op": "grant", "lease": number}
        if self.ask(op, "/v3/lease/grant", {"ID": str(number), "TTL": "3"}) is not None:
            self.lease = number

    def renew(self):
        if self.lease:
            op = {"op": "keepalive", "lease": self.lease}
            answer = self.ask(op, "/v3/lease/keepalive", {"ID": str(self.lease)})
            if answer is not None:
                op["result"] = int(answer.get("result", {}).get("TTL", 0))
                self.lease = self.lease if op["result"] else None

    def revoke(self):
        if self.lease:
            self.ask({"op": "revoke", "lease": self.lease}, "/v3/lease/revoke", {"ID": str(self.lease)})
            self.lease = None


class Trouble:
    """Faults one after the other, chosen by the seed; no kind is repeated before all have occurred."""

    def __init__(self, net, seed):
        self.net, self.random, self.done = net, random.Random(seed), []
        self.bag = []

    def pick(self):
        if not self.bag:
            self.bag = list(FAULTS)
            self.random.shuffle(self.bag)
        return self.bag.pop()

    def victim(self, leader):
        leading = [node for node in self.net.nodes if leader and node.leads()]
        return leading[0] if leading else self.random.choice(self.net.nodes)

    def split(self, node, ways):
        for other in self.net.nodes:
            if other is not node and "out" in ways:
                self.net.cut(node.number, other.number)
            if other is not node and "in" in ways:
                self.net.cut(other.number, node.number)

    def part(self):
        """Two sides that cannot reach each other."""
        side = self.random.sample(self.net.nodes, self.random.randrange(1, len(self.net.nodes) // 2 + 1))
        for node in side:
            for other in self.net.nodes:
                if other not in side:
                    self.net.cut(node.number, other.number)
                    self.net.cut(other.number, node.number)

    def inject(self):
        what = self.pick()
        node = self.victim("leader" in what)
        self.done.append(f"{what} ({node.name})")
        if "kill" in what:
            node.kill()
        elif "stop" in what:
            node.stop()
        elif what == "part":
            self.part()
        elif what == "one way":
            other = self.random.choice([n for n in self.net.nodes if n is not node])
            self.net.cut(node.number, other.number)
        else:
            self.split(node, {"leader cut off": ("in", "out"), "leader deaf": ("in",), "leader mute": ("out",)}[what])

    def repair(self):
        self.net.heal()
        for node in self.net.nodes:
            if node.stopped:
                node.go_on()
            if not node.lives():
                node.start()

    def run(self, until, enough):
        """Until then, and longer on a slow machine: until enough operations were answered."""
        while time.monotonic() < until or (not enough() and time.monotonic() < until + TIMEOUT_S):
            self.inject()
            if self.random.random() < 0.25:
                time.sleep(self.random.uniform(0.1, 0.4))
                self.inject()
            time.sleep(self.random.uniform(0.3, 1.2))
            self.repair()
            time.sleep(self.random.uniform(0.1, 0.7))


def least(net):
    """The minimum number of answers for a meaningful test."""
    return 40 * len(net.nodes)


def count_answered(ops):
    return sum(op.get("outcome") == "ok" for op in ops)


def is_enough(net, ops, quota):
    """Enough answers; with a quota a refusal because the nodes are full, else an answer for one of the largest values."""
    ops = [op for op in ops if "op" in op]
    return count_answered(ops) > least(net) and (any(op.get("full") for op in ops) if quota else count_largest(ops) > 0)


def count_largest(ops):
    """The number of acknowledged values of the largest size."""
    return sum(op.get("outcome") == "ok" and op["op"] in ("put", "cas") and op.get("result", True) and len(whole(op["value"])) > LARGEST
               for op in ops)


def record(net, seed, seconds, quota):
    """All operations, and the faults among them."""
    over, began = threading.Event(), time.monotonic()
    clients = [Client(number, net, seed, began, over) for number in range(CLIENTS)]
    trouble = Trouble(net, seed)
    for client in clients:
        client.start()
    try:
        trouble.run(began + seconds, lambda: is_enough(net, [op for client in clients for op in list(client.ops)], quota))
    finally:
        over.set()
        for client in clients:
            client.join()
    trouble.repair()
    net.wait_ready()
    final_reads(clients[0], clients)
    return [op for client in clients for op in client.ops], trouble.done


def final_reads(reader, clients):
    """Reads every key once more."""
    for key in sorted({op["key"] for client in clients for op in client.ops if "key" in op}):
        wait_for(lambda key=key: reader.get(key)["outcome"] == "ok", TIMEOUT_S, 0.01)


def judge(check, path, ops, net, quota):
    broken = [op["broken"] for op in ops if "broken" in op]
    assert not broken, broken[0]
    answered, largest = count_answered(ops), count_largest(ops)
    full = sum(op.get("full", False) for op in ops)
    assert is_enough(net, ops, quota), f"only {answered} answers, {largest} for the largest values, {full} because of the quota"
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(op) + "\n" for op in ops)
    done = subprocess.run([check, "--steps", str(STEPS), path], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, f"check-history: {done.returncode}: {done.stdout}{done.stderr}: {path}"
    judged = len({op.get("key", op.get("lease")) for op in ops})
    return (f"{answered} of {len(ops)} operations were answered, {largest} of them put 1.4 MB, {full} were refused by full nodes, "
            f"{judged} keys and leases judged")


def trial(options, tap, count, seed, quota=None):
    name = f"{count} nodes {'that become full ' if quota else ''}under kill, pause and cut are linearizable, seed {seed}"
    try:
        with Place("histories") as place, Net(place, options.bellwether, count, quota or []) as net:
            ops, faults = record(net, seed, options.seconds, quota)
            path = os.path.join(options.keep or place.dir, f"history-{count}{'-full' if quota else ''}-{seed}.jsonl")
            tails = "".join(node.tail() for node in net.nodes)
            try:
                verdict = judge(options.check, path, ops, net, quota)
            except AssertionError as error:
                kept = shutil.copy(path, tempfile.gettempdir()) if os.path.exists(path) and not options.keep else path
                raise AssertionError(f"{error}\nhistory: {kept}\nfaults: {', '.join(faults)}\n{tails}") from error
        tap.result(True, name, f"{verdict}, among {len(faults)} faults: {', '.join(faults)}")
    except Exception:  # noqa: BLE001 a test that breaks is a test that failed
        tap.result(False, name, traceback.format_exc())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bellwether")
    parser.add_argument("check")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--keep")
    options = parser.parse_args()
    small = os.environ.get("TEST_SIZE") == "small"
    options.seconds = options.seconds or (60 if options.long else 3 if small else 7)
    rounds, tap = options.rounds or (5 if options.long else 1), Tap()
    first = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 30)
    try:
        own_network()
    except Skip as why:
        for which in ("3 nodes", "5 nodes", "3 nodes that become full"):
            tap.skip(f"{which} under kill, pause and cut are linearizable", str(why))
        sys.exit(tap.end())
    for seed in range(first, first + rounds):
        for count in (3, 5):
            trial(options, tap, count, seed)
        trial(options, tap, 3, seed, QUOTA)
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
