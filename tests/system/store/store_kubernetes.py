#!/usr/bin/env python3
"""The Kubernetes store, on a STAND-IN for an API server (kube_standin.py), and on a real one if configured.

    store_kubernetes.py BELLWETHER WITNESS CONFORMANCE [NAME...]

BELLWETHER_TEST_KUBERNETES=URL runs the conformance suite on a real cluster, in a namespace that may be filled with Leases."""
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
import stall  # noqa: E402
from kube_lib import SPACE, ClientGo, Standin, micro_time  # noqa: E402
from run_lib import ELECTION, send, wait_for  # noqa: E402
from store_lib import Place, Skip, Suite, program  # noqa: E402

suite = Suite()
TTL_S = 1.5
# Work that ends at once but has one second to do so. So a stalled machine does not make the work outlive its lease.
PUNCTUAL_TTL_S = 3.0
PUNCTUAL = {"ttl": "3s", "kill_after": "1s"}
TIMEOUT_S = 60.0  # timeout of a hung test
MICRO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$"


def comment(text):
    print("# " + text, flush=True)


class Scene:
    """A stand-in, and a room of candidates that use it through a proxy."""

    def __init__(self, **more):
        self.more = more

    def __enter__(self):
        self.place = Place("kubernetes")
        self.standin = Standin(self.place, **{k: v for k, v in self.more.items() if k in ("token", "options")})
        self.proxy = self.place.proxy(self.standin.port)
        self.room = suite.room(self.standin.url(port=self.proxy.port), retry="200ms",
                               **{k: v for k, v in self.more.items() if k in ("ttl", "kill_after")})
        self.room.__enter__()
        return self.standin, self.proxy, self.room

    def __exit__(self, kind, *rest):
        try:
            if kind is None:
                self.room.judge()
        finally:
            self.room.__exit__(None, None, None)
            self.place.__exit__(None, None, None)


def lead_and_wait(room):
    """A leads, B waits."""
    a = room.candidate("a")
    room.started(1, TIMEOUT_S)
    b = room.candidate("b")
    b.said("leader", TIMEOUT_S)
    return a, b


def spec_of(standin, name=ELECTION):
    code, lease = standin.lease("GET", name)
    assert code == 200, (code, lease)
    return lease["spec"]


def kill_both(candidate):
    """Stops supervisor and guardian, so that neither sees the other die."""
    guardian = candidate.guardian()
    candidate.signal(signal.SIGSTOP)
    send(guardian, signal.SIGKILL)
    candidate.signal(signal.SIGKILL)


# ---- conformance ----

@suite.test
def conformance_on_the_standin():
    with Place("kubernetes") as place:
        suite.run_conformance("stand-in", Standin(place).url())


@suite.test
def conformance_with_a_role_without_list_and_watch():
    with Place("kubernetes") as place:
        standin = Standin(place)
        standin.order("verbs", lacks=["list", "watch"])
        suite.run_conformance("stand-in, polling", standin.url())


@suite.test
def conformance_on_a_real_api_server():
    url = os.environ.get("BELLWETHER_TEST_KUBERNETES")
    if not url:
        raise Skip("no real API server is known here: BELLWETHER_TEST_KUBERNETES=kubernetes://NAMESPACE?kubeconfig=FILE")
    suite.run_conformance("real API server", url)


# ---- the stand-in rejects what a real API server rejects ----

def refused(standin, change, method="PUT", name="x"):
    good = {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": name},
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 1, "renewTime": micro_time()}}
    if method == "PUT":
        good = standin.lease("GET", name)[1]
    change(good)
    return standin.lease(method, name, good)[0]


@suite.test
def standin_rejects_what_an_api_server_rejects():
    with Place("kubernetes") as place:
        s = Standin(place)
        assert refused(s, lambda o: None, "POST") == 201
        assert refused(s, lambda o: None, "POST") == 409
        for bad in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z", "2026-02-30T00:00:00.000000Z", "now", 5):
            assert refused(s, lambda o, t=bad: o["spec"].update(renewTime=t)) == 400, bad
        assert refused(s, lambda o: o["spec"].update(leaseDurationSeconds=0)) == 422
        assert refused(s, lambda o: o["spec"].update(leaseDurationSeconds="1")) == 400
        assert refused(s, lambda o: o["spec"].update(leaseTransitions=-1)) == 422
        assert refused(s, lambda o: o["metadata"].pop("resourceVersion")) == 422
        assert refused(s, lambda o: o["metadata"].update(resourceVersion="1")) == 409
        assert refused(s, lambda o: o["metadata"].update(uid="other")) == 409
        assert refused(s, lambda o: o["metadata"].update(name="other")) == 400
        assert refused(s, lambda o: o["metadata"].update(namespace="other")) == 400
        assert refused(s, lambda o: o.update(kind="Pod")) == 400
        assert refused(s, lambda o: o["metadata"].update(annotations={"a b/c": "x"})) == 422
        assert refused(s, lambda o: o["metadata"].update(name="Upper"), "POST") == 422
        assert refused(s, lambda o: None) == 200
        stale = s.lease("GET", "x")[1]
        assert s.lease("DELETE", "x")[0] == 200 and s.lease("GET", "x")[0] == 404
        assert s.lease("PUT", "x", stale)[0] == 409, "a deleted Lease came back by an update"


