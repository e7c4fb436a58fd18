"""This module fuzzes a reader, guided by coverage: `python -m scripts.fuzz READER [SECONDS]`, with atheris installed.

Without a reader it names them. Whatever a reader raises that is no refusal ends the run, and the bytes are kept in a file
`crash-…` in the working directory.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any


def main(arguments: list[str]) -> int:
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        print("Nothing was fuzzed: atheris is not installed (pip install atheris).", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["sdaqf_tasks", "tomllib"]):
        from tests.reliability.readers import READERS, tried
    if not arguments or arguments[0] not in READERS:
        print("Readers: " + ", ".join(READERS), file=sys.stderr)
        return 2
    name, seconds = arguments[0], arguments[1] if len(arguments) > 1 else "60"
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(READERS[name].seeds):
            (Path(folder) / str(number)).write_bytes(seed)
        options = [f"-max_total_time={seconds}", "-timeout=5", "-rss_limit_mb=2048", "-max_len=65536", f"-artifact_prefix={Path.cwd()}/"]
        atheris.Setup([sys.argv[0], *options, folder], lambda data: tried(name, data) and None)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
