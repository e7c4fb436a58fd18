"""doit as a guest: in somebody else's dodo.py, under doit's own checker, reporter and database, and under ours."""

from __future__ import annotations

import contextlib
import io
import json
import linecache
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doit.cmd_base import ModuleTaskLoader
from doit.doit_cmd import DoitMain

from sdaqf_tasks.flow.tasks import Codec, Pipeline
from tests.flow.workshop import MANIFEST, Workshop

OWN = "import sdaqf_tasks\nDOIT_CONFIG = sdaqf_tasks.doit_config()\ncontext = sdaqf_tasks.pipeline()\n"

GUEST = """
import sdaqf_tasks

context = sdaqf_tasks.pipeline(prefix="context")

def task_check():
    return {"actions": ["echo checked"], "verbosity": 2}

def task_test():
    return {"actions": ["echo tested"], "verbosity": 2, "file_dep": ["src/a.py"]}

def task_index():
    return {"actions": ["echo indexed > index.out"], "targets": ["index.out"], "file_dep": ["src/a.py"]}
"""

CONFIGURED = GUEST + "\nDOIT_CONFIG = sdaqf_tasks.doit_config()\n"


@pytest.fixture(params=[GUEST, CONFIGURED], ids=["plain", "configured"])
def guest(request: pytest.FixtureRequest, tmp_path: Path) -> Workshop:
    """A project with tasks of its own, with doit's own checker, reporter and database, or with ours."""
    return with_dodo(tmp_path, request.param)


@pytest.fixture
def own(tmp_path: Path) -> Workshop:
    return with_dodo(tmp_path, OWN)


def with_dodo(tmp_path: Path, dodo: str) -> Workshop:
    from tests.flow.workshop import FILES

    ignored = "__pycache__/\n.doit.db*\nindex.out\n"
    return Workshop(tmp_path / "project", {**FILES, "dodo.py": dodo, ".gitignore": ignored})


def ran(shop: Workshop, *arguments: str, code: int = 0) -> str:
    """What doit printed, in this process. No traceback, and no path of the machine."""
    said, out = io.StringIO(), shop.path.parent / "doit.out"
    out.write_text("")
    dodo = shop.path / "dodo.py"
    with contextlib.chdir(shop.path), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        namespace: dict[str, Any] = {"__name__": "dodo", "__file__": os.fspath(dodo)}
        linecache.checkcache(os.fspath(dodo))
        exec(compile(dodo.read_text(), dodo, "exec"), namespace)
        returned = DoitMain(ModuleTaskLoader(namespace)).run(["run", "-o", os.fspath(out), *arguments])
    return _checked(shop, said.getvalue() + out.read_text(), returned, code)


def alone(shop: Workshop, *arguments: str, code: int = 0, **environment: str) -> str:
    """The same in a process of its own."""
    done = shop.doit(*arguments, **environment)
    return _checked(shop, done.stdout + done.stderr, done.returncode, code)


def _checked(shop: Workshop, told: str, returned: int, code: int) -> str:
    assert returned == code, told
    assert "Traceback" not in told
    assert os.fspath(shop.path) not in told
    return told


