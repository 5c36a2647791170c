#!/usr/bin/env python3
"""Embeds a page in a C file: embed.py NAME OUTPUT INDEX.HTML STYLE.CSS MODULE.JS...

The page contains its style sheet and its modules as one script, in the order of their imports. The policy allows exactly these two, by their hashes."""
import base64
import gzip
import hashlib
import re
import sys

LINE = 24  # bytes
PAGE_MAX = 60000  # BW_WEB_PAGE_MAX


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def bundle(paths):
    """Returns modules as one script: the policy can name one hash, and the page needs no second request."""
    text = "\n".join(re.sub(r"^import .*;\n", "", read(path), flags=re.M) for path in paths)
    return '"use strict";\n(() => {\n' + re.sub(r"^export ", "", text, flags=re.M) + "})();\n"


def refuse_twice(script):
    """All modules share one scope: a name that two of them declare would break or replace the other's."""
    names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", script, flags=re.M)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        sys.exit(f"embed.py: declared in two modules: {', '.join(twice)}")


def write_bytes(file, name, data):
    file.write(f"static const char {name}[] = {{\n")
    for at in range(0, len(data), LINE):
        # as characters: plain char may be signed
        file.write("    " + ", ".join(f"'\\x{byte:02x}'" for byte in data[at:at + LINE]) + ",\n")
    file.write("    '\\0'};\n")


def main():
    name, output, index, style, script = sys.argv[1], sys.argv[2], read(sys.argv[3]), read(sys.argv[4]), bundle(sys.argv[5:])
    refuse_twice(script)
    for text, mark in ((style, "</style"), (script, "</script"), (script, "<!--")):
        if mark in text.lower():
            sys.exit(f"embed.py: the page must not contain {mark}")
    page = index.replace("@style@", style, 1).replace("@script@", script, 1).encode()
    if len(page) > PAGE_MAX:
        sys.exit(f"embed.py: the page has {len(page)} bytes; at most {PAGE_MAX} fit into a response")
    policy = (f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; connect-src 'self'; img-src data:; "
              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'")
    with open(output, "w", encoding="ascii") as file:
        file.write('/* Made by embed.py. */\n#include "dashboard/page.h"\n\n')
        write_bytes(file, "plain", page)
        write_bytes(file, "packed", gzip.compress(page, 9, mtime=0))
        file.write(f"const struct bw_web_page bw_dashboard_{name} = {{\n    .policy = \"{policy}\",\n"
                   f"    .etag = \"W/\\\"{hashlib.sha256(page).hexdigest()[:20]}\\\"\",\n    .plain = plain,\n    .gzip = packed,\n"
                   "    .plain_length = sizeof plain - 1,\n    .gzip_length = sizeof packed - 1};\n")


main()
