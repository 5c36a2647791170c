"""The API server stand-in as a test server, and client-go's leader election, step by step."""
import datetime
import json
import os
import random
import string
import sys
import urllib.error
import urllib.request

from store_lib import Server, free_ports

HERE = os.path.dirname(os.path.abspath(__file__))
SPACE = "testing"


class Standin:
    """A stand-in for an API server, with its kubeconfig and injected faults."""

    def __init__(self, place, token=None, options=(), scheme="http"):
        self.place, self.port = place, free_ports()[0]
        self.data = os.path.join(place.dir, "leases")
        words = [sys.executable, os.path.join(HERE, "kube_standin.py"), str(self.port), self.data, *options]
        self.token_file = place.file("token-of-server", token) if token else None
        if token:
            words += ["--token", self.token_file]
        self.server = Server(place, "standin", words, port=self.port)
        self.scheme, self.token = scheme, token
        self.server.start()

    def kubeconfig(self, name="kubeconfig", port=None, user=None, cluster=None):
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "here",
                  "clusters": [{"name": "c", "cluster": dict({"server": f"{self.scheme}://127.0.0.1:{port or self.port}"},
                                                             **(cluster or {}))}],
                  "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": SPACE}}],
                  "users": [{"name": "u", "user": user if user is not None else ({"token": self.token} if self.token else {})}]}
        return self.place.file(name, json.dumps(config), 0o600)  # JSON is YAML

    def url(self, lease="", **more):
        return f"kubernetes://{SPACE}{'/' + lease if lease else ''}?kubeconfig={self.kubeconfig(**more)}"

    def ask(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=json.dumps(body).encode() if body is not None else None,
                                         headers={"Content-Type": "application/json"})
        if self.token:
            request.add_header("Authorization", "Bearer " + self.token)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def order(self, what, **given):
        return self.ask("POST", "/standin/" + what, given)[1]

    def lease(self, method, name, body=None):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases"
        return self.ask(method, path if method == "POST" else f"{path}/{name}", body)


def micro_time():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class ClientGo:
    """client-go's tools/leaderelection on a LeaseLock, one tryAcquireOrRenew per step. The caller supplies the time."""

    def __init__(self, standin, name, identity=None, duration=2):
        self.standin, self.name, self.duration = standin, name, duration
        self.identity = identity or "pod-a_" + "".join(random.choices(string.hexdigits.lower(), k=36))
        self.lease, self.observed, self.raw, self.observed_at = None, {}, None, 0.0

    def spec(self, now, **more):
        return dict({"holderIdentity": self.identity, "leaseDurationSeconds": self.duration, "acquireTime": now, "renewTime": now,
                     "leaseTransitions": 0}, **more)

    def leads(self):
        return self.observed.get("holderIdentity") == self.identity

    def valid(self, at):
        return self.observed_at + self.observed.get("leaseDurationSeconds", 0) > at

    def observe(self, spec, at):
        self.observed, self.observed_at = spec, at

    @staticmethod
    def raw_of(spec):
        """The record as JSON, with times in whole seconds."""
        return json.dumps({k: (v[:19] if k.endswith("Time") and v else v) for k, v in sorted(spec.items())})

    def update(self, spec, at):
        self.lease["spec"] = spec
        code, answer = self.standin.lease("PUT", self.name, self.lease)
        if code == 200:
            self.lease = answer
            self.observe(spec, at)
        return code == 200

    def step(self, at):
        """tryAcquireOrRenew; returns True if it leads."""
        spec = self.spec(micro_time())
        if self.leads() and self.valid(at):
            spec.update(acquireTime=self.observed["acquireTime"], leaseTransitions=self.observed["leaseTransitions"])
            if self.update(spec, at):
                return True
        code, lease = self.standin.lease("GET", self.name)
        if code == 404:
            code, lease = self.standin.lease("POST", self.name, {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
                                                                 "metadata": {"name": self.name, "namespace": SPACE}, "spec": spec})
            if code == 201:
                self.lease = lease
                self.observe(spec, at)
            return code == 201
        assert code == 200, (code, lease)
        self.lease = lease
        old = lease["spec"]
        if self.raw != self.raw_of(old):
            self.observe(old, at)
            self.raw = self.raw_of(old)
        if old.get("holderIdentity") and self.valid(at) and not self.leads():
            return False
        before = old.get("leaseTransitions", 0)
        if self.leads():
            spec.update(acquireTime=old["acquireTime"], leaseTransitions=before)
        else:
            spec["leaseTransitions"] = before + 1
        return self.update(spec, at)

    def release(self, at):
        now = micro_time()
        return self.update({"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now,
                            "leaseTransitions": self.observed["leaseTransitions"]}, at)
