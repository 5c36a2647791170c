#!/usr/bin/env python3
"""The Debian packages on a bare Debian that boots systemd (systemd-nspawn): two builds are identical, they install, elect a
leader, are upgraded under a running leader, and leave nothing after a purge.

    ship_deb.py SOURCE [PACKAGES [ROOT]]

PACKAGES is a directory with built packages; without it, `make deb` builds them twice. ROOT is a Debian with systemd, which is
changed; without it, mmdebstrap makes one from the APT sources of this machine."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import Tap, free_ports, wait_for  # noqa: E402
import ship_image  # noqa: E402

HANG_S = 600  # ends a test that hangs; no verdict depends on it
tap = Tap()

# The work writes its token and the time ten times a second. Two of them at once cannot both have the lock.
WORK = """#!/bin/sh
cd /var/lib/bellwether/run
exec 9>>lock
flock -n 9 || echo "DOUBLE $BELLWETHER_TOKEN" >>beats
while :; do
    echo "$BELLWETHER_TOKEN $(date +%s.%N)" >>beats
    sleep 0.1
done
"""
# A TTL longer than the test: if the old leader does not hand over, no other candidate leads in time.
CONFIG = "store = sqlite:/var/lib/bellwether/run/elections.db\n[run]\nttl = 1h\ncommand = exec /srv/work\n"
# Another directory for drain, as on another host.
SECOND = ('[Service]\nExecStart=\nExecStart=/usr/bin/bellwether run --election nightly --config /etc/bellwether/run/nightly.conf '
          '--drain-dir /var/lib/bellwether/run/other\n')
PEER = "[peer]\nid = 1\nlisten = 127.0.0.1:7400\njoin = 127.0.0.1:7400\nexpect = 1\ncommand = exec sleep infinity\n"
UNITS = ("bellwether-run@nightly", "bellwether-run@second")
NODE = "bellwether-serve@alone"
SERVE = "[serve]\nlisten = 127.0.0.1:{port}\n"


class Missing(Exception):
    """This machine cannot run the test; the text says why."""


def sh(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3000, check=False,
                          stdin=subprocess.DEVNULL, **more)
    return done.returncode, done.stdout


def need(*programs):
    for name in programs:
        if not shutil.which(name):
            raise Missing(f"no {name}")


def build(source, out):
    code, said = sh("make", "-C", source, "--no-print-directory", "deb", f"DEB_BUILD={out}", env={
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")})
    assert code == 0, said[-4000:]
    return said


def contents(directory):
    return {os.path.basename(path): sh("sha256sum", path)[1].split()[0] for path in glob.glob(f"{directory}/*.deb")}


def build_twice(source, work):
    first, second = os.path.join(work, "first"), os.path.join(work, "second")
    said = build(source, first)
    lint = [line for line in said.split("\n") if re.match(r"[EWIN]: ", line)]
    tap.result(not lint, "packages build, and lintian is satisfied", "\n".join(lint))
    copy = os.path.join(work, "a copy")
    shutil.copytree(source, copy, ignore=lambda folder, names: [
        name for name in names if folder == source and (name.startswith("build") or name == ".git")], symlinks=True)
    build(copy, second)
    one, two = contents(first), contents(second)
    tap.result(one == two and one, "a second build, from another directory, is identical",
               "\n".join(name for name in sorted(one.keys() | two.keys()) if one.get(name) != two.get(name)))
    return first


def next_version(packages, out):
    """The same packages with a higher Debian revision, for the upgrade."""
    os.makedirs(out)
    for path in glob.glob(f"{packages}/*.deb"):
        if "-dbgsym" in path:
            continue
        tree = os.path.join(out, "tree")
        assert sh("dpkg-deb", "-R", path, tree)[0] == 0
        control = os.path.join(tree, "DEBIAN", "control")
        with open(control, encoding="utf-8") as file:
            text = file.read()
        version = re.search(r"^Version: (.*)$", text, re.M).group(1)
        with open(control, "w", encoding="utf-8") as file:
            file.write(text.replace(version, version + "+next"))
        code, said = sh("dpkg-deb", "--root-owner-group", "-b", tree,
                        os.path.join(out, os.path.basename(path).replace(version, version + "+next")))
        assert code == 0, said
        shutil.rmtree(tree)


def make_root(root):
    need("mmdebstrap")
    with open("/etc/os-release", encoding="utf-8") as file:
        suite = re.search(r"VERSION_CODENAME=(\w+)", file.read())
    sources = [path for path in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*.sources"),
                                 *glob.glob("/etc/apt/sources.list.d/*.list")] if os.path.exists(path)]
    if not suite or not sources:
        raise Missing("no suite or APT sources of a Debian")
    code, said = sh("mmdebstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus", suite.group(1), root, *sources)
    if code != 0:
        raise Missing("mmdebstrap cannot make a Debian: " + said.strip().split("\n")[-1])


class Machine:
    """A Debian that systemd-nspawn boots. It shares the network of this machine, to fetch packages."""

    def __init__(self, root, again=False):
        self.root, self.again, self.serve_port = root, again, free_ports()[0]
        self.log = open(root + ".log", "w+", encoding="utf-8")
        self.nspawn = subprocess.Popen(["systemd-nspawn", "-q", "-D", root, "--register=no", "--keep-unit", "--console=pipe", "--boot"],
                                       stdin=subprocess.PIPE, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            wait_for(self.is_up, HANG_S, 0.2)
        except AssertionError as error:
            self.close()
            if again:  # it did boot before Bellwether was installed
                raise
            raise Missing("systemd does not boot in systemd-nspawn") from error
        except BaseException:
            self.close()
            raise

    def is_up(self):
        if self.nspawn.poll() is not None:
            self.log.seek(0)
            why = "systemd-nspawn cannot boot: " + self.log.read().strip()[-300:]
            if self.again:
                raise AssertionError(why)
            raise Missing(why)
        children = sh("pgrep", "-P", str(self.nspawn.pid))[1].split()
        self.init = children[0] if children else None
        return self.init and self.run("systemctl is-system-running")[1].strip() in ("running", "degraded")

    def run(self, script):
        return sh("nsenter", "-t", self.init, "-a", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive",
                  "sh", "-c", script)

    def must(self, script):
        code, said = self.run(script)
        assert code == 0, f"{script}: {code}\n{said[-3000:]}"
        return said

    def beats(self):
        """Token and time of every beat of the work so far, and whether two ran at once."""
        lines = self.run("cat /var/lib/bellwether/run/beats 2>/dev/null")[1].split("\n")
        return [(int(a), float(b)) for a, b in re.findall(r"^(\d+) (\d+\.\d+)$", "\n".join(lines), re.M)], "DOUBLE" in "\n".join(lines)

    def events(self, unit):
        """The log events of a unit since the boot."""
        return re.findall(r'"event":"([a-z-]+)"', self.must(f"journalctl -b -o cat -u {unit}"))

    def served_token(self):
        """The token of an election on the node of `serve`."""
        said = self.must(f"bellwether run --store bellwether://127.0.0.1:{self.serve_port} --election served -- sh -c 'echo token $BELLWETHER_TOKEN'")
        return int(re.search(r"^token (\d+)$", said, re.M).group(1))

    def main_pid(self, unit):
        return int(self.must(f"systemctl show -p MainPID --value {unit}"))

    def reboot(self):
        port = self.serve_port
        self.close()
        self.__init__(self.root, again=True)
        self.serve_port = port

    def close(self):
        if self.nspawn.poll() is None:
            self.nspawn.terminate()  # nspawn asks the init of the machine to power off
            try:
                self.nspawn.wait(60)
            except subprocess.TimeoutExpired:
                self.nspawn.kill()
                self.nspawn.wait()
        self.log.close()


def installs_and_elects(machine):
    machine.must("apt-get update -q")
    started = time.monotonic()
    machine.must("apt-get install -y -q --no-install-recommends /srv/one/bellwether_*.deb /srv/one/bellwether-store-etcd_*.deb "
                 "/srv/one/libbellwether0_*.deb /srv/one/libbellwether-dev_*.deb /srv/one/bellwether-doc_*.deb")
    # the default store, with a strict umask: the units must still reach their directories below /var/lib/bellwether
    out = machine.must("umask 077; bellwether run --election first -- sh -c 'echo token $BELLWETHER_TOKEN'")
    assert "token 1" in out, out
    tap.comment(f"from the packages to the first election: {time.monotonic() - started:.1f} s")
    assert re.search(r"^  etcd +etcd://", machine.must("bellwether --version"), re.M), "the etcd module is not loaded"
    assert "is not installed" in machine.run("bellwether --version")[1], "a store that is not installed is not reported"
    machine.must("for page in /usr/share/man/man1/bellwether*.gz; do gzip -t $page; done")
    machine.must("apt-get install -y -q --no-install-recommends /srv/one/python3-bellwether_*.deb")
    out = machine.must("""python3 -c 'import bellwether
