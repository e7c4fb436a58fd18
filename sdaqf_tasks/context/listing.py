"""This module finds the files that a manifest names, by path or by glob, and says why one cannot be a source (PIPELINE 2).

What is named and cannot be a source is refused with its line. What a glob matches and cannot take is left out and noted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sdaqf_tasks.context import block, excerpts
from sdaqf_tasks.context.excerpts import Span
from sdaqf_tasks.errors import Invalid, Reason, SdaqfError, Unreadable, shown
from sdaqf_tasks.formats import canonical, globs
from sdaqf_tasks.formats.declaration import SPECIFICATION, Declaration, Declared
from sdaqf_tasks.formats.entries import Spot
from sdaqf_tasks.formats.manifest_yaml import Filter
from sdaqf_tasks.formats.plain_yaml import nearest
from sdaqf_tasks.formats.records import TEXT_CHARACTERS, RootScope, Tier, Trust, is_path
from sdaqf_tasks.world import REFERENCE_BYTES, SOURCE_BYTES, Observed, Sources, Tree, decode

PORTABLE = "A-Z a-z 0-9 . _ / - alone, at most 240, relative, no component that Windows keeps for devices or that ends with a dot"

_EXCLUDED = "excluded by the settings: it is no part of the tree"
_SETTINGS = "Name another file, or take it out of `exclude` (or `exclude_untracked`) there."

TARGET = "what a context of this manifest is rendered into"


class File(NamedTuple):
    """A file that can be a source."""

    scope: RootScope
    path: str
    observed: Observed
    text: str


class Listing:
    """The tree as one manifest sees it: what is named, what its globs took, and what they left out."""

    def __init__(self, declaration: Declaration, sources: Sources, tree: Tree) -> None:
        self._sources, self._tree = sources, tree
        self._name, self._files, self._named = declaration.name, frozenset(tree.files), declaration.named
        self._ignored = {d.pattern for d in declaration.sources if d.entry.ignored}
        self._taken: dict[str, Declared] = {}
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know, each once, in the order in which it was found."""
        return tuple(self._notes)

    def note(self, sentence: str) -> None:
        self._notes[sentence] = None

    # ---- by path

    def named(self, declared: Declared) -> File:
        """The file of a `path`. Raises `Invalid` there."""
        entry, path, spot = declared.entry, declared.pattern, declared.place
        self._verify_path(path, spot)
        if entry.root is RootScope.REPOSITORY:
            if entry.ignored and path in self._files:
                message = f"{shown(path)} is part of the tree: git does not ignore it"
                raise declared.spot.at("ignored").fault(message, todo="Leave `ignored` out.", key=True)
            self._verify_in_tree(path, spot, ignored=entry.ignored, specification=declared.alias == SPECIFICATION)
        try:
            file = self._file(entry.root, path)
        except SdaqfError as error:
            raise spot.fault(f"{shown(path)} cannot be a source: {error.message}", todo=error.todo, reason=error.reason) from None
        if self._is_target(file):
            raise spot.fault(f"{shown(path)} is {TARGET}", todo=self._instead(declared), reason=Reason.RENDER_TARGET)
        if isinstance(entry.sha256, str) and entry.sha256.upper() != file.observed.sha256:
            message = f"{shown(path)} is not the pinned version; its digest is {file.observed.sha256}"
            todo = "Read what changed, then correct the digest."
            raise declared.spot.at("sha256").fault(message, todo=todo, reason=Reason.DIGEST_MISMATCH)
        return file

    def reference(self, scope: RootScope, path: str, spot: Spot, *, ignored: bool = False) -> str:
        """The digest of a file named as provenance: of the owner root, of the tree, or one that a source says is ignored."""
        self._verify_path(path, spot)
        if scope is RootScope.REPOSITORY and path not in self._ignored:
            self._verify_in_tree(path, spot, ignored=ignored, provenance=True)
        try:
            return self._sources.read(scope, path, REFERENCE_BYTES).sha256
        except Unreadable as error:
            raise spot.fault(f"{shown(path)} cannot be provenance: {error.message}", todo=error.todo, reason=error.reason) from None

    def _verify_path(self, path: str, spot: Spot) -> None:
        if not is_path(path):
            todo = "One file is named here; globs go with `glob:`." if "*" in path or "?" in path else f"Portable is: {PORTABLE}."
            raise spot.fault(f"{shown(path)} is not a portable path", todo=todo)
        if _is_git(path):
            raise spot.fault(f"{shown(path)} leads through .git, which is never read", todo="Name another file.")

    def _verify_in_tree(self, path: str, spot: Spot, *, ignored: bool, provenance: bool = False, specification: bool = False) -> None:
        """Refuse a path that is not a regular file of the tree; one that git ignores passes where that is meant."""
        if path in self._files:
            return
        if path in self._tree.excluded and not ignored:
            raise spot.fault(f"{shown(path)} is {_EXCLUDED}", todo=_SETTINGS)
        if why := self._not_a_file(path):
            raise spot.fault(f"{shown(path)} {why}", todo="Name a regular file.", reason=Reason.MISSING_OR_UNREADABLE)
        if (same := next((name for name in self._tree.files if name.casefold() == path.casefold()), None)) or self._is_missing(path):
            close = same or self._nearest(path)
            todo = f"Nearest file: {close}" if close else "Correct the path."
            if ignored:
                todo = "Restore it: git ignores it, so no commit has it."
            elif specification and (offered := self.offered()):
                todo = f"Write:  specification: {offered[0]}" + also(offered)
            raise spot.fault(f"{shown(path)} is missing or cannot be read", todo=todo, reason=Reason.MISSING_OR_UNREADABLE)
        if not ignored:
            message = f"{shown(path)} is ignored by git: its bytes are not part of the tree and nobody else may have it"
            todo = f"Say so if you mean it:  {{path: {path}, ignored: true}}"
            if provenance or specification:
                todo = "Name a file of the tree."
            raise spot.fault(message, todo=todo)

    def _not_a_file(self, path: str) -> str | None:
        tree = self._tree
        if path in tree.absent:
            return "is deleted, or left out by a sparse checkout"
        parts = path.split("/")
        for name in ("/".join(parts[:count]) for count in range(len(parts), 0, -1)):
            for kind, names in (("a link", tree.links), ("a submodule", tree.submodules)):
                if name in names:
                    return f"is {kind}" if name == path else f"lies behind {kind}, {shown(name)}"
        return None

    def _is_missing(self, path: str) -> bool:
        try:
            self._sources.read(RootScope.REPOSITORY, path, REFERENCE_BYTES)
        except Unreadable as error:
            return error.reason is Reason.MISSING_OR_UNREADABLE
        return False

    def _file(self, scope: RootScope, path: str) -> File:
        try:
            observed = self._sources.read(scope, path, SOURCE_BYTES)
        except Unreadable as error:
            if error.reason is not Reason.SOURCE_BYTE_LIMIT:
                raise
            message = f"it has more than {SOURCE_BYTES:,} bytes, and no part of such a file can be a source"
            raise Unreadable(error.reason, message) from None
        try:
            return File(scope, path, observed, decode(observed.data))
        except Unreadable as error:
            raise Unreadable(error.reason, error.message, todo="A source is text in UTF-8: name another file.") from None

    def _is_target(self, file: File) -> bool:
        """Whether a context of this manifest is rendered into the file: then what it says would change by being told."""
        return file.scope is RootScope.REPOSITORY and block.renders(file.observed.data, self._name)

    def _instead(self, declared: Declared) -> str:
        if declared.alias != SPECIFICATION:
            line, path = declared.spot.document.place(declared.spot.path).split(":")[1], shown(declared.pattern)
            where = f"`{declared.alias}` (line {line})"
            return f"Take {where} out, also where `require` names it: agents read {path} anyway. Or render into another file."
        for name in self.offered():
            if name != declared.pattern and (known := excerpts.headings(self._file(RootScope.REPOSITORY, name).text)):
                return f"Write:  specification: {{path: {name}, section: {json.dumps(known[0].text, ensure_ascii=False)}}}"
        return "Move what it specifies into another file, and name that, or a section of it."

    # ---- by glob

    def matching(self, declared: Declared) -> Iterator[tuple[File, list[Span]]]:
        """The files that a glob takes, each in pieces that fit, in the order of the tree.

        Raises `Invalid` where nothing matches, or another glob took the same file.
        """
        wanted = _compiled(declared.pattern, declared.place)
        unwanted = [_compiled(glob, declared.spot.at("exclude", index)) for index, glob in enumerate(declared.excluded)]
        found = False
        for kind, names in (("", self._tree.files), ("a link", self._tree.links), ("a submodule", self._tree.submodules)):
            for name in names:
                if not wanted(name) or any(matches(name) for matches in unwanted):
                    continue
                found = True
                if kind or name not in self._named:
                    yield from self._taking(name, kind, declared)
        if not found:
            close = self._nearest(declared.pattern)
            todo = f"Nearest file: {close}" if close else "Correct the glob."
            if any(map(wanted, self._tree.excluded)):
                raise declared.place.fault(f"{shown(declared.pattern)} matches only what is {_EXCLUDED}", todo=_SETTINGS)
            raise declared.place.fault(f"{shown(declared.pattern)} matches no file of the tree", todo=todo)

    def _taking(self, name: str, kind: str, declared: Declared) -> Iterator[tuple[File, list[Span]]]:
        """The file `name`, unless it must be left out."""
        try:
            if kind:
                raise Invalid(Reason.MISSING_OR_UNREADABLE, kind)
            if not is_path(name):
                raise Invalid(Reason.MANIFEST_INVALID, f"its name is not portable ({PORTABLE})")
            if _is_git(name):
                raise Invalid(Reason.MANIFEST_INVALID, "a path through .git is never read")
            file = self._file(RootScope.REPOSITORY, name)
            spans = excerpts.pieces(file.text, name)
            if declared.entry.abstractions and (why := unfit(file.text, declared.entry.abstractions)):
                raise Invalid(Reason.MANIFEST_INVALID, why)
            if self._is_target(file):
                raise Invalid(Reason.RENDER_TARGET, f"it is {TARGET}")
        except SdaqfError as error:
            if error.reason is Reason.CHANGED:
                raise
            self.note(f"{shown(name)} left out: {error.message}")
            return
        if other := self._taken.get(name):
            globs_ = f"{other.alias} ({shown(other.pattern)}) and {declared.alias} ({shown(declared.pattern)})"
            glob = declared.pattern if re.fullmatch(r"[\w./-][\w./*?-]*", declared.pattern, re.ASCII) else f'"{declared.pattern}"'
            todo = f"Write:  {declared.alias}: {{glob: {glob}, exclude: [{name}], kind: {declared.entry.kind.value}}}"
            if not declared.short:
                todo = f"Add to one of them:  exclude: [{name}]"
            raise declared.place.fault(f"two globs give {shown(name)}: {globs_}", todo=todo)
        self._taken[name] = declared
        yield file, spans

    # ---- what could have been meant

    def offered(self) -> list[str]:
        """Documents of the tree that could be the specification, README.md first; at most four."""
        found: list[str] = []
        for name in sorted(filter(_DOCUMENT.search, self._tree.files), key=lambda name: (name != "README.md", name.count("/"), name))[:12]:
            try:
                fits = len(self._file(RootScope.REPOSITORY, name).text) <= TEXT_CHARACTERS
            except SdaqfError:
                continue
            found += [name] if fits and is_path(name) else []
        return found[:4]

    def _nearest(self, path: str) -> str | None:
        """The file that was probably meant: of the same name, else of the same folder, else any; names alone are compared."""
        files = [name for name in self._tree.files if is_path(name)]
        folder, _, base = path.rpartition("/")
        namesakes = [name for name in files if name.rpartition("/")[2] == base]
        neighbours = [name for name in files if name.rpartition("/")[0] == folder]
        found = (nearest(path, alike[:_COMPARED]) for alike in (namesakes, neighbours, files))
        return next(filter(None, found), None)