class TestOwn:
    """A project whose tasks are ours alone."""

    def test_snapshot_builds_everything_and_says_so_in_one_line_a_context(self, own: Workshop) -> None:
        told = alone(own, "snapshot")
        assert re.search(r"^context +made +4 sources in", told, re.MULTILINE)
        assert re.search(r"^context.review +made ", told, re.MULTILINE)
        assert "Read it: .sdaqf/build/out/context/context.md" in told
        assert len(own.refs()) == 14
        assert own.current()

    def test_a_second_run_says_up_to_date(self, own: Workshop) -> None:
        ran(own, "snapshot")
        told = ran(own, "snapshot")
        assert re.search(r"^context +up to date ", told, re.MULTILINE)
        assert " made " not in told

    def test_a_new_commit_is_same(self, own: Workshop) -> None:
        ran(own, "snapshot")
        own.tree.git("commit", "-q", "--allow-empty", "-m", "two")
        assert re.search(r"^context +same ", ran(own, "snapshot"), re.MULTILINE)

    def test_one_context(self, own: Workshop) -> None:
        ran(own, "snapshot:context.review")
        assert [name for name in own.refs() if "/q/" in name] == [f"context/q/review/{m}" for m in ("query", "selection", "snapshot")]

    def test_it_makes_what_sdaqf_build_makes(self, own: Workshop) -> None:
        ran(own, "snapshot")
        refs, outs = own.refs(), own.outs()
        assert own.made() == set()
        for place in sorted(own.folder.rglob("*"), reverse=True):
            place.rmdir() if place.is_dir() else place.unlink()
        own.build()
        assert (own.refs(), own.outs()) == (refs, outs)

    def test_notes_are_told(self, own: Workshop) -> None:
        own.tree.write("src/binary.py", b"\0\1")
        told = ran(own, "snapshot")
        assert told.count("src/binary.py left out") == 1

    def test_a_skipped_context_says_so(self, own: Workshop) -> None:
        own.manifest("sdaqf: 1\nspecification: docs/spec.md\nsources:\n  n: {path: n.md, root: owner, kind: decision}\n", "release")
        assert re.search(r"^release +skipped +it has owner sources", ran(own, "snapshot"), re.MULTILINE)

    @pytest.mark.parametrize("how", [("-n", "2"), ("-n", "2", "-P", "thread")], ids=["processes", "threads"])
    def test_in_parallel(self, own: Workshop, how: tuple[str, ...]) -> None:
        own.manifest(MANIFEST, "second")
        own.tree.write("src/binary.py", b"\0\1")
        told = alone(own, *how, "snapshot")
        for label in ("context", "context.review", "second", "second.review"):
            assert re.search(rf"^{re.escape(label)} +made ", told, re.MULTILINE), told
        assert told.count("src/binary.py left out") == 2
        assert own.made() == set()
        told = alone(own, *how, "snapshot")
        assert told.count(" up to date ") == 4

    def test_workers_leave_no_scratch_behind(self, own: Workshop, tmp_path: Path) -> None:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        alone(own, "-n", "2", "snapshot", TMPDIR=os.fspath(scratch))
        assert [path.name for path in scratch.iterdir() if path.name.startswith("sdaqf-")] == []

    def test_from_a_folder_below_the_top(self, tmp_path: Path) -> None:
        shop = with_dodo(tmp_path, "")
        shop.write("tools/dodo.py", OWN)
        alone(shop, "-f", "tools/dodo.py", "snapshot")
        assert shop.made() == set()


