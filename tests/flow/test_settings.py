"""Settings (PIPELINE 7): every key, both files, limits, what is left out of the tree; and where manifests are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdaqf_tasks.disk.repository import Limits
from sdaqf_tasks.errors import Invalid, Malformed, Reason, Refused, SdaqfError
from sdaqf_tasks.flow.project import Project, Settings, include_path
from tests.flow.workshop import MANIFEST, Workshop

EVERYTHING = """\
manifests = ["manifests", "services/*/context"]
build = "out/build"
shards = "out/shards"
shard = "project:other"
exclude = ["big/**"]
exclude_untracked = true
soon = "2w"

[limits]
files = 1
file_bytes = 2
total_bytes = 3
git_seconds = 4.5

[policy]
dirty = "off"
"""


def read(folder: Path, **files: str) -> Settings:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.toml").write_text(text)
    return Project(folder).settings


class TestReading:
    def test_the_defaults(self, tmp_path: Path) -> None:
        assert read(tmp_path) == Settings(
            manifests=("manifests",),
            build=".sdaqf/build",
            shards=".sdaqf/shards",
            shard="project:default",
            exclude=(),
            exclude_untracked=False,
            soon="7d",
            limits=Limits(files=100_000, file_bytes=268_435_456, total_bytes=4_294_967_296, git_seconds=30),
            policy={},
        )

    def test_every_key(self, tmp_path: Path) -> None:
        assert read(tmp_path, sdaqf=EVERYTHING) == Settings(
            manifests=("manifests", "services/*/context"),
            build="out/build",
            shards="out/shards",
            shard="project:other",
            exclude=("big/**",),
            exclude_untracked=True,
            soon="2w",
            limits=Limits(files=1, file_bytes=2, total_bytes=3, git_seconds=4.5),
            policy={"dirty": "off"},
        )

    def test_in_pyproject(self, tmp_path: Path) -> None:
        assert read(tmp_path, pyproject='[project]\nname = "x"\n[tool.sdaqf]\nbuild = "b"\n').build == "b"
        assert read(tmp_path, pyproject='[project]\nname = "x"\n').build == ".sdaqf/build"

    def test_both_files_are_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(Invalid) as refusal:
            read(tmp_path, sdaqf="", pyproject="[tool.sdaqf]\n")
        assert refusal.value.reason is Reason.SETTINGS_INVALID

    def test_a_file_of_ours_beside_a_pyproject_of_others(self, tmp_path: Path) -> None:
        assert read(tmp_path, sdaqf='build = "b"\n', pyproject="[tool.other]\n").build == "b"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('biuld = "x"', "'biuld' is no setting; did you mean build?"),
            ("[limits]\nfile = 1", "'file' is no setting; did you mean files?"),
            ("zzzz = 1", "'zzzz' is no setting"),
            ("build = 1", "build: expected 'str', got 'int'"),
            ("manifests = [1]", "manifests[0]: expected 'str', got 'int'"),
            ("[limits]\nfiles = 0", "limits.files: expected 'int' >= 1"),
            ("[limits]\nfiles = true", "limits.files: expected 'int', got 'bool'"),
            ("[limits]\ngit_seconds = 0", "limits.git_seconds: expected 'float' > 0.0"),
            ("[limits]\ngit_seconds = inf", "limits.git_seconds: expected 'float' <= 86400.0"),
            ('[policy]\ndirty = "fatal"', "policy"),
            ('soon = "soon"', "soon is not a duration such as 7d"),
            ('soon = "999999w"', "soon is not a duration such as 7d"),
        ],
    )
    def test_what_cannot_be_meant_is_named(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(Invalid) as refusal:
            read(tmp_path, sdaqf=text + "\n")
        assert refusal.value.message.startswith(message)
        assert (refusal.value.reason, refusal.value.where) == (Reason.SETTINGS_INVALID, "sdaqf.toml")

    @pytest.mark.parametrize("key", ["build", "shards"])
    @pytest.mark.parametrize(
        "folder", ["", ".", "..", "../x", "a/../b", "/abs", "./a", "a/", "a//b", ".git", ".git/x", "a/.GIT", "a\tb", "a\u202eb"], ids=ascii
    )
    def test_a_folder_is_below_the_top_and_spelled_in_one_way(self, tmp_path: Path, key: str, folder: str) -> None:
        with pytest.raises(Invalid) as refusal:
            read(tmp_path, sdaqf=f'{key} = "{folder.encode("unicode_escape").decode().replace(chr(92) + "x", chr(92) + "u00")}"\n')
        assert refusal.value.reason is Reason.SETTINGS_INVALID

    @pytest.mark.parametrize("pair", [("x", "x"), ("x", "x/y"), ("x/y", "x")])
    def test_build_and_shards_lie_side_by_side(self, tmp_path: Path, pair: tuple[str, str]) -> None:
        with pytest.raises(Invalid, match="one inside the other"):
            read(tmp_path, sdaqf=f'build = "{pair[0]}"\nshards = "{pair[1]}"\n')
        assert read(tmp_path, sdaqf='build = "x/y"\nshards = "x/yz"\n').build == "x/y"

    @pytest.mark.parametrize("pattern", ["a/**b", "**x/c", "a//b", "/a", "../a"])
    def test_a_pattern_of_folders_is_one(self, tmp_path: Path, pattern: str) -> None:
        with pytest.raises(Invalid) as refusal:
            read(tmp_path, sdaqf=f'manifests = ["{pattern}"]\n')
        assert refusal.value.message.startswith("manifests: ")

    @pytest.mark.parametrize(
        ("text", "place"),
        [
            ("build = \n", "sdaqf.toml:1:9"),
            ("a = 1\na = 2\n", "sdaqf.toml:2:6"),
            ("x = 1" + "0" * 5_000 + "\n", "sdaqf.toml"),
            ("x = " + "[" * 5_000 + "\n", "sdaqf.toml"),
            ("\x00", "sdaqf.toml:1:1"),
        ],
        ids=lambda value: ascii(value[:12]),
    )
    def test_bad_toml_has_its_place(self, tmp_path: Path, text: str, place: str) -> None:
        with pytest.raises(Malformed) as refusal:
            read(tmp_path, sdaqf=text)
        assert (refusal.value.reason, refusal.value.where) == (Reason.MALFORMED_TOML, place)

    def test_a_file_with_settings_has_up_to_262_144_bytes(self, tmp_path: Path) -> None:
        text = 'soon = "1d" #'.ljust(262_144, "x")
        assert read(tmp_path, sdaqf=text).soon == "1d"
        with pytest.raises(Malformed) as refusal:
            read(tmp_path, sdaqf=text + "x")
        assert (refusal.value.reason, refusal.value.where) == (Reason.MALFORMED_TOML, "sdaqf.toml")

    def test_text_that_is_not_utf8(self, tmp_path: Path) -> None:
        (tmp_path / "sdaqf.toml").write_bytes(b'build = "\xff"\n')
        with pytest.raises(Malformed):
            _ = Project(tmp_path).settings

    @pytest.mark.parametrize("make", [lambda p: p.mkdir(), lambda p: p.symlink_to("elsewhere"), lambda p: p.symlink_to("pyproject.toml")])
    def test_a_file_that_cannot_be_read_is_no_absence_of_settings(self, tmp_path: Path, make: Any) -> None:
        (tmp_path / "pyproject.toml").write_text("")
        make(tmp_path / "sdaqf.toml")
        with pytest.raises(Malformed) as refusal:
            _ = Project(tmp_path).settings
        assert refusal.value.where == "sdaqf.toml"

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
    @given(st.binary(max_size=60) | st.sampled_from(EVERYTHING.splitlines()).map(lambda line: line.swapcase().encode()))
    def test_random_bytes_are_settings_or_refused(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "sdaqf.toml").write_bytes(data)
        try:
            assert isinstance(Project(tmp_path).settings, Settings)
        except SdaqfError as error:
            assert len(error.message) <= 600
            assert str(tmp_path) not in str(error)


class TestInUse:
    """What settings do to a build."""

    def test_limits_are_refused_with_name_size_and_setting(self, shop: Workshop) -> None:
        shop.write("sdaqf.toml", "[limits]\nfiles = 3\n")
        with pytest.raises(Refused) as refusal:
            shop.build()
        assert refusal.value.reason is Reason.TREE_LIMIT
        assert "limits.files is 3" in refusal.value.message
        shop.write("sdaqf.toml", "[limits]\nfile_bytes = 30\n")
        with pytest.raises(Refused) as refusal:
            shop.build()
        assert "limits.file_bytes is 30" in refusal.value.message

    def test_what_is_excluded_is_not_part_of_the_tree(self, shop: Workshop) -> None:
        shop.write("sdaqf.toml", 'exclude = ["notes/**"]\n')
        shop.build()
        shop.write("notes/x.txt", "x\n")
        assert set(shop.words().values()) == {"up to date"}

    @pytest.mark.parametrize("settings", ['exclude = ["docs/adr/**"]', "exclude_untracked = true"])
    @pytest.mark.parametrize(
        ("kind", "says"),
        [("decision docs/adr/n.md", "docs/adr/n.md is"), ("finding docs/adr/n*.md", "docs/adr/n*.md matches only what is")],
    )
    def test_a_source_that_is_excluded_says_so(self, kind: str, says: str, settings: str, shop: Workshop) -> None:
        shop.write("sdaqf.toml", settings)
        shop.write("docs/adr/n.md", "n\n")
        shop.manifest(f"sdaqf: 1\nspecification: docs/spec.md\nsources:\n  new: {kind}\n")
        error = shop.refusal()
        assert error.message == f"{says} excluded by the settings: it is no part of the tree"
        assert error.todo == "Name another file, or take it out of `exclude` (or `exclude_untracked`) there."
        shop.write("sdaqf.toml", "")
        assert shop.words() == {"context": "made"}

    def test_what_is_excluded_changes_every_tree(self, shop: Workshop) -> None:
        shop.build()
        shop.write("sdaqf.toml", 'exclude = ["none/such"]\n')
        assert set(shop.words().values()) == {"same"}

    def test_untracked_files_may_be_left_out(self, shop: Workshop) -> None:
        shop.write("sdaqf.toml", "exclude_untracked = true\n")
        shop.build()
        shop.write("new.txt", "x\n")
        assert set(shop.words().values()) == {"up to date"}

    def test_status_names_what_is_left_out(self, shop: Workshop) -> None:
        from sdaqf_tasks.flow import status

        shop.write("sdaqf.toml", 'exclude = ["notes/**"]\nexclude_untracked = true\n')
        with shop.run() as run:
            assert status.status(run)["excluded"] == ["notes/**", "untracked:"]

    def test_the_build_folder(self, tmp_path: Path) -> None:
        shop = Workshop(tmp_path / "project", build="out/of/the/way")
        shop.write("sdaqf.toml", 'build = "out/of/the/way"\n')
        shop.build()
        assert (shop.folder / "out/context/context.md").exists()
        assert not (shop.path / ".sdaqf").exists()

    def test_the_place_of_a_pattern_that_is_none(self, shop: Workshop) -> None:
        shop.write("sdaqf.toml", 'exclude = ["a//b"]\n')
        with pytest.raises(SdaqfError) as refusal:
            shop.build()
        assert refusal.value.reason is Reason.SETTINGS_INVALID


class TestManifests:
    """Where manifests are found, and what is somebody else's."""

    def names(self, shop: Workshop) -> list[str]:
        return [manifest.name for manifest in Project.find(shop.path).manifests]

    def test_in_several_folders(self, shop: Workshop) -> None:
        shop.write("sdaqf.toml", 'manifests = ["manifests", "services/*/context"]\n')
        shop.write("services/billing/context/billing.yaml", MANIFEST)
        shop.write("services/auth/context/auth.yml", MANIFEST)
        shop.write("services/auth/deeper/context/no.yaml", MANIFEST)
        assert self.names(shop) == ["auth", "billing", "context"]
        assert set(shop.words("billing", "auth")) == {"billing", "billing.review", "auth", "auth.review"}

    def test_brackets_are_literal(self, shop: Workshop) -> None:
        shop.write("sdaqf.toml", 'manifests = ["s/[ab]*"]\n')
        shop.write("s/[ab]c/one.yaml", MANIFEST)
        shop.write("s/ac/two.yaml", MANIFEST)
        assert self.names(shop) == ["one"]

    def test_foreign_yaml_is_left_alone_and_counted(self, shop: Workshop) -> None:
        from sdaqf_tasks.flow import status

        shop.write("manifests/deployment.yaml", "apiVersion: v1\nkind: Pod\n---\nkind: Service\n")
        shop.write("manifests/broken.yml", "\t{{ template }}\n")
        shop.write("manifests/_part.yaml", "sources: {}\n")
        shop.tree.link("manifests/link.yaml", "context.yaml")
        shop.write("manifests/notes.txt", "")
        assert self.names(shop) == ["context"]
        with shop.run() as run:
            others = status.status(run)["other_files"]
        assert others == ["manifests/broken.yml", "manifests/deployment.yaml", "manifests/link.yaml"]

    def test_comments_and_a_start_mark_may_come_first(self, shop: Workshop) -> None:
        shop.write("manifests/late.yaml", "# yaml-language-server: x\n\n---\n" + MANIFEST)
        assert self.names(shop) == ["context", "late"]

    def test_one_that_is_too_large_is_refused_not_somebody_elses(self, shop: Workshop) -> None:
        shop.manifest(MANIFEST + "#" * 1_048_576 + "\n", "large")
        assert self.names(shop) == ["context", "large"]
        assert shop.refusal("large").reason is Reason.TOO_LARGE

    @pytest.mark.parametrize("second", ["manifests/context.yml", "more/context.yaml"])
    def test_names_are_unique(self, shop: Workshop, second: str) -> None:
        shop.write("sdaqf.toml", 'manifests = ["manifests", "more"]\n')
        shop.write(second, MANIFEST)
        with pytest.raises(Invalid, match="is the name of") as refusal:
            shop.build()
        assert refusal.value.where == second

    @pytest.mark.parametrize("name", ["Context", "a_b", "-a", "a.b", "é"])
    def test_names_are_plain(self, shop: Workshop, name: str) -> None:
        shop.manifest(MANIFEST, name)
        with pytest.raises(Invalid, match="no name for a manifest"):
            shop.build()

    def test_a_folder_that_is_a_link_is_not_entered(self, shop: Workshop, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere/x.yaml").write_text(MANIFEST)
        shop.tree.link("more", tmp_path.joinpath("elsewhere").as_posix())
        shop.write("sdaqf.toml", 'manifests = ["manifests", "more", "mor*"]\n')
        assert self.names(shop) == ["context"]


class TestIncludes:
    SHARED = "sdaqf: 1\ndefaults: {recorded_by: shared}\nsources:\n  more: source src/*.py\n"

    def including(self, shop: Workshop, written: str) -> None:
        text = MANIFEST.replace("  code: source src/*.py\n", "").replace("code implements", "more implements")
        shop.manifest(text + f"include: [{written}]\n")

    @pytest.mark.parametrize("written", ["_shared.yaml", "./_shared.yaml", "../manifests/_shared.yaml", "/manifests/_shared.yaml"])
    def test_relative_to_the_file_or_to_the_top(self, shop: Workshop, written: str) -> None:
        shop.write("manifests/_shared.yaml", self.SHARED)
        self.including(shop, written)
        shop.build()
        [source] = [source for source in shop.artifact("manifest").content.sources if source.locator.path == "src/a.py"]
        assert source.provenance.recorded_by == "shared"

    @pytest.mark.parametrize(
        ("written", "reason"),
        [
            ("../../outside.yaml", Reason.MANIFEST_INVALID),
            ("context.yaml", Reason.MANIFEST_INVALID),
            ("/", Reason.MANIFEST_INVALID),
            ("_none.yaml", Reason.MISSING_OR_UNREADABLE),
            ("/.git/config", Reason.MISSING_OR_UNREADABLE),
        ],
    )
    def test_what_is_no_other_file_of_the_tree(self, shop: Workshop, written: str, reason: Reason) -> None:
        self.including(shop, written)
        error = shop.refusal()
        assert error.reason is reason
        assert error.where.startswith("manifests/context.yaml:")

    def test_an_error_in_it_names_it(self, shop: Workshop) -> None:
        shop.write("manifests/_shared.yaml", "sdaqf: 1\nsources:\n  more: sauce src/*.py\n")
        self.including(shop, "_shared.yaml")
        assert shop.refusal().where == "manifests/_shared.yaml:3:9"

    def test_an_edit_of_it_is_built_anew(self, shop: Workshop) -> None:
        shop.write("manifests/_shared.yaml", self.SHARED)
        self.including(shop, "_shared.yaml")
        shop.build()
        shop.write("manifests/_shared.yaml", self.SHARED.replace("shared}", "others}"))
        assert "manifests/_shared.yaml" in shop.status()["context"][1]

    @pytest.mark.parametrize(
        ("name", "manifest", "path"),
        [
            ("a.yaml", "m/x.yaml", "m/a.yaml"),
            ("/a.yaml", "m/x.yaml", "a.yaml"),
            ("../a.yaml", "m/x.yaml", "a.yaml"),
            ("../../a.yaml", "m/x.yaml", None),
            ("a/../../../b", "m/x.yaml", None),
            ("/..", "m/x.yaml", None),
            (".", "x.yaml", None),
        ],
    )
    def test_paths(self, name: str, manifest: str, path: str | None) -> None:
        assert include_path(name, manifest) == path