_COMPARED = 2_000
"""Names that are compared with a wrong one: alike is not worth seconds."""

_DOCUMENT = re.compile(
    r"(?:^|/)(?:readme|[a-z0-9_-]*(?:spec|specification|requirements|architecture|design)[a-z0-9_-]*)\.(?:md|markdown|rst|txt)$",
    re.IGNORECASE,
)


def also(offered: list[str]) -> str:
    return f"   (also found: {', '.join(offered[1:])})" if offered[1:] else ""


def _compiled(glob: str, spot: Spot) -> Callable[[str], bool]:
    try:
        return globs.compiled(glob)
    except Invalid as error:
        raise spot.fault(error.message, todo=error.todo) from None


def _is_git(path: str) -> bool:
    return ".git" in path.lower().split("/")


def unfit(text: str, wanted: Filter) -> str:
    """Why a file is no published abstraction that is wanted; empty where it is one. More than this is not checked of it."""
    try:
        record = canonical.load(text.encode("utf-8"))["record"]
        tier, trust, category = Tier(record["tier"]), Trust(record["trust_class"]), record["category"]
        concept = str(record["concept_id"])
    except (SdaqfError, KeyError, TypeError, ValueError):
        return "it is no published abstraction"
    if tier < wanted.tier:
        return f"its tier is {tier.value}, below {wanted.tier.value}"
    if trust < wanted.trust:
        return f"its trust is {trust.value}, below {wanted.trust.value}"
    if wanted.category and category != wanted.category.value:
        return f"its category is not {wanted.category.value}"
    return "" if not wanted.concepts or concept in wanted.concepts else "its concept is not among those wanted"
