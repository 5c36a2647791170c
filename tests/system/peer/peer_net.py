#!/usr/bin/env python3
"""Events of a `bellwether peer` network beside elections: changing keys and certificates, a list of members, a peer that leaves
permanently, a late peer, IPv6, host names that move, and a failing disk.

    peer_net.py BELLWETHER WITNESS DISK_SHIM [NAME...]

Real processes, checked by the witness. Leases are longer than any wait here, so a takeover is caused by messages, not by expiry."""
import concurrent.futures
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import traceback

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from netns_lib import Network, why_not  # noqa: E402
from peer_lib import PeerRoom, free_port  # noqa: E402
from run_lib import Tap, wait_for  # noqa: E402
from serve_lib import Authority  # noqa: E402

HANG_S = 60.0
KILLS = 20
LONG_TTL = "90s"  # longer than HANG_S: no test waits for a lease to expire
TESTS = []
SHIM = []


def test(function):
    TESTS.append((function.__name__, function))
    return function


class Skip(Exception):
    pass


def settled(room, count=3):
    """Waits until all peers know the leader, and returns it."""
    leader = room.leader(1, HANG_S)
    room.all_alive(count, HANG_S)
    room.agreed(HANG_S)
    return leader


def leader_number(room, count):
    """The peer that runs command number `count`, the last one so far, by its token: ended peers are no longer in the room."""
    token = room.started(count, HANG_S)[1]

    def found():
        """the leader to log what it started"""
        return [c for c in room.candidates if token in [str(e["token"]) for e in c.events("started")]]
    return wait_for(found, HANG_S)[0]


def end(room, peer, how=signal.SIGTERM):
    peer.signal(how)
    code = peer.wait(HANG_S)
    room.candidates.remove(peer)
    peer.err.close()
    return code