with bellwether.Leader("sqlite:/srv/first.db", "python") as lead: print("token", lead.token)'""")
    assert "token 1" in out, out
    assert machine.must("stat -c %a /etc/bellwether/run /etc/bellwether/peer /etc/bellwether/serve") == "755\n755\n755\n"


def units_lead(machine):
    machine.must("systemctl daemon-reload; systemctl enable --now bellwether-run@nightly")
    wait_for(lambda: machine.beats()[0], HANG_S, 0.2)
    machine.must("systemctl start bellwether-run@second")
    status = machine.must("systemctl show -p StatusText --value bellwether-run@nightly")
    assert status.strip() == "leading with token 1", status
    user = int(machine.must("stat -c %u /proc/$(systemctl show -p MainPID --value bellwether-run@nightly)"))
    assert 61184 <= user <= 65519, f"{user} is not a dynamic user of systemd"
    said = machine.must("journalctl -o json -u bellwether-run@nightly | head -40")
    assert '"PRIORITY":"6"' in said and '"MESSAGE":"<' not in said, said[-2000:]


def serve_unit_is_ready_when_systemd_says_so(machine):
    """The unit has Type=notify: `systemctl start` returns when the node reports that it is ready."""
    machine.must(f"systemctl enable --now {NODE}")
    first = machine.served_token()
    assert machine.served_token() > first
    user = int(machine.must(f"stat -c %u /proc/{machine.main_pid(NODE)}"))
    assert 61184 <= user <= 65519, f"{user} is not a dynamic user of systemd"
    killed = machine.main_pid(NODE)
    machine.must(f"systemctl kill -s KILL {NODE}")  # Restart=on-failure
    wait_for(lambda: machine.main_pid(NODE) not in (0, killed) and machine.run(f"systemctl is-active {NODE}")[0] == 0, HANG_S, 0.2)
    assert machine.served_token() > first + 1, "the node has lost its data"