# ---- the layout ----

@suite.test
def lease_has_the_layout_of_client_go():
    with Scene() as (standin, _, room):
        a = room.candidate("a")
        room.started(1, TIMEOUT_S)
        spec = spec_of(standin)
        assert re.fullmatch(r"a_[0-9a-f]{16}", spec["holderIdentity"]), spec
        assert set(spec) == {"holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"}, spec
        assert spec["leaseDurationSeconds"] == 3 and spec["leaseTransitions"] == 0  # 1.5 s rounded up, plus one second
        assert re.match(MICRO, spec["acquireTime"]) and re.match(MICRO, spec["renewTime"])
        later = wait_for(lambda: (s := spec_of(standin))["renewTime"] != spec["renewTime"] and s, TIMEOUT_S)
        assert later["acquireTime"] == spec["acquireTime"] and later["holderIdentity"] == spec["holderIdentity"]
        a.signal(signal.SIGTERM)
        a.wait(TIMEOUT_S)
        spec = spec_of(standin)
        assert spec["holderIdentity"] == "" and spec["leaseDurationSeconds"] == 1 and spec["leaseTransitions"] == 0, spec
        assert spec["acquireTime"] == spec["renewTime"]
        room.candidate("b")
        room.started(2, TIMEOUT_S)
        assert spec_of(standin)["leaseTransitions"] == 1


@suite.test
def the_token_is_the_resource_version_of_the_acquiring_update():
    with Scene() as (standin, _, room):
        room.candidate("a")
        start = room.started(1, TIMEOUT_S)
        wait_for(lambda: '"token"' in standin.lease("GET", ELECTION)[1]["metadata"]["annotations"]["bellwether/record"], TIMEOUT_S)
        record = json.loads(standin.lease("GET", ELECTION)[1]["metadata"]["annotations"]["bellwether/record"])
        assert record["token"] == start[1], (record, start)
        writes = [json.loads(b) for m, _, _, b in standin.order("log")["log"] if m in ("POST", "PUT")]
        assert "resourceVersion" not in writes[0]["metadata"]


# ---- client-go and Bellwether ----

class Renewing(threading.Thread):
    """A client-go holder that renews until it is told to stop."""

    def __init__(self, foreign):
        super().__init__(daemon=True)
        self.foreign, self.ending, self.lost = foreign, threading.Event(), False
        self.start()

    def run(self):
        while not self.ending.wait(0.4):
            if not self.foreign.step(time.monotonic()):
                self.lost = True

    def end(self):
        self.ending.set()
        self.join()


@suite.test
def bellwether_waits_while_client_go_renews_and_leads_when_it_stops_renewing():
    with Scene() as (standin, _, room):
        foreign = ClientGo(standin, ELECTION)
        assert foreign.step(time.monotonic())
        renewing = Renewing(foreign)
        b = room.candidate("b")
        assert b.said("leader", TIMEOUT_S)["leader"] == foreign.identity
        time.sleep(2 * TTL_S + 1)
        assert not room.starts() and not renewing.lost
        renewing.end()
        took = int(room.started(1, TIMEOUT_S)[3]) / 1e9 - foreign.observed_at
        comment(f"started {took:.2f} s after client-go's last renewal, which declared 2 s")
        assert took >= 2, f"taken after {took:.2f} s: before the foreign lease was over"
        assert not foreign.step(time.monotonic()), "the foreign one still thinks it leads"


@suite.test
def status_lists_the_leases_of_the_namespace():
    with Scene(ttl="10s", kill_after="1s") as (standin, _, room):
        assert suite.elections_of(room.store) == {}
        suite.status_lists_two_elections(room.store, room, candidates=False)
        room.election = "A job"  # no name of an object, so the Lease has another one
        assert room.candidate("third", command=["true"]).wait() == 0
        names = [f"foreign-{i:03}" for i in range(205)]  # three pages
        for name in names:
            assert ClientGo(standin, name).step(time.monotonic())
        standin.lease("POST", "", {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "spec": {},
                                   "metadata": {"name": "bw32-mfrgg", "namespace": SPACE}})  # serves no election: it does not name one
        standin.lease("POST", "", {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "spec": {},
                                   "metadata": {"name": "x" * 128, "namespace": SPACE}})  # a name that no election can have
        found = suite.elections_of(room.store)
        assert sorted(found) == ["A job", *names, "led", "left"], sorted(found)
        assert found["foreign-204"]["held"] and found["led"]["leader"] == "second", found
        pages = [query for method, path, query, _ in standin.order("log")["log"] if query.get("limit")]
        assert len([query for query in pages if query.get("continue")]) >= 2, pages
        # a URL that names a Lease serves the one election of this Lease
        assert list(suite.elections_of(standin.url(lease="led"))) == ["led"]
        standin.order("verbs", lacks=["list"])
        code, _, errors = suite.command("status", "--store", room.store, "--timeout", "500ms")
        assert code == 69 and "HTTP 403" in errors and "list" in errors, (code, errors)


