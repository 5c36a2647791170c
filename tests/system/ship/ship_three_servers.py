#!/usr/bin/env python3
"""The recipe of docs/guides/recipes/three-servers.md, as printed there, with the command lines of the units: three servers on
127.0.0.1 to 127.0.0.3. Each has directories of its own in place of /etc/bellwether, /run/credentials and /var/lib/bellwether.

    ship_three_servers.py BELLWETHER SOURCE UNUSED [NAME...]"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import free_ports, lives, send, stat_of, wait_for  # noqa: E402
from store_lib import TIMEOUT_S, Place, Server, Suite, program  # noqa: E402

suite = Suite()
BELL, SOURCE = os.path.abspath(suite.bellwether), os.path.abspath(sys.argv[2])
NODES = "abc"
with open(os.path.join(SOURCE, "docs", "guides", "recipes", "three-servers.md"), encoding="utf-8") as page:
    PAGE = page.read()


def scripts():
    return re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)


def files():
    """Path and text of each file of server a."""
    return dict(re.findall(r"^```ini\n# (\S+)\n(.*?)^```$", PAGE, re.M | re.S))


def unit_words(kind, instance):
    """The command line of a unit, without the program."""
    with open(os.path.join(os.path.dirname(BELL), "packaging", f"bellwether-{kind}@.service"), encoding="utf-8") as unit:
        line = next(line for line in unit if line.startswith('ExecStart="'))
    return line.split('"', 2)[2].replace("%i", instance).split()


def descendants(pid):
    """The process and all below it."""
    parents = {int(entry): stat_of(int(entry)) for entry in os.listdir("/proc") if entry.isdigit()}
    found = [pid]
    for one in found:
        found += [child for child, stat in parents.items() if stat and stat[1] == one]
    return found


class Site:
    """Three servers, and the machine on which the certificates are made."""

    def __init__(self, place):
        self.place, self.started = place, {}
        self.ports = {number: free_ports(2, f"127.0.0.{number}") for number in (1, 2, 3)}
        self.tls = place.folder("tls")
        self.run_script(scripts()[0], self.tls)

    def run_script(self, script, directory):
        done = subprocess.run(["sh", "-ec", self.addresses(script)], cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, done.stderr

    def addresses(self, text):
        """The text with addresses of this machine. Hosts of a store URL have the port of clients, without saying so."""
        text = re.sub(r"(10\.0\.0\.\d)(?=[,?][^\n]*key-file)", r"\1:2379", text)
        port = {":2379": 0, ":2380": 1}

        def here(match):
            number = int(match[1])
            return f"127.0.0.{number}" + (f":{self.ports[number][port[match[2]]]}" if match[2] else "")
        return re.sub(r"10\.0\.0\.([123])(:23\d\d)?", here, text)

    def local(self, node, text):
        """A text of the page for the server of this node."""
        text = text.replace("serve@a", f"serve@{node}").replace("serve/a.conf", f"serve/{node}.conf").replace("tls/a", f"tls/{node}")
        text = text.replace("listen = 10.0.0.1", f"listen = 10.0.0.{NODES.index(node) + 1}").replace("node=a ", f"node={node} ")
        for place in ("/etc/bellwether", "/run/credentials", "/var/lib/bellwether"):
            text = text.replace(place, self.place.folder(node) + place)
        return self.addresses(text)

    def configure(self, node):
        self.run_script(self.local(node, scripts()[1]), self.tls)
        for path, text in files().items():
            text, credential = self.local(node, text), re.match(r"/etc/systemd/system/(\S+)\.d/", path)
            if not credential:
                path = self.local(node, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                continue
            unit = self.local(node, "/run/credentials/" + credential[1])
            os.makedirs(unit)
            for name, source in re.findall(r"^LoadCredential=(\S+):(\S+)$", text, re.M):
                shutil.copy(source, os.path.join(unit, name))

    def start(self, kind, node, instance):
        root = self.place.folder(node)
        words = [BELL, *(self.local(node, word) for word in unit_words(kind, instance))]
        server = Server(self.place, f"{kind}-{node}", words, env={
            "BELLWETHER_HISTORY_DIR": os.path.join(root, "history"), "BELLWETHER_DRAIN_DIR": os.path.join(root, "drain")})
        self.started[kind, node] = server.start()

    def status(self, node):
        """What `cluster status` says, asked as on the page."""
        words = re.search(r"bellwether (cluster status .*?--key \S+)", PAGE, re.S)[1].replace("\\\n", " ")
        return suite.command(*self.local(node, words).split())

    def leader(self, node):
        """The node whose candidate leads, and its token; None if there is no leader."""
        words = re.search(r"bellwether (status --config .*)", PAGE)[1]
        code, out, said = suite.command(*self.local(node, words).split(), "--json")
        assert code in (0, 1, 69), (code, said)
        record = json.loads(out) if code == 0 else {}
        for name in NODES:
            process = self.started["run", name].process
            if record.get("leader", "").endswith(f"-{process.pid}"):
                return name, record["token"]
        return None

    def fail(self, node):
        """All processes of the server stop at once, and end: none of them can release a lease."""
        pids = [pid for kind in ("run", "serve") for pid in descendants(self.started[kind, node].process.pid)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                send(pid, number)
        for kind in ("run", "serve"):
            self.started[kind, node].process.wait()
        wait_for(lambda: not any(lives(pid) for pid in pids), TIMEOUT_S)


@suite.test
def job_moves_to_another_server_when_its_server_fails():
    program("openssl", "openssl")
    with Place("servers") as place:
        site = Site(place)
        for node in NODES:
            site.configure(node)
            site.start("serve", node, node)
        wait_for(lambda: site.status("a")[0] == 0, TIMEOUT_S, 0.1)
        for node in NODES:
            site.start("run", node, "nightly")
        first, token = wait_for(lambda: site.leader("a"), TIMEOUT_S, 0.1)
        site.fail(first)
        other = NODES.replace(first, "")[0]
        wait_for(lambda: site.status(other)[0] == 1, TIMEOUT_S, 0.1)

        def moved():
            found = site.leader(other)
            return found and found[0] != first and found
        second = wait_for(moved, TIMEOUT_S, 0.1)
        assert second[1] > token, (token, second)
        site.start("serve", first, first)
        wait_for(lambda: site.status(first)[0] == 0, TIMEOUT_S, 0.1)


@suite.test
def files_of_the_page_are_those_of_the_samples():
    """Without comments, and with the lines that the samples contain as comments."""
    for kind, name in (("serve", "a"), ("run", "nightly")):
        with open(os.path.join(SOURCE, "examples", "systemd", kind + ".conf"), encoding="utf-8") as file:
            sample = file.read().replace("NAME", name)
        offered = set(re.findall(r"^(?:# )?(\[\w+\]|[a-z-]+ = .*)$", sample, re.M))
        offered |= {line.replace("127.0.0.1", "10.0.0.1") for line in offered if line.startswith("listen")}
        printed = set(files()[f"/etc/bellwether/{kind}/{name}.conf"].strip().split("\n"))
        assert printed <= offered, printed - offered
        credentials = set(re.findall(r"^# +(LoadCredential=.*)$", sample, re.M))
        drop_in = files()[f"/etc/systemd/system/bellwether-{kind}@{name}.service.d/override.conf"]
        assert credentials == set(re.findall(r"^LoadCredential=.*$", drop_in, re.M)), (credentials, drop_in)


suite.main(2)
