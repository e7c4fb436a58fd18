"""The lock: its bytes, its order, what is no lock, and what git makes of it when two people pin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sdaqf_tasks.errors import Invalid, Malformed, Reason, SdaqfError
from sdaqf_tasks.formats import lockfile
from sdaqf_tasks.formats.lockfile import Pin, conflict, parse, render, sides, text_digest
from tests import repositories
from tests.disk.worktree import WorkTree

A, B, C = "a" * 64, "b" * 64, "c" * 64
NAME = "manifests/context.lock"

WHOLE = f"""\
{{
  "sdaqf-lock": 1,
  "sources": [
    {{
      "path": "notes/x.md",
      "pinned": "{A}",
      "scope": "owner"
    }},
    {{
      "path": "docs/a.md",
      "pinned": "{B}",
      "scope": "repository"
    }},
    {{
      "lines": "3-9",
      "path": "docs/b.md",
      "pinned": "{A}",
      "scope": "repository"
    }},
    {{
      "path": "docs/b.md",
      "pinned": "{B}",
      "scope": "repository",
      "section": "Decision \\u00a7 2"
    }},
    {{
      "path": "src/a.py",
      "pinned": "{C}",
      "scope": "repository",
      "symbol": "Pool.get"
    }}
  ]
}}
"""

PINS = {
    Pin("owner", "notes/x.md"): A,
    Pin("repository", "docs/a.md"): B,
    Pin("repository", "docs/b.md", ("lines", "3-9")): A,
    Pin("repository", "docs/b.md", ("section", "Decision § 2")): B,
    Pin("repository", "src/a.py", ("symbol", "Pool.get")): C,
}


def lock(*paths: str, pinned: str = A) -> bytes:
    return render({Pin("repository", path): pinned for path in paths})


def damaged(**members: object) -> bytes:
    """A lock of one entry, with these members in place of its own."""
    entry = {"path": "docs/a.md", "pinned": A, "scope": "repository"} | members
    return json.dumps({"sdaqf-lock": 1, "sources": [{key: value for key, value in entry.items() if value is not None}]}).encode()


class TestLayout:
    """Indented, sorted JSON: one object a source, the digest directly below the path (PIPELINE 3)."""

    def test_the_bytes(self) -> None:
        assert render(PINS) == WHOLE.encode()

    def test_no_pin_is_a_lock_all_the_same(self) -> None:
        assert render({}) == b'{\n  "sdaqf-lock": 1,\n  "sources": []\n}\n'

    def test_what_is_read_is_what_was_written(self) -> None:
        assert parse(WHOLE.encode(), NAME) == PINS

    def test_the_order_of_the_pins_given_does_not_matter(self) -> None:
        assert render(dict(reversed(PINS.items()))) == WHOLE.encode()

    def test_entries_ascend_by_scope_path_and_part_as_written(self) -> None:
        parts = [("", ""), ("section", "1. What"), ("lines", "2-3"), ("section", "Z"), ("symbol", "a")]
        wanted = [Pin("owner", "z.md"), *(Pin("repository", "a.md", part) for part in parts), Pin("repository", "a.md.md")]
        assert list(parse(render(dict.fromkeys(reversed(wanted), A)), NAME)) == wanted

    def test_the_digest_is_that_of_sha256sum(self) -> None:
        assert text_digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    def test_other_white_space_is_the_same_lock(self) -> None:
        assert parse(WHOLE.replace("\n", "\r\n").encode(), NAME) == parse(json.dumps(json.loads(WHOLE)).encode(), NAME) == PINS

    def test_five_thousand_entries_are_read_as_fast_as_they_are_many(self) -> None:
        many = {Pin("repository", f"docs/{number:05d}.md"): A for number in range(5_000)}
        assert parse(render(many), NAME) == many


class TestRefusals:
    """What is no lock is refused with its place, and nothing of it is taken."""

    @pytest.mark.parametrize(
        ("data", "error", "where", "message"),
        [
            (b"", Malformed, f"{NAME}:1:1", "expecting value"),
            (b'{"sdaqf-lock": 1,', Malformed, f"{NAME}:1:18", "expecting property name enclosed in double quotes"),
            (b"[]", Invalid, NAME, "expected 'object', got 'array'"),
            (b'{"sdaqf-lock": 2, "sources": []}', Invalid, f"{NAME}: sdaqf-lock", "is no lock of version 1"),
            (b'{"sdaqf-lock": true, "sources": []}', Invalid, f"{NAME}: sdaqf-lock", "expected 'int', got 'bool'"),
            (b'{"sdaqf-lock": 1}', Invalid, f"{NAME}: sources", "is missing"),
            (b'{"sdaqf-lock": 1, "sources": [], "total": 0}', Invalid, f"{NAME}: total", "is no member here"),
            (damaged(scope="world"), Invalid, f"{NAME}: sources/0/scope", "not one of the words that are allowed here"),
            (damaged(path=None), Invalid, f"{NAME}: sources/0/path", "is missing"),
            (damaged(count=1), Invalid, f"{NAME}: sources/0/count", "is no member here"),
            (damaged(pinned=A.upper()), Invalid, f"{NAME}: sources/0/pinned", "expected 'str' matching regex '^[0-9a-f]{64}$'"),
            (damaged(pinned=A[1:]), Invalid, f"{NAME}: sources/0/pinned", "expected 'str' matching regex '^[0-9a-f]{64}$'"),
            (damaged(pinned=A + "\n"), Invalid, f"{NAME}: sources/0/pinned", "expected 'str' of length <= 64"),
            (damaged(lines=7), Invalid, f"{NAME}: sources/0/lines", "expected 'str | null', got 'int'"),
        ],
    )
    def test_it_says_where(self, data: bytes, error: type[SdaqfError], where: str, message: str) -> None:
        with pytest.raises(error) as caught:
            parse(data, NAME)
        assert (caught.value.where, caught.value.message) == (where, message)
        assert caught.value.reason in (Reason.MALFORMED_JSON, Reason.CONTRACT_INVALID)

    @pytest.mark.parametrize("entry", [{"path": "../a.md"}, {"path": "a b.md"}, {"section": "A", "lines": "1-2"}])
    def test_an_entry_has_a_portable_path_and_one_part(self, entry: dict[str, str]) -> None:
        with pytest.raises(Invalid, match="an entry has a portable path and at most one of section, symbol and lines") as caught:
            parse(damaged(**entry), NAME)
        assert caught.value.where == f"{NAME}: sources/0"

    @pytest.mark.parametrize("paths", [("b.md", "a.md"), ("a.md", "a.md")])
    def test_entries_ascend_and_stand_once(self, paths: tuple[str, str]) -> None:
        data = json.loads(lock("a.md", "b.md"))
        data["sources"] = [data["sources"][0] | {"path": path} for path in paths]
        with pytest.raises(Invalid, match="entries are not ascending, or one stands twice") as caught:
            parse(json.dumps(data).encode(), NAME)
        assert caught.value.where == f"{NAME}: sources/1"

    def test_a_key_twice_is_refused(self) -> None:
        with pytest.raises(Malformed):
            parse(b'{"sdaqf-lock": 1, "sdaqf-lock": 1, "sources": []}', NAME)

    def test_a_merge_conflict_says_how_it_is_resolved(self) -> None:
        data = lock("a.md").replace(b'      "pinned"', b'<<<<<<< HEAD\n      "pinned"', 1) + b">>>>>>> other\n"
        with pytest.raises(Malformed) as caught:
            parse(data, NAME)
        assert (caught.value.where, caught.value.message) == (f"{NAME}:6", "a merge conflict")
        assert caught.value.todo == "Resolve with: sdaqf lock --resolve"


class TestConflicts:
    """Both sides of a file with git's markers are read."""

    OURS, THEIRS = lock("a.md", "b.md"), lock("a.md", "b.md", pinned=B)

    @staticmethod
    def merged(tmp_path: Path, base: bytes, ours: bytes, theirs: bytes, style: str = "merge") -> bytes:
        """What `git merge` leaves in the work tree."""
        tree = repositories.make(tmp_path / "r", {NAME: base})
        for branch, data in (("theirs", theirs), ("main", ours)):
            tree.git("checkout", "-q", *(("-b", branch) if branch != "main" else (branch,)))
            tree.write(NAME, data)
            tree.commit(NAME)
        tree.git("-c", f"merge.conflictStyle={style}", "merge", "-q", "theirs", check=False)
        return (tree.path / NAME).read_bytes()

    @pytest.mark.parametrize("style", ["merge", "diff3", "zdiff3"])
    def test_every_style(self, tmp_path: Path, style: str) -> None:
        data = self.merged(tmp_path, lock("a.md", "b.md", pinned=C), self.OURS, self.THEIRS, style)
        assert conflict(data) == 6 and (b"|||||||" in data) == (style != "merge")
        assert sides(data, NAME) == (parse(self.OURS, NAME), parse(self.THEIRS, NAME))

    @pytest.mark.parametrize(
        ("base", "ours", "theirs"),
        [
            (lock("m.md"), lock("a.md", "m.md"), lock("b.md", "m.md")),
            (lock("m.md"), lock("m.md", "x.md"), lock("m.md", "y.md", "z.md")),
            (
                lock("a.md", "m.md"),
                lock("a.md"),
                lock("a.md", "m.md").replace(A.encode(), B.encode(), 2).replace(B.encode(), A.encode(), 1),
            ),
            (lock("a.md", "m.md"), lock("m.md", pinned=B), lock("a.md")),
            (lock(), lock("a.md"), lock("b.md", "c.md")),
        ],
    )
    def test_entries_that_one_side_added_or_took_out(self, tmp_path: Path, base: bytes, ours: bytes, theirs: bytes) -> None:
        data = self.merged(tmp_path, base, ours, theirs)
        assert conflict(data)
        assert sides(data, NAME) == (parse(ours, NAME), parse(theirs, NAME))

    def test_what_merged_cleanly_is_on_both_sides(self, tmp_path: Path) -> None:
        def pins(one: str, other: str) -> bytes:
            between = {Pin("repository", f"m{number}.md"): C for number in range(4)}
            return render({Pin("repository", "a.md"): one, **between, Pin("repository", "z.md"): other})

        data = self.merged(tmp_path, pins(C, C), pins(A, C), pins(B, B))
        ours, theirs = sides(data, NAME)
        assert (ours, theirs) == (parse(pins(A, B), NAME), parse(pins(B, B), NAME))

    def test_braces_and_commas_inside_a_name_stay(self) -> None:
        part = ("section", "a} {b,] <<<<<<< c")
        data = render({Pin("repository", "a.md", part): A, Pin("repository", "b.md"): A})
        data = data.replace(b"    },\n", b"<<<<<<< HEAD\n    },\n=======\n    }\n>>>>>>> x\n")
        assert [list(side) for side in sides(data, NAME)] == [[Pin("repository", "a.md", part), Pin("repository", "b.md")]] * 2

    def test_a_side_that_is_no_lock_is_refused(self) -> None:
        data = self.OURS.replace(b'      "pinned"', b'<<<<<<< HEAD\n      "pin"\n=======\n      "pinned"', 1) + b">>>>>>> x\n"
        with pytest.raises(SdaqfError) as caught:
            sides(data, NAME)
        assert caught.value.where.startswith(NAME)

    def test_a_document_that_speaks_of_markers_is_no_conflict(self) -> None:
        assert conflict(lock("a.md")) == conflict(b"<<<<<<< HEAD\n") == conflict(b">>>>>>> x\n<<<<<<< HEAD\n") == 0


