#!/usr/bin/env python3
"""Metrics of `run`, alert rules and Grafana dashboard, with the real Prometheus.

    ship_alerts.py BELLWETHER SOURCE UNUSED [NAME...]

Prometheus scrapes two candidates through a change of leader. Every query of the dashboard must return data, and promtool must
accept metrics and rules."""
import json
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from prometheus import Prometheus, get  # noqa: E402
from run_lib import HANG_S, free_ports, wait_for  # noqa: E402
from store_lib import Place, Suite, program  # noqa: E402

suite = Suite()
SOURCE = os.path.abspath(sys.argv[2])
RULES = os.path.join(SOURCE, "packaging", "prometheus", "bellwether.rules.yml")
DASHBOARD = os.path.join(SOURCE, "packaging", "grafana", "bellwether.json")


def candidate(place, name, port):
    words = [suite.bellwether, "run", "--store", "sqlite:" + os.path.join(place.dir, "e.db"), "--election", "nightly", "--id", name, "--ttl", "2s",
             "--http", f"127.0.0.1:{port}", "--", "sleep", "1000"]
    with open(os.path.join(place.dir, name + ".log"), "w", encoding="utf-8") as log:
        return subprocess.Popen(words, stderr=log)


def serves(port):
    try:
        return bool(get(port, "/metrics"))
    except OSError:
        return False


def leads(port):
    return serves(port) and 'bellwether_leader{election="nightly"} 1' in get(port, "/metrics")


def check(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@suite.test
def alerts_fire_when_they_should_and_only_then():
    promtool = program("promtool", "prometheus")
    with Place("alerts") as place:
        shutil.copy(RULES, place.dir)
        shutil.copy(os.path.join(SOURCE, "tests", "system", "ship", "alerts.test.yml"), place.dir)
        check(promtool, "check", "rules", "bellwether.rules.yml", cwd=place.dir)
        check(promtool, "test", "rules", "alerts.test.yml", cwd=place.dir)


class Watched:
    """Two candidates of one election, and a Prometheus that scrapes them."""

    def __init__(self, place):
        program("prometheus", "prometheus")
        self.ports = dict(zip("ab", free_ports(2)))
        self.processes = {name: candidate(place, name, port) for name, port in self.ports.items()}
        wait_for(lambda: all(map(serves, self.ports.values())), HANG_S)
        self.prometheus = Prometheus(place, "bellwether", self.ports.values(), RULES)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait()

    def leader(self):
        return next((name for name, port in self.ports.items() if leads(port)), None)


@suite.test
def every_panel_shows_data_after_a_failover():
    with open(DASHBOARD, encoding="utf-8") as file:
        panels = json.load(file)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 5
    with Place("alerts") as place, Watched(place) as watched:
        wait_for(watched.leader, HANG_S)
        first = watched.leader()
        wait_for(lambda: len(watched.prometheus.query("bellwether_leader")) == 2, HANG_S)
        watched.processes[first].send_signal(signal.SIGKILL)
        watched.processes[first].wait()
        other = "ab".replace(first, "")
        wait_for(lambda: leads(watched.ports[other]), HANG_S)
        watched.processes[first] = candidate(place, first, watched.ports[first])
        for panel in panels:
            for target in panel["targets"]:
                expression = target["expr"].replace("$election", ".*")
                wait_for(lambda text=expression: watched.prometheus.shows(text), HANG_S)
        wait_for(lambda: {rule["health"] for rule in watched.prometheus.rules()} == {"ok"}, HANG_S)


@suite.test
def promtool_accepts_the_metrics_of_a_leader():
    promtool = program("promtool", "prometheus")
    with Place("alerts") as place:
        port = free_ports()[0]
        process = candidate(place, "a", port)
        try:
            wait_for(lambda: leads(port), HANG_S)
            check(promtool, "check", "metrics", input=get(port, "/metrics"))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def served(place, words, port, ready):
    """The metrics of a process, once `ready` is among them."""
    with open(os.path.join(place.dir, "log"), "w", encoding="utf-8") as log:
        process = subprocess.Popen([suite.bellwether, *words], stderr=log)
    try:
        wait_for(lambda: serves(port) and ready in get(port, "/metrics"), HANG_S)
        return get(port, "/metrics")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


@suite.test
def promtool_accepts_the_metrics_of_a_peer():
    promtool = program("promtool", "prometheus")
    with Place("alerts") as place:
        address, port = f"127.0.0.1:{free_ports()[0]}", free_ports()[0]
        words = ["peer", "--id", "1", "--listen", address, "--join", address, "--expect", "1", "--data", os.path.join(place.dir, "peer"),
                 "--http", f"127.0.0.1:{port}", "--", "sleep", "1000"]
        check(promtool, "check", "metrics", input=served(place, words, port, 'bellwether_leader{election="peer"} 1'))


@suite.test
def promtool_objects_only_to_two_names_of_etcd_in_the_metrics_of_serve():
    promtool = program("promtool", "prometheus")
    with Place("alerts") as place:
        port = free_ports()[0]
        words = ["serve", "--listen", f"127.0.0.1:{port}", "--data", os.path.join(place.dir, "serve")]
        metrics = served(place, words, port, "etcd_server_is_leader 1")
        done = subprocess.run([promtool, "check", "metrics"], input=metrics, capture_output=True, text=True, timeout=120, check=False)
        names = [line.split(" ")[0] for line in done.stderr.strip().split("\n")]
        assert names == ["etcd_debugging_mvcc_keys_total", "etcd_debugging_mvcc_watcher_total"], done.stdout + done.stderr


@suite.test
def promtool_accepts_the_metrics_file_of_a_guard():
    promtool = program("promtool", "prometheus")
    with Place("alerts") as place:
        path, file = os.path.join(place.dir, "ledger"), os.path.join(place.dir, "guard.prom")
        for token, code in (("5", 0), ("4", 77)):
            done = subprocess.run([suite.bellwether, "guard", "check", path, "--metrics-file", file], timeout=120, check=False,
                                  env={**os.environ, "BELLWETHER_TOKEN": token}, capture_output=True)
            assert done.returncode == code, done
        with open(file, encoding="utf-8") as metrics:
            text = metrics.read()
        assert "bellwether_split_brain_total{" in text, text
        check(promtool, "check", "metrics", input=text)


suite.main(2)
