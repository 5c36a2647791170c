"""The OCI image, and the compose and Kubernetes files that use it; run by ship_deb.py with the packages that it has built.

No container engine runs in every test environment. So the test unpacks the image and starts its program as the image says (user,
directory, entry point), in PID and mount namespaces of its own, without capabilities. All containers share one network namespace,
where the name of each container has an address of its own on loopback."""
import contextlib
import filecmp
import json
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import wait_for  # noqa: E402

sys.path.append("/usr/lib/python3/dist-packages")  # Debian's python3-yaml, for a Python from elsewhere
import yaml  # noqa: E402

HANG_S = 120  # ends a test that hangs; no verdict depends on it
# $0: the root file system; then user, group, directory, environment and command
START = """mount -t proc proc "$0/proc" && mount --bind "$HOSTS" "$0/etc/hosts" && mount -t tmpfs tmpfs "$0/tmp" || exit 99
user=$1 group=$2 dir=$3; shift 3
exec chroot "$0" /usr/bin/setpriv --reuid="$user" --regid="$group" --clear-groups --no-new-privs --bounding-set=-all \\
    /usr/bin/env -i -C "$dir" "$@" """


def sh(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200, check=False,
                          stdin=subprocess.DEVNULL, **more)
    assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}\n{done.stdout[-3000:]}"
    return done.stdout


