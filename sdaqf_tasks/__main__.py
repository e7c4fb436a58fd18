"""This module is where the program starts: nothing of the working directory can be imported, and every descriptor is open."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # `python -m` puts the working directory there; a `hashlib.py` in it is not ours to run

import os


def main() -> int:
    """Run the command line. Returns the exit code."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # closed at start: a file that is opened later must not become a standard stream
            os.open(os.devnull, os.O_RDWR)
    if os.name != "posix":
        sys.stderr.write("sdaqf runs on Linux and macOS; on Windows use it within WSL.\n")
        return 2
    from sdaqf_tasks.fronts.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
