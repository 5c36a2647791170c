"""Hosts as network namespaces: connected by a bridge, partitioned and made lossy by nftables.

    with Network(5) as net:
        process = net[1].start(["bellwether", ...])     # a Host; addresses are net[1].address
        net.cut(1, 2)                                   # no packets in either direction
        net.cut_one_way(1, 2)                           # no packets from 1 to 2
        net.split([1, 2], [3, 4, 5])
        net.loss(20)                                    # percent of all arriving packets
        net.heal()

The bridge has its own namespace, so it is invisible from outside, and any number of networks can use the same addresses at the
same time. Filters act where packets arrive. The relay (tests/tools/relay.c, class Relay) adds delay, because many kernels have
no netem.

The network and all processes in it are removed when the block ends, however it ends. The next test removes what a killed test
left: the names contain the pid of their creator. Without root, nft or ip, `why_not()` returns the reason, so that tests can be
skipped by name."""
import atexit
import concurrent.futures
import itertools
import os
import re
import shutil
import signal
import subprocess
import threading

PREFIX = "bw-net"
NETWORK = "10.77.0"
LOSS_UNIT = 1000  # of loss: a tenth of a percent


def run(*words, check=True, text=None):
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False, timeout=60)
    assert not check or done.returncode == 0, f"{' '.join(words)}: {done.stderr.strip()}"
    return done