def put(path, text):
    """Replaces a file atomically, as a key rotation should."""
    with open(path + ".new", "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
        file.write(text)
    os.replace(path + ".new", path)


def new_key(room):
    return subprocess.run([room.bellwether, "peer", "keygen"], capture_output=True, text=True, check=True, timeout=HANG_S).stdout


def metric(room, name, row):
    """A counter of a peer that serves --http at this socket."""
    done = subprocess.run(["curl", "-s", "--unix-socket", os.path.join(room.dir, name + ".http"), "http://x/metrics"],
                          capture_output=True, text=True, check=False, timeout=HANG_S)
    values = [line.rsplit(" ", 1)[1] for line in done.stdout.splitlines() if line.startswith("bellwether_") and row in line]
    assert len(values) == 1, (row, done.stdout)
    return int(values[0])


def http(room, name):
    return ["--http", "unix:" + os.path.join(room.dir, name + ".http")]


# ---- keys ----

@test
def key_rotation_of_running_peers_causes_no_election(programs):
    with PeerRoom(*programs, ttl=LONG_TTL) as room:
        old, new = new_key(room), new_key(room)
        file = {name: os.path.join(room.dir, "keys" + name) for name in room.ports}
        for name in room.ports:
            put(file[name], old)
            room.keys = ("--key-file", file[name])
            room.candidate(name, options=http(room, name))
        room.keys = ("--key-file", file["1"])
        leader = settled(room)
        before = room.json("status")["peers"]
        for round_number, keys in enumerate((old + new, new + old, new), 1):
            for peer in room.candidates:
                put(file[peer.name], keys)
            for peer in room.candidates:
                peer.said("keys-read", HANG_S, round_number)
            assert room.agreed(HANG_S) == leader.name
        after = room.json("status")["peers"]
        assert [(p["leader"], p["term"]) for p in before] == [(p["leader"], p["term"]) for p in after], (before, after)
        assert len(room.starts()) == 1
        # Frames of a peer that has only the old key are dropped and counted.
        outsider_file = os.path.join(room.dir, "keys4")
        put(outsider_file, old)
        count = metric(room, leader.name, 'reason="unknown_key"')
        room.add("4")
        room.keys = ("--key-file", outsider_file)
        outsider = room.candidate("4", options=["--wait", "2s"])
        assert outsider.wait(HANG_S) == 69, outsider.text()
        room.keys = ("--key-file", file["1"])
        assert [m["id"] for m in room.json("members", at=["1"])["members"]] == [1, 2, 3]
        assert metric(room, leader.name, 'reason="unknown_key"') > count
        # An invalid key file is reported, and the current keys stay in use.
        put(file["1"], "rubbish\n")
        next(c for c in room.candidates if c.name == "1").said("keys-refused", HANG_S)
        put(file["1"], new)
        # Death notices that were sealed with a removed key have been renewed: the next leader need not wait.
        leader.signal(signal.SIGKILL)
        leader.wait()
        room.started(2, HANG_S)
        room.judge()


# ---- certificates ----

class Place:
    """Folders in the form that serve_lib's Authority expects."""

    def __init__(self, room):
        self.room = room

    def folder(self, name):
        path = os.path.join(self.room.dir, name)
        os.makedirs(path, exist_ok=True)
        return path


def use_certificate(room, name, authority, serial):
    """Signs a certificate for this peer and writes it to the peer's path."""
    crt, key = authority.sign(f"peer{name}-{serial}", names="subjectAltName=IP:127.0.0.1")
    for made, kept in ((crt, "crt"), (key, "key")):
        with open(made, encoding="utf-8") as file:
            put(os.path.join(room.dir, f"peer{name}.{kept}"), file.read())


def tls_words(room, name, authority):
    at = os.path.join(room.dir, "peer" + name)
    return ["--tls-cert", at + ".crt", "--tls-key", at + ".key", "--tls-ca", authority.crt]


def shown_name(room, name, authority):
    """The common name that this peer presents to a client with a certificate."""
    at = os.path.join(room.dir, "peer" + name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.crt)
    context.load_cert_chain(at + ".crt", at + ".key")
    context.set_alpn_protocols(["bellwether-peer"])
    with socket.create_connection(("127.0.0.1", room.ports[name]), HANG_S) as plain, \
            context.wrap_socket(plain, server_hostname="127.0.0.1") as sealed:
        return dict(part[0] for part in sealed.getpeercert()["subject"])["commonName"]


@test
def leadership_is_transferred_between_peers_with_certificates(programs):
    """The transfer uses a connection between the peers; elections need only datagrams."""
    if not shutil.which("openssl"):
        raise Skip("no openssl")
    with PeerRoom(*programs, ttl=LONG_TTL) as room:
        ours = Authority(Place(room), "ours")
        for name in room.ports:
            use_certificate(room, name, ours, 1)
            room.candidate(name, options=tls_words(room, name, ours))
        leader = settled(room)
        other = next(name for name in room.ports if name != leader.name)
        code, _, errors = room.ask("transfer", other)
        assert code == 0, errors
        assert leader_number(room, 2).name == other
        assert not [event for c in room.candidates for event in c.events("tls")]
        room.judge()


@test
def peers_with_certificates_elect_and_a_foreign_certificate_is_refused(programs):
    if not shutil.which("openssl"):
        raise Skip("no openssl")
    with PeerRoom(*programs, ttl=LONG_TTL) as room:
        ours, foreign = Authority(Place(room), "ours"), Authority(Place(room), "foreign")
        for name in room.ports:
            use_certificate(room, name, ours, 1)
            room.candidate(name, options=tls_words(room, name, ours))
        leader = settled(room)
        assert shown_name(room, leader.name, ours) == f"peer{leader.name}-1"
        # It has a key, so its datagrams are accepted; its connection to the leader is refused and logged.
        room.add("4")
        use_certificate(room, "4", foreign, 1)
        outsider = room.candidate("4", options=tls_words(room, "4", ours) + ["--leave"])
        line = leader.said("tls", HANG_S)["message"]
        assert "refused a peer's connection" in line and "certificate is refused" in line, line
        assert end(room, outsider) == 128 + signal.SIGTERM

        def alone():
            """the foreign peer to disappear"""
            return [m["id"] for m in room.json("members", at=[leader.name])["members"] if m["voter"]] == [1, 2, 3]
        wait_for(alone, HANG_S, 0.05)
        # Running peers load new certificates; this causes no election.
        for name in ("1", "2", "3"):
            use_certificate(room, name, ours, 2)

        def new_ones():
            """the new certificates"""
            return all(shown_name(room, name, ours) == f"peer{name}-2" for name in ("1", "2", "3"))
        wait_for(new_ones, HANG_S, 0.1)
        assert len(room.starts()) == 1
        # A closed TLS connection is a hint, too: the followers had connected with the old certificates.
        leader.signal(signal.SIGKILL)
        leader.wait()
        assert room.leader(2, HANG_S).name != leader.name
        room.judge()


# ---- membership ----

def write_list(room, names):
    text = "".join(f"{name} {room.address(name)}\n" for name in names)
    put(os.path.join(room.dir, "members"), "# ID ADDRESS\n" + text)


@test
def members_file_founds_the_cluster_and_is_read_at_each_start(programs):
    with PeerRoom(*programs) as room:  # a restarted peer makes its successors wait for a promise
        room.others, room.expect = ["--members", os.path.join(room.dir, "members")], 0
        write_list(room, room.ports)
        room.start()
        leader = settled(room)
        assert [m["voter"] for m in room.json("members")["members"]] == [True] * 3
        # The file changes while peers run: nothing happens.
        write_list(room, ["1", "2"])
        # A peer comes back at another address. The others do not read the list again; the peer itself contacts them.
        moved = next(c for c in room.candidates if c is not leader)
        assert end(room, moved) == 128 + signal.SIGTERM
        room.ports[moved.name] = free_port()
        write_list(room, ["1", "2", "3"])
        room.candidate(moved.name)
        room.all_alive(3, HANG_S)
        assert room.agreed(HANG_S) == leader.name
        # A peer with a longer list joins the existing ones.
        room.add("4")
        write_list(room, room.ports)
        room.candidate("4")

        def four():
            """the fourth to be a voter"""
            rows = room.json("members", at=["1"])["members"]
            return [m["id"] for m in rows if m["voter"] and m["state"] == "alive"] == [1, 2, 3, 4]
        wait_for(four, HANG_S, 0.05)
        # A list without the own id is rejected at once.
        room.add("5")
        other = room.candidate("5")
        assert other.wait(HANG_S) == 64 and "not in the list" in other.text(), other.text()
        # SIGHUP does not reload the list: it shuts a peer down cleanly, like `run`.
        assert end(room, leader, signal.SIGHUP) == 128 + signal.SIGHUP
        room.started(2, HANG_S)
        room.judge()


@test
def leaving_leader_hands_over_and_its_lease_is_not_waited_for(programs):
    with PeerRoom(*programs, ttl=LONG_TTL, more=["--leave"]) as room:
        room.start()
        leader = settled(room)
        assert end(room, leader) == 128 + signal.SIGTERM
        second = leader_number(room, 2)
        others = [name for name in room.ports if name != leader.name]

        def gone():
            """the others to know that it left and to have a quorum without it"""
            rows = {str(m["id"]): m for m in room.json("members", at=others)["members"]}
            return rows[leader.name]["state"] == "left" and not rows[leader.name]["voter"]
        wait_for(gone, HANG_S, 0.05)
        # Two voters are left. If the third still counted, one alone could never lead; now it can.
        assert end(room, second) == 128 + signal.SIGTERM
        third = leader_number(room, 3)
        assert third.name not in (leader.name, second.name)
        # A peer that left may come back with its old directory.
        room.candidate(leader.name)
        room.all_alive(2, HANG_S)
        assert room.agreed(HANG_S) == third.name
        room.judge()


@test
def late_peer_receives_death_notices(programs):
    """Of four voters, the remaining three must all learn that the leader's work is dead; renewals are minutes away."""
    with PeerRoom(*programs, ttl=LONG_TTL) as room:
        room.start()
        leader = settled(room)
        room.others = ["--join", room.address("1")]
        room.add("4")
        room.candidate("4")

        def four():
            """the fourth to be a voter, according to the leader"""
            rows = room.json("members", at=[leader.name])["members"]
            return sum(m["voter"] and m["state"] == "alive" for m in rows) == 4
        wait_for(four, HANG_S, 0.05)
        room.agreed(HANG_S)
        leader.signal(signal.SIGKILL)
        leader.wait()
        assert room.leader(2, HANG_S).name != leader.name
        room.judge()


@test
def successor_prepares_first_and_may_refuse(programs):
    with PeerRoom(*programs, ttl="20s") as room:
        for name in room.ports:
            ready = os.path.join(room.dir, "ready" + name)
            room.candidate(name, options=["--on-prepare", f"test -e {ready} && echo $BELLWETHER_ID >> {room.dir}/prepared"])
        leader = settled(room)
        follower = next(c for c in room.candidates if c is not leader)
        code, _, errors = room.ask("transfer", follower.name, "--wait", "2s")
        assert code == 75, (code, errors)
        assert "refused" in follower.said("prepared", HANG_S)["message"]
        assert len(room.starts()) == 1 and not leader.events("step-down")
        put(os.path.join(room.dir, "ready" + follower.name), "")
        code, _, errors = room.ask("transfer", follower.name)
        assert code == 0, errors
        assert room.leader(2, HANG_S) is follower
        with open(os.path.join(room.dir, "prepared"), encoding="utf-8") as file:
            assert file.read().split() == [follower.name]
        room.judge()


# ---- addresses ----

@test
def peers_elect_over_ipv6(programs):
    if not os.path.exists("/proc/net/if_inet6"):
        raise Skip("no IPv6 here")
    with PeerRoom(*programs, ttl=LONG_TTL, host="::1") as room:
        room.start()
        leader = settled(room)
        assert all(m["address"].startswith("[::1]:") for m in room.json("members")["members"])
        leader.signal(signal.SIGKILL)
        leader.wait()
        second = room.leader(2, HANG_S)
        assert second.name != leader.name
        room.done("resign", at=[c.name for c in room.candidates if c is not leader])
        room.started(3, HANG_S)
        room.judge()


class LinkRoom(PeerRoom):
    """One host per peer, connected only by IPv6. Peers listen on all addresses; the others see the address they send from."""

    def __init__(self, *programs, **more):
        super().__init__(*programs, **more)
        self.net = Network(len(self.ports))
        for number, host in self.net.hosts.items():
            host.run(["ip", "addr", "flush", "dev", "eth0", "scope", "global"], check=True)
            host.run(["ip", "addr", "add", f"fd77::{number}/64", "dev", "eth0", "nodad"], check=True)
        key = os.path.join(self.dir, "keys")
        put(key, new_key(self))
        self.keys = ("--key-file", key)

    def __exit__(self, kind, error, trace):
        super().__exit__(kind, error, trace)
        self.net.remove()

    def address(self, name):
        return f"[fd77::{name}]:7400"

    def words(self, name):
        words = super().words(name)
        words[words.index("--listen") + 1] = "[::]:7400"
        return self.net[int(name)].words(words)

    def from_where(self, line):
        return self.net[1].words(line)


@test
def ipv6_only_hosts_find_each_other_by_source_address(programs):
    if why_not() or not os.path.exists("/proc/net/if_inet6"):
        raise Skip(why_not() or "no IPv6 here")
    with LinkRoom(*programs, ttl=LONG_TTL) as room:
        room.start()
        leader = settled(room)
        # A peer does not know which of its own addresses others use; of the others it knows the address they send from.
        seen = {m["id"]: m["address"] for m in room.json("members", at=["1"])["members"]}
        assert seen[2] == "[fd77::2]:7400" and seen[3] == "[fd77::3]:7400", seen
        leader.signal(signal.SIGKILL)
        leader.wait()
        assert room.leader(2, HANG_S).name != leader.name
        room.judge()


class NamedRoom(PeerRoom):
    """Peers that find each other by one host name, resolved by their own hosts file."""

    def __init__(self, *programs, **more):
        super().__init__(*programs, **more)
        self.hosts = os.path.join(self.dir, "hosts")
        port = free_port("127.0.0.1")
        self.ports = {name: port for name in self.ports}  # the same port, but different addresses
        self.at = {name: f"127.0.0.{10 + int(name)}" for name in self.ports}
        self.others = ["--join", f"peers.test:{port}"]
        self.resolves([])

    def resolves(self, names):
        with open(self.hosts, "w", encoding="utf-8") as file:  # not replaced: it is bind-mounted
            file.write("127.0.0.1 localhost\n" + "".join(f"{self.at[name]} peers.test\n" for name in names))

    def address(self, name):
        return f"{self.at[name]}:{self.ports[name]}"

    def words(self, name):
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"',
                self.hosts, *super().words(name)]