class Image:
    """The unpacked image in a network namespace."""

    def __init__(self, layout, version, work, names):
        self.bundle, self.work = os.path.join(work, "bundle"), work
        sh("umoci", "unpack", "--image", f"{layout}:{version}", self.bundle)
        self.root = os.path.join(self.bundle, "rootfs")
        with open(os.path.join(self.bundle, "config.json"), encoding="utf-8") as file:
            self.process = json.load(file)["process"]
        self.space = f"bwimage{os.getpid()}"
        self.hosts = os.path.join(work, "hosts")
        with open(self.hosts, "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"127.0.1.{i} {name}\n" for i, name in enumerate(names, 1)))
        open(os.path.join(self.root, "etc", "hosts"), "w", encoding="utf-8").close()
        sh("ip", "netns", "add", self.space)
        sh("ip", "-n", self.space, "link", "set", "lo", "up")

    def close(self):
        subprocess.run(["ip", "netns", "del", self.space], check=False)
        shutil.rmtree(self.bundle, ignore_errors=True)

    def start(self, words, output, data, name="x"):
        """Starts a container with these arguments. `data` is its volume."""
        os.makedirs(data, exist_ok=True)
        os.chown(data, self.process["user"]["uid"], self.process["user"]["gid"])
        user = [str(self.process["user"][name]) for name in ("uid", "gid")]
        entry = self.process["args"][:1]
        script = f'mount --bind "{data}" "$0/var/lib/bellwether" && {START}'
        return subprocess.Popen(
            ["ip", "netns", "exec", self.space, "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", f'hostname "{name}"; {script}',
             self.root, *user, self.process["cwd"], *self.process["env"], *entry, *words],
            stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={**os.environ, "HOSTS": self.hosts}, start_new_session=True)


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # --kill-child ends the namespace
    process.wait()


class Group:
    """Containers by name, each with a log and a volume."""

    def __init__(self, image, work):
        self.image, self.work, self.running = image, work, {}
        os.makedirs(work, exist_ok=True)

    def start(self, name, words):
        with open(self.log(name), "a", encoding="utf-8") as output:
            self.running[name] = self.image.start(words, output, os.path.join(self.work, name), name)

    def log(self, name):
        return os.path.join(self.work, name + ".log")

    def text(self, name):
        with open(self.log(name), encoding="utf-8") as file:
            return file.read()

    def end(self, name):
        end(self.running.pop(name))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for name in list(self.running):
            self.end(name)
        if error is not None and hasattr(error, "add_note"):
            error.add_note("\n".join(f"{name}: {self.text(name)[-1500:]}" for name in self.names()))

    def names(self):
        return sorted(name[:-4] for name in os.listdir(self.work) if name.endswith(".log"))


def image_has_all_stores_and_no_rights(image, source, work):
    assert image.process["user"]["uid"] != 0 and image.process["args"] == ["/usr/bin/bellwether", "--help"], image.process
    with Group(image, os.path.join(work, "one")) as group:
        group.start("version", ["--version"])
        group.running["version"].wait(HANG_S)
        said = group.text("version")
        assert "is not installed" not in said and len(re.findall(r"^  \w+ +\w+:", said, re.M)) >= 9, said
        group.start("run", ["run", "--store", "sqlite:elections.db", "--election", "first", "--", "sh", "-c", "echo token $BELLWETHER_TOKEN; id -u"])
        assert group.running["run"].wait(HANG_S) == 0, group.text("run")
        said = group.text("run").split("\n")  # lines of the log may be between those of the command
        assert "token 1" in said and "10001" in said, said


def compose_file_runs_and_fails_over(image, source, work):
    with open(os.path.join(source, "packaging", "compose", "compose.yml"), encoding="utf-8") as file:
        services = yaml.safe_load(file)["services"]
    with Group(image, os.path.join(work, "compose")) as group:
        for name, service in services.items():
            assert service["hostname"] == name and service["image"].startswith("bellwether:")
            group.start(name, [word.replace("$$", "$") for word in service["command"]])
        workers = [name for name in services if name.startswith("worker")]
        assert len(workers) == 2 and len(services) == 5

        def working():
            return [name for name in workers if "leader work with token" in group.text(name)]
        wait_for(working, HANG_S, 0.1)
        first = working()
        assert len(first) == 1, "two workers work at once"
        group.end(first[0])
        wait_for(lambda: len(working()) == 2, HANG_S, 0.1)
        tokens = [int(re.search(r"with token (\d+)", group.text(name)).group(1)) for name in (first[0], *set(workers) - set(first))]
        assert tokens[0] < tokens[1], tokens


def manifests(source, folder):
    return list(yaml.safe_load_all(sh("kubectl", "kustomize", os.path.join(source, "packaging", "kubernetes", folder))))


def stateful_set_forms_a_cluster(image, source, work):
    found = {item["kind"]: item for item in manifests(source, "serve")}
    assert {"Service", "PodDisruptionBudget", "StatefulSet", "NetworkPolicy"} <= found.keys()
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == image.process["user"]["uid"]
    container = pod["containers"][0]
    with Group(image, os.path.join(work, "pods")) as group:
        for number in range(found["StatefulSet"]["spec"]["replicas"]):
            name = f"{found['StatefulSet']['metadata']['name']}-{number}"
            words = [word.replace("$(POD_NAME)", name).replace("0.0.0.0", f"{name}.bellwether-nodes") for word in container["args"]]
            group.start(name, container["command"][1:] + words)
        group.start("ask", ["cluster", "status", "--endpoints", "bellwether-0.bellwether-nodes:2379", "--json"])

        def agreed():
            if group.running["ask"].poll() is None:
                return False
            if group.running["ask"].returncode == 0 and group.text("ask").count('"leader"') and "follower" in group.text("ask"):
                return True
            group.start("ask", ["cluster", "status", "--endpoints", "bellwether-0.bellwether-nodes:2379", "--json"])
            return False
        wait_for(agreed, HANG_S, 0.2)


def blobs(layout):
    with open(os.path.join(layout, "index.json"), encoding="utf-8") as index:
        return {"index " + index.read(), *os.listdir(os.path.join(layout, "blobs", "sha256"))}


def second_image_is_identical(tap, source, packages, work, layout):
    """From the same packages, in another directory, later."""
    other = os.path.join(work, "another-image")
    sh(os.path.join(source, "packaging", "image.sh"), packages, other)
    same = filecmp.cmp(layout + ".tar", other + ".tar", shallow=False)
    tap.result(same, "second_image_is_identical", "\n".join(sorted(blobs(layout) ^ blobs(other))))
    shutil.rmtree(other)
    os.remove(other + ".tar")


def run(tap, source, packages, work, need):
    need("umoci", "mmdebstrap", "unshare", "ip")
    layout = os.path.join(work, "image")
    said = sh(os.path.join(source, "packaging", "image.sh"), packages, layout).strip().split("\n")[-1]
    names = ["node-a", "node-b", "node-c", "worker-1", "worker-2", *(f"bellwether-{i}.bellwether-nodes" for i in range(3))]
    image = Image(layout, said.rsplit(":", 1)[1], work, names)
    tap.comment(f"the image has {os.path.getsize(layout + '.tar') / 1e6:.0f} MB")
    second_image_is_identical(tap, source, packages, work, layout)
    try:
        for step in (image_has_all_stores_and_no_rights, compose_file_runs_and_fails_over, stateful_set_forms_a_cluster):
            if step is stateful_set_forms_a_cluster and not shutil.which("kubectl"):
                tap.skip(step.__name__, "no kubectl")
                continue
            try:
                step(image, source, work)
                tap.result(True, step.__name__)
            except AssertionError as error:
                tap.result(False, step.__name__, str(error) + "\n" + "\n".join(getattr(error, "__notes__", [])))
    finally:
        image.close()
