"""This module measures the worst inputs of every reader and prints a table: `python -m benchmarks.inputs` (docs/reliability.md).

Each is read in a process of its own. *Processor* is what reading took; *memory* how much more was resident at its peak.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.reliability import hostile

TOP = Path(__file__).resolve().parents[1]


def main() -> None:
    print("| Input | Bytes | Processor | Memory | |")
    print("|---|---|---|---|---|")
    for case in hostile.CASES:
        command = [sys.executable, "-m", "tests.reliability.hostile", case, "0"]
        found = json.loads(subprocess.run(command, cwd=TOP, capture_output=True, check=True).stdout)
        size, memory = f"{found['bytes'] / 1_048_576:.1f} MiB", f"{max(0, found['more']) / 1_048_576:.0f} MiB"
        print(f"| {case} | {size} | {found['processor']:.2f} s | {memory} | {'taken' if found['taken'] else 'refused'} |", flush=True)


if __name__ == "__main__":
    main()
