"""This module looks a build folder over and names everything in it that is not as the program leaves it, all at once.

An object is held against its name, a ref against its receipt and its object, a copy in `out/` against its ref. Repair takes
away what is damaged or left over, so that the next build makes it again, and invents nothing.
Not seen: a receipt that was forged whole. It holds no digest of its own.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.store import DOCUMENT, Store, identity, object_name
from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.flow.project import Chain
from sdaqf_tasks.flow.stages import CANDIDATE, OUTSIDE, STAGES, out_name, ref_name
from sdaqf_tasks.formats import canonical

CODES = {
    "link": "a link: nothing is read or written through it",
    "extra-file": "nothing of ours has this name",
    "temporary": "a killed writer left it",
    "mode": "others may read or write it",
    "object-damaged": "its bytes are not what its name says",
    "object-duplicated": "it holds another object, which is there too",
    "object-swapped": "it holds the object of another name",
    "object-missing": "the object that it leads to is not there",
    "ref-damaged": "it holds no id of its kind",
    "receipt-damaged": "the receipt is missing or damaged",
    "receipt-mismatch": "ref and receipt name different objects",
    "copy-damaged": "the copy is not what its ref leads to",
    "copy-left-over": "no ref leads to what it was copied from",
}
"""Defects of a build folder: code and meaning."""

_ROUNDS = 4
"""What a repair takes away may leave a ref without an object, and then a copy without a ref."""


class Defect(NamedTuple):
    """`place` is below the build folder; a ref and its receipt are one place."""

    code: str
    place: str


class Checkup(NamedTuple):
    defects: tuple[Defect, ...]
    objects: int
    unreachable: int


def examine(store: Store) -> Checkup:
    """Every defect, by place. For who holds the lock, else a run at work looks like damage."""
    if any(place.is_symlink() for place in (store.folder, *store.folder.parents) if place.is_relative_to(store.top)):
        return Checkup((Defect("link", "."),), 0, 0)
    found, there = [], []
    for path in sorted(store.folder.rglob("*")):
        name, mode = path.relative_to(store.folder).as_posix(), path.lstat().st_mode
        if stat.S_ISREG(mode) and not files.TEMPORARY.fullmatch(path.name):
            there.append(name)
            if mode & 0o077 and "/" in name:
                found.append(Defect("mode", name))
        elif not stat.S_ISDIR(mode):
            code = "link" if stat.S_ISLNK(mode) else "temporary" if stat.S_ISREG(mode) else "extra-file"
            found.append(Defect(code, name))
    objects = [name for name in there if name.startswith("objects/")]
    refs = {name.removesuffix(".made") for name in there if name.startswith("refs/")}
    chains = [Chain(name, query) for name in store.manifests() for query in {*store.queries(name), "default"}]
    known = {f"refs/{ref_name(chain, stage.makes)}": (chain, stage.makes) for chain in chains for stage in STAGES}
    plain = {f"refs/{CANDIDATE}", *(f"refs/m/{name}/{OUTSIDE}" for name in store.manifests())}
    copies = {f"out/{out_name(*known[ref])}": _leads_to(store, ref.removeprefix("refs/")) for ref in refs & known.keys()}
    for name in there:
        if name.startswith("out/"):
            held = copies.get(name)
            found += [Defect("copy-left-over" if held is None else "copy-damaged", name)] if held not in _ids(store, name) else []
        elif name not in objects and name.removesuffix(".made") not in known.keys() | plain and name.split("/")[0] not in _OTHERS:
            found.append(Defect("extra-file", name))
    found += _objects(store, objects)
    for ref in sorted(refs & (known.keys() | plain)):
        found += [Defect(code, ref) for code in _ref(store, ref.removeprefix("refs/"), known[ref][1] if ref in known else None, objects)]
    reached = {f"objects/{object_name(held)}" for held in store.references()}
    return Checkup(tuple(sorted(found, key=lambda defect: defect.place)), len(objects), len({*objects} - reached))


_OTHERS = (".gitignore", "lock", "doit.json", "blocked")


def _objects(store: Store, objects: list[str]) -> Iterator[Defect]:
    intact = {}
    for name in objects:
        said = {f"objects/{object_name(held)}" for held in _ids(store, name)}
        intact[name] = name in said, said & {*objects}
    for name, (is_intact, others) in intact.items():
        if not re.fullmatch(r"objects/CTX-[A-Z-]+-[0-9A-F]{64}\.(json|md)", name):
            yield Defect("extra-file", name)
        elif not is_intact:
            twice = any(intact[other][0] for other in others)
            yield Defect("object-duplicated" if twice else "object-swapped" if others else "object-damaged", name)


def _leads_to(store: Store, name: str) -> str | None:
    """The id that a ref holds, or held before it was damaged."""
    receipt = store.receipt(name)
    return receipt.output if receipt else store.ref(name)


def _ids(store: Store, name: str) -> tuple[str, ...]:
    """The ids that the bytes of a file may have."""
    with suppress(SdaqfError):
        data = files.read_file(store.folder / name, canonical.ARTIFACT_BYTES)
        return DOCUMENT + canonical.digest(data), *filter(None, [identity(data)])
    return ()


def _ref(store: Store, name: str, makes: str | None, objects: list[str]) -> Iterator[str]:
    held, receipt = store.ref(name), store.receipt(name)
    written = files.read_file(store.folder / "refs" / f"{name}.made", canonical.ARTIFACT_BYTES) if receipt else b""
    if held is None or (makes and not re.fullmatch(rf"CTX-{makes.upper()}-[A-Z-]*[0-9A-F]{{64}}", held)):
        yield "ref-damaged"
    elif receipt is None or canonical.render(msgspec.to_builtins(receipt)) != written:
        yield "receipt-damaged"
    elif receipt.output != held:
        yield "receipt-mismatch"
    elif makes and f"objects/{object_name(held)}" not in objects:
        yield "object-missing"


def repair(store: Store) -> int:
    """Take away what `examine` names, and what then leads nowhere; how many places. For who holds the lock."""
    places = set()
    for _ in range(_ROUNDS):
        for defect in examine(store).defects:
            if defect.place == ".":
                continue  # where the folder leads elsewhere, nothing is ours to remove
            places.add(defect.place)
            if defect.code == "mode":
                (store.folder / defect.place).chmod(0o600)
            elif defect.place.startswith("refs/") and defect.code not in ("link", "temporary", "extra-file"):
                store.withdraw(defect.place.removeprefix("refs/"))
            else:
                store.remove(defect.place)
    return len(places)