def can_mount():
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


@test
def join_name_may_resolve_late_to_several_changing_addresses(programs):
    if os.geteuid() != 0 or not shutil.which("unshare") or not can_mount():
        raise Skip("needs root, for a hosts file of its own")
    with NamedRoom(*programs, ttl=LONG_TTL) as room:
        room.start()
        for peer in list(room.candidates):
            peer.said("joining", HANG_S)  # no peer is found: the name does not resolve yet
        assert not room.starts()
        room.resolves(["1", "2", "3"])
        leader = settled(room)
        # One peer comes back at another address, to which the name now resolves; only that address is tried.
        moved = next(c for c in room.candidates if c is not leader)
        assert end(room, moved) == 128 + signal.SIGTERM
        room.at[moved.name] = "127.0.0.77"
        room.resolves([moved.name])
        room.candidate(moved.name)
        room.all_alive(3, HANG_S)
        assert room.agreed(HANG_S) == leader.name
        # A new peer finds all others through the one address of the name.
        room.at["4"], room.ports["4"], room.expect = "127.0.0.14", room.ports["1"], 0
        room.candidate("4")
        room.all_alive(4, HANG_S)
        assert room.agreed(HANG_S) == leader.name and len(room.starts()) == 1
        room.judge()


# ---- peers that must end ----