def why_not():
    """Why a network cannot be created here; None if it can."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    for program in ("ip", "nft", "nsenter"):
        if not shutil.which(program):
            return f"needs {program}"
    probe = f"{PREFIX}-{os.getpid()}-probe"
    made = run("ip", "netns", "add", probe, check=False)
    if made.returncode != 0:
        return "no network namespaces: " + made.stderr.strip()
    filters = run("nsenter", f"--net=/run/netns/{probe}", "nft", "add table inet probe", check=False)
    bridge = run("ip", "-n", probe, "link", "add", "name", "sw0", "type", "bridge", check=False)
    run("ip", "netns", "del", probe, check=False)
    for what, done in (("nftables", filters), ("bridges", bridge)):
        if done.returncode != 0:
            return f"the kernel has no {what}: {done.stderr.strip()}"
    return None


def names():
    listed = run("ip", "netns", "list", check=False).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(PREFIX + "-")]


def remove_space(name):
    """Removes a namespace and kills all processes in it."""
    for pid in run("ip", "netns", "pids", name, check=False).stdout.split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    run("ip", "netns", "del", name, check=False)


def sweep():
    """Removes networks whose creators are dead."""
    for name in names():
        pid = re.match(rf"{PREFIX}-(\d+)-", name)
        if pid and not os.path.exists(f"/proc/{pid[1]}"):
            remove_space(name)


networks = set()  # that exist now


def remove_all(*_):
    for net in list(networks):
        net.remove()


def on_term(*_):
    remove_all()
    os._exit(1)  # does not wait for tests in threads


atexit.register(remove_all)
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, on_term)


class Host:
    def __init__(self, net, number):
        self.number, self.address = number, f"{NETWORK}.{number}"
        self.space = f"{net.prefix}-h{number}"
        self.cut_from = set()   # numbers of hosts whose packets are dropped
        self.lost_from = {}     # number, or None for all: percent lost
        self.processes = []
        far = f"h{number}"
        run("ip", "netns", "add", self.space)
        run("ip", "-n", net.switch, "link", "add", "name", far, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        run("ip", "-n", net.switch, "link", "set", "dev", far, "master", "sw0", "up")
        run("ip", "-n", self.space, "addr", "add", self.address + "/24", "dev", "eth0")
        run("ip", "-n", self.space, "link", "set", "eth0", "up")
        run("ip", "-n", self.space, "link", "set", "lo", "up")
        self.nft("add table inet cut\n"
                 "add chain inet cut arrive { type filter hook input priority 0; policy accept; }\n")

    def words(self, words):
        """The command line that runs a command on this host: only its network differs, and the pid is that of the command."""
        return ["nsenter", f"--net=/run/netns/{self.space}", "--", *words]

    def start(self, words, **options):
        process = subprocess.Popen(self.words(words), **options)
        self.processes.append(process)
        return process

    def run(self, words, **options):
        options = {"capture_output": True, "text": True, "timeout": 60, "check": False, **options}
        return subprocess.run(self.words(words), **options)

    def nft(self, script):
        run(*self.words(["nft", "-f", "-"]), text=script)

    def filter(self):
        """Replaces all rules atomically."""
        rules = ["flush chain inet cut arrive"]
        for number in sorted(self.cut_from):
            rules.append(f"add rule inet cut arrive ip saddr {NETWORK}.{number} drop")
        for number, percent in self.lost_from.items():
            source = "iif != lo" if number is None else f"ip saddr {NETWORK}.{number}"
            rules.append(f"add rule inet cut arrive {source} numgen random mod {LOSS_UNIT} < "
                         f"{round(percent * LOSS_UNIT / 100)} drop")
        self.nft("\n".join(rules) + "\n")


class Network:
    """Hosts 1 to count; more can be added."""

    numbers = itertools.count(1)

    def __init__(self, count):
        sweep()
        self.prefix = f"{PREFIX}-{os.getpid()}-{next(self.numbers)}"
        self.switch = self.prefix + "-sw"
        self.hosts = {}
        self.gone = False
        networks.add(self)
        try:
            run("ip", "netns", "add", self.switch)
            run("ip", "-n", self.switch, "link", "add", "name", "sw0", "type", "bridge")
            run("ip", "-n", self.switch, "link", "set", "dev", "sw0", "up")
            for _ in range(count):
                self.add()
        except BaseException:
            self.remove()
            raise

    def add(self):
        number = len(self.hosts) + 1
        self.hosts[number] = Host(self, number)
        return self.hosts[number]

    def __getitem__(self, number):
        return self.hosts[number]

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.remove()

    def remove(self):
        """Kills every process that was started here, then removes the namespaces. May be called more than once."""
        if self.gone:
            return
        self.gone = True
        for host in self.hosts.values():
            for process in host.processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                process.wait()
        for name in names():
            if name.startswith(self.prefix + "-"):
                remove_space(name)
        networks.discard(self)

    # ---- faults ----

    def cut_one_way(self, source, target):
        """Drops packets from `source` to `target`."""
        self.hosts[target].cut_from.add(source)
        self.hosts[target].filter()

    def cut(self, a, b):
        self.cut_one_way(a, b)
        self.cut_one_way(b, a)

    def isolate(self, number):
        self.split([number], [other for other in self.hosts if other != number])

    def split(self, *groups):
        """Applies the filters on all hosts at nearly the same time: half a partition is another fault."""
        for i, group in enumerate(groups):
            for others in groups[i + 1:]:
                for a in group:
                    for b in others:
                        self.hosts[a].cut_from.add(b)
                        self.hosts[b].cut_from.add(a)
        self.filter_all()

    def filter_all(self):
        with concurrent.futures.ThreadPoolExecutor(len(self.hosts)) as pool:
            list(pool.map(lambda host: host.filter(), self.hosts.values()))

    def loss(self, percent, source=None, target=None):
        """Drops a percentage of the packets that arrive at `target` (None: all hosts) from `source` (None: all hosts); 0 ends it."""
        for number, host in self.hosts.items():
            if target in (None, number):
                if percent:
                    host.lost_from[source] = percent
                else:
                    host.lost_from.pop(source, None)
        self.filter_all()

    def heal(self):
        for host in self.hosts.values():
            host.cut_from.clear()
            host.lost_from.clear()
        self.filter_all()


class Relay:
    """A slow connection to target ("ADDRESS:PORT"), on `host` or, without one, on this host; listens on `address`."""

    def __init__(self, program, target, delay_ms, jitter_ms=0, loss=0, seed=1, host=None, listen="127.0.0.1:0"):
        words = [program, listen, target, "--delay", str(delay_ms), "--jitter", str(jitter_ms), "--loss", str(loss),
                 "--seed", str(seed)]
        self.process = subprocess.Popen(host.words(words) if host else words, stdout=subprocess.PIPE, text=True)
        if host:
            host.processes.append(self.process)
        line = self.process.stdout.readline().split()
        assert line[:1] == ["listening"], f"the relay did not start: {words}"
        self.address = listen.rsplit(":", 1)[0] + ":" + line[1]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
