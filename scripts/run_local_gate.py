"""This module runs a named validator as everybody does: `python scripts/run_local_gate.py script SCRIPT`.

SCRIPT is a path from the top of this repository. It runs there, with this interpreter and the modules of this checkout; what it
prints is passed through, and its exit status is returned. 2 says that there is no such script.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
USAGE = "usage: python scripts/run_local_gate.py script SCRIPT"


def main(arguments: list[str]) -> int:
    match arguments:
        case ["script", name] if name.endswith(".py") and (TOP / name).is_file():
            pass
        case ["script", name]:
            print(f"{USAGE}\nthere is no such Python file below the top of the repository: {ascii(name)[1:-1]}", file=sys.stderr)
            return 2
        case _:
            print(USAGE, file=sys.stderr)
            return 2
    modules = os.pathsep.join(filter(None, [str(TOP), os.environ.get("PYTHONPATH")]))
    status = subprocess.run([sys.executable, name], cwd=TOP, env=os.environ | {"PYTHONPATH": modules}, check=False).returncode
    return status if status >= 0 else 128 - status  # as a shell tells a signal


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