@suite.test
def bellwether_leads_at_once_when_client_go_releases():
    with Scene() as (standin, _, room):
        foreign = ClientGo(standin, ELECTION, duration=60)
        assert foreign.step(time.monotonic())
        b = room.candidate("b")
        b.said("leader", TIMEOUT_S)
        assert not room.starts()
        assert foreign.release(time.monotonic())
        room.started(1, TIMEOUT_S)
        assert b.leads() and spec_of(standin)["leaseTransitions"] == 1


def client_go_waits(_number=0):
    with Scene() as (standin, _, room):
        room.candidate("a")
        room.started(1, TIMEOUT_S)
        foreign = ClientGo(standin, ELECTION)
        until = time.monotonic() + 5
        while time.monotonic() < until:
            assert not foreign.step(time.monotonic()), "client-go took a Lease that was renewed"
            time.sleep(0.1)


@suite.test
def client_go_waits_while_bellwether_renews():
    stall.judge(client_go_waits, TTL_S / 3, "whether the Lease was renewed in time")


@suite.test
def client_go_takes_over_when_bellwether_is_killed():
    with Scene() as (standin, _, room):
        a = room.candidate("a")
        room.started(1, TIMEOUT_S)
        foreign = ClientGo(standin, ELECTION)
        assert not foreign.step(time.monotonic())
        work = a.said("started")["pid"]
        kill_both(a)
        dead = time.monotonic()
        while not foreign.step(time.monotonic()):
            assert time.monotonic() < dead + TIMEOUT_S
            time.sleep(0.05)
        took = time.monotonic() - dead
        comment(f"client-go took over {took:.2f} s after the kill")
        assert took > TTL_S * 0.6, "before the lease was over"
        send(work, signal.SIGKILL)
        lease = standin.lease("GET", ELECTION)[1]
        assert lease["spec"]["holderIdentity"] == foreign.identity and lease["spec"]["leaseTransitions"] == 1


@suite.test
def client_go_leads_at_once_when_bellwether_ends():
    with Scene() as (standin, _, room):
        a = room.candidate("a")
        room.started(1, TIMEOUT_S)
        foreign = ClientGo(standin, ELECTION, duration=60)
        assert not foreign.step(time.monotonic())
        a.signal(signal.SIGTERM)
        a.wait(TIMEOUT_S)
        assert foreign.step(time.monotonic()), "a released Lease was not free to client-go"


@suite.test
def holder_stops_its_work_when_client_go_takes_the_lease():
    with Scene() as (standin, _, room):
        a = room.candidate("a")
        room.started(1, TIMEOUT_S)
        foreign = ClientGo(standin, ELECTION)
        foreign.step(time.monotonic())
        wait_for(lambda: foreign.step(time.monotonic() + 1000), TIMEOUT_S)  # a candidate with a clock that is far too fast
        assert a.said("step-down", TIMEOUT_S)["reason"] == "taken"


# ---- hand-over, kills, pauses ----

@suite.alone
def watch_hands_over_a_resigned_leadership():
    with Scene(ttl="30s") as (standin, _, room):
        lead_and_wait(room)
        trips = []
        for _ in range(20):
            before = time.monotonic()
            standin.lease("GET", ELECTION)
            trips.append(time.monotonic() - before)
        spans = []
        for count in range(2, 7):
            status, _, errors = suite.command("resign", "--store", room.store, "--election", ELECTION)
            assert status == 0, errors
            line = room.started(count, TIMEOUT_S)
            ends = [int(x[3]) for x in room.lines() if x[0] == "end"]
            spans.append((int(line[3]) - ends[-1]) / 1e6)
            for candidate in room.candidates:  # a candidate that has not seen another lead waits for a while
                wait_for(lambda c=candidate: str(c.events("leader")[-1]["token"]) == line[1], TIMEOUT_S)
        comment(f"end of the old work to start of the new: {', '.join(f'{s:.1f}' for s in spans)} ms; "
                f"a GET of the stand-in takes {sorted(trips)[10] * 1000:.1f} ms (median, with its connection)")


@suite.test
def a_named_transfer_reaches_its_successor():
    with Scene() as (_, _, room):
        _, b = lead_and_wait(room)
        c = room.candidate("c")
        c.said("leader", TIMEOUT_S)
        status, _, errors = suite.command("resign", "--store", room.store, "--election", ELECTION, "--to", "c")
        if status == 64:
            status, _, errors = suite.command("transfer", "--store", room.store, "--election", ELECTION, "--to", "c")
        assert status == 0, errors
        room.started(2, TIMEOUT_S)
        assert c.leads() and not b.events("started")