class TestGuest:
    """A project with its own check, test and index tasks."""

    def test_nothing_collides(self, guest: Workshop) -> None:
        told = alone(guest)
        assert "checked" in told
        assert "tested" in told
        assert (guest.path / "index.out").exists()
        assert len(guest.refs()) == 14

    def test_only_the_prefix_is_visible(self, guest: Workshop) -> None:
        names = {line.split()[0] for line in alone(guest, "list", "--all").splitlines() if line.strip()}
        assert names == {"check", "context", "context:context", "context:context.review", "index", "test"}

    def test_one_query(self, guest: Workshop) -> None:
        ran(guest, "context:context.review")
        assert {name.split("/")[2] for name in guest.refs() if "/q/" in name} == {"review"}
        assert (guest.folder / "out/context.review/context.md").exists()

    def test_a_second_run_makes_nothing(self, guest: Workshop) -> None:
        ran(guest, "context")
        before = {path: path.stat().st_mtime_ns for path in guest.folder.rglob("*") if path.is_file() and path.name != "doit.json"}
        ran(guest, "context")
        assert {path: path.stat().st_mtime_ns for path in before} == before

    def test_own_tasks_are_up_to_date_as_ever(self, guest: Workshop) -> None:
        ran(guest, "index")
        assert "-- index" in ran(guest, "index")

    def test_a_refusal_is_a_failed_task_with_three_lines(self, guest: Workshop) -> None:
        (guest.path / "docs/spec.md").unlink()
        told = ran(guest, "context", code=1)
        lines = told.splitlines()
        start = next(number for number, line in enumerate(lines) if "context is blocked at manifest" in line)
        assert lines[start + 1].startswith("  manifests/context.yaml:2:16: docs/spec.md is deleted")
        assert lines[start + 4].endswith("(missing-or-unreadable)")
        assert guest.refs() == {}

    def test_continue_goes_on_with_what_does_not_depend_on_it(self, guest: Workshop) -> None:
        guest.manifest(MANIFEST.replace("docs/spec.md", "docs/no.md"), "aaa")
        told = ran(guest, "--continue", "context", code=2)
        assert "aaa is blocked at manifest" in told
        assert guest.words("context") == {"context": "up to date", "context.review": "up to date"}

    @pytest.mark.parametrize("how", [("-n", "2"), ("-n", "2", "-P", "thread")], ids=["processes", "threads"])
    def test_in_parallel(self, guest: Workshop, how: tuple[str, ...]) -> None:
        alone(guest, *how, "context")
        assert guest.made() == set()

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("manifests/context.yaml", "sdaqf: 1\nspecification: [\n"),
            ("manifests/context.yaml", "sdaqf: 1\nspecfication: x\n"),
            ("manifests/Context.yaml", MANIFEST),
            ("sdaqf.toml", "build = \n"),
            ("sdaqf.toml", "biuld = 'x'\n"),
            ("sdaqf.toml", "build = '.git/x'\n"),
        ],
        ids=["yaml", "member", "name", "toml", "key", "place"],
    )
    def test_what_cannot_be_read_leaves_other_tasks_possible(self, guest: Workshop, name: str, text: str) -> None:
        guest.write(name, text)
        assert "checked" in ran(guest, "check")
        alone(guest, "list", "--all")
        told = ran(guest, "context", code=1)
        assert name in told

    def test_no_repository_leaves_other_tasks_possible(self, guest: Workshop) -> None:
        (guest.path / ".git").rename(guest.path.parent / "git")
        assert "checked" in ran(guest, "check")
        assert "no folder from here upward" in ran(guest, "context", code=1)

    def test_an_unborn_repository_leaves_other_tasks_possible(self, guest: Workshop) -> None:
        guest.tree.git("update-ref", "-d", "HEAD")
        assert "checked" in ran(guest, "check")
        assert "repository-unborn" in ran(guest, "context", code=1)

    def test_yaml_that_broke_since_keeps_its_tasks(self, guest: Workshop) -> None:
        ran(guest, "context")
        guest.manifest("sdaqf: 1\nspecification: [\n")
        assert "manifests/context.yaml:" in ran(guest, "context:context.review", code=1)


