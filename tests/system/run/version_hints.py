#!/usr/bin/env python3
"""`bellwether --version` names the Debian packages that a store needs. The test checks them with dpkg and the modules themselves.

    version_hints.py BELLWETHER MODULE..."""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kit"))
from run_lib import Tap  # noqa: E402

BELLWETHER, MODULES = sys.argv[1], sys.argv[2:]
URLS = {"etcd": "etcd://127.0.0.1:1/x", "zookeeper": "zookeeper://127.0.0.1:1/x", "redis": "redis://127.0.0.1:1",
        "postgres": "postgres://127.0.0.1:1/x", "kubernetes": "kubernetes://x", "azure": "azure://devstoreaccount1/abc",
        "dynamodb": "dynamodb://eu-west-1/x", "peer": "peer:///e?id=1"}
tap = Tap()


def output(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, **more)
    return done.returncode, done.stdout + done.stderr


def version(directory):
    """The output for each missing store: {module: (reason, hint)}."""
    code, text = output(BELLWETHER, "--version", env=dict(os.environ, BELLWETHER_MODULES=directory))
    assert code == 0, text
    missing = text.split("missing:\n")[1].splitlines() if "missing:\n" in text else []
    pairs = zip(missing[0::2], missing[1::2])
    return {reason.split()[0]: (reason, hint.strip()) for reason, hint in pairs}


def name_of(path):
    return re.search(r"bellwether-store-(\w+)\.so$", path).group(1)


def libraries(path):
    """The shared libraries that a file needs, without those of libc."""
    found = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", path)[1])
    return {each for each in found if not re.match(r"lib(c|m|dl|pthread|asan|ubsan)\.", each)}


def owner(path):
    """The package of a file; None if dpkg does not know it."""
    code, text = output("dpkg", "-S", path)
    return text.split(":")[0] if code == 0 else None


@functools.lru_cache(None)
def package_of(library):
    """The package of a library by its soname, and the one with the file that `-lNAME` finds."""
    file = re.search(rf"{re.escape(library)} .*=> (\S+)", output("/sbin/ldconfig", "-p")[1]).group(1)
    folder = os.path.realpath(os.path.dirname(file))
    return owner(os.path.realpath(file)), owner(os.path.join(folder, re.sub(r"(-\d+)?\.so\..*", ".so", library)))


def needed(path):
    """The packages (to run, to build) that a module needs beyond the program."""
    own, every = libraries(BELLWETHER), libraries(path)
    return {kind: [{package_of(each)[at] for each in names} for names in (every - own, every)]
            for kind, at in (("run", 0), ("build", 1))}


def check_names(hint, wanted, path):
    least, most = wanted
    named = set(hint.split())
    assert least - {None} <= named, f"{name_of(path)}: {least - named} is missing in: {hint}"
    assert None in most or named - {"protobuf-c-compiler"} <= most, f"{name_of(path)}: {named - most} is not needed: {hint}"


def missing_store_names_the_build_packages(directory):
    missing = version(directory)
    assert set(missing) == {*URLS, "bellwether"}, missing
    assert "needs the package bellwether-store-etcd," in missing["bellwether"][0], missing["bellwether"]
    for path in MODULES:
        reason, hint = missing[name_of(path)]
        assert "is not installed" in reason, reason
        package = "bellwether" if name_of(path) == "peer" else f"bellwether-store-{name_of(path)}"
        assert f"needs the package {package}, which is not installed" in reason, reason
        assert hint.startswith("or build it with "), hint
        check_names(hint[len("or build it with "):], needed(path)["build"], path)
    assert "protobuf-c-compiler" in missing["etcd"][1], missing["etcd"]  # a program, not a library


def store_without_its_library_names_the_package(directory):
    """Replaces each library name of a module in turn by one that does not exist."""
    for path in MODULES:
        name, copy = name_of(path), os.path.join(directory, os.path.basename(path))
        with open(path, "rb") as file:
            sound = file.read()
        for library in libraries(path):
            with open(copy, "wb") as file:
                file.write(sound.replace(library.encode() + b"\0", b"?" + library.encode()[1:] + b"\0"))
            reason, hint = version(directory)[name]
            assert f"cannot load the {name} store: ?{library[1:]}" in reason, (library, reason)
            assert hint.startswith("install "), hint
            check_names(hint[len("install "):], needed(path)["run"], path)
            code, text = output(BELLWETHER, "status", "--store", URLS[name], "--election", "e",
                                env=dict(os.environ, BELLWETHER_MODULES=directory))
            assert code == 64 and f"; {hint}" in text, (code, text)
        os.remove(copy)


def store_of_another_version_names_no_package(directory):
    path = MODULES[0]
    number = output(BELLWETHER, "--version")[1].split()[1].encode()
    with open(path, "rb") as file:
        sound = file.read()
    with open(os.path.join(directory, os.path.basename(path)), "wb") as file:
        file.write(sound.replace(number + b"\0", b"9" + number[1:] + b"\0"))
    reason, hint = version(directory)[name_of(path)]
    assert "built for version" in reason and hint == "install bellwether and its store modules in the same version", (reason, hint)


def main():
    for test in (missing_store_names_the_build_packages, store_without_its_library_names_the_package,
                 store_of_another_version_names_no_package):
        directory = tempfile.mkdtemp(prefix="bellwether-hints-")
        try:
            if not shutil.which("dpkg") or not shutil.which("readelf"):
                tap.skip(test.__name__, "dpkg or readelf is not here")
                continue
            test(directory)
            tap.result(True, test.__name__)
        except Exception:  # noqa: BLE001 a test that breaks is a test that failed
            tap.result(False, test.__name__, traceback.format_exc())
        finally:
            shutil.rmtree(directory)
    sys.exit(tap.end())


main()