@suite.test
def candidates_wait_for_the_ttl_after_sigkill_of_both_processes():
    with Scene() as (_, _, room):
        a, b = lead_and_wait(room)
        work = a.said("started")["pid"]
        killed = time.monotonic_ns()
        kill_both(a)
        send(work, signal.SIGKILL)
        took = (int(room.started(2, TIMEOUT_S)[3]) - killed) / 1e9
        comment(f"started {took:.2f} s after the kill; the TTL is {TTL_S} s")
        assert b.leads() and took > TTL_S * 0.6, f"taken after {took:.2f} s"


@suite.test
def late_write_is_rejected_when_holder_was_stopped():
    with Scene() as (standin, _, room):
        a, b = lead_and_wait(room)
        guardian = a.guardian()
        a.signal(signal.SIGSTOP)
        send(guardian, signal.SIGSTOP)
        send(a.said("started")["pid"], signal.SIGKILL)  # its work is not part of this test: what remains is a token
        room.started(2, TIMEOUT_S)
        assert b.leads()
        old, new = (line[1] for line in room.starts()[:2])
        path = os.path.join(room.dir, "guarded")
        assert suite.command("guard", "check", path, "--token", new)[0] == 0
        assert suite.command("guard", "check", path, "--token", old)[0] == 77, "a former leader's write was let through"
        assert int(old) < int(new)
        send(guardian, signal.SIGCONT)
        a.signal(signal.SIGCONT)
        assert a.said("step-down", TIMEOUT_S)
        assert spec_of(standin)["holderIdentity"].startswith("b_")


# ---- a Lease that is deleted (fault 19) ----

@suite.test
def deleted_lease_stops_its_holder_and_is_taken_only_after_a_ttl():
    with Scene() as (standin, _, room):
        a, b = lead_and_wait(room)
        deleted = time.monotonic_ns()
        assert standin.lease("DELETE", ELECTION)[0] == 200
        assert a.said("step-down", TIMEOUT_S)["reason"] == "taken"
        ended = wait_for(lambda: [int(x[3]) for x in room.lines() if x[0] in ("end", "signal")], TIMEOUT_S)[0]
        line = room.started(2, TIMEOUT_S)
        took = (int(line[3]) - deleted) / 1e9
        comment(f"the old work was stopped after {(ended - deleted) / 1e6:.1f} ms, the new one began after {took:.2f} s")
        assert took > TTL_S * 0.95, f"started {took:.2f} s after the deletion: a whole TTL was not waited"
        wait_for(lambda: b.events("started") or len(a.events("started")) > 1, TIMEOUT_S)
        asked = len(standin.order("log")["log"])
        assert asked < 200, f"{asked} requests: a candidate polls too often"


