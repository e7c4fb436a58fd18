"""This module tries unpacked source distributions of other people: `python -m benchmarks.sdists FOLDER` (docs/reliability.md).

FOLDER holds `*.tar.gz`, such as `pip download --no-binary :all: --no-deps -d FOLDER NAME` fetches. Each is unpacked, put under
git, observed, given a manifest by `init` and built; its digest is held against FORMAT 4.3 written once more, naively.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from tests.disk.worktree import WorkTree, environment

SDAQF = Path(sys.executable).parent / "sdaqf"


def digest(tree: WorkTree) -> tuple[str, int]:
    """The formula: names as git lists them, per component case-folded; regular files and links."""
    listed = tree.git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = {os.fsdecode(name) for name in listed.split(b"\0") if name}
    running = hashlib.sha256()
    for name in sorted(names, key=lambda name: ([part.casefold() for part in name.split("/")], name.split("/"))):
        place = tree.path / name
        data = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes()
        kind = b"link:%d" % len(data) if place.is_symlink() else b"%d" % len(data)
        running.update(os.fsencode(name) + b"\0" + kind + b"\0" + data + b"\0")
    return running.hexdigest().upper(), len(names)


def tried(archive: Path, folder: Path) -> str:
    with tarfile.open(archive) as unpacked:
        unpacked.extractall(folder, filter="data")
    tree = WorkTree(folder / archive.name.removesuffix(".tar.gz"))
    tree.commit()
    codes, seconds = [], []
    for words in (["context", "candidate", "--repository-root", ".", "--json"], ["init", "--yes"], ["build"], ["doctor"]):
        began = time.perf_counter()
        ended = subprocess.run([SDAQF, *words], cwd=tree.path, env=environment(), capture_output=True, check=False)
        seconds.append(time.perf_counter() - began)
        codes.append(ended.returncode)
        if "candidate" in words:
            wanted, files = digest(tree)
            same = codes == [0] and json.loads(ended.stdout)["repository_digest"] == wanted
    said = "the same" if same else "ANOTHER"
    return f"| {archive.name} | {files} | {said} | {codes} | {seconds[0]:.1f} s | {seconds[1]:.1f} s | {seconds[2]:.1f} s |"


def main(folder: Path) -> None:
    print("| Package | Files | Digest | Exit codes | candidate | init | build |")
    print("|---|---|---|---|---|---|---|")
    for archive in sorted(folder.glob("*.tar.gz")):
        with tempfile.TemporaryDirectory() as scratch:
            print(tried(archive, Path(scratch)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
