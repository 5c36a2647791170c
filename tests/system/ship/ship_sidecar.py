#!/usr/bin/env python3
"""The Deployment of packaging/kubernetes/sidecar: its two containers as processes, with the stand-in for an API server.

    ship_sidecar.py BELLWETHER SOURCE UNUSED [NAME...]

The main container runs its script by sh, with the machine's wget; only the address of the sidecar differs."""
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import HANG_S, free_ports, wait_for  # noqa: E402
from store_lib import Place, Suite, listens, program  # noqa: E402

sys.path.append("/usr/lib/python3/dist-packages")  # Debian's python3-yaml, for a Python from elsewhere
import yaml  # noqa: E402

suite = Suite()
SOURCE = os.path.abspath(sys.argv[2])
ADDRESS = "127.0.0.1:8080"
KUBECONFIG = """apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "http://127.0.0.1:%d"}}]
users: [{name: u, user: {}}]
contexts: [{name: here, context: {cluster: c, user: u, namespace: batch}}]
"""


def folder(name):
    return os.path.join(SOURCE, "packaging", "kubernetes", name)


def objects(name):
    done = subprocess.run([program("kubectl", "kubernetes-client"), "kustomize", folder(name)], capture_output=True, text=True, timeout=120, check=True)
    return list(yaml.safe_load_all(done.stdout))


def manifests():
    return {item["kind"]: item for item in objects("sidecar")}


def containers():
    return {container["name"]: container for container in manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]}


class Pods:
    """Processes with a log each; ended together."""

    def __init__(self, place):
        self.place, self.running = place, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.running):
            self.end(name, signal.SIGKILL)

    def start(self, name, words, **environment):
        with open(os.path.join(self.place.dir, name + ".log"), "w", encoding="utf-8") as log:
            self.running[name] = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                                                  env={**os.environ, **environment})

    def end(self, name, how=signal.SIGTERM):
        process = self.running.pop(name)
        os.killpg(process.pid, how)
        process.wait(HANG_S)

    def text(self, name):
        with open(os.path.join(self.place.dir, name + ".log"), encoding="utf-8") as log:
            return log.read()

    def main(self, name, port):
        container = containers()["main"]
        assert ADDRESS in container["args"][0]
        self.start(name, container["command"] + [container["args"][0].replace(ADDRESS, f"127.0.0.1:{port}")])

    def sidecar(self, name, port, config):
        container = containers()["bellwether"]
        assert container["command"] == ["bellwether", "run"] and f"--http={ADDRESS}" in container["args"]
        words = [word.replace("$(POD_NAME)", name).replace(ADDRESS, f"127.0.0.1:{port}") for word in container["args"]]
        self.start("sidecar-" + name, [suite.bellwether, "run", *words], KUBECONFIG=config)


class ApiServer:
    """The stand-in. `config`: its kubeconfig."""

    def __init__(self, place, pods):
        self.port = free_ports()[0]
        pods.start("api", [sys.executable, os.path.join(SOURCE, "tests", "system", "store", "kube_standin.py"), str(self.port),
                           os.path.join(place.dir, "leases")])
        self.config = place.file("kubeconfig", KUBECONFIG % self.port)
        wait_for(lambda: listens(self.port), HANG_S, 0.02)

    def order(self, what, **given):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/standin/{what}", method="POST", data=json.dumps(given).encode())
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            return json.load(answer)


def tokens_of(pods, name):
    return [int(token) for token in re.findall(r"^leader work with token (\d+)$", pods.text(name), re.M)]


@suite.test
def one_pod_works_and_another_follows_with_a_higher_token():
    program("wget", "wget")
    with Place("sidecar") as place, Pods(place) as pods:
        server = ApiServer(place, pods)
        for name, port in zip("ab", free_ports(2)):
            pods.sidecar(name, port, server.config)
            pods.main(name, port)

        def tokens(name):
            return tokens_of(pods, name)
        wait_for(lambda: tokens("a") or tokens("b"), HANG_S)
        first = "a" if tokens("a") else "b"
        other = "ab".replace(first, "")
        assert not tokens(other), "two pods work"
        pods.end(first)
        pods.end("sidecar-" + first)  # releases the Lease
        wait_for(lambda: tokens(other), HANG_S)
        assert len(set(tokens(first))) == 1 and tokens(first)[0] < tokens(other)[0], (tokens(first), tokens(other))


