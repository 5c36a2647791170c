#!/usr/bin/env python3
"""`bellwether --version` names the Debian packages that a store needs: dpkg and the modules themselves say whether they are right.

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
    """What is printed of each missing store: {module: (reason, hint)}."""
    code, text = output(BELLWETHER, "--version", env=dict(os.environ, BELLWETHER_MODULES=directory))
    assert code == 0, text
    missing = text.split("missing:\n")[1].splitlines() if "missing:\n" in text else []
    pairs = zip(missing[0::2], missing[1::2])
    return {reason.split()[0]: (reason, hint.strip()) for reason, hint in pairs}


def name_of(path):
    return re.search(r"bellwether-store-(\w+)\.so$", path).group(1)


def libraries(path):
    """The shared libraries that a file asks for, without libc's own."""
    found = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", path)[1])
    return {each for each in found if not re.match(r"lib(c|m|dl|pthread|asan|ubsan)\.", each)}


def owner(path):
    """The package that a file belongs to; None: dpkg does not know."""
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


def a_store_that_was_not_built_names_what_to_build_with(directory):
    missing = version(directory)
    assert set(missing) == set(URLS), missing
    for path in MODULES:
        reason, hint = missing[name_of(path)]
        assert "is not part of this installation" in reason, reason
        assert hint.startswith("build it with "), hint
        check_names(hint[len("build it with "):], needed(path)["build"], path)
    assert "protobuf-c-compiler" in missing["etcd"][1], missing["etcd"]  # a program, no library


def a_store_without_its_library_names_what_to_install(directory):
    """Each library of a module in turn is given a name that no file has."""
    for path in MODULES:
        name, copy = name_of(path), os.path.join(directory, os.path.basename(path))
        with open(path, "rb") as file:
            sound = file.read()
        for library in libraries(path):
            with open(copy, "wb") as file:
                file.write(sound.replace(library.encode() + b"\0", b"?" + library.encode()[1:] + b"\0"))
            reason, hint = version(directory)[name]
            assert "cannot be loaded: ?" + library[1:] in reason, (library, reason)
            assert hint.startswith("install "), hint
            check_names(hint[len("install "):], needed(path)["run"], path)
            code, text = output(BELLWETHER, "status", "--store", URLS[name], "--election", "e",
                                env=dict(os.environ, BELLWETHER_MODULES=directory))
            assert code == 64 and f"; {hint}" in text, (code, text)
        os.remove(copy)


def a_store_of_another_version_is_not_answered_with_a_package(directory):
    path = MODULES[0]
    number = output(BELLWETHER, "--version")[1].split()[1].encode()
    with open(path, "rb") as file:
        sound = file.read()
    with open(os.path.join(directory, os.path.basename(path)), "wb") as file:
        file.write(sound.replace(number + b"\0", b"9" + number[1:] + b"\0"))
    reason, hint = version(directory)[name_of(path)]
    assert "another version" in reason and hint == "install the program and its stores from one version", (reason, hint)


def main():
    for test in (a_store_that_was_not_built_names_what_to_build_with, a_store_without_its_library_names_what_to_install,
                 a_store_of_another_version_is_not_answered_with_a_package):
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
