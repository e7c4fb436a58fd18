"""A refused stage leaves a record; the record alone is refused again, byte for byte; an edited one never is."""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdaqf_tasks.disk.store import Store
from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.flow import blocked, check, replay, stages, tape
from sdaqf_tasks.flow.blocked import EMBEDDED, Envelope, Record
from sdaqf_tasks.flow.replay import EXTERNAL, FULLY, INSUFFICIENT, OBSERVATIONAL
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import Sensitivity
from tests.flow.workshop import DEFAULT, MANIFEST, Workshop
from tests.fronts.run import SDAQF, in_process, program

EXPIRED = (
    "  run:\n    path: lint.txt\n    kind: tool-observation\n    required: true\n    freshness: {observed: 2026-01-01T00:00:00Z, for: 1d}\n"
)


def with_source(text: str) -> str:
    return MANIFEST.replace("relationships:", f"{text}relationships:")


def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(count))


def moved_text(shop: Workshop) -> None:
    """Lock, then change a pinned text that git has a history of."""
    shop.command("lock")
    shop.tree.git("add", "-A")
    shop.tree.git("commit", "-q", "-m", "lock")
    shop.write("docs/spec.md", "# Specification\n\nIt does that.\n")
    shop.tree.git("commit", "-q", "-am", "It does that")


def linked(shop: Workshop) -> None:
    (shop.path / "docs/spec.md").unlink()
    (shop.path / "docs/spec.md").symlink_to("adr/0001-one.md")


def far(shop: Workshop) -> None:
    """A step away from the specification, where the query allows none."""
    more = "  - code implements specification\n  - specification references decisions\n"
    text = MANIFEST.replace("  - code implements specification\n", more)
    shop.manifest(text.replace("{seeds: all}", "{seeds: [code], budget: {bytes: 65536, depth: 0}}"))


REFUSED: dict[str, tuple[Callable[[Workshop], object], Reason, str]] = {
    "the YAML is malformed": (lambda shop: shop.manifest("sdaqf: 1\nsources: [\n"), Reason.MALFORMED_YAML, "manifest"),
    "the YAML is not UTF-8": (
        lambda shop: shop.tree.write("manifests/context.yaml", b"sdaqf: 1\n# \xff\n"),
        Reason.NOT_UTF8,
        "manifest",
    ),
    "an include is missing": (lambda shop: shop.manifest(MANIFEST + "include: [_no.yaml]\n"), Reason.MISSING_OR_UNREADABLE, "manifest"),
    "a glob has no match": (lambda shop: shop.manifest(with_source("  no: source no/*.py\n")), Reason.MANIFEST_INVALID, "manifest"),
    "the settings exclude a source": (
        lambda shop: (shop.write("sdaqf.toml", 'exclude = ["src/**"]'), shop.manifest(with_source("  one: source src/a.py\n"))),
        Reason.MANIFEST_INVALID,
        "manifest",
    ),
    "a file is a link": (
        linked,
        Reason.MISSING_OR_UNREADABLE,
        "manifest",
    ),
    "a file has no such section": (
        lambda shop: shop.manifest(with_source("  part: {path: docs/adr/0001-one.md, kind: finding, section: No}\n")),
        Reason.MANIFEST_INVALID,
        "manifest",
    ),
    "the observation has expired": (
        lambda shop: (shop.write("lint.txt", "ok\n"), shop.manifest(with_source(EXPIRED))),
        Reason.REQUIRED_EXPIRED,
        "manifest",
    ),
    "a pinned text is another one": (moved_text, Reason.CHANGED, "manifest"),
    "the lock is no lock": (lambda shop: shop.write("manifests/context.lock", "{}\n"), Reason.CONTRACT_INVALID, "manifest"),
    "required sources exceed the budget": (
        lambda shop: (
            shop.write("src/b.txt", lines(600)),
            shop.manifest(
                with_source("  big: {path: src/b.txt, kind: source, required: true}\n").replace(
                    "{seeds: all}", "{seeds: all, budget: 4KiB}"
                )
            ),
        ),
        Reason.REQUIRED_OVER_BUDGET,
        "select",
    ),
    "what is reachable exceeds a bound": (
        far,
        Reason.TRAVERSAL_BOUND,
        "select",
    ),
}


def dead_mention(shop: Workshop) -> list[str]:
    shop.write("src/gone.py", "")
    shop.write("README.md", "See `src/gone.py`.\n")
    shop.tree.git("add", "-A")
    shop.tree.git("commit", "-q", "-m", "one")
    shop.tree.git("rm", "-q", "src/gone.py")
    shop.tree.git("commit", "-q", "-m", "two")
    return ["--fail-on", "dead-mention"]


def edited_block(shop: Workshop) -> None:
    assert shop.command("render", "context", "--into", "AGENTS.md").returncode == 0
    path = shop.path / "AGENTS.md"
    path.write_text(path.read_text().replace("docs/spec.md", "docs/other.md"))


def re_pinned(shop: Workshop) -> list[str]:
    shop.write("docs/spec.md", "# Specification\n\nIt does that.\n")
    shop.command("lock")
    shop.tree.git("commit", "-q", "-am", "It does that")
    return ["--base", "HEAD~1", "--fail-on", "re-pinned"]


def tampered(shop: Workshop) -> None:
    shop.build()
    shop.object_of("graph").write_text("{}")


