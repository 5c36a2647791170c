#!/usr/bin/env python3
"""The etcd store on real etcd servers: the conformance suite, and what only this store must show.

    store_etcd.py BELLWETHER WITNESS CONFORMANCE [NAME...]"""
import os
import subprocess

from store_lib import Place, Server, Suite, free_ports, program

suite = Suite()


class Cluster:
    """etcd members on loopback, each with its own data."""

    def __init__(self, place, count=1, *options):
        self.place = place
        etcd = program("etcd", "etcd-server")
        ports = free_ports(2 * count)
        self.ports, peers = ports[:count], ports[count:]
        names = ",".join(f"m{i}=http://127.0.0.1:{peers[i]}" for i in range(count))
        self.members = [
            Server(place, f"etcd{i}", [
                etcd, "--name", f"m{i}", "--data-dir", place.folder(f"data{i}"), "--listen-client-urls",
                f"http://127.0.0.1:{self.ports[i]}", "--advertise-client-urls", f"http://127.0.0.1:{self.ports[i]}",
                "--listen-peer-urls", f"http://127.0.0.1:{peers[i]}", "--initial-advertise-peer-urls",
                f"http://127.0.0.1:{peers[i]}", "--initial-cluster", names, "--initial-cluster-token", place.name,
                "--logger", "zap", "--log-level", "error", *options],
                port=self.ports[i], ready=lambda i=i: self.healthy(i)) for i in range(count)]
        for member in self.members:
            member.start(wait=False)
        for member in self.members:
            member.wait_ready()

    def healthy(self, i):
        return self.ctl("endpoint", "health", endpoints=f"127.0.0.1:{self.ports[i]}", check=False).returncode == 0

    def ctl(self, *words, endpoints=None, check=True, text=None):
        done = subprocess.run([program("etcdctl", "etcd-client"), "--endpoints", endpoints or self.endpoints(), *words],
                              env=dict(os.environ, ETCDCTL_API="3"), capture_output=True, text=True, timeout=60, check=False,
                              input=text)
        assert not check or done.returncode == 0, f"etcdctl {words}: {done.stdout}{done.stderr}"
        return done

    def endpoints(self):
        return ",".join(f"127.0.0.1:{p}" for p in self.ports)

    def url(self, path=""):
        return f"etcd://{self.endpoints()}{path}"


@suite.test
def conformance_etcd():
    with Place("etcd") as place:
        suite.run_conformance("etcd", Cluster(place).url())


suite.main()
