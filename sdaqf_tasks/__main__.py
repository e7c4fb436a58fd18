"""This module is where the program starts: nothing of the working directory can be imported, and every descriptor is open.

One thing is out of reach: `python -m sdaqf_tasks` takes what is called `sdaqf_tasks` in the working directory for this
package, before any line of ours runs. The command `sdaqf` does not, nor does `python -P -m sdaqf_tasks`.
What PYTHONPATH names, an empty entry being the working directory, Python takes before us as well.
"""

import io
import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # `python -m` puts the working directory there; a `hashlib.py` in it is not ours to run

import signal
from types import FrameType

SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""What ends a run with 130, its temporary files and its git being gone."""


IMPORTING = "<frozen importlib"
AGAIN = 0.005
"""Seconds after which a signal that came while a module was imported is looked at again."""


def _stop(number: int, frame: FrameType | None) -> None:
    """End the run; not in the middle of an import, where classes are made: what makes them takes an exception there for a defect."""
    while frame:
        if frame.f_code.co_filename.startswith(IMPORTING):
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
            return
        frame = frame.f_back
    _ignore_signals()  # clearing up takes a moment, and must not be stopped
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in (*SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


def main() -> int:
    """Run the command line. Returns the exit code. For the main thread of a process of its own."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:  # closed at start: a file that is opened later must not become a standard stream
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:  # Python then prints to stdout what is meant for stderr
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if os.name != "posix":
        sys.stderr.write("sdaqf runs on Linux and macOS; on Windows use it within WSL.\n")
        return 2
    try:
        signal.signal(signal.SIGALRM, _stop)
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # nohup
                signal.signal(number, _stop)
        from sdaqf_tasks.fronts.cli import main as run

        code = run()
        _ignore_signals()  # it is done: nothing is left to be stopped
        return code
    except KeyboardInterrupt:  # while loading, or while telling how it ended
        return 130


if __name__ == "__main__":
    sys.exit(main())
