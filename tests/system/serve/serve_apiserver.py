#!/usr/bin/env python3
"""The requests of a Kubernetes API server on three nodes, while the leader is killed and stopped.

    serve_apiserver.py BELLWETHER UNUSED UNUSED [NAME...]

Like an API server, the clients here
  - create, update and delete objects by transactions that compare the mod revision,
  - list them in pages, all at the revision of the first page,
  - watch them from a revision, with hasleader, progress_notify and prev_kv, and watch again after an error,
  - write Events with leases,
  - compact by the protocol of the key compact_rev_key, in which one of several API servers wins each round.

The judges: no acknowledged write is lost, a compare on an object of one writer never fails, all watches
received the same events, complete and in order, each list is the state at its revision, and no Event is
deleted before its TTL."""
import base64
import http.client
import os
import random
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from run_lib import wait_for  # noqa: E402
from serve_lib import Link, Nodes, Stream, b64  # noqa: E402
from store_lib import STALL_S, TIMEOUT_S, Place, Suite  # noqa: E402

suite = Suite()
ROOT, AFTER_ROOT = "/registry/", "/registry0"
COMPACT_KEY = "compact_rev_key"
WRITERS, WATCHERS, LISTERS, COMPACTORS = 4, 3, 2, 2
OBJECTS = 12    # of each writer
PAGE = 7        # objects per page of a list
EVENT_TTL_S = 2
PATIENCE_S = 3  # of a request: then its outcome is unknown
GROWTH = 60     # acknowledged writes between two faults
SIZES = (200, 200, 200, 200, 2000, 30000)
FAULTS = ("kill", "stop", "kill", "kill")


def text(value):
    return base64.b64decode(value or "").decode()


def mod_of(kv):
    return int(kv.get("mod_revision", 0))


class Client(threading.Thread):
    """One client of the API server. It uses one node until a request fails, then the next one."""

    def __init__(self, world, number):
        super().__init__(daemon=True)
        self.world, self.number, self.random, self.broken = world, number, random.Random(number), None
        self.node = number % len(world.nodes.ports)
        self.link = None

    def run(self):
        try:
            self.live()
        except Exception:  # noqa: BLE001 shown by the test
            self.broken = traceback.format_exc()

    def port(self):
        return self.world.nodes.ports[self.node]

    def next_node(self):
        self.node = (self.node + 1) % len(self.world.nodes.ports)
        if self.link:
            self.link.close()
        self.link = None
        time.sleep(0.02)

    def ask(self, path, body):
        """The answer; None: the outcome is unknown."""
        self.link = self.link or Link(self.port(), patience=PATIENCE_S)
        try:
            status, answer = self.link.post(path, body)
        except OSError:
            status, answer = 0, None
        if status == 200:
            return answer
        assert status in (0, 503), (path, status, answer)
        self.next_node()
        return None

    def insist(self, path, body):
        """The answer to a request that may be repeated."""
        def answered():
            answer = self.ask(path, body)
            return None if answer is None else [answer]
        answered.__doc__ = f"an answer to {path}"
        return wait_for(answered, TIMEOUT_S, 0)[0]