def late_asan():
    """Environment that loads the sanitizer after the shim."""
    return os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"


@test
def leader_stops_its_work_and_exits_with_74_when_its_disk_fails(programs):
    with PeerRoom(*programs, ttl=LONG_TTL) as room:
        order = os.path.join(room.dir, "disk")
        for name in room.ports:
            room.candidate(name, env={"SHIM_DISK": order + name, "ASAN_OPTIONS": late_asan()}, shim=SHIM[0])
        leader = settled(room)
        put(order + leader.name, "sync 5\n")
        room.add("4")
        room.candidate("4")  # a membership change, which the leader must write to disk
        assert leader.wait(HANG_S) == 74, leader.text()
        assert "cannot write the" in leader.said("fatal-error")["message"]
        assert leader.events("confirmed-dead"), leader.text()
        assert room.leader(2, HANG_S).name != leader.name
        room.judge()


@test
def peer_that_lost_its_directory_exits_with_65_and_a_remedy(programs):
    with PeerRoom(*programs, ttl=LONG_TTL) as room:
        room.start()
        leader = settled(room)
        victim = next(c for c in room.candidates if c is not leader)
        assert end(room, victim, signal.SIGKILL) == -signal.SIGKILL
        shutil.rmtree(os.path.join(room.dir, "data" + victim.name))
        again = room.candidate(victim.name)
        assert again.wait(HANG_S) == 65, again.text()
        assert "data is gone" in again.said("fatal-error")["message"]
        assert room.agreed(HANG_S) == leader.name and len(room.starts()) == 1
        room.judge()