def drain_reaches_units_and_outlasts_a_reboot(machine):
    """The units run as dynamic users in a sandbox. Root drains the host with a strict umask."""
    machine.must("systemctl enable --now bellwether-peer@alone")
    wait_for(lambda: "started" in machine.events("bellwether-peer@alone"), HANG_S, 0.2)
    before, served = machine.beats()[0][-1][0], machine.served_token()
    said = machine.must("umask 077; bellwether drain --reason kernel")
    assert said.startswith("drained since") and "process" not in said, said
    for unit in ("bellwether-run@nightly", "bellwether-peer@alone"):
        events = [event for event in machine.events(unit) if event in ("drained", "confirmed-dead", "released")]
        assert events == ["drained", "confirmed-dead", "released"], (unit, events)
    wait_for(lambda: machine.beats()[0][-1][0] > before, HANG_S, 0.2)  # the other candidate leads
    machine.reboot()  # starts the three enabled units; the other candidate is not enabled
    for unit in ("bellwether-run@nightly", "bellwether-peer@alone"):
        wait_for(lambda unit=unit: "drained" in machine.events(unit), HANG_S, 0.2)
    last = machine.beats()[0][-1]
    time.sleep(2)  # a candidate that contends is elected within milliseconds
    assert machine.must("bellwether drain --status").count("\n") == 1, "a candidate contends on a drained host"
    assert machine.beats()[0][-1] == last, "the work runs on a drained host"
    machine.must("bellwether undrain && systemctl start bellwether-run@second")
    wait_for(lambda: machine.beats()[0][-1][0] > last[0], HANG_S, 0.2)
    assert machine.served_token() > served, "the node of serve has lost its data"
    wait_for(lambda: "started" in machine.events("bellwether-peer@alone"), HANG_S, 0.2)


