"""A tree that moves while it is read: what moved is named, one more try, then a refusal (PIPELINE 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sdaqf_tasks.disk.reader import Reader
from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.flow import actions, stages
from sdaqf_tasks.world import Observed
from tests.flow.workshop import MANIFEST, Workshop


class Hand:
    """Somebody who writes whenever a certain file is read, so often and no more."""

    def __init__(self, patch: pytest.MonkeyPatch, path: str, write: Callable[[int], object], times: int) -> None:
        self.left, self.written, self._write = times, 0, write
        original = Reader.read

        def read(reader: Reader, scope: Any, name: str, limit: int) -> Observed:
            found = original(reader, scope, name, limit)
            if name == path and self.left:
                self.left -= 1
                self.written += 1
                self._write(self.written)
            return found

        patch.setattr(Reader, "read", read)


def edits(shop: Workshop, name: str) -> Callable[[int], object]:
    return lambda number: shop.write(name, f"# {number}\n")


class TestOnce:
    """The second try gives what an undisturbed build gives."""

    @pytest.mark.parametrize("moved", ["docs/spec.md", "src/a.py", "docs/adr/0003-new.md", "notes.txt"])
    def test_the_build_succeeds_and_names_what_moved(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch, moved: str) -> None:
        with monkeypatch.context() as patch:
            hand = Hand(patch, "docs/spec.md", edits(shop, moved), 1)
            assert shop.words() == {"context": "made", "context.review": "made"}
        assert hand.left == 0
        assert shop.said == [f"the tree moved while it was read: {moved}; once more"]
        assert shop.current()

    def test_a_file_that_vanishes_names_itself(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            Hand(patch, "docs/spec.md", lambda number: (shop.path / "src/a.py").unlink(), 1)
            error = shop.refusal()
        # The second try finds a tree at rest, in which the glob has no file.
        assert error.message == "src/*.py matches no file of the tree"
        assert shop.said == ["the tree moved while it was read: src/a.py; once more"]

    def test_the_yaml_itself_is_read_anew(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        edited = MANIFEST.replace("decisions: decision docs/adr/*.md", "decisions: decision docs/adr/0001-*.md")
        with monkeypatch.context() as patch:
            Hand(patch, "docs/spec.md", lambda number: shop.manifest(edited), 1)
            shop.build()
        paths = {source.locator.path for source in shop.artifact("manifest").content.sources}
        assert paths == {"docs/spec.md", "docs/adr/0001-one.md", "src/a.py"}
        assert shop.current()

    def test_a_file_outside_the_tree(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        shop.write(".gitignore", "logs/\n")
        shop.write("logs/run.txt", "first\n")
        window = "freshness: {observed: 2026-01-01T00:00:00Z, for: 900000h}"
        shop.manifest(
            MANIFEST.replace("sources:\n", f"sources:\n  run: {{path: logs/run.txt, kind: tool-observation, ignored: true, {window}}}\n")
        )
        with monkeypatch.context() as patch:
            Hand(patch, "src/a.py", edits(shop, "logs/run.txt"), 1)
            assert set(shop.words().values()) == {"made"}
        assert shop.current()
        assert "# 1\n" in (shop.folder / "out/context/context.md").read_text()

    @pytest.mark.parametrize("stage", ["index", "snapshot", "compact"])
    def test_in_every_stage_that_observes(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
        original = stages.BY_NAME[stage].run
        left = [1]

        def moving(job: stages.Job) -> stages.Made:
            if left:
                left.pop()
                shop.write("src/a.py", "a = 9\n")
            return original(job)

        _table(monkeypatch, stage, moving)
        assert shop.words("context.default") == {"context": "made"}
        assert not left
        assert shop.said == ["the tree moved while it was read: src/a.py; once more"]


class TestTwice:
    def test_the_build_is_refused_with_names(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        shop.build()
        with monkeypatch.context() as patch:
            Hand(patch, "docs/spec.md", edits(shop, "src/a.py"), 1_000)
            shop.write("src/a.py", "a = 8\n")
            error = shop.refusal()
        assert error.reason is Reason.CANDIDATE_MOVED
        assert error.message == "the tree moved twice while it was read: src/a.py"
        assert shop.refs() == {}
        assert set(shop.words().values()) == {"made"}

    def test_a_commit_is_named_as_head(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            Hand(patch, "docs/spec.md", lambda number: shop.tree.git("commit", "-q", "--allow-empty", "-m", "x"), 1_000)
            assert shop.refusal().message == "the tree moved twice while it was read: HEAD"

    def test_while_it_is_observed(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        from sdaqf_tasks.disk.repository import Repository

        original, left = Repository.observe, [1]

        def observe(repository: Repository) -> Any:
            if left:
                left.pop()
                raise Refused(Reason.CANDIDATE_MOVED, "this path changed while it was read", at="src/a.py")
            return original(repository)

        monkeypatch.setattr(Repository, "observe", observe)
        assert set(shop.words().values()) == {"made"}
        assert shop.said == ["the tree moved while it was read (src/a.py): once more"]


class TestUnderDoit:
    """The same try, by the same function."""

    def test_once(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        monkeypatch.chdir(shop.path)
        actions.forget()
        assert actions.observe(".") is True
        assert isinstance(actions.run_stage(".", "manifest", "context", ""), dict)
        shop.write("src/a.py", "a = 9\n")
        told = actions.run_stage(".", "index", "context", "")
        actions.forget()
        assert isinstance(told, dict)
        assert told["sdaqf"]["word"] == "made"
        assert "the tree moved while it was read: src/a.py; once more" in capfd.readouterr().err

    def test_twice(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path)
        actions.forget()
        assert actions.observe(".") is True
        Hand(monkeypatch, "docs/spec.md", edits(shop, "src/a.py"), 1_000)
        told = actions.run_stage(".", "manifest", "context", "")
        actions.forget()
        assert not isinstance(told, dict)
        assert told.get_msg().splitlines()[:3] == [
            "context is blocked at manifest",
            "  the tree moved twice while it was read: src/a.py",
            "  Let the other program finish, then run again.   (candidate-moved)",
        ]


def _table(patch: pytest.MonkeyPatch, name: str, run: Callable[[stages.Job], stages.Made]) -> None:
    from sdaqf_tasks.flow import build

    table = tuple(stage._replace(run=run) if stage.name == name else stage for stage in stages.STAGES)
    for module in (stages, build):
        patch.setattr(module, "STAGES", table)
        patch.setattr(module, "BY_NAME", {stage.name: stage for stage in table})