class Writer(Client):
    """Creates, updates and deletes its own objects, and increments a counter that all writers share."""

    def __init__(self, world, number):
        super().__init__(world, number)
        self.serial, self.known, self.doubts, self.event_lease = 0, {}, set(), None
        self.acknowledged, self.attempted, self.grants, self.increments = [], set(), {}, 0
        self.maybe_increments = 0

    def live(self):
        while not self.world.over.is_set():
            self.random.choice((self.change, self.change, self.change, self.delete, self.increment, self.event))()

    def value(self):
        self.serial += 1
        return f"w{self.number}-{self.serial}:".ljust(self.random.choice(SIZES), ".")

    def write(self, key, value, **more):
        """A transaction on the mod revision that we know. Deletes if there is no value."""
        mod = self.known.get(key, 0)
        request = {"request_put": {"key": b64(key), "value": b64(value), **more}} if value is not None else {
            "request_delete_range": {"key": b64(key)}}
        self.attempted.add((key, value))
        answer = self.ask("/v3/kv/txn", {
            "compare": [{"key": b64(key), "target": "MOD", "mod_revision": str(mod)}], "success": [request],
            "failure": [{"request_range": {"key": b64(key)}}]})
        if answer is None:
            self.doubts.add(key)
            self.reread(key)
        elif answer.get("succeeded"):
            revision = int(answer["header"]["revision"])
            self.known[key] = revision if value is not None else 0
            self.acknowledged.append((revision, key, value))
            return True
        else:
            self.refused(key, answer["responses"][0]["response_range"].get("kvs", []))
        return False

    def refused(self, key, found):
        # A request without an answer may be executed much later, for example when a stopped node continues.
        assert key in self.doubts, f"a compare of {key} failed, but only this writer changes it"
        self.known[key] = mod_of(found[0]) if found else 0

    def reread(self, key):
        found = self.insist("/v3/kv/range", {"key": b64(key)}).get("kvs", [])
        self.known[key] = mod_of(found[0]) if found else 0
        return text(found[0].get("value")) if found else None

    def own(self, kind="pods"):
        return f"{ROOT}{kind}/default/w{self.number}-{self.random.randrange(OBJECTS)}"

    def change(self):
        self.write(self.own(), self.value())

    def delete(self):
        key = self.own()
        if self.known.get(key):
            self.write(key, None)

    def event(self):
        """Events share a lease for a while, as an API server does it."""
        if not self.event_lease or self.random.random() < 0.3:
            began = time.monotonic()
            answer = self.ask("/v3/lease/grant", {"TTL": str(EVENT_TTL_S)})
            if not answer:
                return
            self.event_lease = answer["ID"]
            self.grants[self.event_lease] = began + EVENT_TTL_S
        self.serial += 1
        key = f"{ROOT}events/default/w{self.number}-{self.serial}"
        try:
            self.write(key, f"{self.event_lease}:{self.number}", lease=self.event_lease)
        except AssertionError as error:
            assert "requested lease not found" in str(error), error
            self.event_lease = None  # it expired

    def increment(self):
        """Read, compare, put: until it is acknowledged. The value names its author, so that a doubt is resolved."""
        key, mine = f"{ROOT}configmaps/counter", None
        while not self.world.over.is_set():
            found = self.insist("/v3/kv/range", {"key": b64(key)}).get("kvs", [])
            count = int(text(found[0].get("value")).split(":")[0]) if found else 0
            self.serial += 1
            mine = f"{count + 1}:w{self.number}-{self.serial}"
            self.attempted.add((key, mine))
            answer = self.ask("/v3/kv/txn", {
                "compare": [{"key": b64(key), "target": "MOD", "mod_revision": str(mod_of(found[0]) if found else 0)}],
                "success": [{"request_put": {"key": b64(key), "value": b64(mine)}}]})
            if answer is None:
                self.maybe_increments += 1
                return
            if answer.get("succeeded"):
                self.increments += 1
                self.acknowledged.append((int(answer["header"]["revision"]), key, mine))
                return


class Watcher(Client):
    """Watches everything from revision 2 on. `position`: all events up to this revision have arrived."""

    def __init__(self, world, number):
        super().__init__(world, number)
        self.position, self.events, self.stream, self.ends = 1, [], None, 0
        self.refused = set()  # numbers of the faults after which a node answered 'no leader'; 0: before the first one

    def live(self):
        while not self.world.watched.is_set():
            try:
                self.follow()
            except (OSError, http.client.HTTPException):
                pass  # the connection ended
            self.ends += 1
            self.next_node()

    def follow(self):
        create = {"key": b64(ROOT), "range_end": b64(AFTER_ROOT), "start_revision": str(self.position + 1),
                  "prev_kv": True, "progress_notify": True}
        self.stream = Stream(self.port(), "/v3/watch", {"create_request": create}, {"Grpc-Metadata-hasleader": "true"})
        try:
            while not self.world.watched.is_set():
                line = self.stream.line()
                if "result" not in line:
                    assert line["error"]["message"] == "etcdserver: no leader", line
                    self.refused.add(self.world.faults)
                    return
                self.take(line["result"])
        finally:
            self.stream.close()

    def take(self, result):
        assert not result.get("canceled"), result
        revision, events = int(result["header"]["revision"]), result.get("events", [])
        now = time.monotonic()
        for event in events:
            kv = event["kv"]
            mod = mod_of(kv)
            assert mod > self.position, f"an event of revision {mod} after {self.position}"
            value = None if event.get("type") == "DELETE" else text(kv.get("value"))
            before = event.get("prev_kv")
            self.events.append((mod, text(kv["key"]), value, before and (mod_of(before), text(before.get("value"))), now))
        if events:
            self.position = self.events[-1][0]
        elif not result.get("created"):
            self.position = max(self.position, revision)  # a progress notification