class TestGit:
    """Neighbours merge without conflict, and each hunk names its file (PIPELINE 3)."""

    DOCUMENTS = ("docs/a.md", "docs/b.md")

    def lock(self, **pinned: str) -> bytes:
        return render({Pin("repository", path): pinned.get(path[-4], C) for path in self.DOCUMENTS})

    def tree(self, tmp_path: Path) -> WorkTree:
        tree = repositories.make(tmp_path / "r", {NAME: self.lock()})
        tree.git("checkout", "-q", "-b", "other")
        tree.write(NAME, self.lock(b=B))
        tree.commit(NAME)
        tree.git("checkout", "-q", "main")
        tree.write(NAME, self.lock(a=A))
        tree.commit(NAME)
        return tree

    def test_two_branches_that_pin_neighbouring_documents_again_merge(self, tmp_path: Path) -> None:
        tree = self.tree(tmp_path)
        tree.git("merge", "-q", "--no-edit", "other")
        assert (tree.path / NAME).read_bytes() == self.lock(a=A, b=B)

    @pytest.mark.parametrize(("commit", "document"), [("main", "docs/a.md"), ("other", "docs/b.md")])
    def test_each_hunk_names_its_file(self, tmp_path: Path, commit: str, document: str) -> None:
        diff = self.tree(tmp_path).git("show", "--format=", commit, "--", NAME).decode()
        [hunk] = diff.split("\n@@")[1:]
        lines = hunk.splitlines()
        changed = [line for line in lines if line[:1] in "+-"]
        assert [line[1:].split(":")[0].strip() for line in changed] == ['"pinned"', '"pinned"']
        assert lines[lines.index(changed[0]) - 1] == f'       "path": "{document}",'


def test_a_pin_is_shown_as_people_write_it() -> None:
    assert Pin("repository", "docs/a.md").shown == "docs/a.md"
    assert Pin("owner", "notes/a.md", ("section", "Now")).shown == "owner:notes/a.md § Now"
    assert lockfile.PARTS == ("section", "symbol", "lines")
