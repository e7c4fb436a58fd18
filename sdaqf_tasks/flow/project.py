"""This module knows where a project's things are: settings, manifests, build folder, owner root, clock (PIPELINE 1 and 7)."""

from __future__ import annotations

import datetime
import os
import posixpath
import re
import tomllib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import msgspec

from sdaqf_tasks.disk.files import Root
from sdaqf_tasks.disk.repository import USUAL, Limits, Repository, find_top
from sdaqf_tasks.disk.store import Store
from sdaqf_tasks.errors import Finding, Invalid, Malformed, Reason, Refused, SdaqfError, Severity, Unreadable
from sdaqf_tasks.formats import canonical, declaration, globs, plain_yaml
from sdaqf_tasks.formats.declaration import DEFAULT, Declaration, as_time
from sdaqf_tasks.formats.entries import meant
from sdaqf_tasks.formats.plain_yaml import Document
from sdaqf_tasks.formats.records import instant

NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
SETTINGS_BYTES = 262_144
"""Of a file that may hold settings; `tomllib` is slow, and tables of keys with dots take it three times as long as others."""
KEY_PARTS = 10
SOON = datetime.timedelta(days=36_500)
HEAD_BYTES = 16_777_216
"""Bytes that a file may have for us to look whose it is; a manifest that is too large must not pass for somebody else's."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sdaqf.toml`, or `[tool.sdaqf]` of pyproject.toml (PIPELINE 7)."""

    manifests: tuple[str, ...] = ("manifests",)
    build: str = ".sdaqf/build"
    shards: str = ".sdaqf/shards"
    shard: str = "project:default"
    exclude: tuple[str, ...] = ()
    exclude_untracked: bool = False
    soon: str = "7d"
    limits: Limits = USUAL
    policy: dict[str, str] = {}


class ManifestFile(NamedTuple):
    """A manifest of the project: its name, and its path from the top."""

    name: str
    path: str


class Reading(NamedTuple):
    """A manifest as it was read: what it declares, and the digest of every file that says so, by path."""

    declaration: Declaration
    digests: dict[str, str]


class Project:
    """A work tree with its settings. Nothing is read before it is asked for."""

    def __init__(self, top: Path, *, owner_root: Path | None = None) -> None:
        self.top = top
        given = owner_root or (Path(value) if (value := os.environ.get("SDAQF_OWNER_ROOT")) else None)
        self.owner_root = given.absolute() if given else None

    @classmethod
    def find(cls, start: Path, *, owner_root: Path | None = None) -> Project:
        """The project around `start`. Raises `Refused` where there is no work tree."""
        return cls(find_top(start), owner_root=owner_root)

    @cached_property
    def settings(self) -> Settings:
        """Raises `Malformed` or `Invalid` at the file and key that cannot be meant."""
        return read_settings(self._settings_file)

    @cached_property
    def root(self) -> Root:
        root = Root(self.top)
        weakref.finalize(self, root.close)
        return root

    @cached_property
    def store(self) -> Store:
        return Store(self.top, self.settings.build)

    def repository(self) -> Repository:
        return Repository(
            self.top,
            exclude=self.settings.exclude,
            exclude_untracked=self.settings.exclude_untracked,
            limits=self.settings.limits,
            apart=(self.owner_root,) if self.owner_root else (),
        )

    def owner(self) -> Root | None:
        """The owner root, where one is given. Raises `SdaqfError` where it is no folder that can be read."""
        try:
            return Root(self.owner_root) if self.owner_root else None
        except SdaqfError as error:
            raise type(error)(error.reason, f"the owner root: {error.message}", todo="Correct SDAQF_OWNER_ROOT or --owner-root.") from None

    # ---- manifests

    @cached_property
    def manifests(self) -> tuple[ManifestFile, ...]:
        """The project's manifests by name. Raises `Invalid` where a name is none, or taken twice."""
        found: dict[str, ManifestFile] = {}
        for path in self._yaml_files():
            name = PurePosixPath(path).stem
            if name.startswith("_") or not declaration.is_manifest(self._head(path)):
                continue
            if not NAME.fullmatch(name):
                message = f"{name[:60]!r} is no name for a manifest: lower case letters, digits, hyphens"
                raise Invalid(Reason.MANIFEST_INVALID, message, at=path)
            if name in found:
                raise Invalid(Reason.MANIFEST_INVALID, f"{name} is the name of {found[name].path} already", at=path, todo="Rename one.")
            found[name] = ManifestFile(name, path)
        return tuple(found[name] for name in sorted(found))

    @cached_property
    def strangers(self) -> tuple[str, ...]:
        """YAML files in the folders of manifests that are somebody else's."""
        whole = (path for path in self._yaml_files() if not PurePosixPath(path).name.startswith("_"))
        return tuple(path for path in whole if not declaration.is_manifest(self._head(path)))

    @property
    def first_step(self) -> str:
        """What to do where there is no manifest: begin the YAML that is there as one, or `sdaqf init`."""
        return f"A manifest begins with `sdaqf: 1`, and {self.strangers[0]} does not." if self.strangers else "Run: sdaqf init"

    def manifest(self, name: str) -> ManifestFile:
        for found in self.manifests:
            if found.name == name:
                return found
        close = meant(name, [found.name for found in self.manifests])
        raise Refused(Reason.UNKNOWN_NAME, f"there is no manifest {name[:60]!r}{close}")

    def verify_any(self, to: str) -> None:
        """Raise `Refused` with UNKNOWN_NAME where there is no manifest `to` do anything with."""
        if not self.manifests:
            message = f"there is no manifest to {to} in {', '.join(self.settings.manifests)}"
            raise Refused(Reason.UNKNOWN_NAME, message, todo=self.first_step)

    @property
    def only(self) -> str:
        """The name of the project's one manifest. Raises `Refused` with UNKNOWN_NAME where there is none, or more than one."""
        if len(self.manifests) == 1:
            return self.manifests[0].name
        names = ", ".join(manifest.name for manifest in self.manifests)
        raise Refused(Reason.UNKNOWN_NAME, "no manifest is named", todo=f"Name one: {names}" if names else self.first_step)

    def _yaml_files(self) -> Iterator[str]:
        for folder in self._folders():
            for entry in sorted(folder.glob("*.y*ml")):
                if entry.suffix in (".yaml", ".yml") and entry.is_file():
                    yield entry.relative_to(self.top).as_posix()

    def _folders(self) -> list[Path]:
        found = []
        for pattern in self.settings.manifests:
            # pathlib finds too much where brackets are literal for us; what it finds is held against our own meaning.
            candidates = self.top.glob(re.sub(r"[\[\]]", "?", pattern)) if any(c in pattern for c in "*?") else [self.top / pattern]
            for folder in sorted(candidates):
                name = folder.relative_to(self.top).as_posix()
                if ".git" not in name.split("/") and globs.matches(pattern, name) and folder.is_dir() and not folder.is_symlink():
                    found.append(folder)
        return list(dict.fromkeys(found))

    def _head(self, path: str) -> bytes:
        """Enough of a file to tell whose it is; nothing where it cannot be read."""
        with suppress(SdaqfError):
            return self.root.read(path, HEAD_BYTES)
        return b""

    def _settings_file(self, name: str) -> bytes | None:
        try:
            return self.root.read(name, SETTINGS_BYTES)
        except Unreadable as error:
            if os.path.lexists(self.top / name):
                raise Malformed(Reason.MALFORMED_TOML, f"cannot be read: {error.message}", at=name) from None
            return None