def voters(room, at):
    """The voters according to this peer: others may lag behind."""
    code, out, _ = room.ask("members", "--json", at=[at])
    return sorted(str(m["id"]) for m in json.loads(out)["members"] if m["voter"]) if code == 0 and out else []


def voters_become(room, at, names, peer=None):
    def so():
        assert peer is None or peer.process.poll() is None, peer.text()
        return voters(room, at) == names
    so.__doc__ = f"the voters to be {names} as peer {at} has it"
    wait_for(so, HANG_S, 0.05)


def follows(room, peer, leader):
    """Waits until this process answers and knows the leader. Before that, it may not have its signal handlers yet."""
    def so():
        assert peer.process.poll() is None, peer.text()
        code, out, _ = room.ask("status", "--json", at=[peer.name])
        rows = json.loads(out)["peers"] if code == 0 and out else []
        return [r for r in rows if str(r["id"]) == peer.name and r["answered"] and str(r.get("leader")) == leader.name]
    so.__doc__ = f"peer {peer.name} to follow peer {leader.name}"
    wait_for(so, HANG_S, 0.05)


def leaves(room, peer, leader):
    """Waits until the peer has left permanently: it exits with 0, and the leader no longer counts it."""
    follows(room, peer, leader)
    assert end(room, peer, signal.SIGTERM) == 128 + signal.SIGTERM, peer.text()
    voters_become(room, leader.name, sorted(n for n in room.ports if n != peer.name))


