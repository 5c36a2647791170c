#!/usr/bin/env python3
"""Lists the files for clang-tidy, with a key for each file. The key changes when clang-tidy's result could change.

    lint_keys.py BUILD CACHE      writes CACHE/compile_commands.json; prints a line `FILE KEY` for each source of the build

A key covers the file, its includes (as the compiler reported them to ninja, with the system's headers), the compile command, the
settings and clang-tidy itself, but no absolute path: a copy of the tree has the same keys. The key `-` means that the includes
are unknown."""
import functools
import hashlib
import json
import os
import subprocess
import sys

# clang does not know all of gcc's options
UNKNOWN = ("-ftrivial-auto-var-init=zero", "-fstack-clash-protection")


@functools.lru_cache(None)
def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def included(build):
    """Maps each object to the files that it was compiled from."""
    said = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    objects, files = {}, []
    for line in said.splitlines():
        if line.startswith("    "):
            files.append(line.strip())
        elif "(VALID)" in line:
            files = objects[line.split(": #deps")[0]] = []
        else:
            files = []
    return objects


def for_clang(entry, path):
    words = [w for w in entry["command"].split() if w not in UNKNOWN]
    words = words[words[0].endswith("ccache"):]
    words[0] = "clang"
    return {"directory": entry["directory"], "command": " ".join(words), "file": path}


def key_of(entry, files, common, top):
    if not files:
        return "-"
    total = hashlib.sha256((common + entry["command"].replace(top, "@")).encode())
    for name in files:
        path = os.path.normpath(os.path.join(entry["directory"], name))
        total.update(f"{path.replace(top, '@')} {digest(path)}\n".encode())
    return total.hexdigest()


def main():
    build, cache = sys.argv[1:]
    top = os.getcwd()
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    version = subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=True).stdout
    common = version + digest(".clang-tidy") + digest("tests/.clang-tidy") + digest(__file__)
    objects, kept = included(build), {}
    for entry in commands:
        path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        if path.endswith(".c") and path not in kept:
            kept[path] = for_clang(entry, path)
            print(os.path.relpath(path), key_of(kept[path], objects.get(entry["output"]), common, top))
    with open(os.path.join(cache, "compile_commands.json"), "w", encoding="utf-8") as file:
        json.dump(list(kept.values()), file)


if __name__ == "__main__":
    main()
