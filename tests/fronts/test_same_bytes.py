"""The same tree gives the same artifacts: whatever the folder, the clone, the locale, the clock's zone, the hash seed, the umask."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.disk.worktree import WorkTree
from tests.fronts.project import FILES, Made
from tests.fronts.run import Ran, in_process, program
from tests.repositories import make

Run = Callable[..., Ran]


def chain(run: Run, tree: Path, folder: Path) -> dict[str, bytes]:
    """Every artifact of the query `head`, whose moment is that of the commit, by file name."""
    folder.mkdir(parents=True)
    yaml, root = tree / "manifests" / "context.yaml", ("--repository-root", tree)
    for stage, takes, more, makes in (
        ("manifest", (), root, "manifest.json"),
        ("index", ("manifest.json",), root, "graph.json"),
        ("query", ("graph.json",), ("--query", "head"), "query.json"),
        ("select", ("graph.json", "query.json"), (), "selection.json"),
        ("snapshot", ("graph.json", "selection.json"), root, "snapshot.json"),
        ("compact", ("snapshot.json",), root, "compaction.json"),
        ("quality", ("graph.json", "selection.json", "snapshot.json"), (), "quality.json"),
        ("render", ("snapshot.json", "compaction.json"), (), "context.md"),
    ):
        given = [yaml] if stage in ("manifest", "query") else []
        ran = run("context", stage, *given, *(folder / name for name in takes), *more, "--output", folder / makes)
        assert ran.code == 0, ran
    return {place.name: place.read_bytes() for place in folder.iterdir()}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: in_process(*arguments, capsys=capsys)


@pytest.fixture
def usual(run: Run, project: Made, tmp_path: Path) -> dict[str, bytes]:
    """What the project gives where it lies."""
    found = chain(run, project.tree.path, tmp_path / "usual")
    assert len(found) == 8
    return found


class TestPlace:
    @pytest.mark.parametrize("place", ["r", "a/b/c/d/e/f/g/h/i", "with space and é", "-x", "x.json", "'$(touch y)'", "new\nline"])
    def test_whatever_the_folder(self, place: str, usual: dict[str, bytes], run: Run, tmp_path: Path) -> None:
        tree = make(tmp_path / "repositories" / place, FILES)
        assert chain(run, tree.path, tmp_path / "made") == usual

    def test_reached_through_a_link(self, usual: dict[str, bytes], run: Run, project: Made, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(project.tree.path.parent)
        assert chain(run, tmp_path / "link" / project.tree.path.name, tmp_path / "made") == usual

    def test_whatever_the_working_directory(
        self, usual: dict[str, bytes], run: Run, project: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number, place in enumerate((project.tree.path / "docs", tmp_path, Path("/"))):
            monkeypatch.chdir(place)
            assert chain(run, Path(os.path.relpath(project.tree.path)), tmp_path / str(number)) == usual


class TestClone:
    @pytest.fixture
    def origin(self, tmp_path: Path) -> WorkTree:
        """Two commits, so that a shallow clone has less than the whole."""
        tree = make(tmp_path / "origin", FILES)
        tree.write("docs/late.md", b"Later.\n")
        tree.commit(message="two")
        return tree

    @pytest.mark.parametrize(
        "how",
        [
            "clone -q file://{origin} {here}",
            "clone -q --depth 1 file://{origin} {here}",
            "clone -q --filter=blob:none file://{origin} {here}",
            "clone -q --shared {origin} {here}",
            "worktree add -q --detach {here}",
        ],
        ids=["whole", "shallow", "partial", "shared", "work tree"],
    )
    def test_whatever_the_clone(self, how: str, origin: WorkTree, run: Run, tmp_path: Path) -> None:
        here = tmp_path / "here"
        origin.git(*how.format(origin=origin.path, here=here).split())
        assert chain(run, here, tmp_path / "made") == chain(run, origin.path, tmp_path / "usual")


class TestMachine:
    @pytest.mark.parametrize(
        "environ",
        [
            {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
            {"LC_ALL": "tr_TR.UTF-8", "LANGUAGE": "tr"},
            {"TZ": "Pacific/Kiritimati"},
            {"TZ": "America/St_Johns", "PYTHONHASHSEED": "0"},
            {"PYTHONHASHSEED": "4294967295"},
            {"SDAQF_NOW": "2099-01-01T00:00:00Z", "GIT_DIR": "/nowhere", "GIT_AUTHOR_DATE": "2001-01-01T00:00:00Z"},
        ],
        ids="-".join,
    )
    def test_whatever_the_environment(self, environ: dict[str, str], usual: dict[str, bytes], project: Made, tmp_path: Path) -> None:
        def run(*arguments: Any) -> Ran:
            return program(*arguments, cwd=tmp_path, environ=environ)

        assert chain(run, project.tree.path, tmp_path / "made") == usual

    @pytest.mark.parametrize("mask", [0o000, 0o077, 0o027])
    def test_whatever_the_umask(self, mask: int, usual: dict[str, bytes], run: Run, tmp_path: Path) -> None:
        before = os.umask(mask)
        try:
            tree = make(tmp_path / "repository", FILES)
            assert chain(run, tree.path, tmp_path / "made") == usual
        finally:
            os.umask(before)
        assert {place.stat().st_mode & 0o777 for place in (tmp_path / "made").iterdir()} == {0o600}


class TestDirectoryOrder:
    def test_whatever_was_written_first(self, usual: dict[str, bytes], run: Run, tmp_path: Path) -> None:
        tree = make(tmp_path / "repository", dict(reversed(FILES.items())))
        assert chain(run, tree.path, tmp_path / "made") == usual

    @pytest.mark.parametrize("turned", [False, True])
    def test_whatever_the_system_lists_first(
        self, turned: bool, usual: dict[str, bytes], run: Run, project: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "scandir", _sorted_scandir(turned))
        assert chain(run, project.tree.path, tmp_path / "made") == usual

    def test_also_where_git_lists_nothing(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The fallback walk of FORMAT 4.3 looks at folders itself."""
        tree = make(tmp_path / "repository", {})
        (tree.path / ".git" / "info" / "exclude").write_text("*\n")
        for name in ("b/z", "b/a", "B/z", "a", "c.d/x", "c/x"):
            tree.write(name, name.encode())
        told = set()
        for turned in (False, True):
            with monkeypatch.context() as patch:
                patch.setattr(os, "scandir", _sorted_scandir(turned))
                told.add(run("context", "candidate", "--repository-root", tree.path))
        (ran,) = told
        assert ran.code == 0
        assert "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855" not in ran.out


def _sorted_scandir(turned: bool) -> Callable[..., Any]:
    scandir = os.scandir

    @contextmanager
    def listing(path: Any) -> Iterator[Iterator[os.DirEntry[Any]]]:
        with scandir(path) as entries:
            yield iter(sorted(entries, key=lambda entry: os.fsencode(entry.name), reverse=turned))

    return listing