@suite.test
def main_container_never_works_with_the_token_of_another_leader():
    """Leadership moves between any two requests: each answer is the opposite of the last one, with the token of the present leader."""
    program("wget", "wget")

    class Moving(http.server.BaseHTTPRequestHandler):
        asked = []

        def do_GET(self):
            leads = len(self.asked) % 2 == 0
            self.asked.append(self.path)
            body = b'{"election":"nightly","token":%d,"valid_ms":2000,"leading":%s}' % (1 if leads else 2, b"true" if leads else b"false")
            self.send_response(503 if self.path == "/healthz" and not leads else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Moving)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with Place("sidecar") as place, Pods(place) as pods:
            pods.main("main", server.server_port)
            wait_for(lambda: len(Moving.asked) >= 5, HANG_S)
            pods.end("main")
            assert "with token 1\n" in pods.text("main"), pods.text("main")
            assert "with token 2" not in pods.text("main"), "the work used the token of the next leader"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def lead_with_role(rules):
    """Two pods with these rules of a Role. Returns the requests that the API server refused until the second one has led."""
    with Place("sidecar") as place, Pods(place) as pods:
        server = ApiServer(place, pods)
        server.order("role", rules=rules)
        for name, port in zip("ab", free_ports(2)):
            pods.sidecar(name, port, server.config)
            pods.main(name, port)
            if name == "a":
                wait_for(lambda: tokens_of(pods, "a"), HANG_S)
        wait_for(lambda: '"leader"' in pods.text("sidecar-b"), HANG_S)  # it waits, by a watch if the Role permits one
        pods.end("a")
        pods.end("sidecar-a")
        wait_for(lambda: tokens_of(pods, "b"), HANG_S)
        return server.order("log")["refused"]


@suite.test
def sidecar_leads_with_exactly_the_permissions_of_its_role():
    program("wget", "wget")
    rules = manifests()["Role"]["rules"]
    assert lead_with_role(rules) == []
    without = [{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "watch"]} for rule in rules]
    refused = lead_with_role(without)  # the check sees what the Role lacks
    assert refused and all(verb == "watch" for verb, _ in refused), refused


@suite.test
def kubectl_applies_both_folders():
    for name in ("sidecar", "serve"):
        with Place("sidecar") as place, Pods(place) as pods:
            server = ApiServer(place, pods)

            def apply(server=server, name=name, place=place):
                done = subprocess.run([program("kubectl", "kubernetes-client"), "apply", "-k", folder(name), "--validate=false"], capture_output=True,
                                      text=True, timeout=120, check=False, env={**os.environ, "KUBECONFIG": server.config, "HOME": place.dir})
                assert done.returncode == 0, done.stdout + done.stderr
                return sorted(line.split()[-1] for line in done.stdout.splitlines())
            wanted = sorted((item["apiVersion"], item["kind"], item["metadata"]["name"]) for item in objects(name))
            assert apply() == ["created"] * len(wanted)
            made = server.order("objects")["objects"]
            assert sorted((item["apiVersion"], item["kind"], item["metadata"]["name"]) for item in made) == wanted, made
            assert all(item["metadata"]["namespace"] == "batch" for item in made), made
            # kubectl sends the selector of a PodDisruptionBudget again each time
            assert set(apply()) <= {"unchanged", "configured"} and server.order("objects")["objects"] == made


@suite.test
def role_permits_what_the_store_needs_and_no_more():
    found = manifests()
    rules = found["Role"]["rules"]
    assert all(rule["apiGroups"] == ["coordination.k8s.io"] and rule["resources"] == ["leases"] for rule in rules)
    assert sorted(verb for rule in rules for verb in rule["verbs"]) == ["create", "list", "update", "watch"]
    election = next(word.split("=")[1] for word in containers()["bellwether"]["args"] if word.startswith("--election="))
    assert [rule.get("resourceNames") for rule in rules if rule["verbs"] != ["create"]] == [[election]]
    assert found["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"] == found["RoleBinding"]["subjects"][0]["name"]


suite.main(2)