def upgrade_hands_over(machine):
    units = (*UNITS, NODE)
    pids = [machine.main_pid(unit) for unit in units]
    before, served = machine.beats()[0], machine.served_token()
    machine.must("apt-get install -y -q --no-install-recommends /srv/two/bellwether_*.deb /srv/two/bellwether-store-etcd_*.deb "
                 "/srv/two/libbellwether0_*.deb /srv/two/libbellwether-dev_*.deb /srv/two/bellwether-doc_*.deb")
    wait_for(lambda: machine.beats()[0][-1][0] > before[-1][0], HANG_S, 0.2)
    count = len(machine.beats()[0])
    wait_for(lambda: len(machine.beats()[0]) > count + 5, HANG_S, 0.2)
    beats, double = machine.beats()
    assert not double, "two works ran at once"
    assert beats == sorted(beats), "a token or the time went back"
    assert all(machine.main_pid(unit) not in (0, pid) for pid, unit in zip(pids, units)), "not restarted"
    assert machine.served_token() > served, "the node of serve has lost its data"
    gaps = [(b[1] - a[1], a[0], b[0]) for a, b in zip(beats, beats[1:]) if a[0] != b[0]]
    tap.comment("gaps: " + ", ".join(f"token {old} to {new} {gap:.2f} s" for gap, old, new in gaps))


def remove_stops_and_purge_leaves_nothing(machine):
    machine.must("apt-get remove -y -q bellwether")
    running = machine.must("grep -l '^bellwether$' /proc/[0-9]*/comm || true")
    assert not running, "an instance runs after its program was removed: " + running
    failed = machine.must("systemctl list-units --failed --plain --no-legend 'bellwether*'").strip()
    assert not failed, "a stop counts as a failure: " + failed
    machine.must("test -e /etc/bellwether/run/nightly.conf && test -d /var/lib/bellwether/run && ! test -e /usr/bin/bellwether")
    machine.must("rm -r /etc/systemd/system/bellwether-run@second.service.d")  # made by the administrator, not by the package
    machine.must("apt-get purge -y -q bellwether 'bellwether-*' 'libbellwether*' python3-bellwether && systemctl daemon-reload")
    left = machine.must("find / -xdev \\( -path /srv -o -path /proc -o -path /sys -o -path /var/log -o -path /var/cache \\) -prune "
                        "-o -name '*bellwether*' -print")
    assert not left, left
    units = machine.must("systemctl list-units --all --plain --no-legend 'bellwether*@*.service'").strip()
    assert not units, units


def on_machine(packages, work, root):
    need("systemd-nspawn", "nsenter")
    if os.geteuid() != 0:
        raise Missing("systemd-nspawn needs root")
    if not root:
        root = os.path.join(work, "debian")
        make_root(root)
    shutil.copytree(packages, os.path.join(root, "srv", "one"), ignore=shutil.ignore_patterns("*-dbgsym*", "log"))
    next_version(packages, os.path.join(root, "srv", "two"))
    shutil.copy("/etc/resolv.conf", os.path.join(root, "etc", "resolv.conf"))
    with open(os.path.join(root, "srv", "work"), "w", encoding="utf-8") as file:
        file.write(WORK)
    os.chmod(os.path.join(root, "srv", "work"), 0o755)
    machine = Machine(root)
    try:
        for step in (installs_and_elects, configure, units_lead, serve_unit_is_ready_when_systemd_says_so,
                     drain_reaches_units_and_outlasts_a_reboot, upgrade_hands_over, remove_stops_and_purge_leaves_nothing):
            try:
                step(machine)
                tap.result(True, step.__name__)
            except AssertionError as error:
                tap.result(False, step.__name__, str(error) + "\n" + machine.run("journalctl -n 40 --no-pager")[1][-5000:])
                break  # the later steps need this one
    finally:
        machine.close()


def configure(machine):
    machine.must("mkdir -p /etc/systemd/system/bellwether-run@second.service.d")
    for path, text in (("/etc/bellwether/run/nightly.conf", CONFIG),
                       ("/etc/bellwether/peer/alone.conf", PEER),
                       ("/etc/bellwether/serve/alone.conf", SERVE.format(port=machine.serve_port)),
                       ("/etc/systemd/system/bellwether-run@second.service.d/nightly.conf", SECOND)):
        with open(machine.root + path, "w", encoding="utf-8") as file:
            file.write(text)


def main():
    source = os.path.abspath(sys.argv[1])
    work = tempfile.mkdtemp(prefix="ship-deb-")
    try:
        need("dpkg-buildpackage", "dh", "lintian")
        packages = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else build_twice(source, work)
        try:
            ship_image.run(tap, source, packages, work, need)
        except Missing as why:
            tap.skip("image", str(why))
        on_machine(packages, work, os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None)
    except Missing as why:
        tap.skip("packages on a bare Debian", str(why))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(tap.end())


main()