class TestTraps:
    """The six freshness traps, with doit's own database or ours: none passes for fresh."""

    @pytest.fixture
    def built(self, guest: Workshop) -> Workshop:
        ran(guest, "context")
        return guest

    def caught(self, shop: Workshop, code: int = 0) -> None:
        ran(shop, "context", code=code)
        assert shop.current() == (code == 0)
        assert shop.made() == set()

    def test_same_size_and_restored_time(self, built: Workshop) -> None:
        place = built.path / "docs/adr/0001-one.md"
        before, status = built.refs(), place.stat()
        place.write_text(place.read_text().replace("one thing", "two thing"))
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.caught(built)
        assert built.refs() != before

    @pytest.mark.parametrize("name", ["refs/m/context/graph", "refs/m/context/q/default/snapshot", "out/context/context.md"])
    def test_a_target_that_was_edited(self, built: Workshop, name: str) -> None:
        place = built.folder / name
        whole, status = place.read_bytes(), place.stat()
        place.write_bytes(whole[::-1])
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.caught(built)
        assert place.read_bytes() == whole

    @pytest.mark.parametrize("name", ["refs/m/context/graph", "refs/m/context/q/default/document", "out/context/snapshot.json"])
    def test_a_target_that_was_cut(self, built: Workshop, name: str) -> None:
        place = built.folder / name
        whole = place.read_bytes()
        place.write_bytes(whole[:10])
        self.caught(built)
        assert place.read_bytes() == whole

    def test_an_object_that_was_cut(self, built: Workshop) -> None:
        place = built.object_of("snapshot")
        whole = place.read_bytes()
        place.write_bytes(whole[:100])
        self.caught(built)
        assert place.read_bytes() == whole

    def test_an_action_that_changed(self, built: Workshop) -> None:
        """The version of the program stands in every receipt; doit does not know of it."""
        for receipt in (built.folder / "refs").rglob("*.made"):
            receipt.write_text(receipt.read_text().replace('"program": "', '"program": "0.'))
        self.caught(built)

    def test_forged_state(self, built: Workshop) -> None:
        """doit's database and all mtimes say that nothing changed."""
        state = [path for path in (built.folder / "doit.json", *built.path.glob(".doit.db*")) if path.exists()]
        held = {path: path.read_bytes() for path in state}
        before = {path: path.stat() for path in built.folder.rglob("*")}
        built.write("docs/adr/0001-one.md", "# One\n\nAnother.\n")
        ran(built, "context")
        refs = built.refs()
        built.write("docs/adr/0001-one.md", "# One\n\nWe do one thing.\n")
        for path, data in held.items():
            path.write_bytes(data)
        for path, status in before.items():
            if path.exists():
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        self.caught(built)
        assert built.refs() != refs

    def test_a_source_that_changed_while_the_action_ran(self, built: Workshop) -> None:
        """Whatever doit recorded at the end of the action: the tree is looked at again."""
        dodo = (built.path / "dodo.py").read_text()
        edit = (
            "import pathlib\nfrom sdaqf_tasks.flow import stages\n"
            "_done, _put = [], stages._artifact\n"
            "def _late(*given):\n"
            "    if not _done:\n"
            "        _done.append(pathlib.Path('src/a.py').write_text('a = 77\\n'))\n"
            "    return _put(*given)\n"
            "stages._artifact = _late\n"
        )
        built.write("dodo.py", edit + dodo)
        ran(built, "context")
        built.write("dodo.py", dodo)
        assert "77" in (built.path / "src/a.py").read_text()
        self.caught(built)
        assert "a = 77" in (built.folder / "out/context/context.md").read_text()


def random_bytes(_: bytes) -> bytes:
    return random.Random(7).randbytes(3_000)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def ignored(data: bytes) -> bytes:
    return json.dumps({name: entry | {"ignore:": "1"} for name, entry in json.loads(data).items()}).encode()


def with_every_value(value: Any) -> Callable[[bytes], bytes]:
    def scrambled(data: bytes) -> bytes:
        return json.dumps({name: dict.fromkeys(entry, value) for name, entry in json.loads(data).items()}).encode()

    return scrambled


