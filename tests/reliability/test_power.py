"""What was told to be done is on the disk: the disk is copied at the moment of success, and the copy is mounted.

A file system of our own lies in a file, by way of a loop device. What the system only meant to write is not in the copy, as
after a power cut. Skipped where this machine does not let us mount.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.store import Store
from sdaqf_tasks.flow import doctor
from tests.flow.workshop import Workshop
from tests.fronts.run import SDAQF
from tests.reliability.shards import ShardProject, distil


class Disk:
    """A file that holds an ext4 file system, mounted at `top`."""

    def __init__(self, image: Path, top: Path) -> None:
        self.image, self.top = image, top

    def after_the_cut(self, place: Path) -> Path:
        """The disk as it is now, without what was not written to it yet."""
        copy = place / "copy.img"
        shutil.copyfile(self.image, copy)
        return copy


def _must(*command: str | Path) -> None:
    try:
        ended = subprocess.run([str(word) for word in command], capture_output=True, check=False, timeout=60)
    except FileNotFoundError:
        pytest.skip(f"no power was cut: there is no {command[0]}")
    if ended.returncode:
        pytest.skip(f"no power was cut: {command[0]} is not allowed here: {ended.stderr.decode(errors='replace').strip()[:200]}")


@contextmanager
def mounted(image: Path, top: Path) -> Iterator[Path]:
    top.mkdir()
    _must("mount", "-o", "loop", image, top)
    try:
        yield top
    finally:
        subprocess.run(["umount", "-l", str(top)], check=True, timeout=60)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    _must("mkfs.ext4", "-q", "-F", image)
    with mounted(image, tmp_path / "disk") as top:
        yield Disk(image, top)


def test_the_test_sees_what_was_not_written(disk: Disk, tmp_path: Path) -> None:
    (disk.top / "hasty").write_bytes(b"x" * 5_000)
    copy = disk.after_the_cut(tmp_path)
    with mounted(copy, tmp_path / "after") as after:
        assert not (after / "hasty").exists() or (after / "hasty").read_bytes() != b"x" * 5_000


@pytest.mark.parametrize("writing", [files.publish, files.replace])
def test_a_file_is_there_when_the_call_returns(writing: object, disk: Disk, tmp_path: Path) -> None:
    assert callable(writing)
    files.make_folder(disk.top / "deep" / "er")
    writing(disk.top / "deep" / "er" / "x", b"x" * 5_000)
    copy = disk.after_the_cut(tmp_path)
    with mounted(copy, tmp_path / "after") as after:
        assert (after / "deep" / "er" / "x").read_bytes() == b"x" * 5_000
        assert [path.name for path in (after / "deep" / "er").iterdir() if not files.TEMPORARY.fullmatch(path.name)] == ["x"]


def test_a_replaced_file_is_the_new_one(disk: Disk, tmp_path: Path) -> None:
    files.replace(disk.top / "x", b"old")
    files.replace(disk.top / "x", b"new" * 2_000)
    with mounted(disk.after_the_cut(tmp_path), tmp_path / "after") as after:
        assert (after / "x").read_bytes() == b"new" * 2_000


def test_a_build_is_whole_when_the_program_ends(disk: Disk, tmp_path: Path) -> None:
    shop = Workshop(disk.top / "project")
    subprocess.run(["sync", "-f", str(disk.top)], check=True, timeout=60)  # what git made is not ours to keep
    ended = subprocess.run([SDAQF, "build"], cwd=shop.path, env=shop.environment(), capture_output=True, check=False, timeout=120)
    copy, refs, outs = disk.after_the_cut(tmp_path), shop.refs(), shop.outs()
    assert (ended.returncode, len(refs) > 8) == (0, True)
    with mounted(copy, tmp_path / "after") as after:
        found = Workshop.__new__(Workshop)
        found.path, found.folder = after / "project", after / "project" / ".sdaqf" / "build"
        assert (found.refs(), found.outs()) == (refs, outs)
        assert {defect.code for defect in doctor.examine(Store(found.path, ".sdaqf/build")).defects} <= {"temporary"}


def test_a_shard_is_old_or_new_whenever_the_power_goes(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is copied before every call that brings something to it or renames something, and at the end."""
    made = ShardProject(disk.top / "project").create().commit("a")
    made.run("begin scratch", distil("b"))
    subprocess.run(["sync", "-f", str(disk.top)], check=True, timeout=60)
    old, copies = made.state(), list[Path]()

    def cut(call: Callable[..., object]) -> Callable[..., object]:
        def cutting(*arguments: object, **named: object) -> object:
            (tmp_path / str(len(copies))).mkdir()
            copies.append(disk.after_the_cut(tmp_path / str(len(copies))))
            return call(*arguments, **named)

        return cutting

    for name in ("fsync", "rename", "link"):
        monkeypatch.setattr(os, name, cut(getattr(os, name)))
    made.run("commit")
    copies.append(disk.after_the_cut(tmp_path))
    monkeypatch.undo()
    found = []
    for copy in copies:
        with mounted(copy, copy.parent / "after") as after:
            seen = ShardProject(after / "project")
            assert seen.audit() == []
            found.append(seen.state())
    assert len(found) > 8
    assert found == sorted(found, key=lambda state: state != old)
    assert (found[0], found[-1]) == (old, made.state())


def test_artifacts_are_whole_when_the_program_ends(disk: Disk, tmp_path: Path) -> None:
    shop = Workshop(disk.top / "project")
    words = ["context", "manifest", "manifests/context.yaml", "--repository-root", ".", "--output", "../m.json"]
    ended = subprocess.run([SDAQF, *words], cwd=shop.path, env=shop.environment(), capture_output=True, check=False, timeout=120)
    copy, data = disk.after_the_cut(tmp_path), (disk.top / "m.json").read_bytes()
    assert (ended.returncode, len(data) > 1_000) == (0, True)
    with mounted(copy, tmp_path / "after") as after:
        assert (after / "m.json").read_bytes() == data
