#!/usr/bin/env python3
"""Commands of the guides, run as they are written: ports, paths below /tmp and host names included.

    ship_guides.py BELLWETHER SOURCE UNUSED [NAME...]

Each test has a network namespace, an empty /tmp and an empty /var/lib of its own, so that no other process has these ports and files."""
import contextlib
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import HANG_S, wait_for  # noqa: E402
from store_lib import Skip, Suite, program  # noqa: E402

suite = Suite()
SOURCE = os.path.abspath(sys.argv[2])
BUILD = os.path.dirname(os.path.abspath(suite.bellwether))
# $1: the program, $2: the directory of the store modules. Both may be below /tmp.
SETUP = """set -e
ip link set lo up
mount -t tmpfs tmpfs /mnt && mkdir -p /mnt/bin /mnt/modules /mnt/here
cp "$1" /mnt/bin/bellwether
cp "$2"/bellwether-store-*.so /mnt/modules
mount -t tmpfs tmpfs /var/lib && mount -t tmpfs tmpfs /tmp
printf '127.0.0.1 localhost\\n127.0.1.1 e1\\n127.0.1.2 e2\\n127.0.1.3 e3\\n' >/mnt/hosts && mount --bind /mnt/hosts /etc/hosts
: >/mnt/ready
exec sleep infinity"""


def blocks(page):
    """The code blocks of a guide."""
    with open(os.path.join(SOURCE, "docs", "guides", page), encoding="utf-8") as file:
        return re.findall(r"^```[a-z]*\n(.*?)^```$", file.read(), re.M | re.S)


class Machine:
    """A machine for the commands of a guide. `path` has the directory in which they run."""

    def __init__(self):
        if os.geteuid() != 0:
            raise Skip("needs root for namespaces")
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            if not any(line.split()[4] == "/" for line in mounts):
                raise Skip("the root directory is not a mount point, as in a chroot, so no mount namespace can be made")
        for name, package in (("unshare", "util-linux"), ("nsenter", "util-linux"), ("ip", "iproute2")):
            program(name, package)
        self.outer = subprocess.Popen(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", SETUP, "sh",
                                       os.path.abspath(suite.bellwether), os.path.join(BUILD, "src", "store")], start_new_session=True)

    def __enter__(self):
        def ready():
            assert self.outer.poll() is None, "cannot make a machine of namespaces"
            self.init = subprocess.run(["pgrep", "-P", str(self.outer.pid)], capture_output=True, text=True, check=False).stdout.strip()
            return self.init and os.path.exists(self.path("../ready"))
        wait_for(ready, HANG_S, 0.02)
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.outer.pid, signal.SIGKILL)  # --kill-child ends the namespaces
        self.outer.wait()

    def path(self, name):
        return os.path.join("/proc", self.init, "root", "mnt/here", name)

    def text(self, name):
        with contextlib.suppress(FileNotFoundError):
            with open(self.path(name), encoding="utf-8") as file:
                return file.read()
        return ""

    def job(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(self.path(name), 0o755)

    def start(self, script, output):
        """Starts a script as cron does: by /bin/sh, with few variables. Standard output and error go to a file."""
        with open(self.path(output), "w", encoding="utf-8") as file:
            return subprocess.Popen(["nsenter", "-t", self.init, "--net", "--mount", "--pid", "env", "-i", "-C", "/mnt/here", "HOME=/mnt/here", "SHELL=/bin/sh",
                                     "PATH=/mnt/bin:/usr/bin:/bin", "BELLWETHER_MODULES=/mnt/modules", "/bin/sh", "-c", script],
                                    stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)

    def run(self, script, output="out"):
        """Returns the exit code and what the script printed."""
        return self.start(script, output).wait(HANG_S), self.text(output)


@suite.test
def first_example_of_the_peer_guide_elects_a_leader():
    start, ask = blocks("peer.md")[:2]
    command, header, *rows = ask.splitlines()
    with Machine() as machine:
        machine.job("job", "echo working\nexec sleep infinity\n")
        peers = machine.start(start + "wait\n", "log")
        # each peer logs which one leads: then ask
        wait_for(lambda: len(set(re.findall(r'"event":"leader",.*"id":"(.)","leader":"."', machine.text("log")))) == 3, HANG_S, 0.05)
        code, out = machine.run(command.removeprefix("$ "))
        found = out.splitlines()
        assert code == 0 and found[0] == header and len(found) == 1 + len(rows), out
        columns = [re.split(r" {2,}", line.strip()) for line in found[1:]]
        wanted = [re.split(r" {2,}", line.strip()) for line in rows]
        assert [row[0] for row in columns] == [row[0] for row in wanted], out
        assert sorted(row[2] for row in columns) == sorted(row[2] for row in wanted), out
        assert len({row[1] for row in columns}) == 1 and all(re.fullmatch(r"\d[\d.ms]*s", row[5]) == (row[2] == "leader") or
                                                             (row[5] == "-") == (row[2] != "leader") for row in columns), out
        wait_for(lambda: "working\n" in machine.text("log"), HANG_S, 0.05)
        assert machine.text("log").count("working\n") == 1 and peers.poll() is None
        peers.kill()
        peers.wait()


def crontab():
    """The commands of the lines of the cron guide: the one with flock, on one host, on many hosts."""
    lines = re.findall(r"^\S+ \S+ \* \* \* +(.*?)(?: +#.*)?$", blocks("cron.md")[0], re.M)
    assert len(lines) == 3 and lines[0].startswith("flock ") and "--store" in lines[2], lines
    return lines


def two_crons_run_one_job(machine, line):
    """Two crons start the line at the same minute: one job runs, and the other line is silent."""
    machine.job("job", "echo run >>runs\nwhile [ ! -e go ]; do sleep 0.02; done\necho output of the job\nexit 3\n")
    first = machine.start(line, "first")
    wait_for(lambda: machine.text("runs") == "run\n", HANG_S, 0.02)
    assert machine.run(line, "second") == (0, ""), machine.text("second")
    code, out = machine.run(line.replace(" -E 0", ""), "third")
    assert (code, out) == (75, ""), (code, out)
    with open(machine.path("go"), "w", encoding="utf-8"):
        pass
    assert first.wait(HANG_S) == 3 and machine.text("first") == "output of the job\n", machine.text("first")
    assert machine.text("runs") == "run\n"


@suite.test
def cron_lines_run_one_job_on_one_host():
    with Machine() as machine:
        two_crons_run_one_job(machine, crontab()[1])
        machine.job("job", "exit 0\n")
        assert machine.run(crontab()[1]) == (0, "")


@suite.test
def cron_lines_run_one_job_on_many_hosts():
    line = crontab()[2]
    with Machine() as machine:
        machine.job("job", "echo run >>runs\n")
        code, out = machine.run(line.replace("-n ", "-n --ttl 2s "))  # no server: cron mails the one error
        assert code == 69 and out and not machine.text("runs"), (code, out)
        for number, node in enumerate("abc", 1):
            machine.start(f"exec bellwether serve --node {node} --cluster a=e1:2380,b=e2:2380,c=e3:2380 --listen e{number}:2379 --insecure "
                          f"--data /tmp/{node}", "serve-" + node)

        def answers():
            return machine.run("bellwether store check etcd://e1,e2,e3")[0] == 0
        wait_for(answers, HANG_S, 0.1)
        two_crons_run_one_job(machine, line)


suite.main(3)
