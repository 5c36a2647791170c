#!/usr/bin/env python3
"""The systemd units, and what the programs tell systemd: READY, STATUS, WATCHDOG and STOPPING on the notify socket, and
priorities on the stream that JOURNAL_STREAM names.

    ship_units.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402
from serve_lib import Authority  # noqa: E402
from store_lib import TIMEOUT_S, Place, Skip, Suite, free_ports, program  # noqa: E402

suite = Suite()
BELL = os.path.abspath(suite.bellwether)
UNITS = ("run", "peer", "serve")


class Manager:
    """The notify socket of a service manager, and the processes that it started."""

    def __init__(self, place):
        self.place, self.processes = place, []
        self.path = os.path.join(place.dir, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(TIMEOUT_S)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        self.socket.close()

    def start(self, *words, env=None, stderr=subprocess.DEVNULL):
        process = subprocess.Popen([BELL, *words], env=dict(os.environ, NOTIFY_SOCKET=self.path, **(env or {})), stderr=stderr,
                                   stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def until(self, line):
        """The lines received up to this one."""
        lines = []
        while line not in lines:
            lines += self.socket.recv(4096).decode().split("\n")
        return lines


def run_words(place, name, *options, command=("sleep", "1000")):
    words = ["run", "--store", "sqlite:" + os.path.join(place.dir, "e.db"), "--election", "e", "--id", name, *options]
    return words + (["--", *command] if command else [])


@suite.test
def units_are_valid_and_hardened():
    analyze = program("systemd-analyze", "systemd")
    built = os.path.join(os.path.dirname(BELL), "packaging")
    with Place("units") as place:
        for name in UNITS:
            with open(os.path.join(built, f"bellwether-{name}@.service"), encoding="utf-8") as unit:
                lines = unit.read().split("\n")
            start = next(i for i, line in enumerate(lines) if line.startswith('ExecStart="'))
            lines[start] = f'ExecStart="{BELL}"' + lines[start].split('"', 2)[2]
            path = place.file(f"bellwether-{name}@.service", "\n".join(lines))
            done = subprocess.run([analyze, "verify", "--man=no", path], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            assert f"bellwether-{name}" not in done.stderr, done.stderr
            done = subprocess.run([analyze, "security", "--offline=true", "--threshold=15", path], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=False)
            if "unrecognized option" in done.stderr:
                raise Skip("this systemd-analyze does not judge files")
            assert done.returncode == 0, name + done.stdout[-2000:] + done.stderr


@suite.test
def options_of_units_are_options_of_commands():
    """The parser reads the command line of each unit; only the config file is missing."""
    with Place("lines") as place:
        for name in UNITS:
            with open(os.path.join(os.path.dirname(BELL), "packaging", f"bellwether-{name}@.service"), encoding="utf-8") as unit:
                line = next(line for line in unit if line.startswith('ExecStart="'))
            words = line.split('"', 2)[2].replace("%S", place.dir).replace("/etc", place.dir).replace("/var/lib", place.dir)
            code, _, said = suite.command(*words.replace("%i", "x").split())
            assert code == 64 and f"/bellwether/{name}/x.conf" in said and "No such file" in said, (code, said)


@suite.test
def run_notifies_manager_of_start_leadership_and_stop():
    with Place("notify") as place, Manager(place) as manager:
        seen = os.path.join(place.dir, "seen")
        a = manager.start(*run_words(place, "a", command=["sh", "-c", f"env >{seen}.new; mv {seen}.new {seen}; exec sleep 1000"]))
        assert manager.until("STATUS=leading with token 1")[0] == "READY=1"
        wait_for(lambda: os.path.exists(seen))
        with open(seen, encoding="utf-8") as env:
            assert "NOTIFY_SOCKET" not in env.read(), "the work can send messages in the name of the supervisor"
        b = manager.start(*run_words(place, "b"))
        assert "READY=1" in manager.until("STATUS=leader a")
        a.send_signal(signal.SIGTERM)
        assert "STOPPING=1" in manager.until("STATUS=leading with token 2")
        assert a.wait(TIMEOUT_S) == 128 + signal.SIGTERM
        b.send_signal(signal.SIGTERM)
        manager.until("STOPPING=1")


@suite.test
def status_of_a_drained_candidate_says_that_it_is_drained():
    with Place("drained") as place, Manager(place) as manager:
        drain = ["--drain-dir", os.path.join(place.dir, "drain")]
        a = manager.start(*run_words(place, "a", *drain))
        manager.until("STATUS=leading with token 1")
        assert suite.command("drain", *drain)[0] == 0
        manager.until("STATUS=drained; leader none")
        a.send_signal(signal.SIGTERM)
        a.wait(TIMEOUT_S)
        manager.until("STOPPING=1")
        b = manager.start(*run_words(place, "b", "--drain-dir", os.path.join(place.dir, "other")))
        manager.until("STATUS=leading with token 2")
        a = manager.start(*run_words(place, "a", *drain))
        lines = manager.until("STATUS=drained; leader b")
        assert "STATUS=drained; waiting for the first election" in lines, lines
        assert suite.command("undrain", *drain)[0] == 0
        manager.until("STATUS=leader b")
        for process in (a, b):
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT_S)


@suite.test
def peer_and_launcher_of_shards_notify_manager():
    with Place("peer") as place, Manager(place) as manager:
        port = free_ports(1)[0]
        peer = manager.start("peer", "--id", "1", "--listen", f"127.0.0.1:{port}", "--data", os.path.join(place.dir, "peer"), "--join",
                             f"127.0.0.1:{port}", "--expect", "1", "--", "sleep", "1000")
        assert "READY=1" in manager.until("STATUS=leading with token 1")
        peer.send_signal(signal.SIGTERM)
        manager.until("STOPPING=1")
        peer.wait(TIMEOUT_S)
        shards = manager.start(*run_words(place, "s", "--shards", "2"))
        lines = manager.until("READY=1")
        assert "STATUS=contending for 2 shards" in lines, lines
        shards.send_signal(signal.SIGTERM)
        assert "READY=1" not in manager.until("STOPPING=1"), "the supervisor of a shard sent a message, too"


@suite.test
def watchdog_messages_come_from_the_process_that_the_manager_named():
    with Place("dog") as place, Manager(place) as manager:
        a = manager.start(*run_words(place, "a"), env={"WATCHDOG_USEC": "100000"})
        for _ in range(5):
            manager.until("WATCHDOG=1")
        os.kill(a.pid, signal.SIGSTOP)
        wait_for(lambda: open(f"/proc/{a.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()[0] == "T")
        manager.socket.setblocking(False)
        try:
            while True:
                manager.socket.recv(4096)
        except BlockingIOError:
            pass
        manager.socket.settimeout(1)
        try:
            raise AssertionError(f"a stopped supervisor, or a part of it, sent {manager.socket.recv(4096)}")
        except socket.timeout:
            pass
        manager.socket.settimeout(TIMEOUT_S)
        os.kill(a.pid, signal.SIGCONT)
        manager.until("WATCHDOG=1")
        a.send_signal(signal.SIGTERM)
        manager.until("STOPPING=1")
        a.wait(TIMEOUT_S)
        manager.socket.setblocking(False)
        try:
            while True:
                manager.socket.recv(4096)
        except BlockingIOError:
            pass
        manager.socket.settimeout(TIMEOUT_S)
        b = manager.start(*run_words(place, "b"), env={"WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"})
        lines = manager.until("STATUS=leading with token 2")
        b.send_signal(signal.SIGTERM)
        lines += manager.until("STOPPING=1")
        assert "WATCHDOG=1" not in lines, lines


def journal_lines(words, last, named=True, reactions=None):
    """What a command writes to its standard error, a stream socket, up to the line that contains `last`. `reactions` maps a text to a
    function that is called with the process when a line contains the text."""
    ours, theirs = socket.socketpair()
    state = os.fstat(theirs.fileno())
    stream = f"{state.st_dev}:{state.st_ino if named else state.st_ino + 1}"
    process = subprocess.Popen([BELL, *words], stderr=theirs, stdin=subprocess.DEVNULL, env=dict(os.environ, JOURNAL_STREAM=stream))
    theirs.close()
    ours.settimeout(TIMEOUT_S)
    lines = []
    try:
        with ours.makefile(encoding="utf-8") as reader:
            for line in reader:
                lines.append(line.rstrip("\n"))
                if last in line:
                    return lines
                for text, react in (reactions or {}).items():
                    if text in line:
                        react(process)
        raise AssertionError(f"no line with {last} in {lines}")
    finally:
        process.kill()
        process.wait()
        ours.close()


@suite.test
def lines_for_the_journal_begin_with_their_priority():
    priorities = {"info": "<6>", "warning": "<4>", "error": "<3>"}
    with Place("journal") as place:
        lines = journal_lines(run_words(place, "a"), '"elected"')
        nobody = free_ports(1)[0]
        lines += journal_lines(["run", "--store", f"bellwether://127.0.0.1:{nobody}", "--election", "e", "--id", "a", "--", "true"],
                               '"store-unavailable"')
        levels = set()
        for line in lines:
            event = json.loads(line[3:])
            levels.add(event["level"])
            assert line.startswith(priorities[event["level"]]), line
        assert {"info", "warning"} <= levels, lines
        assert journal_lines(["run", "--ttl", "x"], "ttl")[0].startswith("<3>bellwether run: ")
        port = free_ports(1)[0]
        serve = journal_lines(["serve", "--data", os.path.join(place.dir, "serve"), "--listen", f"127.0.0.1:{port}"], "leader default")
        assert all(line.startswith("<6>bellwether serve: ") for line in serve), serve
        assert journal_lines(["serve", "--data", "/proc/none"], "data directory")[0].startswith("<3>bellwether serve: ")


@suite.test
def lines_about_certificates_begin_with_their_priority():
    with Place("certificates") as place:
        ca = Authority(place, "ca")
        crt, key = ca.sign("first", days=10)
        other = ca.sign("second")

        def damage_key(process):
            with open(key, "w", encoding="utf-8") as file:
                file.write("no key\n")
            process.send_signal(signal.SIGHUP)

        def renew(process):
            for source, target in zip(other, (crt, key)):
                shutil.copy(source, target + ".new")
                os.replace(target + ".new", target)
            process.send_signal(signal.SIGHUP)
        lines = journal_lines(
            ["serve", "--data", os.path.join(place.dir, "serve"), "--listen", f"127.0.0.1:{free_ports(1)[0]}", "--cert", crt, "--key", key],
            "new connections use", reactions={"leader default": damage_key, "stays in use": renew})
        for text, priority in (("expires in", "<4>"), ("stays in use", "<3>"), ("new connections use", "<6>")):
            found = [line for line in lines if text in line]
            assert found and found[0].startswith(priority + "bellwether serve: "), (text, lines)


@suite.test
def lines_for_another_stream_have_no_priority():
    with Place("stream") as place:
        for line in journal_lines(run_words(place, "a"), '"elected"', named=False):
            json.loads(line)
        assert journal_lines(["run", "--ttl", "x"], "ttl", named=False)[0].startswith("bellwether run: ")
        for stream in ("", ":", "1", "x:y", "1:2:3", "99999999999999999999:1"):
            done = subprocess.run([BELL, "run", "--ttl", "x"], env=dict(os.environ, JOURNAL_STREAM=stream), capture_output=True, text=True,
                                  check=False, timeout=TIMEOUT_S)
            assert done.stderr.startswith("bellwether run: "), (stream, done.stderr)


def grant(path, user):
    """Lets this user read a file of root, as systemd does with a credential: by an ACL entry. The group has no access."""
    none = 0xffffffff
    entries = [(0x01, 4, none), (0x02, 4, user), (0x04, 0, none), (0x10, 4, none), (0x20, 0, none)]  # owner, user, group, mask, others
    try:
        os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries))
    except OSError as error:
        raise Skip(f"no ACLs in {os.path.dirname(path)}: {error}") from error


@suite.test
def credential_of_systemd_is_accepted_as_store_file():
    if os.geteuid() != 0:
        raise Skip("needs root")
    nobody, port = 65534, free_ports(1)[0]  # nothing listens there
    with Place("credential") as place:
        path = place.file("store", f"redis://user:secret@127.0.0.1:{port}/\n", 0o400)
        words = ["run", "--store-file", path, "--election", "e", "-n", "--", "true"]
        grant(path, nobody)
        assert os.stat(path).st_mode & 0o777 == 0o440
        _, _, said = suite.command(*words)
        assert "contains a password" not in said, said
        os.removexattr(path, "system.posix_acl_access")
        for owner, mode in ((nobody, 0o440), (0, 0o444), (0, 0o460)):
            os.chown(path, owner, 0)
            os.chmod(path, mode)
            code, _, said = suite.command(*words)
            assert code == 64 and f"other users have access (mode {mode:04o}): use chmod 600" in said, (owner, oct(mode), code, said)
            assert "secret" not in said, said


@suite.test
def config_file_names_the_command():
    with Place("command") as place:
        address = f"127.0.0.1:{free_ports(1)[0]}"
        for section, words in (("run", run_words(place, "a", command=None)),
                               ("peer", ["peer", "--id", "1", "--listen", address, "--join", address,
                                         "--expect", "1", "--data", os.path.join(place.dir, "data")])):
            config = place.file(section + ".conf", f"[{section}]\ncommand = echo \"token $BELLWETHER_TOKEN\" | tr a-z A-Z\n")
            code, out, said = suite.command(*words, "--config", config)
            assert code == 0 and out.startswith("TOKEN "), (section, code, out, said)
        code, out, said = suite.command(*run_words(place, "a", "--config", os.path.join(place.dir, "run.conf"), command=["echo", "other"]))
        assert code == 0 and out == "other\n", (code, out, said)


suite.main(2)