def returns_and_votes(room, name, leader):
    assert name not in voters(room, leader.name)
    again = room.candidate(name)
    for at in (leader.name, name):
        voters_become(room, at, sorted(room.ports), again)
    return again


@test
def left_or_removed_peer_returns_with_an_empty_directory_and_votes(programs):
    with PeerRoom(*programs, ttl=LONG_TTL) as room:
        room.start()
        leader = settled(room)
        for victim in [c for c in room.candidates if c is not leader]:
            end(room, victim, signal.SIGKILL)
            leaves(room, room.candidate(victim.name, options=["--leave"]), leader)
            shutil.rmtree(os.path.join(room.dir, "data" + victim.name))
            again = returns_and_votes(room, victim.name, leader)
        end(room, again, signal.SIGKILL)  # it dies without having left
        shutil.rmtree(os.path.join(room.dir, "data" + again.name))
        again = room.candidate(again.name)
        assert again.wait(HANG_S) == 65, again.text()
        assert f"bellwether peer remove {again.name}" in again.said("fatal-error")["message"]
        room.candidates.remove(again)
        for _ in range(2):  # the second attempt finds that it has already left
            code, out, errors = room.ask("remove", again.name, "--force")
            assert code == 0, (code, out, errors)
        returns_and_votes(room, again.name, leader)
        assert room.agreed(HANG_S) == leader.name and len(room.starts()) == 1
        room.judge()


@test
def peer_killed_during_founding_resumes_with_its_directory(programs):
    """Whatever part of the founding was on disk when it was killed: the others never know more about it than its disk."""
    chance = random.Random(os.environ.get("TEST_SEED"))
    with PeerRoom(*programs) as room:
        room.start()
        for _ in range(KILLS):
            time.sleep(chance.uniform(0, 0.15))
            victim = chance.choice(room.candidates)
            code = end(room, victim, signal.SIGKILL)
            assert code == -signal.SIGKILL, (code, victim.text())
            room.candidate(victim.name)
        leader = room.agreed(HANG_S)
        for peer in room.candidates:
            voters_become(room, peer.name, sorted(room.ports), peer)
            assert not peer.events("fatal-error"), peer.text()
        assert leader in room.ports
        room.judge()


def run_one(tap, programs, name, function):
    try:
        function(programs)
    except Skip as reason:
        tap.skip(name, str(reason))
    except Exception:  # any failure belongs to this test
        tap.result(False, name, traceback.format_exc())
    else:
        tap.result(True, name)


def main():
    programs, names = sys.argv[1:3], sys.argv[4:]
    SHIM.append(os.path.abspath(sys.argv[3]))
    tap = Tap()
    chosen = [(n, f) for n, f in TESTS if not names or n in names]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for name, function in chosen:
            pool.submit(run_one, tap, programs, name, function)
    sys.exit(tap.end())


if __name__ == "__main__":
    main()