def drifted(shop: Workshop) -> list[str]:
    shop.write("src/b.py", "def b() -> int:\n    return 1\n")
    for words in (
        ["init"],
        ["begin"],
        ["distil", "one", "tier:pattern", "category:procedural", "region:src/a.py:1-2", "region:src/b.py:1-2"],
        ["commit"],
        ["publish", "one"],
    ):
        assert (ended := shop.command("shard", *words)).returncode == 0, ended.stderr
    shop.manifest(MANIFEST.replace("relationships:", "  memory: decision abstractions/*.json\nrelationships:"))
    shop.command("lock")
    shop.write("src/b.py", "def b() -> int:\n    return 2\n")
    return ["--fail-on", "drifted"]


def strange_name(shop: Workshop) -> None:
    os.close(os.open(os.fsencode(shop.path) + b"/docs/\xff\\.md", os.O_CREAT | os.O_WRONLY))
    shop.write("docs/spec.md", "# Specification\n\nIt does that.\n")


FAILING: dict[str, Callable[[Workshop], object]] = {
    "a dead mention": dead_mention,
    "an edited block": edited_block,
    "another review than at the merge base": re_pinned,
    "a damaged object": tampered,
    "a published record": drifted,
    "a broken YAML": lambda shop: shop.manifest("sdaqf: 1\nsources: [\n"),
    "a lock in conflict": lambda shop: shop.write("manifests/context.lock", "<<<<<<< ours\n"),
    "a file that was moved": lambda shop: shop.tree.git("mv", "docs/adr/0001-one.md", "docs/adr/0003-one.md"),
    "a tree with a name that is not UTF-8": strange_name,
}


def records(shop: Workshop) -> list[Path]:
    return blocked.records(Store(shop.path, shop.folder.relative_to(shop.path).as_posix()))


def record_at(shop: Workshop) -> Path:
    [path] = records(shop)
    return path


def read(path: Path) -> Record:
    return msgspec.json.decode(path.read_bytes(), type=Envelope).record


