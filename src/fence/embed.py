#!/usr/bin/env python3
"""Embeds the texts of guards in a C file: embed.py OUTPUT FILE...

A guard is named after its file, without the extension. A line "%table" separates the text that is always printed from the
text for one table. A guard without that line cannot guard a table."""
import os
import sys


def literal(text):
    lines = text.splitlines(keepends=True) or [""]
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?").replace("\n", "\\n") for line in lines)
    return "\n".join(f'     "{line}"' for line in escaped)


def entry(path):
    with open(path, encoding="ascii") as file:
        always, mark, table = file.read().partition("\n%table\n")
    name = os.path.splitext(os.path.basename(path))[0]
    return f'    {{"{name}",\n{literal(always.rstrip(chr(10)) + chr(10))},\n{literal(table) if mark else "     NULL"}}},\n'


def main():
    output, *files = sys.argv[1:]
    with open(output, "w", encoding="ascii") as file:
        file.write('/* Made by embed.py. */\n#include "fence/guard_text.h"\n\n#include <stddef.h>\n\n')
        file.write("const struct bw_guard_text bw_guard_texts[] = {\n")
        file.writelines(entry(path) for path in sorted(files, key=os.path.basename))
        file.write("    {NULL, NULL, NULL}};\n")


main()