class Lister(Client):
    """Lists everything in pages; all pages are of the revision of the first one."""

    def __init__(self, world, number):
        super().__init__(world, number)
        self.lists = []

    def live(self):
        while not self.world.over.is_set():
            found = self.pages()
            if found:
                self.lists.append(found)

    def pages(self):
        key, revision, found = ROOT, None, {}
        while True:
            body = {"key": b64(key), "range_end": b64(AFTER_ROOT), "limit": str(PAGE)}
            if revision:
                body["revision"] = str(revision)
            try:
                answer = self.insist("/v3/kv/range", body)
            except AssertionError as error:
                assert revision and "required revision has been compacted" in str(error), error
                return None  # an API server would answer 410 Gone, and its client would list again
            revision = revision or int(answer["header"]["revision"])
            page = [(text(kv["key"]), mod_of(kv), text(kv.get("value"))) for kv in answer.get("kvs", [])]
            assert len(page) <= PAGE and [row[0] for row in page] == sorted(row[0] for row in page), page
            found.update({row[0]: row[1:] for row in page})
            if not answer.get("more"):
                return revision, found
            key = page[-1][0] + "\0"


class Compactor(Client):
    """One of several API servers that compact. The winner of a round compacts the revision of the round before."""

    def __init__(self, world, number):
        super().__init__(world, number)
        self.rounds = 0

    def live(self):
        version, revision = 0, 0
        while not self.world.over.wait(0.3):
            answer = self.ask("/v3/kv/txn", {
                "compare": [{"key": b64(COMPACT_KEY), "target": "VERSION", "version": str(version)}],
                "success": [{"request_put": {"key": b64(COMPACT_KEY), "value": b64(str(revision))}}],
                "failure": [{"request_range": {"key": b64(COMPACT_KEY)}}]})
            if answer is None:
                continue
            # Here the watches must not be overtaken: their events are what the test judges by.
            now = min([int(answer["header"]["revision"])] + [watcher.position for watcher in self.world.watchers])
            if not answer.get("succeeded"):
                version = int(answer["responses"][0]["response_range"]["kvs"][0]["version"])
            else:
                version += 1
                if revision and self.compact(revision):
                    self.rounds += 1
                    self.world.compacted = max(self.world.compacted, revision)
            revision = now

    def compact(self, revision):
        try:
            return self.ask("/v3/kv/compaction", {"revision": str(revision)}) is not None
        except AssertionError as error:  # compacted by the other one
            assert "required revision has been compacted" in str(error), error
            return False


class World:
    """Three nodes and all clients."""

    def __init__(self, place):
        self.nodes = Nodes(place, suite.bellwether, 3, ["--watch-progress-notify-interval", "100ms"])
        self.over, self.watched, self.compacted, self.faults = threading.Event(), threading.Event(), 0, 0
        self.watchers = [Watcher(self, i) for i in range(WATCHERS)]
        self.writers = [Writer(self, i) for i in range(WRITERS)]
        self.listers = [Lister(self, i) for i in range(LISTERS)]
        self.compactors = [Compactor(self, i) for i in range(COMPACTORS)]
        self.clients = [*self.watchers, *self.writers, *self.listers, *self.compactors]
        for client in self.clients:
            client.start()

    def check(self):
        for client in self.clients:
            assert not client.broken, client.broken

    def grows(self):
        """Waits until more writes have been acknowledged."""
        enough = sum(len(writer.acknowledged) for writer in self.writers) + GROWTH

        def grown():
            """more acknowledged writes"""
            self.check()
            return sum(len(writer.acknowledged) for writer in self.writers) >= enough
        wait_for(grown, TIMEOUT_S, 0.02)

    def fault(self, kind):
        server = self.nodes.servers[self.nodes.leader()]
        self.faults += 1
        if kind == "kill":
            server.kill()
            self.grows()
            server.start()
        else:
            server.pause()
            self.grows()
            server.resume()
        self.grows()

    def end(self):
        """Ends the writers, waits until all Events have expired and all watches have everything."""
        def compacted():
            """two compactions"""
            self.check()
            return sum(compactor.rounds for compactor in self.compactors) >= 2
        wait_for(compacted, TIMEOUT_S, 0.05)
        self.over.set()
        for client in [*self.writers, *self.listers, *self.compactors]:
            client.join(TIMEOUT_S)
            assert not client.is_alive()
        self.check()

        def expired():
            """all Events to expire"""
            return not self.writers[0].insist("/v3/kv/range", {"key": b64(ROOT + "events/"), "range_end": b64(ROOT + "events0")}).get("kvs")
        wait_for(expired, TIMEOUT_S, 0.1)
        last = int(self.writers[0].insist("/v3/kv/range", {"key": b64("x")})["header"]["revision"])

        def reported():
            """every watch to be told of all revisions"""
            self.check()
            return all(watcher.position >= last for watcher in self.watchers)
        wait_for(reported, TIMEOUT_S, 0.05)
        self.watched.set()
        return last