@suite.test
def recreated_lease_is_taken_only_after_a_ttl():
    with Scene() as (standin, _, room):
        lead_and_wait(room)
        deleted = time.monotonic_ns()
        assert standin.lease("DELETE", ELECTION)[0] == 200
        standin.lease("POST", ELECTION, {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": ELECTION}, "spec": {}})
        took = (int(room.started(2, TIMEOUT_S)[3]) - deleted) / 1e9
        assert took > TTL_S * 0.95, f"started {took:.2f} s after the deletion: a whole TTL was not waited"


# ---- faults of the server ----

def stepped_down(candidate, since):
    """How long after the wall-clock time it stepped down, from its own log, and why."""
    event = candidate.said("step-down", TIMEOUT_S)
    at = datetime.datetime.strptime(event["time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    return at.timestamp() - since, event["reason"]


@suite.test
def errors_for_a_whole_ttl_end_the_work_on_time():
    for status, reason in ((429, "TooManyRequests"), (500, "InternalError"), (409, "Conflict"), (503, "ServiceUnavailable")):
        with Scene(**PUNCTUAL) as (standin, _, room):
            a = room.candidate("a")
            room.started(1, TIMEOUT_S)
            standin.order("fail", status=status, reason=reason, seconds=1.4 * PUNCTUAL_TTL_S, retry_after=1)
            watch = stall.Watch([a.pid])
            took, why = stepped_down(a, time.time())
            assert why in ("unreachable", "expired"), why
            comment(f"{status}: stepped down after {took:.2f} s")
            assert took < PUNCTUAL_TTL_S + watch.longest(), f"{status}: stepped down after {took:.2f} s"
            room.started(2, TIMEOUT_S)


@suite.test
def a_server_that_is_killed_and_restarted_keeps_everything():
    with Scene(ttl="6s") as (standin, _, room):
        a, _ = lead_and_wait(room)
        standin.server.kill()
        standin.server.start()
        time.sleep(4)
        assert len(room.starts()) == 1 and a.leads()
        a.signal(signal.SIGTERM)
        room.started(2, TIMEOUT_S)


@suite.test
def a_paused_server_ends_the_work_before_the_lease():
    with Scene(**PUNCTUAL) as (standin, _, room):
        a, _ = lead_and_wait(room)
        standin.server.pause()
        watch = stall.Watch([a.pid])
        took, _ = stepped_down(a, time.time())
        assert took < PUNCTUAL_TTL_S + watch.longest(), f"stepped down after {took:.2f} s"
        wait_for(lambda: [x for x in room.lines() if x[0] in ("end", "signal")], TIMEOUT_S)
        standin.server.resume()
        room.started(2, TIMEOUT_S)


@suite.test
def server_that_lost_its_state_behaves_like_a_deleted_lease():
    with Scene() as (standin, _, room):
        a, _ = lead_and_wait(room)
        standin.server.kill()
        before = len(room.starts())
        os.unlink(standin.data)
        standin.server.start()
        a.said("step-down", TIMEOUT_S)
        wait_for(lambda: [x for x in room.lines() if x[0] in ("end", "signal")], TIMEOUT_S)
        wait_for(lambda: len(room.starts()) > before, TIMEOUT_S)
        room.epochs = [before]  # tokens restart: documented


@suite.test
def lost_reply_to_an_acquisition_is_recovered():
    with Scene(ttl="6s") as (standin, _, room):
        standin.order("fail", status=504, count=1, methods=["POST"], after=True)
        a = room.candidate("a")
        room.started(1, TIMEOUT_S)
        assert a.leads()
        spec = spec_of(standin)
        assert spec["leaseTransitions"] == 0, f"taken twice: {spec}"


@suite.test
def lost_replies_are_unknown_and_read_again():
    with Scene(ttl="3s") as (standin, proxy, room):
        a = room.candidate("a")
        room.started(1, TIMEOUT_S)
        for _ in range(3):
            proxy.mute()
            time.sleep(0.4)
            proxy.cut()
            proxy.heal()
            time.sleep(1)
        assert len(room.starts()) == 1 and a.leads()


@suite.test
def answers_later_than_the_deadline_end_the_work():
    with Scene() as (_, proxy, room):
        a = room.candidate("a")
        room.started(1, TIMEOUT_S)
        proxy.delay(3.0)
        assert a.said("step-down", TIMEOUT_S)["reason"] in ("unreachable", "expired")
        proxy.heal()
        room.started(2, TIMEOUT_S)


@suite.test
def half_open_connection_is_closed():
    with Scene() as (_, proxy, room):
        a, _ = lead_and_wait(room)
        proxy.drop()
        a.said("step-down", TIMEOUT_S)
        proxy.heal()
        room.started(2, TIMEOUT_S)


@suite.test
def waiting_candidates_obey_retry_after():
    with Scene() as (standin, _, room):
        room.candidate("a")
        room.started(1, TIMEOUT_S)
        standin.order("fail", status=429, seconds=TIMEOUT_S, methods=["GET"], retry_after=4)
        b = room.candidate("b")
        b.said("store-unavailable", TIMEOUT_S)
        standin.order("fail")
        before = sum(1 for m, *_ in standin.order("log")["log"] if m == "GET")
        time.sleep(1)
        after = sum(1 for m, *_ in standin.order("log")["log"] if m == "GET")
        assert after == before, "asked again before the server wanted"
        b.said("leader", TIMEOUT_S)


# ---- watches ----

@suite.test
def a_watch_whose_history_is_gone_reads_again():
    with Scene(ttl=f"{4 * TIMEOUT_S:.0f}s") as (standin, _, room):
        a, b = lead_and_wait(room)
        wait_for(lambda: standin.order("log")["watches"] >= 2, TIMEOUT_S)
        for _ in range(3):
            standin.order("compact")
        wait_for(lambda: standin.order("log")["watches"] >= 2, TIMEOUT_S)
        a.signal(signal.SIGTERM)
        room.started(2, TIMEOUT_S)  # by the watch, because the TTL is longer
        assert b.leads()


@suite.test
def silent_watch_is_detected_and_replaced():
    with Scene(ttl="9s") as (standin, _, room):
        a, b = lead_and_wait(room)
        standin.order("silence", on=True)
        time.sleep(1)
        before = sum(1 for _, _, q, _ in standin.order("log")["log"] if q.get("watch"))
        wait_for(lambda: sum(1 for _, _, q, _ in standin.order("log")["log"] if q.get("watch")) > before, TIMEOUT_S)
        standin.order("silence", on=False)
        a.signal(signal.SIGTERM)
        room.started(2, TIMEOUT_S)
        assert b.leads()


@suite.test
def single_election_watches_only_its_lease():
    with Scene() as (standin, _, room):
        lead_and_wait(room)
        watches = [q for _, _, q, _ in standin.order("log")["log"] if q.get("watch")]
        assert watches and all(q["fieldSelector"] == "metadata.name=" + ELECTION and q["allowWatchBookmarks"] == "true" for q in watches)


# ---- credentials ----

@suite.test
def a_rotated_token_file_is_read_again():
    with Place("kubernetes") as place:
        standin = Standin(place, token="first-secret")
        token = place.file("token", "first-secret\n")
        url = standin.url(user={"tokenFile": "token"})  # in the kubeconfig's directory
        with suite.room(url, retry="200ms", ttl="3s") as room:
            a = room.candidate("a")
            room.started(1, TIMEOUT_S)
            for path in (standin.token_file, token):
                with open(path + ".new", "w", encoding="utf-8") as file:
                    file.write("second-secret\n")
                os.replace(path + ".new", path)
            time.sleep(4)
            assert len(room.starts()) == 1 and a.leads(), "the new token was not used"
            room.judge()
            for name in os.listdir(room.dir):
                if name.endswith(".err"):
                    with open(os.path.join(room.dir, name), encoding="utf-8") as file:
                        assert "secret" not in file.read()


def status(url, *more, env=None):
    code, out, err = suite.answer("status", "--store", url, "--election", ELECTION, "--timeout", "2s", *more, env=env)
    return code, out + err


@suite.test
def wrong_token_is_reported_without_showing_it():
    with Place("kubernetes") as place:
        standin = Standin(place, token="right-secret")
        code, text = status(standin.url(user={"token": "wrong-secret"}))
        assert code == 69 and "401" in text and "secret" not in text, (code, text)
        standin.token = "right-secret"
        standin.order("deny", namespace=SPACE)
        code, text = status(standin.url())
        assert code == 69 and "403" in text and "forbidden" in text and "secret" not in text, (code, text)
        code, _, err = suite.command("run", "--store", standin.url(), "--election", ELECTION, "--wait", "60s", "--", "true")
        assert code == 64 and "403" in err and "secret" not in err, (code, err)


def polls_without(*verbs):
    """A Role that lacks these verbs is enough: one candidate leads and is followed by the other, with one message each."""
    with Scene(**PUNCTUAL) as (standin, _, room):
        standin.order("verbs", lacks=verbs)
        a, b = lead_and_wait(room)
        for candidate in (a, b):
            assert verbs[0] in candidate.said("polling", TIMEOUT_S)["message"]
        # The Lease is unchanged for several polls, except for renewals.
        time.sleep(PUNCTUAL_TTL_S)
        suite.resign(room)
        room.started(2, TIMEOUT_S)
        room.leading()
        for candidate in (a, b):
            said = [event["event"] for event in candidate.events()]
            denied = [event for event in candidate.events("store-unavailable") if "403" in event["message"]]
            assert said.count("polling") == 1 and not denied, (said, denied)
        # Asking for a missing permission again and again would fill the server's audit log.
        denied = [method for method, path, query, _ in standin.order("log")["log"]
                  if ("watch" if query.get("watch") else "list" if path.endswith("/leases") and method == "GET" else "") in verbs]
        assert len(denied) <= 3 * len(verbs) + 3, denied


@suite.test
def role_without_watch_is_enough():
    polls_without("watch")


@suite.test
def role_without_list_is_enough():
    polls_without("list")


@suite.test
def role_without_list_and_watch_is_enough():
    polls_without("list", "watch")


@suite.beside
def store_watches_again_after_a_single_403():
    with Scene(**PUNCTUAL) as (standin, _, room):
        standin.order("verbs", lacks=["watch"])
        a, b = lead_and_wait(room)
        for candidate in (a, b):
            candidate.said("polling", TIMEOUT_S)
        standin.order("verbs", lacks=[])
        before = len(standin.order("log")["log"])

        def watched():
            """both candidates to watch again"""
            return sum(1 for _, _, query, _ in standin.order("log")["log"][before:] if query.get("watch")) >= 2
        wait_for(watched, 60 + TIMEOUT_S, 0.5)
        suite.resign(room)
        room.started(2, TIMEOUT_S)
        for candidate in (a, b):
            assert len(candidate.events("polling")) == 1 and not candidate.events("store-unavailable"), candidate.text()


@suite.test
def not_found_by_a_proxy_is_no_deleted_lease():
    with Scene(**PUNCTUAL) as (standin, _, room):
        standin.order("verbs", lacks=["list"])
        candidates = lead_and_wait(room)
        for candidate in candidates:
            candidate.said("polling", TIMEOUT_S)
        standin.order("fail", status=404, reason="Proxy", seconds=TIMEOUT_S, methods=["GET"])
        for candidate in candidates:
            wait_for(lambda c=candidate: [event for event in c.events("store-unavailable") if "404" in event["message"]], TIMEOUT_S)
        standin.order("fail")
        suite.resign(room)
        room.started(2, TIMEOUT_S)
        taken = [event for c in candidates for event in c.events("step-down") if event["reason"] == "taken"]
        assert not taken, taken


@suite.test
def role_without_list_and_get_is_refused_with_the_verbs_it_needs():
    with Place("kubernetes") as place:
        standin = Standin(place)
        standin.order("verbs", lacks=["list", "get"])
        code, _, err = suite.command("run", "--store", standin.url(), "--election", ELECTION, "--wait", "60s", "--", "true")
        assert code == 64 and "the Role needs list (or get), watch, update and create" in err, (code, err)


def certificates(place):
    """Creates a CA, a server certificate and a client certificate."""
    tool = program("openssl", "openssl")

    def make(*words):
        subprocess.run([tool, *words], cwd=place.dir, check=True, capture_output=True)
    make("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.crt",
         "-subj", "/CN=ca", "-days", "2")
    place.file("names", "subjectAltName=IP:127.0.0.1\n")
    for name in ("server", "client"):
        make("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", name + ".key", "-out", name + ".csr",
             "-subj", "/CN=" + name)
        make("x509", "-req", "-in", name + ".csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", name + ".crt",
             "-days", "2", "-extfile", "names")


def base64_of(place, name):
    import base64
    with open(os.path.join(place.dir, name), "rb") as file:
        return base64.b64encode(file.read()).decode()


@suite.test
def tls_with_certificates_from_files_and_from_data():
    with Place("kubernetes") as place:
        certificates(place)
        files = [os.path.join(place.dir, n) for n in ("server.crt", "server.key", "ca.crt")]
        standin = Standin(place, options=["--tls", *files], scheme="https")
        code, text = status(standin.url(cluster={"certificate-authority": "ca.crt"},
                                        user={"client-certificate": "client.crt", "client-key": "client.key"}))
        assert code == 66, (code, text)  # reached: the election does not exist
        code, text = status(standin.url(cluster={"certificate-authority-data": base64_of(place, "ca.crt")},
                                        user={"client-certificate-data": base64_of(place, "client.crt"),
                                              "client-key-data": base64_of(place, "client.key")}))
        assert code == 66, (code, text)
        code, _, text = suite.command("run", "--store", standin.url(), "--election", ELECTION, "--log", "json", "-w", "2s", "--", "true")
        assert code == 69 and "certificate" in text.lower(), (code, text)
        code, text = status(standin.url(cluster={"insecure-skip-tls-verify": "true"}))
        assert code == 66, (code, text)


@suite.test
def a_pods_service_account_is_used():
    with Place("kubernetes") as place:
        certificates(place)
        files = [os.path.join(place.dir, n) for n in ("server.crt", "server.key", "ca.crt")]
        standin = Standin(place, token="pod-secret", options=["--tls", *files], scheme="https")
        account = place.folder("account")
        shutil.copy(files[2], os.path.join(account, "ca.crt"))
        for name, text in (("token", "pod-secret"), ("namespace", SPACE)):
            place.file("account/" + name, text)
        env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(standin.port)}
        code, text = status(f"kubernetes://?service-account={account}", env=env)
        assert code == 66, (code, text)


@suite.test
def a_kubeconfig_written_by_kubectl_is_read():
    kubectl = shutil.which("kubectl")
    if not kubectl:
        raise Skip("kubectl is not here")
    with Place("kubernetes") as place:
        standin = Standin(place, token="kubectl-secret")
        path = os.path.join(place.dir, "written")
        for words in (["set-cluster", "some", f"--server=http://127.0.0.1:{standin.port}/"], ["set-credentials", "me", "--token=kubectl-secret"],
                      ["set-cluster", "other", "--server=https://192.0.2.1"],
                      ["set-context", "here", "--cluster=some", "--user=me", f"--namespace={SPACE}"],
                      ["set-context", "there", "--cluster=other"], ["use-context", "there"]):
            done = subprocess.run([kubectl, "config", "--kubeconfig", path, *words], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (words, done.returncode, done.stderr)
        code, text = status("kubernetes://?context=here", env={"KUBECONFIG": path})
        assert code == 66, (code, text)


# ---- the guard for objects ----

@suite.test
def the_guard_for_objects_rejects_a_former_leaders_write():
    if not shutil.which("kubectl"):
        raise Skip("kubectl is not here")
    with Place("kubernetes") as place:
        standin = Standin(place)
        env = dict(os.environ, KUBECONFIG=standin.kubeconfig(), HOME=place.dir)
        guard = place.file("guard.sh", suite.command("guard", "print", "kubernetes")[1])
        assert standin.lease("POST", "x", {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "x"},
                                           "spec": {"holderIdentity": "nobody"}})[0] == 201

        def write(token, value, path="/spec/holderIdentity"):
            change = json.dumps({"op": "replace", "path": path, "value": value})
            return subprocess.run(["sh", guard, "lease/x", token, change], env=env, capture_output=True, text=True, timeout=120,
                                  check=False)
        for token, value, status_wanted in (("7", "first", 0), ("7", "again", 0), ("19", "newer", 0), ("18", "late", 77),
                                            ("", "none", 64), ("0", "none", 64), ("x", "none", 64)):
            done = write(token, value)
            assert done.returncode == status_wanted, (token, done)
        assert write("20", "x", "/nowhere/at/all").returncode == 74
        lease = standin.lease("GET", "x")[1]
        assert lease["spec"]["holderIdentity"] == "newer" and lease["metadata"]["annotations"]["bellwether/token"] == "19", lease


# ---- bad input ----

@suite.test
def invalid_urls_and_settings_are_rejected_with_a_reason():
    with Place("kubernetes") as place:
        standin = Standin(place)
        good = standin.kubeconfig()
        cases = [(f"kubernetes://Upper?kubeconfig={good}", "invalid namespace 'Upper'"),
                 (f"kubernetes://a,b?kubeconfig={good}", "must not name servers"),
                 (f"kubernetes://u@a?kubeconfig={good}", "must not name servers"),
                 (f"kubernetes://a/B_C?kubeconfig={good}", "invalid Lease name 'B_C'"),
                 (f"kubernetes://a?kubekonfig={good}", "did you mean 'kubeconfig'"),
                 ("kubernetes://a?kubeconfig=/nowhere", "cannot read /nowhere"),
                 (f"kubernetes://a?kubeconfig={good}&context=none", "no context 'none'"),
                 (f"kubernetes://a?kubeconfig={place.file('y', 'a: [')}", "invalid YAML"),
                 (f"kubernetes://a?kubeconfig={place.file('z', '')}", "empty"),
                 (f"kubernetes://a?kubeconfig={place.file('bomb', bomb())}", "too"),
                 (standin.url(name="e1", user={"exec": {"command": "aws"}}), "'exec' are not supported"),
                 (standin.url(name="e2", user={"username": "u", "password": "p-secret"}), "not supported"),
                 (standin.url(name="e3", cluster={"server": "ftp://x"}), "invalid API server"),
                 (standin.url(name="e4", user={"token": "t-secret"}, cluster={"server": "http://192.0.2.1"}), "without TLS"),
                 (standin.url(name="e8", user={"token": "t-secret"}, cluster={"server": "http://127.evil.invalid"}), "without TLS"),
                 (standin.url(name="e9", user={"token": "t-secret"}, cluster={"server": "http://localhost.evil.invalid"}), "without TLS"),
                 (standin.url(name="e7", cluster={"server": "https://u:p-secret@192.0.2.1"}), "must not contain a user or password"),
                 (standin.url(name="e5", cluster={"certificate-authority-data": "%%%"}), "not valid base64"),
                 (standin.url(name="e6", user={"token": "a\nb-secret"}), "token")]
        for url, wanted in cases:
            code, out, err = suite.command("run", "--store", url, "--election", ELECTION, "--", "true")
            assert code in (64, 69) and wanted in err, (url, wanted, code, err)
            assert "secret" not in out + err


def bomb():
    """YAML aliases that multiply to millions of values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 10) + "]" for i in range(1, 9)]
    return "\n".join(lines) + "\n"


@suite.test
def non_numeric_resource_versions_are_rejected():
    with Place("kubernetes") as place:
        standin = Standin(place)
        standin.order("letters", on=True)
        code, text = status(standin.url())
        assert code == 69 and "are not numbers" in text, (code, text)
        assert not [m for m, *_ in standin.order("log")["log"] if m != "GET"]


@suite.test
def a_lease_url_serves_one_election():
    with Place("kubernetes") as place, suite.room((standin := Standin(place)).url("my-controller")) as room:
        room.candidate("a")
        room.started(1, TIMEOUT_S)
        assert spec_of(standin, "my-controller")["holderIdentity"].startswith("a_")
        assert standin.lease("GET", ELECTION)[0] == 404
        many = room.candidate("b", options=["--shards", "2"])
        assert "cannot serve another election" in many.said("store-unavailable", TIMEOUT_S)["message"]


@suite.test
def hostile_replies_fail_safe():
    with Scene(ttl="3s") as (standin, proxy, room):
        lies = [b"\x00" * 100, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"items\":",
                b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"items\":[1,2,3,4]}}",
                b"HTTP/1.1 200 OK\r\nContent-Length: 71\r\n\r\n{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[{\"metadata\":5,\"spec\":[]}]}",
                b"HTTP/1.1 200 OK\r\nX: " + b"x" * (30 << 20),
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b"[" * 0x100000 + b"\r\n") * 20]
        for lie in lies:
            proxy.replace(lambda data, lie=lie: lie)
            code, out, err = suite.command("status", "--store", room.store, "--election", ELECTION, "--timeout", "2s")
            assert code == 69 and (out + err).strip(), (lie[:60], code, out, err)
        proxy.heal()
        a = room.candidate("a")
        room.started(1, TIMEOUT_S)
        proxy.replace(lambda data: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        a.said("step-down", TIMEOUT_S)
        proxy.heal()
        room.started(2, TIMEOUT_S)


if __name__ == "__main__":
    suite.main(at_once=3)