SCRAMBLED: dict[str, Callable[[bytes], bytes | None]] = {
    "deleted": lambda data: None,
    "empty": lambda data: b"",
    "cut": cut,
    "random": random_bytes,
    "nul": lambda data: b"\0" * 100,
    "list": lambda data: b"[]",
    "number": lambda data: b"7",
    "entries are numbers": lambda data: json.dumps(dict.fromkeys(json.loads(data), 3)).encode(),
    "values are numbers": with_every_value(3),
    "values are null": with_every_value(None),
    "values are texts": with_every_value("x"),
    "values are lists": with_every_value([1, 2]),
    "values are mappings": with_every_value({"a": []}),
    "deep": lambda data: b"[" * 100_000,
    "ignored": ignored,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """One project for all ways in which its database is scrambled."""
    return with_dodo(tmp_path_factory.mktemp("state"), CONFIGURED)


class TestState:
    """doit's own state may be deleted, cut or scrambled at any time: nothing is counted fresh, and there is no traceback."""

    @pytest.mark.parametrize("how", SCRAMBLED.values(), ids=SCRAMBLED)
    def test_scrambled(self, built: Workshop, how: Callable[[bytes], bytes | None]) -> None:
        place = built.folder / "doit.json"
        ran(built)
        number = random.random()
        built.write("docs/adr/0001-one.md", f"# One\n\n{number}\n")
        data = how(place.read_bytes())
        place.unlink() if data is None else place.write_bytes(data)
        ran(built, "context", "index")
        assert built.current()
        assert str(number) in (built.folder / "out/context/context.md").read_text()

    def test_marks_of_doit_ignore_are_dropped_from_our_tasks_alone(self, built: Workshop) -> None:
        ran(built)
        alone(built, "ignore", "context", "_context-snapshot:context", "check")
        built.write("docs/adr/0001-one.md", "# One\n\nignored?\n")
        told = ran(built)
        assert "!! check" in told
        assert "checked" not in told
        assert built.current()
        alone(built, "forget", "check")

    @pytest.mark.parametrize("settings", ["bui", 'build = "../x"\n', "unknown = 1\n", None])
    def test_with_settings_that_cannot_be_read_it_does_not_lie_in_the_tree(self, tmp_path: Path, settings: str | None) -> None:
        shop = with_dodo(tmp_path, OWN)
        place = shop.path / "sdaqf.toml"
        place.mkdir() if settings is None else place.write_text(settings)
        alone(shop, "snapshot", code=1)
        assert (shop.folder / "doit.json").exists()
        assert not list(shop.path.glob(".doit.db*"))

    def test_the_database_lies_in_the_build_folder(self, built: Workshop) -> None:
        ran(built)
        assert (built.folder / "doit.json").exists()
        assert not list(built.path.glob(".doit.db*"))
        assert os.fspath(built.path) not in (built.folder / "doit.json").read_text()


class TestCodec:
    """An entry that doit could not have written is none."""

    def test_what_doit_writes_is_kept(self) -> None:
        entry = {"_values_:": {"a": 1}, "result:": "x", "checker:": "MD5Checker", "deps:": ["f"], "f": [1.5, 3, "d"]}
        assert Codec().decode(json.dumps({"t": entry})) == {"t": entry}
        assert Codec().decode(Codec().encode({"t": {"_values_:": {}}})) == {"t": {"_values_:": {}}}

    @pytest.mark.parametrize(
        "entry",
        [
            {"_values_:": []},
            {"deps:": 5},
            {"deps:": [[]]},
            {"checker:": 5},
            {"f": [1.5, 3, "d"]},
            {"checker:": "MD5Checker", "f": 7},
            {"checker:": "MD5Checker", "f": [1, 2]},
            {"checker:": "MD5Checker", "f": ["1", 2, "d"]},
            {"checker:": "TimestampChecker", "f": "1"},
        ],
        ids=str,
    )
    def test_what_it_could_not_have_written_is_dropped(self, entry: Any) -> None:
        assert Codec().decode(json.dumps({"t": entry, "kept": {}})) == {"kept": {}}

    def test_marks_of_tasks_that_are_not_ours_are_kept(self) -> None:
        Pipeline("codec")
        found = Codec().decode(json.dumps({name: {"ignore:": "1"} for name in ("codec", "codec:x", "_codec-index:x", "mine", "codecs")}))
        assert {name for name, entry in found.items() if entry} == {"mine", "codecs"}


def test_a_dodo_pays_little_for_the_import() -> None:
    """`import sdaqf_tasks` and `pipeline()` import nothing that takes long: what does is named here."""
    program = (
        "import sys; before = set(sys.modules); import sdaqf_tasks; sdaqf_tasks.pipeline('context');"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("sdaqf_tasks")} == {"sdaqf_tasks", "sdaqf_tasks.flow", "sdaqf_tasks.flow.tasks"}
    assert not loaded & {"msgspec", "yaml", "subprocess", "doit", "jsonschema", "ast"}