# ---- judges ----

def judge_watches(world):
    """All watches have the same events, in order, with what each replaced. Returns them."""
    truth = [row[:4] for row in world.watchers[0].events]
    for watcher in world.watchers:
        assert [row[:4] for row in watcher.events] == truth, f"watch {watcher.number} has other events than watch 0"
    state = {}
    for mod, key, value, before in truth:
        assert before == state.get(key), f"revision {mod}: {key} replaced {before}, expected {state.get(key)}"
        assert value is not None or key in state, f"revision {mod} deletes {key}, which does not exist"
        if value is None:
            del state[key]
        else:
            state[key] = (mod, value)
    return truth


def judge_writes(world, truth):
    happened = {(mod, key): value for mod, key, value, _ in truth}
    attempted = set().union(*(writer.attempted for writer in world.writers))
    for writer in world.writers:
        for revision, key, value in writer.acknowledged:
            assert (revision, key) in happened and happened[revision, key] == value, f"lost: {key} of revision {revision}"
    for mod, key, value, _ in truth:
        assert (key, value) in attempted or (value is None and "/events/" in key), f"revision {mod}: nobody wrote {key}"
    count = sum(writer.increments for writer in world.writers)
    most = count + sum(writer.maybe_increments for writer in world.writers)
    last = [value for _, key, value, _ in truth if key.endswith("/counter")]
    assert last and count <= int(last[-1].split(":")[0]) <= most, (count, last[-1:], most)
    return sum(len(writer.acknowledged) for writer in world.writers)


def judge_lists(lists, truth):
    """Each list is the state at its revision."""
    state, at = {}, 0
    for revision, found in sorted(lists, key=lambda row: row[0]):
        while at < len(truth) and truth[at][0] <= revision:
            mod, key, value, _ = truth[at]
            at += 1
            if value is None:
                del state[key]
            else:
                state[key] = (mod, value)
        assert found == state, f"the list at revision {revision} differs in {dict(set(found.items()) ^ set(state.items()))}"


def judge_events(world):
    """No Event is deleted before its lease can have expired."""
    until = {lease: end for writer in world.writers for lease, end in writer.grants.items()}
    count = 0
    for watcher in world.watchers:
        for _, key, value, before, seen in watcher.events:
            if value is None and "/events/" in key:
                count += 1
                assert seen >= until[before[1].split(":")[0]], f"{key} was deleted before its TTL"
    return count


def judge_compaction(world, last):
    """An old revision is compacted for watches and reads. Then an API server lists again."""
    assert world.compacted
    for port in world.nodes.ports:
        stream = Stream(port, "/v3/watch", {"create_request": {"key": b64(ROOT), "range_end": b64(AFTER_ROOT), "start_revision": "2"}})
        assert stream.line()["result"]["created"]
        result = stream.line()["result"]
        stream.close()
        assert result["canceled"] and int(result["compact_revision"]) >= world.compacted, (result, world.compacted)
        status, answer = world.nodes.post("/v3/kv/range", {"key": b64(ROOT), "revision": "2"}, port)
        assert status == 400 and "required revision has been compacted" in answer["message"], answer
    lists = []
    for node in range(len(world.nodes.ports)):
        lister = Lister(world, node)
        lists.append(lister.pages())
        assert lists[-1][0] >= last
    return lists


@suite.test
def requests_of_an_api_server_survive_kills_and_stops_of_the_leader():
    with Place("apiserver") as place:
        watch = stall.Watch()
        world = World(place)
        world.grows()
        # Later, a node without a leader ends each new watch, and the watcher tries again at once: the number depends on the machine.
        refused = [watcher.number for watcher in world.watchers if watcher.refused]
        assert not refused or watch.excuses(STALL_S, "a node without a leader"), f"the watchers {refused} were refused without a fault"
        for kind in FAULTS:
            world.fault(kind)
        last = world.end()
        truth = judge_watches(world)
        writes = judge_writes(world, truth)
        events = judge_events(world)
        lists = [found for lister in world.listers for found in lister.lists] + judge_compaction(world, last)
        judge_lists(lists, truth)
        assert events and len(lists) > 3
        refused = sum(len(watcher.refused) for watcher in world.watchers)
        print(f"# {writes} acknowledged writes, {len(truth)} events at each of {WATCHERS} watches, "
              f"{sum(w.ends for w in world.watchers)} ends of watches (in {refused} of {WATCHERS * len(FAULTS)} cases "
              f"a watcher was told 'no leader' after a fault), {len(lists)} lists in pages, "
              f"compacted up to {world.compacted} of {last} revisions, {events // WATCHERS} Events expired", flush=True)


suite.main()