class TestRecords:
    @pytest.mark.parametrize(("refuse", "reason", "stage"), REFUSED.values(), ids=REFUSED.keys())
    def test_every_kind_of_refusal_is_refused_again_without_the_repository(
        self, refuse: Callable[[Workshop], object], reason: Reason, stage: str, shop: Workshop, tmp_path: Path
    ) -> None:
        refuse(shop)
        error = next(result.error for result in shop.build("context.default") if result.error)
        data = record_at(shop).read_bytes()
        shutil.rmtree(shop.path)
        verdict = replay.replay(data)
        assert (error.reason, verdict.cls, verdict.source, verdict.detail) == (reason, FULLY, "embedded", "same refusal, byte for byte")
        assert verdict.record is not None
        assert verdict.record.stage == stage
        assert verdict.refusal == blocked.failure(error)

    def test_a_tree_that_cannot_be_observed_leaves_one(self, shop: Workshop) -> None:
        (shop.path / "inner").mkdir()
        shop.tree.git("init", "-q", "inner")
        ended = shop.command("build")
        assert (ended.returncode, record_at(shop).name[:13] in ended.stderr) == (1, True)
        self._is_refused_again(shop, "observe", "tree-entry")

    def test_what_git_would_list_leaves_one(self, shop: Workshop) -> None:
        shop.build()
        (shop.folder / ".gitignore").write_text("")
        assert shop.command("build").returncode == 1
        self._is_refused_again(shop, "observe", "output-not-ignored")

    @staticmethod
    def _is_refused_again(shop: Workshop, stage: str, reason: str) -> None:
        data = record_at(shop).read_bytes()
        shutil.rmtree(shop.path)
        verdict = replay.replay(data)
        assert verdict.record is not None
        assert (verdict.cls, verdict.source, verdict.detail) == (FULLY, "embedded", "same refusal, byte for byte")
        assert (verdict.record.stage, verdict.record.refusal.reason) == (stage, reason)

    def test_a_manifest_without_a_lock_where_one_is_asked_for(self, shop: Workshop) -> None:
        assert shop.command("build", "--locked").returncode == 1
        verdict = replay.replay(record_at(shop).read_bytes())
        assert verdict.refusal is not None
        assert (verdict.cls, verdict.refusal.reason) == (FULLY, "no-lock")

    def test_the_message_names_record_and_command(self, shop: Workshop) -> None:
        shop.manifest("sdaqf: 2\n")
        told = shop.command("build")
        name = record_at(shop).name[:13]
        assert f"Record {name} (" in told.stdout
        assert told.stdout.count(f"KB, repository-private): sdaqf replay {name}\n") == 1

    def test_doit_leaves_one_too(self, shop: Workshop) -> None:
        shop.write("dodo.py", "import sdaqf_tasks\nDOIT_CONFIG = sdaqf_tasks.doit_config()\ncontext = sdaqf_tasks.pipeline()\n")
        shop.manifest("sdaqf: 2\n")
        told = shop.doit("snapshot")
        assert record_at(shop).name[:13] in told.stdout + told.stderr
        assert replay.replay(record_at(shop).read_bytes()).cls == FULLY

    def test_a_gate_that_fails_leaves_one(self, shop: Workshop) -> None:
        moved_text(shop)
        told = shop.command("check")
        assert (told.returncode, told.stderr.strip().endswith(f"sdaqf replay {record_at(shop).name[:13]}")) == (1, True)
        self._is_refused_again(shop, "check", "gate-failed")

    @pytest.mark.parametrize("name", FAILING)
    def test_whatever_a_gate_fails_at_it_fails_at_again(
        self, name: str, shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shop.command("lock")
        shop.tree.git("add", "-A")
        shop.tree.git("commit", "-q", "-m", "lock")
        asked = FAILING[name](shop)
        words = asked if isinstance(asked, list) else []
        assert shop.command("check", *words).returncode == 1
        record = read(record_at(shop))
        if name == "a published record":
            state = json.loads(shop.command("shard", "status", "--json").stdout)["state"]
            assert (record.shard, record.references) == (state, ("one",))
        else:
            assert (record.shard, record.references) == (None, ())
        self._is_refused_again(shop, "check", "gate-failed")

    def test_the_order_of_what_is_asked_is_always_the_same(self, shop: Workshop) -> None:
        """Another process has other hashes."""
        names = [f"docs/adr/{number:04}-x.md" for number in range(20)]
        for name in names:
            shop.write(name, f"# {name}\n")
        shop.command("lock")
        shop.tree.git("add", "-A")
        shop.tree.git("commit", "-q", "-m", "lock")
        for name in names[::2]:
            shop.write(name, f"# {name}\n\nMore.\n")
        shop.command("lock", "--only", names[0])
        assert shop.command("check", "--fail-on", "notice", PYTHONHASHSEED="1").returncode == 1
        path = record_at(shop)
        for seed in ("2", "3"):
            assert shop.command("replay", str(path), PYTHONHASHSEED=seed).stdout.startswith("same refusal, byte for byte")

    def test_a_name_that_is_none_is_no_gate(self, shop: Workshop) -> None:
        assert shop.command("check", str(shop.path / "no")).returncode == 1
        assert records(shop) == []

    @pytest.mark.parametrize(("count", "is_cut"), [(1, False), (30, True)])
    def test_many_changed_lines_are_held_as_far_as_the_bound_goes(self, count: int, is_cut: bool, shop: Workshop) -> None:
        names = [f"docs/adr/{number:04}-x.md" for number in range(count)]
        for name in names:
            shop.write(name, "a\n")
        shop.command("lock")
        shop.tree.git("add", "-A")
        shop.tree.git("commit", "-q", "-m", "lock")
        for name in names:
            shop.write(name, lines(4_000))
        assert shop.command("check").returncode == 1
        excerpt = read(record_at(shop)).refusal.excerpt
        assert sum(map(len, excerpt)) <= check.EXCERPT_BYTES + 100
        assert excerpt[-1].startswith("SHA-256 of all findings") is is_cut
        self._is_refused_again(shop, "check", "gate-failed")

    @pytest.mark.parametrize(("text", "reason"), [("sdaqf: 1\nsources: [\n", "malformed-yaml"), ("sdaqf: 2\n", "manifest-invalid")])
    def test_a_manifest_in_a_folder_whose_name_is_not_utf8(self, text: str, reason: str, shop: Workshop) -> None:
        shop.write("sdaqf.toml", 'manifests = ["*/manifests"]\n')
        folder = os.fsencode(shop.path) + b"/\xffx/manifests"
        Path(os.fsdecode(folder)).mkdir(parents=True)
        Path(os.fsdecode(folder + b"/m.yaml")).write_text(text)
        assert shop.command("build").returncode == 1
        self._is_refused_again(shop, "manifest", reason)

    def test_an_owners_published_record_is_asked_nothing_about(self, shop: Workshop, tmp_path: Path) -> None:
        drifted(shop)
        owner = tmp_path / "owner"
        owner.mkdir()
        shutil.copy(shop.path / "abstractions/one.json", owner / "i.json")
        shutil.rmtree(shop.path / "abstractions")
        shop.owner_root = owner
        shop.manifest(MANIFEST.replace("relationships:", "  i: {path: i.json, root: owner, kind: decision}\nrelationships:"))
        assert shop.command("check", "--fail-on", "notice", SDAQF_OWNER_ROOT=str(owner)).returncode == 1
        record = read(record_at(shop))
        assert (record.shard, record.references) == (None, ())
        assert "shards" not in {answer.who for answer in record.world.answers}

    @pytest.mark.parametrize("words", [["--exit-zero"], ["--base", "nowhere"]])
    def test_a_gate_that_is_told_to_pass_or_cannot_begin_leaves_none(self, words: list[str], shop: Workshop) -> None:
        moved_text(shop)
        assert shop.command("check", *words).returncode == (2 if "--base" in words else 0)
        assert records(shop) == []

    def test_a_gate_without_a_tree_leaves_one(self, shop: Workshop) -> None:
        (shop.path / "inner").mkdir()
        shop.tree.git("init", "-q", "inner")
        told = shop.command("check").stderr
        assert record_at(shop).name[:13] in told
        self._is_refused_again(shop, "check", "tree-entry")

    def test_a_gate_that_passes_leaves_none(self, shop: Workshop) -> None:
        shop.command("lock")
        assert shop.command("check").returncode == 0
        assert records(shop) == []

    def test_what_is_built_leaves_none(self, shop: Workshop) -> None:
        shop.build()
        assert not (shop.folder / "blocked").exists()

    def test_the_file_is_private_and_named_by_its_id(self, shop: Workshop) -> None:
        shop.manifest("sdaqf: 2\n")
        shop.build()
        path = record_at(shop)
        envelope = msgspec.json.decode(path.read_bytes(), type=Envelope)
        assert path.name == f"{envelope.replay_id}.json" == f"{blocked.identity(envelope.record)}.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert str(shop.path) not in path.read_text()

    def test_the_newest_fifty_are_kept(self, shop: Workshop) -> None:
        for number in range(blocked.KEPT + 2):
            shop.manifest(f"sdaqf: {number + 2}\n")
            shop.build()
        found = records(shop)
        assert len(found) == blocked.KEPT
        assert "sdaqf: 53" in msgspec.json.decode(found[0].read_bytes(), type=Envelope).record.blobs.values().__str__()

    @pytest.mark.parametrize("link", [".sdaqf", ".sdaqf/build", ".sdaqf/build/blocked", ".sdaqf/build/blocked/linked"])
    def test_what_a_link_leads_to_is_neither_removed_nor_read(self, link: str, shop: Workshop, tmp_path: Path) -> None:
        outside = tmp_path / ".sdaqf/build/blocked/linked"
        outside.mkdir(parents=True)
        for number in range(blocked.KEPT + 10):
            (outside / f"REPLAY-{number:064X}.json").write_text("{}")
        (shop.path / link).parent.mkdir(parents=True, exist_ok=True)
        (shop.path / link).symlink_to(tmp_path / link)
        shop.manifest("sdaqf: 2\n")
        shop.command("build")
        assert len(list(outside.iterdir())) == blocked.KEPT + 10
        assert "{}" not in [path.read_text() for path in records(shop)]

    def test_doctor_and_gc_leave_them_alone(self, shop: Workshop) -> None:
        shop.manifest("sdaqf: 2\n")
        shop.build()
        path = record_at(shop)
        assert shop.command("doctor").returncode == 0
        shop.command("gc")
        assert path.is_file()


QUOTING = {
    "a heading": ("# Ledger 4711\n", "section: nope"),
    "a near heading": ("# Ledger 4711\n", "section: Ledger 4712"),
    "a near function": ("def ledger_4711() -> None:\n    pass\n", "symbol: ledger_4712"),
    "too few lines": ("Ledger 4711\n", "lines: 5-9"),
}


class TestPrivacy:
    NOTE = "nobody may see this"

    @pytest.fixture
    def private(self, shop: Workshop, tmp_path: Path) -> Workshop:
        owner = tmp_path / "owner"
        owner.mkdir()
        (owner / "note.md").write_text(self.NOTE)
        shop.owner_root = owner
        shop.write("lint.txt", "ok\n")
        shop.manifest(with_source("  note: {path: note.md, kind: finding, root: owner}\n" + EXPIRED))
        return shop

    def test_owner_bytes_stay_out_and_their_digest_is_there(self, private: Workshop) -> None:
        private.build()
        record = read(record_at(private))
        assert self.NOTE not in record_at(private).read_text()
        assert self.NOTE.encode() not in [*record.blobs.values()]
        assert canonical.digest(self.NOTE.encode()) in record.left_out
        assert record.sensitivity is Sensitivity.OWNER_PRIVATE
        verdict = replay.replay(record_at(private).read_bytes())
        assert (verdict.cls, verdict.reason) == (OBSERVATIONAL, "missing")

    def test_with_the_owner_root_at_hand_it_is_replayed(self, private: Workshop) -> None:
        private.build()
        with private.run() as run:
            verdict = replay.replay(record_at(private).read_bytes(), replay.at_hand(run))
        assert (verdict.cls, verdict.source) == (FULLY, EXTERNAL)

    def test_another_note_is_a_mismatch(self, private: Workshop) -> None:
        private.build()
        assert private.owner_root
        (private.owner_root / "note.md").write_text("another")
        with private.run() as run:
            verdict = replay.replay(record_at(private).read_bytes(), replay.at_hand(run))
        assert (verdict.cls, verdict.reason, verdict.detail) == (
            OBSERVATIONAL,
            "hash_mismatch",
            "owner:note.md: it is another one by now",
        )

    def test_an_unreadable_note_is_said_so(self, private: Workshop) -> None:
        private.build()
        assert private.owner_root
        (private.owner_root / "note.md").unlink()
        (private.owner_root / "note.md").mkdir()
        with private.run() as run:
            verdict = replay.replay(record_at(private).read_bytes(), replay.at_hand(run))
        assert (verdict.cls, verdict.reason) == (OBSERVATIONAL, "unreadable")

    def test_the_owner_may_embed_it(self, private: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_EMBED_OWNER", "1")
        private.build()
        verdict = replay.replay(record_at(private).read_bytes())
        assert (verdict.cls, verdict.source) == (FULLY, "embedded")
        assert verdict.record is not None
        assert verdict.record.sensitivity is Sensitivity.OWNER_PRIVATE

    def test_a_repository_source_that_is_said_to_be_the_owners(self, shop: Workshop) -> None:
        shop.write("secret.txt", self.NOTE)
        shop.write("lint.txt", "ok\n")
        shop.manifest(with_source("  note: {path: secret.txt, kind: finding, sensitivity: owner-private}\n" + EXPIRED))
        shop.build()
        assert self.NOTE.encode() not in read(record_at(shop)).blobs.values()
        assert read(record_at(shop)).sensitivity is Sensitivity.OWNER_PRIVATE

    def test_where_the_yaml_cannot_say_what_is_whose_nothing_that_was_read_is_kept(self, shop: Workshop) -> None:
        """Between two stages somebody breaks the YAML: then every source counts as the owner's."""
        shop.write("secret.txt", self.NOTE)
        shop.manifest(with_source("  note: {path: secret.txt, kind: finding, sensitivity: owner-private}\n"))
        with shop.run() as run:
            stages.observe(run)
            stages.run_stage(run, stages.BY_NAME["manifest"], DEFAULT)
            job = stages.Job(run, stages.BY_NAME["index"], DEFAULT)
            stages.execute(job, job.inputs())
            shop.manifest("sdaqf: 1\nsources: [\n")
            run.forget()
            error = Refused(Reason.REQUIRED_UNAVAILABLE, "gone")
            error.origin = job.origin
            blocked.keep(error)
        record = read(record_at(shop))
        held = list(filter(None, record.blobs.values()))
        assert [blob for blob in held if self.NOTE.encode() in blob] == []
        assert canonical.digest(self.NOTE.encode()) in record.left_out

    @pytest.mark.parametrize("embed", ["", "1"])
    @pytest.mark.parametrize("whose", ["root: owner", "sensitivity: owner-private"])
    @pytest.mark.parametrize(("text", "part"), QUOTING.values(), ids=QUOTING.keys())
    def test_a_refusal_quotes_what_is_the_owners_only_where_it_may(
        self, text: str, part: str, whose: str, embed: str, private: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SDAQF_EMBED_OWNER", embed)
        assert private.owner_root
        name = "note.py" if "def" in text else "note.md"
        (private.owner_root / name).write_text(text)
        private.write(name, text)
        private.manifest(with_source(f"  part: {{path: {name}, kind: finding, {whose}, {part}}}\n"))
        error = private.refusal()
        held = msgspec.to_builtins(read(record_at(private)), builtin_types=(bytes,))
        assert bool(re.search("(?i)ledger.4711", repr(held))) is bool(embed)
        assert held["refusal"]["reason"] == error.reason.value
        with private.run() as run:
            verdict = replay.replay(record_at(private).read_bytes(), replay.at_hand(run))
        assert (verdict.cls, verdict.refusal) == (FULLY, read(record_at(private)).refusal)
        assert verdict.detail == f"same refusal, {'byte for byte' if embed else 'as far as the record may tell it'}"


PRIVATE = "sdaqf: 1\nspecification: docs/spec.md\nsources:\n  p: {path: private/p.md, kind: decision, sensitivity: owner-private}\n"
TEXT = "# Ledger 4711\n\nSee `SECRET-4711/plan.md`.\n"


def renamed(shop: Workshop) -> None:
    (shop.path / "docs/adr/0009-q.md").write_bytes((shop.path / "private/p.md").read_bytes())
    shop.tree.git("rm", "-q", "private/p.md")


def included(shop: Workshop) -> None:
    shop.manifest("sdaqf: 1\nspecification: docs/spec.md\ninclude: [_p.yaml]\n", "priv")


def copied(shop: Workshop) -> None:
    shop.write("docs/_copy.yaml", "sdaqf: 1\n# Ledger 4711\n")
    shop.manifest(MANIFEST + "include: [/docs/_copy.yaml]\nx: 1\n")


KEPT_APART: dict[str, tuple[Callable[[Workshop], object], list[str]]] = {
    "another manifest is checked": (lambda shop: None, ["check", "context"]),
    "another manifest takes it as anybody's": (
        lambda shop: shop.manifest(with_source("  p: decision private/*.md\n")),
        ["check", "context"],
    ),
    "another manifest takes it, and is built": (lambda shop: shop.manifest(with_source("  p: decision private/*.md\n")), ["build"]),
    "it was moved to where it is anybody's": (renamed, ["check"]),
    "it changed": (lambda shop: shop.write("private/p.md", f"{TEXT}More.\n"), ["check"]),
    "an include that may say whose it is is gone": (included, ["check"]),
    "another manifest includes a copy of its text": (copied, ["build"]),
    "its manifest is broken": (lambda shop: shop.manifest(PRIVATE + "  x: [\n", "priv"), ["check"]),
}


class TestPrivateInTheRepository:
    """What is said to be the owner's and lies in the repository may be read by other ways than as a source."""

    @pytest.mark.parametrize("embed", ["", "1"])
    @pytest.mark.parametrize("way", KEPT_APART)
    def test_no_way_leads_into_a_record(self, way: str, embed: str, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_EMBED_OWNER", embed)
        shop.write("private/p.md", TEXT)
        shop.manifest(PRIVATE, "priv")
        shop.command("lock")
        shop.tree.git("add", "-A")
        shop.tree.git("commit", "-q", "-m", "priv")
        shop.write("docs/adr/0001-one.md", "# One\n\nAnother.\n")
        change, words = KEPT_APART[way]
        change(shop)
        assert shop.command(*words).returncode == 1
        for path in records(shop):
            record = read(path)
            held = repr(msgspec.to_builtins(record, builtin_types=(bytes,)))
            assert embed or "4711" not in held
            with shop.run() as run:
                verdict = replay.replay(path.read_bytes(), replay.at_hand(run))
            assert (verdict.cls, verdict.source) == (FULLY, "embedded" if embed else EXTERNAL), verdict.detail
        alone = [replay.replay(path.read_bytes()) for path in records(shop)]
        assert {(found.cls, found.reason) for found in alone} == {(FULLY, None) if embed else (OBSERVATIONAL, "missing")}

    def test_what_an_owners_published_record_names_stays_out(self, shop: Workshop) -> None:
        """Its examples are in no tree any more: their paths are its text alone."""
        shop.write("SECRET-4711/a.py", "def a() -> int:\n    return 1\n")
        shop.write("SECRET-4711/b.py", "def b() -> int:\n    return 1\n")
        regions = [f"region:SECRET-4711/{name}.py:1-2" for name in "ab"]
        for words in (
            ["init"],
            ["begin"],
            ["distil", "one", "tier:pattern", "category:procedural", *regions],
            ["commit"],
            ["publish", "one"],
        ):
            assert shop.command("shard", *words).returncode == 0
        shutil.rmtree(shop.path / "SECRET-4711")
        line = "  memory: {glob: abstractions/*.json, kind: decision, sensitivity: owner-private}\n"
        shop.manifest(MANIFEST.replace("relationships:", f"{line}relationships:"))
        shop.command("lock")
        assert shop.command("check", "--fail-on", "drifted").returncode == 1
        path = record_at(shop)
        assert b"4711" not in b"".join([path.read_bytes(), *filter(None, read(path).blobs.values())])
        with shop.run() as run:
            verdict = replay.replay(path.read_bytes(), replay.at_hand(run))
        assert (verdict.cls, verdict.source) == (FULLY, EXTERNAL), verdict.detail


class TestBounds:
    @pytest.mark.parametrize(("extra", "source"), [(0, "embedded"), (1, EXTERNAL)], ids=["last good", "first bad"])
    def test_eight_mebibytes_are_embedded_and_what_is_over_must_be_at_hand(
        self, extra: int, source: str, shop: Workshop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shop.write("lint.txt", "ok\n")
        shop.manifest(with_source(EXPIRED))
        used = sum(len(blob or b"") for blob in self._blobs(shop))
        monkeypatch.setattr(blocked, "EMBEDDED", used - extra)
        monkeypatch.setattr(blocked, "SMALL", 0)
        shop.build()
        newest = records(shop)[0].read_bytes()
        with shop.run() as run:
            assert replay.replay(newest, replay.at_hand(run)).source == source
        alone = replay.replay(newest)
        assert (alone.cls, alone.reason) == ((FULLY, None) if not extra else (OBSERVATIONAL, "truncated"))

    def _blobs(self, shop: Workshop) -> list[bytes | None]:
        shop.build()
        found = list(read(record_at(shop)).blobs.values())
        shutil.rmtree(shop.folder / "blocked")
        return found

    def test_more_than_is_held_meanwhile_is_a_digest(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tape, "HELD", 100)
        shop.write("lint.txt", "ok\n")
        shop.manifest(with_source(EXPIRED))
        shop.build()
        data = record_at(shop).read_bytes()
        with shop.run() as run:
            assert replay.replay(data, replay.at_hand(run)).source == EXTERNAL
        assert replay.replay(data).reason == "truncated"

    def test_the_bound(self) -> None:
        assert EMBEDDED == 8 * 1024 * 1024


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    shop = Workshop(tmp_path_factory.mktemp("shop") / "project")
    shop.manifest("sdaqf: 2\n")
    shop.build()
    return record_at(shop).read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A record of every stage, each of a refusal that came after everything was done: the tree had moved."""
    shop = Workshop(tmp_path_factory.mktemp("whole") / "project")
    shop.build()
    found = {}
    with shop.run() as run:
        _ = run.tree
        for name in ("manifest", "index", "query", "select", "snapshot"):
            job = stages.Job(run, stages.BY_NAME[name], DEFAULT)
            stages.execute(job, job.inputs())
            error = Refused(Reason.CANDIDATE_MOVED, "the tree moved")
            error.origin = job.origin
            blocked.keep(error)
            [path] = [path for path in records(shop) if path.name.startswith(error.record[7:20])]
            found[name] = path.read_bytes()
    return found


def _change(held: Any, chance: st.DataObject) -> None:
    """Change one member anywhere: take it away, or put what stands elsewhere, or what is near it, in its place."""
    places = list(_places(held))
    parent, key = chance.draw(st.sampled_from(places))
    other, name = chance.draw(st.sampled_from(places))
    kind = chance.draw(st.integers(0, 3))
    if kind == 0:
        del parent[key]
    elif kind == 1:
        parent[key] = copy.deepcopy(other[name])
    else:
        parent[key] = chance.draw(
            st.sampled_from(["", "x", "a/b", "\0", "../x", "2026-01-01T00:00:00Z", "AAAA", None, 0, 2**40, True, [], {}])
        )


def _places(held: Any) -> Iterator[tuple[Any, Any]]:
    for key, value in list(held.items() if isinstance(held, dict) else enumerate(held)):
        yield held, key
        if isinstance(value, dict | list):
            yield from _places(value)


def odd_questions(record: dict[str, Any]) -> None:
    for answer, about in zip(record["world"]["answers"], itertools.cycle(("", "{", "[]", "[[]]")), strict=False):
        answer["about"] = about


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "a window that is none": lambda record: record["world"]["settings"].update(soon="garbage"),
    "a manifest without a path": lambda record: record["world"].update(manifests='[["context",""]]'),
    "manifests that are none": lambda record: record["world"].update(manifests="{"),
    "no answers": lambda record: record["world"].update(answers=[]),
    "a failure that is none": lambda record: record["world"]["answers"][0].update(failure=dict(record["refusal"], kind="Exception")),
    "questions that are none": odd_questions,
    "left out": lambda record: record.update(blobs=dict.fromkeys(record["blobs"]), left_out=dict.fromkeys(record["blobs"], "bound")),
}


def asking(what: str, *about: Any) -> Callable[[dict[str, Any]], object]:
    """A question of which the answer is left out, as nobody but a forger puts it."""
    who, _, name = what.partition(" ")
    answer = {"who": who, "what": name, "about": json.dumps(about), "sha256": "AB" * 32, "failure": None}

    def forge(record: dict[str, Any]) -> None:
        record["world"]["answers"].append(answer)
        record["blobs"]["AB" * 32] = None
        record["left_out"]["AB" * 32] = "bound"

    return forge


FORGED |= {
    f"asks {what} {about}": asking(what, *about)
    for what, about in (
        ("git committed", ["--output=forged"]),
        ("git history", ["log", "--output=forged"]),
        ("git merge_base", ["--output=forged", "HEAD"]),
        ("store create", []),
        ("store is_there", []),
        ("store ref", ["../../forged"]),
        ("store queries", ["a" * 5000]),
        ("project read", []),
        ("project read", ["../outside", 10]),
        ("project has", [None]),
        ("past tell", [1, 2]),
        ("shards live", [{}, "a"]),
    )
}


class TestForged:
    """Whoever makes a record of his own gets a verdict, and nothing else is asked or written."""

    @pytest.mark.parametrize("why", [[], ["--why"]])
    @pytest.mark.parametrize("how", FORGED)
    def test_a_forged_record_is_answered_calmly(self, how: str, why: list[str], shop: Workshop) -> None:
        moved_text(shop)
        shop.command("check")
        record = msgspec.json.decode(record_at(shop).read_bytes())["record"]
        shutil.rmtree(shop.folder)
        FORGED[how](record)
        shop.write("forged.json", TestEdited._sealed(msgspec.json.decode(msgspec.json.encode(record), type=Record)).decode())
        before = shop.everything()
        ended = shop.command("replay", "forged.json", *why)
        assert (ended.returncode in (0, 1), "Traceback" in ended.stderr) == (True, False), ended.stderr
        assert (shop.everything(), shop.folder.exists()) == (before, False)


class TestEdited:
    @given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
    @settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_a_flipped_bit_anywhere(self, data: bytes, place: float, bit: int) -> None:
        index = int(place * len(data))
        edited = bytearray(data)
        edited[index] ^= 1 << bit
        assert replay.replay(bytes(edited)).cls == INSUFFICIENT

    @pytest.mark.parametrize("size", [0, 1, 100, -1])
    def test_a_cut_one(self, data: bytes, size: int) -> None:
        assert replay.replay(data[:size]).cls == INSUFFICIENT

    def test_an_edited_refusal_with_the_id_made_again_is_not_refused_alike(self, data: bytes) -> None:
        record = msgspec.json.decode(data, type=Envelope).record
        other = msgspec.structs.replace(record, refusal=msgspec.structs.replace(record.refusal, message="all is well"))
        verdict = replay.replay(self._sealed(other))
        assert (verdict.cls, verdict.detail) == (INSUFFICIENT, "the re-run is not refused alike")

    def test_a_part_that_is_not_what_its_digest_says(self, data: bytes) -> None:
        record = msgspec.json.decode(data, type=Envelope).record
        blobs: dict[str, bytes | None] = dict.fromkeys(record.blobs, b"sdaqf: 3\n")
        assert replay.replay(self._sealed(msgspec.structs.replace(record, blobs=blobs))).cls == INSUFFICIENT

    def test_a_record_of_another_version_is_only_looked_at(self, data: bytes) -> None:
        record = msgspec.json.decode(data, type=Envelope).record
        verdict = replay.replay(self._sealed(msgspec.structs.replace(record, program="0")))
        assert (verdict.cls, verdict.reason) == (OBSERVATIONAL, "version")
        assert verdict.record is not None
        assert verdict.record.refusal == record.refusal

    @pytest.mark.parametrize("stage", ["", "no", "select"])
    def test_a_record_of_another_stage(self, data: bytes, stage: str) -> None:
        record = msgspec.json.decode(data, type=Envelope).record
        assert replay.replay(self._sealed(msgspec.structs.replace(record, stage=stage))).cls == INSUFFICIENT

    def test_what_was_read_and_is_not_in_the_record_cannot_be_read_again(self, data: bytes) -> None:
        record = msgspec.json.decode(data, type=Envelope).record
        verdict = replay.replay(self._sealed(msgspec.structs.replace(record, blobs={})))
        assert (verdict.cls, verdict.detail) == (
            INSUFFICIENT,
            "it cannot be done again from the record: project:manifests/context.yaml has no answer",
        )

    @given(chance=st.data())
    @settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @pytest.mark.parametrize("stage", ["manifest", "index", "query", "select", "snapshot"])
    def test_whatever_a_sealed_record_says_nothing_but_a_verdict_comes_of_it(
        self, stage: str, whole: Mapping[str, bytes], chance: st.DataObject
    ) -> None:
        record = msgspec.json.decode(whole[stage])["record"]
        for _ in range(chance.draw(st.integers(1, 3))):
            _change(record, chance)
        try:
            sealed = self._sealed(msgspec.json.decode(msgspec.json.encode(record), type=Record))
        except (msgspec.ValidationError, ValueError):
            return
        assert replay.replay(sealed).cls in (FULLY, OBSERVATIONAL, INSUFFICIENT)

    @staticmethod
    def _sealed(record: Record) -> bytes:
        return canonical.encode(Envelope(replay_id=blocked.identity(record), record=record), bounded=False) + b"\n"


class TestCommand:
    def test_latest_a_prefix_and_a_file_are_the_same_record(
        self, shop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shop.manifest("sdaqf: 2\n")
        shop.build()
        monkeypatch.chdir(shop.path)
        path = record_at(shop)
        answers = [in_process("replay", *name, "--json", capsys=capsys) for name in ([], ["latest"], [path.name[:13]], [path])]
        assert [answer.code for answer in answers] == [0, 0, 0, 0]
        assert [answer.value for answer in answers] == [answers[0].value] * 4
        assert answers[0].value["class"] == FULLY
        assert answers[0].value["record"]["refusal"]["reason"] == "manifest-invalid"

    def test_outside_of_any_repository(self, shop: Workshop, tmp_path: Path) -> None:
        shop.manifest("sdaqf: 2\n")
        shop.build()
        away = tmp_path / "away"
        away.mkdir()
        shutil.copy(record_at(shop), away / "r.json")
        shutil.rmtree(shop.path)
        ran = program("replay", "r.json", cwd=away, by=(SDAQF,))
        assert ran.code == 0
        assert ran.out.startswith("same refusal, byte for byte · fully replayable · no repository needed\n")

    def test_why_says_what_changed_and_whether_it_would_pass(
        self, shop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("SDAQF_NOW", "2026-02-01T00:00:00Z")
        moved_text(shop)
        shop.build()
        shop.write("docs/spec.md", "# Specification\n\nIt does this.\n")
        shop.tree.git("commit", "-q", "-am", "back", GIT_COMMITTER_DATE="2026-02-02T00:00:00Z")
        monkeypatch.setenv("SDAQF_NOW", "2026-02-05T00:00:00Z")
        monkeypatch.chdir(shop.path)
        before = shop.everything()
        found = in_process("replay", "latest", "--why", "--json", capsys=capsys).value
        assert found["class"] == FULLY
        [told] = [change for change in found["why"]["changes"] if change.startswith("docs/spec.md ")]
        assert re.fullmatch(r'docs/spec\.md reads differently now \(changed by [0-9a-f]{7}, 3 days ago: "back"\)', told)
        assert found["why"]["refusal"] is None
        assert shop.everything() == before
        assert in_process("replay", "latest", "--why", capsys=capsys).out.endswith("this would pass now\n")

    def test_why_builds_as_it_was_built_and_names_other_settings(
        self, shop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shop.command("build", "--locked")
        shop.write("sdaqf.toml", 'soon = "9d"\n')
        monkeypatch.chdir(shop.path)
        found = in_process("replay", "--why", "--json", capsys=capsys).value["why"]
        assert found["refusal"]["reason"] == "no-lock"
        assert "settings: soon was '7d', is '9d'" in found["changes"]

    def test_why_tells_a_refusal_of_today(
        self, shop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shop.manifest("sdaqf: 2\n")
        shop.build()
        monkeypatch.chdir(shop.path)
        found = in_process("replay", "latest", "--why", "--json", capsys=capsys).value
        assert found["why"]["refusal"]["reason"] == "manifest-invalid"

    @pytest.mark.parametrize("name", ["latest", "REPLAY-000000", "no.json", "", "../x"])
    def test_no_such_record(self, name: str, shop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.chdir(shop.path)
        ran = in_process("replay", name, "--json", capsys=capsys)
        assert (ran.code, json.loads(ran.out)["reason"]) == (1, "unknown-name")

    @pytest.mark.parametrize("name", ["a" * 300 + ".json", "a" * 300, "folder", "folder.json", "pipe", "link"])
    def test_what_is_there_and_is_no_file_is_refused_calmly(
        self, name: str, shop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(shop.path)
        for folder in ("folder", "folder.json"):
            Path(folder).mkdir()
        os.mkfifo("pipe")
        Path("link").symlink_to("manifests/context.yaml")
        ran = in_process("replay", name, "--json", capsys=capsys)
        assert (ran.code, ran.value["reason"], ran.value["where"]) == (1, "missing-or-unreadable", Path(name).name)

    def test_a_file_may_have_any_name(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        shop.manifest("sdaqf: 2\n")
        shop.build()
        monkeypatch.chdir(shop.path)
        shutil.copy(record_at(shop), "record")
        assert in_process("replay", "record", "--json", capsys=capsys).value["class"] == FULLY

    BROKEN: tuple[tuple[str, str, dict[str, str], str], ...] = (
        ("sdaqf.toml", "build = 1\n", {}, "settings-invalid"),
        ("pyproject.toml", "[[[", {}, "malformed-toml"),
        ("x", "", {"SDAQF_NOW": "garbage"}, "settings-invalid"),
        ("x", "", {"SDAQF_OWNER_ROOT": "nowhere"}, "missing-or-unreadable"),
    )

    @pytest.mark.parametrize(("name", "text", "environment", "reason"), BROKEN)
    def test_a_broken_project_is_named_where_it_is_needed(
        self,
        name: str,
        text: str,
        environment: dict[str, str],
        reason: str,
        shop: Workshop,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        shop.manifest("sdaqf: 2\n")
        shop.build()
        monkeypatch.chdir(shop.path)
        path = record_at(shop)
        shop.write(name, text)
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        needing = (["latest"], [path.name[:13]], [str(path), "--why"])
        assert [in_process("replay", *words, "--json", capsys=capsys).value["reason"] for words in needing] == [reason] * 3
        assert in_process("replay", path, "--json", capsys=capsys).value["class"] == FULLY

    def test_a_damaged_record_is_told_so(
        self, shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(shop.path)
        (tmp_path / "r.json").write_text("{}")
        ran = in_process("replay", tmp_path / "r.json", capsys=capsys)
        assert (ran.code, ran.out) == (1, "the record is damaged or was edited · insufficient replay state\n")
