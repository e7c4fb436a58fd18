"""This module makes the worst inputs of each reader, at its bounds, and tries one in a process of little memory.

`python -m tests.reliability.hostile CASE BYTES` prints what became of it, with seconds and the peak of resident memory.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping

MIB = 1_048_576
SOURCE, SETTINGS = 262_144, 262_144


def _filled(head: bytes, unit: Callable[[int], bytes], size: int, tail: bytes = b"") -> bytes:
    """Units by number, as many as fit."""
    parts, length, number = [head], len(head) + len(tail), 0
    while True:
        part = unit(number)
        if length + len(part) > size:
            return b"".join((*parts, tail))
        parts.append(part)
        length, number = length + len(part), number + 1


_YAML = b"sdaqf: 1\nspecification: a.md\nsources:\n"

CASES: Mapping[str, tuple[str, Callable[[], bytes]]] = {
    "json: 16 MiB of small numbers": ("json", lambda: b"[" + b"0," * (8 * MIB - 2) + b"0]"),
    "json: 16 MiB of empty lists": ("json", lambda: b"[" + b"[]," * (5 * MIB) + b"0]"),
    "json: as many values as are taken": ("json", lambda: b"[" + b"[]," * 249_998 + b"0]"),
    "json: one text of 16 MiB": ("json", lambda: b'"' + b"x" * (16 * MIB - 2) + b'"'),
    "json: one text of 16 MiB of escapes": ("json", lambda: b'"' + b"\\u00e9" * (16 * MIB // 6 - 1) + b'"'),
    "json: 16 MiB of open brackets": ("json", lambda: b"[" * (16 * MIB)),
    "json: 16 MiB of open objects": ("json", lambda: b'{"a":' * (3 * MIB)),
    "json: long numbers": ("json", lambda: b"[" + b"9" * 4_300 + (b"," + b"9" * 4_300) * 3_800 + b"]"),
    "json: one number of 16 MiB": ("json", lambda: b"9" * (16 * MIB)),
    "json: deep lists": ("json", lambda: b"[" + (b"[" * 60 + b"]" * 60 + b",") * 130_000 + b"0]"),
    "json: texts of escapes and commas": ("json", lambda: b'["' + b'\\",[' * 3_900_000 + b'"]'),
    "json: one key many times": ("json", lambda: b"{" + b'"a":1,' * (2 * MIB) + b'"a":1}'),
    "json: a text that never ends": ("json", lambda: b"[" + b"," * 250_001 + b'\\"' * (7 * MIB)),
    "json: many keys": ("json", lambda: _filled(b"{", lambda n: b'"%d":1,' % n, 3 * MIB, b'"a":1}')),
    "artifact: 16 MiB of members": ("artifact", lambda: _filled(b"{", lambda n: b'"%d":[],' % n, 16 * MIB, b'"content":{}}')),
    "manifest: many sources": ("manifest", lambda: _filled(_YAML, lambda n: b"  a%d: source a%d.py\n" % (n, n), MIB)),
    "manifest: one alias many times": ("manifest", lambda: _filled(_YAML, lambda n: b"  a: source a.py\n", MIB)),
    "manifest: open brackets": ("manifest", lambda: _YAML + b"  a: " + b"[" * (MIB - 60) + b"\n"),
    "manifest: small flows": ("manifest", lambda: _filled(_YAML + b"  a: [", lambda n: b"[],", MIB, b"1]\n")),
    "manifest: a long text": ("manifest", lambda: _YAML + b"  a: source " + b"x" * (MIB - 60) + b"\n"),
    "manifest: a long quoted text of escapes": ("manifest", lambda: _YAML + b'  a: "' + b"\\u00e9" * (MIB // 6 - 12) + b'"\n'),
    "manifest: comments": ("manifest", lambda: _filled(_YAML, lambda n: b"# x\n", MIB)),
    "manifest: a block text": ("manifest", lambda: _filled(_YAML + b"  a: |\n", lambda n: b"    x\n", MIB)),
    "manifest: blank lines": ("manifest", lambda: _YAML + b"\n" * (MIB - 60)),
    "manifest: colons": ("manifest", lambda: _YAML + b"  a" + b":" * (MIB - 60) + b"\n"),
    "manifest: relationships": (
        "manifest",
        lambda: _filled(_YAML + b"  a: source a\n  b: source b\nrelationships:\n", lambda n: b"- a implements b\n", MIB),
    ),
    "manifest: the last of many sources": (
        "manifest",
        lambda: _filled(
            _filled(_YAML, lambda n: b"  a%05d: source a\n" % n, MIB // 2) + b"relationships:\n",
            lambda n: b"- a20000 implements a20000\n",
            MIB,
        ),
    ),
    "manifest: one unknown among many that are near": (
        "manifest",
        lambda: _filled(_YAML, lambda n: b"  a%073d: source a\n" % n, MIB - 199) + b"relationships:\n- a%073db implements a\n" % 0,
    ),
    "manifest: as many values as are taken": (
        "manifest",
        lambda: _YAML + b"  a: source a\nrelationships:\n" + b"- a implements a\n" * 49_994,
    ),
    "manifest: queries": (
        "manifest",
        lambda: _filled(b"sdaqf: 1\nspecification: a.md\nqueries:\n", lambda n: b"  a%d: {seeds: all}\n" % n, MIB),
    ),
    "lock: many entries": (
        "lock",
        lambda: _filled(
            b'{\n  "sdaqf-lock": 1,\n  "sources": [',
            lambda n: b'\n    {\n      "path": "a%07d",\n      "pinned": "%s",\n      "scope": "repository"\n    },' % (n, b"0" * 64),
            4 * MIB,
            b"\n  ]\n}\n",
        ),
    ),
    "lock: conflict marks": ("lock", lambda: b"<<<<<<< a\n=======\n>>>>>>> b\n" * (4 * MIB // 28)),
    "conflict: line feeds after a brace": ("conflict", lambda: b"}" + b"\n" * (4 * MIB - 1)),
    "conflict: line feeds after a comma": ("conflict", lambda: b"," + b"\n" * (4 * MIB - 1)),
    "conflict: marks": ("conflict", lambda: b"<<<<<<< \n" * (4 * MIB // 9)),
    "settings: deep": ("settings", lambda: b"exclude = " + b"[" * (SETTINGS - 20)),
    "settings: dots": ("settings", lambda: b"a" + b".a" * (SETTINGS // 2 - 10) + b" = 1\n"),
    "settings: many keys with dots": ("settings", lambda: _filled(b"", lambda n: b"a%d" % n + b".a" * 8 + b"=1\n", SETTINGS)),
    "settings: many tables with dots": ("settings", lambda: _filled(b"", lambda n: b"[a%d" % n + b".a" * 8 + b"]\n", SETTINGS)),
    "settings: tables": ("settings", lambda: _filled(b"", lambda n: b"[policy.a%d]\n" % n, SETTINGS)),
    "settings: a long number": ("settings", lambda: b"soon = " + b"9" * (SETTINGS - 20) + b"\n"),
    "settings: a long text": ("settings", lambda: b'soon = "' + b"x" * (SETTINGS - 20) + b'"\n'),
    "receipt: many inputs": (
        "receipt",
        lambda: _filled(b'{"inputs":{', lambda n: b'"%d":"x",' % n, MIB - 99, b'"a":"x"},"output":"x","program":"1"}'),
    ),
    "section: many headings": ("section", lambda: _filled(b"", lambda n: b"# %d\n" % n, SOURCE)),
    "README: many headings": ("README", lambda: _filled(b"", lambda n: b"# %d\n" % n, SOURCE)),
    "section: many that are near": ("section", lambda: _filled(b"", lambda n: b"# Onee%03x\n" % n, SOURCE)),
    "section: underlines": ("section", lambda: b"a\n=\n" * (SOURCE // 4)),
    "section: fences": ("section", lambda: _filled(b"", lambda n: b"`" * (n + 3) + b"\n", SOURCE)),
    "symbol: statements": ("symbol", lambda: b"a;" * (SOURCE // 2 - 1) + b"a\n"),
    "symbol: many that are near": ("symbol", lambda: _filled(b"", lambda n: b"def onee%03x():0\n" % n, SOURCE)),
    "symbol: open brackets": ("symbol", lambda: b"(" * SOURCE),
    "mentions: comments": ("mentions", lambda: b"<!---->" * (SOURCE // 7)),
    "mentions: code": ("mentions", lambda: b"`a/b.md` " * (SOURCE // 9)),
    "blocks: ticks": ("blocks", lambda: b"`" * (SOURCE - 3) + b"a`\n"),
    "blocks: fences": ("blocks", lambda: _filled(b"", lambda n: b"`" * (n + 3) + b"\n", SOURCE)),
    "git packed-refs: 190 MiB": ("git packed-refs", lambda: (b"0" * 40 + b" refs/heads/x\n") * (190 * MIB // 54)),
    "git packed-refs: one line": ("git packed-refs", lambda: b"0" * (64 * MIB)),
    "git index: 190 MiB of nothing": ("git index", lambda: bytes(190 * MIB)),
    "git config: 1 MiB": ("git config", lambda: b"[extensions]\n" + b"\ta = 1\n" * (MIB // 8)),
    "git info/exclude: 1 MiB of stars": ("git info/exclude", lambda: (b"*a" * 100 + b"b\n") * 5_000),
}
"""Reader and bytes, by a name that says what they are."""


def main(case: str, more: int) -> None:
    from tests.reliability.readers import READERS, tried

    name, make = CASES.get(case, ("json", bytes))
    for seed in READERS[name].seeds:
        tried(name, seed)  # what is loaded when it is first needed is part of the program
    data = make()
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        pages = int(file.read().split()[0])
    if more:
        bound = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    if case not in CASES:  # the bound itself is tried
        data = bytes(4 * more)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, processor = time.perf_counter(), time.process_time()
    taken = tried(name, data)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"taken": taken, "seconds": seconds, "processor": processor, "bytes": len(data), "more": (after - before) * 1_024}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
