#!/usr/bin/env python3
"""Builds the playground: the core and the simulator as WebAssembly, and the page.

    build.py BUILD             writes BUILD/playground: index.html, and for `bellwether sim play` index.html.gz and policy
    build.py BUILD --into DIR  also copies the last two into DIR, for an installation
    build.py BUILD TARGET...   builds only these WebAssembly modules
    build.py --check           only checks that the compiler for WebAssembly is installed

Objects and a file for ninja are in BUILD/playground.p, so a second build is fast. Needs clang,
wasm-ld, wasi-libc and the compiler's library for wasm32 (packaging/debian-deps.txt). Exits with 77 if one is missing.
"""
import base64
import glob
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = ["src/core/**/*.c", "sim/world/*.c", "sim/faults/*.c", "sim/stores/*.c", "sim/checks/*.c", "sim/figures/metrics.c"]
MODULES = ["wasi.js", "world.js", "stage.js", "lanes.js", "picture.js", "lessons.js", "share.js", "main.js"]  # in order of their imports
# -ffp-contract=off as in the native build; see core/detect/portable_math.h.
CFLAGS = ("--target=wasm32-wasi -std=c11 -O2 -D_GNU_SOURCE -ffp-contract=off -ffunction-sections -fdata-sections -Wall -Wextra "
          "-Wno-unknown-warning-option -Werror")
# The stack is first in memory, so that an overflow traps. 64 KiB, the default, are too few: sim/world/run.c needs 172 kB.
LFLAGS = "--target=wasm32-wasi -Wl,-z,stack-size=1048576 -Wl,--stack-first -Wl,--gc-sections -Wl,--strip-all -lm"


def missing():
    """Returns what the build lacks, or None."""
    for program in ("clang", "wasm-ld", "ninja"):
        if not shutil.which(program):
            return program
    test = subprocess.run(["clang", "--target=wasm32-wasi", "-x", "c", "-", "-o", os.devnull], input=b"#include <stdio.h>\nint main(void){return 0;}",
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return "wasi-libc or libclang-rt-dev-wasm32" if test.returncode else None


def ninja_text(work):
    """Returns the text of build.ninja. Paths are relative to TOP."""
    work = work.replace("$", "$$").replace(":", "$:").replace(" ", "$ ")
    lines = ["ninja_required_version = 1.8", f"builddir = {work}",
             f"rule cc\n  command = clang {CFLAGS} -Iweb/wasm -Isrc -I. -MD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc",
             f"rule link\n  command = clang $in -o $out {LFLAGS} $flags"]
    objects = []
    for pattern in SOURCES:
        for source in sorted(glob.glob(pattern, root_dir=TOP, recursive=True)):
            if source.startswith("src/core/guardian/"):  # kills processes, and so needs signals
                continue
            out = f"{work}/{source}.o"
            objects.append(out)
            lines.append(f"build {out}: cc {source}")
    for name, source, flags in (("trace-hashes.wasm", "tests/tools/trace_hashes.c", ""),
                                ("play.wasm", "web/wasm/play.c", "-mexec-model=reactor")):
        lines.append(f"build {work}/{source}.o: cc {source}")
        lines.append(f"build {work}/{name}: link {work}/{source}.o {' '.join(objects)}\n  flags = {flags}")
    return "\n".join(lines) + "\n"


def bundle(wasm):
    """Returns all modules as one classic script: browsers refuse modules from file:// addresses."""
    parts = []
    for name in MODULES:
        with open(os.path.join(TOP, "web", name), encoding="utf-8") as file:
            text = file.read()
        text = re.sub(r"^import .*;\n", "", text, flags=re.M)
        parts.append(re.sub(r"^export ", "", text, flags=re.M))
    data = base64.b64encode(wasm).decode()
    start = f'start(Uint8Array.from(atob("{data}"), (letter) => letter.charCodeAt(0)));'
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\n" + start + "\n})();\n"


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def put_page(build, work):
    """Writes one file that needs no other: it works from a server and from the disk, and requests nothing."""
    out = os.path.join(build, "playground")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(work, "play.wasm"), "rb") as file:
        script = bundle(file.read())
    with open(os.path.join(TOP, "web/style.css"), encoding="utf-8") as file:
        style = file.read()
    with open(os.path.join(TOP, "web/index.html"), encoding="utf-8") as file:
        page = file.read()
    policy = (f"default-src 'none'; script-src {digest(script)} 'wasm-unsafe-eval'; style-src {digest(style)}; "
              "base-uri 'none'; form-action 'none'")
    for name, text in (("csp", policy), ("style", style), ("script", script)):
        page = page.replace(f"@{name}@", text, 1)
    packed = gzip.compress(page.encode(), mtime=0)  # the same page gives the same file
    path = os.path.join(out, "index.html")
    write(path, page.encode())
    write(path + ".gz", packed)
    write(os.path.join(out, "policy"), policy.encode() + b"\n")
    print(f"wrote {os.path.relpath(path)}: {len(page) // 1024} KiB, {len(packed) // 1024} KiB compressed")
    return out


def main():
    words, into = sys.argv[1:], None
    lack = missing()
    if lack:
        print(f"build.py: cannot build the playground: {lack} is missing; install the packages of packaging/debian-deps.txt",
              file=sys.stderr)
        sys.exit(77)
    if words == ["--check"]:
        return
    if words[1:2] == ["--into"]:
        into = words[2]
        del words[1:]
    build = os.path.abspath(words[0])
    work = os.path.join(build, "playground.p")
    os.makedirs(work, exist_ok=True)
    path, text = os.path.join(work, "build.ninja"), ninja_text(work)
    if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    targets = [os.path.join(work, name) for name in words[1:] or ["play.wasm"]]
    jobs = os.environ.get("JOBS", str(os.cpu_count()))
    code = subprocess.run(["ninja", "--quiet", "-j", jobs, "-C", TOP, "-f", path, *targets], check=False).returncode
    if code == 0 and not words[1:]:
        out = put_page(build, work)
        for name in ("index.html.gz", "policy") if into else ():
            shutil.copyfile(os.path.join(out, name), os.path.join(into, name))
    sys.exit(code)


if __name__ == "__main__":
    main()