def read_settings(read: Callable[[str], bytes | None]) -> Settings:
    """The settings in the files that `read` gives by name. Raises `Malformed` or `Invalid` at file and key."""
    own = _toml("sdaqf.toml", read("sdaqf.toml"))
    tool = (_toml("pyproject.toml", read("pyproject.toml")) or {}).get("tool", {})
    shared = tool.get("sdaqf") if isinstance(tool, dict) else None
    if own is not None and shared is not None:
        message = "both sdaqf.toml and [tool.sdaqf] in pyproject.toml hold settings"
        raise Invalid(Reason.SETTINGS_INVALID, message, todo="Keep one of them.")
    name = "sdaqf.toml" if own is not None else "pyproject.toml [tool.sdaqf]"
    return _settings(own if own is not None else shared or {}, name)


def _toml(name: str, data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    if _has_deep_key(data):
        raise Malformed(Reason.MALFORMED_TOML, f"a key has more than {KEY_PARTS} parts", at=name)
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # also integers that are too long for Python
        message = str(error)[:200]
        place = re.search(r" \(at line (\d+), column (\d+)\)$", message)
        at = f"{name}:{place[1]}:{place[2]}" if place else name
        raise Malformed(Reason.MALFORMED_TOML, message[: place.start()] if place else message, at=at) from None


def _has_deep_key(data: bytes) -> bool:
    """Whether a dotted key has so many parts that `tomllib`, which takes their square, would not come to an end."""
    run = 0
    for part in data.split(b"."):
        run = run + 1 if re.fullmatch(rb"[ \t]*[\w\"'-]+[ \t]*", part) else 0
        if run >= KEY_PARTS:
            return True
    return False


Read = Callable[[str, int], bytes]
"""Reads the file at a path from the top, whole; raises `Unreadable` over so many bytes, as `Root.read`."""


def read_declaration(read: Read, path: str, name: str) -> Reading:
    """The declaration in the file `path` of the tree, with what it includes.

    Raises `Unreadable`, `Malformed` or `Invalid` with `file:line:column`.
    """
    document, digests = _document(read, path)
    included = []
    for index, written in enumerate(declaration.includes(document)):
        other = include_path(written, path)
        if other is None or other in digests:
            raise document.fault(("include", index), "an include is another file of the work tree, named once")
        try:
            part, more = _document(read, other)
        except Unreadable as error:
            raise document.fault(("include", index), f"{other} cannot be read: {error.message}", reason=error.reason) from None
        included.append(part)
        digests |= more
    return Reading(declaration.read(name, document, included), digests)


def _document(read: Read, path: str) -> tuple[Document, dict[str, str]]:
    try:
        data = read(path, plain_yaml.BYTES)
    except Unreadable as error:
        if error.reason is not Reason.SOURCE_BYTE_LIMIT:
            raise
        raise Malformed(Reason.TOO_LARGE, f"a manifest has at most {plain_yaml.BYTES} bytes", at=path) from None
    return plain_yaml.load(data, path), {path: canonical.digest(data)}


class Chain(NamedTuple):
    """One manifest and one of its queries: what becomes one Snapshot."""

    manifest: str
    query: str

    @property
    def label(self) -> str:
        """`NAME` for the query `default`, else `NAME.QUERY`."""
        return self.manifest if self.query == DEFAULT else f"{self.manifest}.{self.query}"


def include_path(name: str, manifest: str) -> str | None:
    """The path from the top of an include: relative to the manifest's folder, or from the top with a leading slash."""
    folder = "" if name.startswith("/") else posixpath.dirname(manifest)
    path = posixpath.normpath(posixpath.join(folder, name.lstrip("/")))
    return None if path.split("/")[0] in (".", "..") else path


def now() -> str:
    """The moment as a TIME. `SDAQF_NOW` fixes it, and whoever reports says so. Raises `Invalid`."""
    fixed = os.environ.get("SDAQF_NOW")
    if fixed:
        try:
            instant(fixed)
        except Invalid as error:
            raise Invalid(Reason.SETTINGS_INVALID, f"SDAQF_NOW is {error.message}", todo="Write it as 2026-11-01T00:00:00Z.") from None
        return fixed
    return as_time(datetime.datetime.now(datetime.UTC).replace(tzinfo=None, microsecond=0))


def _settings(value: Any, name: str) -> Settings:
    try:
        settings = msgspec.convert(value, Settings)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `$")
        known: Sequence[str] = Settings.__struct_fields__ if not where.startswith(".limits") else Limits.__struct_fields__
        if match := re.match(r"Object contains unknown field `(.*)`", message, re.DOTALL):
            message = f"{match[1][:60]!r} is no setting{meant(match[1], known)}"
            raise Invalid(Reason.SETTINGS_INVALID, message, at=name, todo="Known: " + ", ".join(known)) from None
        text = message[:1].lower() + message[1:200].replace("`", "'")
        raise Invalid(Reason.SETTINGS_INVALID, f"{where.strip('.`') or 'the settings'}: {text}", at=name) from None
    try:
        soon = declaration.duration(settings.soon)
    except ValueError:
        soon = datetime.timedelta.max
    if soon > SOON:
        raise Invalid(Reason.SETTINGS_INVALID, "soon is not a duration such as 7d, of at most a hundred years", at=name)
    _verify_policy(settings.policy, name)
    for pattern in settings.manifests:
        _verify_folder(pattern, "manifests", name)
    build, shards = (_verify_folder(getattr(settings, key), key, name) for key in ("build", "shards"))
    if f"{build}/".startswith(f"{shards}/") or f"{shards}/".startswith(f"{build}/"):
        raise Invalid(Reason.SETTINGS_INVALID, "build and shards are one inside the other", at=name, todo="Name two folders side by side.")
    return settings


def _verify_policy(policy: Mapping[str, str], name: str) -> None:
    """Codes are those of findings, levels those of severities."""
    for words, known in ((policy, Finding), (policy.values(), Severity)):
        for word in words:
            if word not in (values := [member.value for member in known]):
                message = f"policy: {word[:60]!r} is no {'finding' if known is Finding else 'level'}{meant(word, values)}"
                raise Invalid(Reason.SETTINGS_INVALID, message, at=name, todo=f"Known: {', '.join(values)}")


def _verify_folder(folder: str, key: str, name: str) -> str:
    """A folder below the top, spelled in one way only."""
    parts = folder.lower().split("/")
    if not all(part.isprintable() for part in parts) or {"", ".", "..", ".git"} & set(parts):
        raise Invalid(Reason.SETTINGS_INVALID, f"{key}: {folder[:80]!r} is no folder below the top", at=name, todo="Write it as a/b.")
    if key == "manifests":
        try:
            globs.matches(folder, "")
        except Invalid as error:
            raise Invalid(Reason.SETTINGS_INVALID, f"manifests: {folder[:80]!r}: {error.message}", at=name, todo=error.todo) from None
    return folder
