#!/usr/bin/env python3
"""Embeds a page in a C file: embed.py OUTPUT INDEX.HTML STYLE.CSS MODULE.JS...

The page contains its style sheet and its modules as one script, in the order of their imports. The policy allows exactly these two, by their hashes."""
import base64
import hashlib
import re
import sys

LINE = 24  # bytes


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def bundle(paths):
    """Returns modules as one script: the policy can name one hash, and the page needs no second request."""
    text = "\n".join(re.sub(r"^import .*;\n", "", read(path), flags=re.M) for path in paths)
    return '"use strict";\n(() => {\n' + re.sub(r"^export ", "", text, flags=re.M) + "})();\n"


def main():
    output, index, style, script = sys.argv[1], read(sys.argv[2]), read(sys.argv[3]), bundle(sys.argv[4:])
    for text, mark in ((style, "</style"), (script, "</script"), (script, "<!--")):
        if mark in text.lower():
            sys.exit(f"embed.py: the page must not contain {mark}")
    page = index.replace("@style@", style, 1).replace("@script@", script, 1).encode()
    policy = (f"default-src 'none'; script-src {digest(script)}; style-src {digest(style)}; connect-src 'self'; img-src data:; "
              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'")
    with open(output, "w", encoding="ascii") as file:
        file.write('/* Made by embed.py. */\n#include "serve/front/dashboard_page.h"\n\n')
        file.write(f'const char bw_dashboard_policy[] = "{policy}";\nconst size_t bw_dashboard_page_length = {len(page)};\n')
        file.write("const char bw_dashboard_page[] = {\n")
        for at in range(0, len(page), LINE):
            # as characters: plain char may be signed
            file.write("    " + ", ".join(f"'\\x{byte:02x}'" for byte in page[at:at + LINE]) + ",\n")
        file.write("    '\\0'};\n")


main()
