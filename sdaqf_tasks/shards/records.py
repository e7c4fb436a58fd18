"""This module holds the objects of a shard, their bounds and their scores (ABSTRACTIONS 1.1 and 2).

An object is a frozen record whose id is the digest of its canonical bytes; the files hold exactly those bytes. Shapes,
lengths and number bounds are declared with the fields and held at every reading. What relates the fields of one
abstraction is `verify`, which every way into a shard ends with: distilling, merging, importing, and `fsck`.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from sdaqf_tasks.errors import Invalid, Reason, Refused
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import END, Ranked, is_path, is_secret_shaped, must
from sdaqf_tasks.formats.records import Category as Category
from sdaqf_tasks.formats.records import Tier as Tier
from sdaqf_tasks.formats.records import Trust as Trust

SPECS, EXAMPLES, TOKENS, PATTERNS, PROVENANCE, PARENTS = 8, 12, 24, 16, 16, 4
"""Source specs of a command; and of a record: examples, retained tokens and patterns, provenance entries, levels of parents."""

SPEC_CHARACTERS = 400
REGION_LINES, REGION_BYTES, SOURCE_FILE_BYTES = 96, 16_384, 2_097_152
CATALOG_RECORDS, CATALOG_BYTES = 4_096, 16_777_216
COLLECTED = 32
"""Records that one `collect` marks."""

LARGEST = 4_294_967_295
"""The largest number that a command or a record may hold."""

WHOLE = 1_024
"""The resonance of an example that holds every retained feature."""

RESONANT = 560
"""The resonance that every example must have."""


class Kind(enum.Enum):
    """The two kinds of shards (SH-1)."""

    CORE = "core"
    PROJECT = "project"


class Decay(Ranked):
    """How fresh a record is, in the order in which lookup prefers them."""

    ACTIVE = "active"
    PROTECTED = "protected"
    STALE = "stale"
    PRUNABLE = "prunable"


class Operation(enum.Enum):
    """What an entry of a record's provenance says was done (2.5)."""

    DISTILLED = "distilled"
    REUSE_ADOPT = "reuse_adopt"
    REUSE_REJECT = "reuse_reject"
    REUSE_PROMOTE = "reuse_promote"
    MERGE_ADOPT = "merge_adopt"
    MERGE_PROMOTE = "merge_promote"
    PRUNE_MARK_STALE = "prune_mark_stale"
    PRUNE_MARK_PRUNABLE = "prune_mark_prunable"
    PRUNE_REFRESH = "prune_refresh"
    PRUNE_COLLECT = "prune_collect"
    PROTECT = "protect"
    UNPROTECT = "unprotect"
    ACCEPTED = "accepted"


class Front(enum.Enum):
    """Where a command came from. What comes from `mcp` comes from an agent."""

    CLI = "cli"
    SHELL = "shell"
    HTTP = "http"
    MCP = "mcp"


CONCEPT = re.compile(r"[a-z0-9_-]{1,64}")
PROJECT_ID = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9._-]{0,63}")
FLOORS = {Tier.PATTERN: (560, 560), Tier.CONVENTION: (620, 630), Tier.LOGIC: (690, 700), Tier.CONTRACT: (760, 780)}
"""Quality and confidence that a record needs to be ready for promotion (2.3)."""

_HEX = "[0-9A-F]{64}"
OBJECT_ID = re.compile(f"SHARD-[A-Z]+-{_HEX}")


def _object(kind: str) -> Meta:
    return Meta(pattern=f"^SHARD-{kind}-{_HEX}{END}")


Concept = Annotated[str, Meta(pattern=f"^{CONCEPT.pattern}{END}")]
Hash = Annotated[str, Meta(pattern=f"^{_HEX}{END}")]
Number = Annotated[int, Meta(ge=0, le=LARGEST)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
Resonance = Annotated[int, Meta(ge=0, le=WHOLE)]
StateId = Annotated[str, _object("STATE")]
CatalogId = Annotated[str, _object("CATALOG")]
BucketId = Annotated[str, _object("BUCKET")]
RecordId = Annotated[str, _object("RECORD")]
DecisionId = Annotated[str, _object("DECISION")]
StagedId = Annotated[str, _object("STAGED")]
EventId = Annotated[str, _object("EVENT")]
AnyId = Annotated[str, Meta(pattern=f"^SHARD-[A-Z]+-{_HEX}{END}")]
Lineage = Annotated[str, Meta(pattern=rf"^(core:core|project:[a-z0-9._-]{{1,64}}):{CONCEPT.pattern}{END}")]
Feature = Annotated[str, Meta(min_length=1, max_length=REGION_BYTES)]


class Object(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A closed JSON object of a shard."""


class Shard(Object, frozen=True, kw_only=True):
    """Which shard: `core`, or `project` with an id (SH-1, SH-2)."""

    kind: Kind
    id: str

    def __post_init__(self) -> None:
        good = self.id == "core" if self.kind is Kind.CORE else PROJECT_ID.fullmatch(self.id) is not None
        must(good, "not a shard: core, or project:ID with an ID of a-z 0-9 . _ - that begins with a letter or digit", "id")

    def __str__(self) -> str:
        return "core" if self.kind is Kind.CORE else f"project:{self.id}"

    @property
    def trust(self) -> Trust:
        """The default trust of what is made here (SH-4)."""
        return Trust.CORE if self.kind is Kind.CORE else Trust.PROJECT


CORE = Shard(kind=Kind.CORE, id="core")


def shard(text: str) -> Shard:
    """The shard that `core` or `project:ID` names. Raises `Refused`: INVALID_SHARD."""
    kind, colon, name = text.partition(":")
    if text == "core":
        return CORE
    if kind != "project" or not colon or not PROJECT_ID.fullmatch(name):
        shape = "1 to 64 of a-z 0-9 . _ -, a letter or digit first, no two dots together"
        raise Refused(Reason.INVALID_SHARD, f"a shard is core, or project:ID with an ID of {shape}")
    return Shard(kind=Kind.PROJECT, id=name)


class Source(Object, frozen=True, kw_only=True):
    """One example: lines of a file, 1-based and inclusive, with the digests of the whole file and of those lines."""

    spec: Annotated[str, Meta(min_length=1, max_length=SPEC_CHARACTERS)]
    path: Annotated[str, Meta(min_length=1, max_length=240)]
    line_start: Annotated[int, Meta(ge=1, le=1_000_000)]
    line_end: Annotated[int, Meta(ge=1, le=1_000_000)]
    sha256: Hash
    text_sha256: Hash

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line_start}-{self.line_end}"


class Pin(Object, frozen=True, kw_only=True):
    """One version of a record: what an entry or a decision is about, and what every record says of itself."""

    concept_id: Concept
    consensus_hash: Hash
    lineage_id: Lineage
    lineage_version: Positive
    trust_class: Trust


class Entry(Pin, frozen=True, kw_only=True):
    """What was done to a record, by which shard, and what the record was then (2.5)."""

    operation: Operation
    owner: Shard
    extra: dict[str, str | Number | tuple[str, ...]]


class Outline(Pin, frozen=True, kw_only=True):
    """What a record and every reference to it say."""

    tier: Tier
    category: Category
    parent: Concept | None
    decay_state: Decay
    owner: Shard


class Abstraction(Outline, frozen=True, kw_only=True):
    """A record: a generalisation over pieces of source text, with its evidence (section 2)."""

    statement: Annotated[str, Meta(max_length=500)]
    examples: Annotated[int, Meta(ge=2, le=EXAMPLES)]
    threshold: Annotated[int, Meta(ge=2, le=EXAMPLES)]
    average_resonance: Resonance
    min_resonance: Resonance
    quality_score: Annotated[int, Meta(ge=0, le=1_000)]
    confidence_score: Annotated[int, Meta(ge=0, le=1_000)]
    reuse_score: Annotated[int, Meta(ge=0, le=250)]
    support_score: Annotated[int, Meta(ge=0, le=400)]
    promotion_ready: bool
    normaliser: Annotated[str, Meta(min_length=1, max_length=64)]
    first_revision: Number
    last_revision: Number
    last_review_revision: Number
    sources: Annotated[tuple[Source, ...], Meta(min_length=2, max_length=EXAMPLES)]
    retained_tokens: Annotated[tuple[Feature, ...], Meta(max_length=TOKENS)]
    retained_patterns: Annotated[tuple[Feature, ...], Meta(min_length=1, max_length=PATTERNS)]
    provenance: Annotated[tuple[Entry, ...], Meta(min_length=1, max_length=PROVENANCE)]
    provenance_dropped: Number

    @property
    def pin(self) -> Pin:
        return Pin(**{name: getattr(self, name) for name in Pin.__struct_fields__})

    def compatible(self, other: Abstraction) -> bool:
        """Whether the two say the same: names and scores play no part (section 4)."""
        return all(getattr(self, name) == getattr(other, name) for name in ("consensus_hash", "tier", "category", "parent"))


class Choice(enum.Enum):
    ADOPT = "adopt"
    REJECT = "reject"
    PROMOTE = "promote"


class Decision(Object, frozen=True, kw_only=True):
    """How a project uses a record of core (section 4)."""

    decision: Choice
    source: Pin
    local: Pin | None


class Catalog(Object, frozen=True, kw_only=True):
    """The live records, a bucket by the first byte of SHA-256 of their concept; reuse decisions; the highest version a lineage."""

    records: dict[Annotated[str, Meta(pattern=f"^[0-9a-f]{{2}}{END}")], BucketId]
    decisions: dict[Concept, DecisionId]
    lineages: dict[Lineage, Positive]


Bucket = dict[Concept, Abstraction]
"""Some of the live records, by concept: they stand in it, so that all live records are at most 256 files.

An object of its own, and the only one that is no record.
"""


class Staged(Object, frozen=True, kw_only=True):
    """What a session has made and not committed: records, decisions (null withdraws one), patch candidates."""

    records: dict[Concept, RecordId] = {}
    decisions: dict[Concept, DecisionId | None] = {}
    patches: dict[Concept, str] = {}


class Input(Object, frozen=True, kw_only=True):
    """What an event was given from outside the shard: its role, and the object that holds it."""

    role: Annotated[str, Meta(min_length=1, max_length=600)]
    id: AnyId


class Event(Object, frozen=True, kw_only=True, omit_defaults=True):
    """What made a state of its predecessor: a control word, or a command in its canonical spelling."""

    word: str | None = None
    command: str | None = None
    inputs: tuple[Input, ...]
    program: str
    front: Front

    @property
    def told(self) -> str:
        """What the shard was told."""
        return self.command or self.word or ""


class Text(Object, frozen=True, kw_only=True):
    """The text of an example, or an imported file."""

    text: str


class State(Object, frozen=True, kw_only=True):
    """One link of the chain. `session` is the id of the state before `begin scratch`."""

    shard: Shard
    previous: StateId | None
    event: EventId
    revision: Number
    live: CatalogId
    saved: CatalogId | None
    committed: bool
    session: StateId | None
    staged: StagedId | None


class Published(Object, frozen=True, kw_only=True):
    """What a published file holds: the record, and the shard and state in which it was live (1.4)."""

    record: Abstraction
    shard: Shard
    state: StateId


TYPES: Mapping[str, Any] = {
    "STATE": State,
    "CATALOG": Catalog,
    "BUCKET": Bucket,
    "STAGED": Staged,
    "EVENT": Event,
    "TEXT": Text,
    "RECORD": Abstraction,
    "DECISION": Decision,
}
_NAMES = {kind: name for name, kind in TYPES.items() if name != "BUCKET"}


def sealed(value: Object | Bucket) -> tuple[str, bytes]:
    """The id of an object, and its canonical bytes."""
    data = canonical.encode(value, of_records=True, bounded=False)
    return f"SHARD-{_NAMES.get(type(value), 'BUCKET')}-{canonical.digest(data)}", data


def bucket_of(concept: str) -> str:
    """The two hexadecimal digits under which a concept is kept."""
    return canonical.digest(concept.encode("ascii"))[:2].lower()


# ---- scores ---------------------------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """The derived fields of a record (2.3)."""

    support_score: int
    reuse_score: int
    quality_score: int
    confidence_score: int
    promotion_ready: bool


def scores(record: Abstraction) -> Scores:
    """The derived fields, from the other ones; integers, truncated at each step (2.3)."""
    lowest, average = record.min_resonance, record.average_resonance
    examples, threshold, sources = record.examples, record.threshold, len(record.sources)
    features = 6 * min(len(record.retained_tokens), 24) + 10 * min(len(record.retained_patterns), 16)
    support = min(400, 30 * min(examples, 12) + 20 * min(threshold, 12) + features)
    reuse = min(250, 40 * min(sources, 8) + 20 * record.tier.rank + (40 if record.parent else 0))
    weighted = (55 * lowest + 45 * average) // 100
    resonance = min(600, 350 if weighted <= 560 else 350 + (weighted - 560) * 250 // 464)
    quality = min(1_000, resonance + support // 2 + reuse // 2)
    confidence = min(1_000, quality // 2 + lowest // 3 + average // 4 + 18 * min(examples, 12) + 12 * min(sources, 8))
    floor = FLOORS[record.tier]
    ready = record.tier is not Tier.PATTERN and quality >= floor[0] and confidence >= floor[1] and examples >= threshold and sources >= 2
    return Scores(support, reuse, quality, confidence, ready)


def threshold(examples: int) -> int:
    """How many of the examples must agree."""
    return max(2, -(-2 * examples // 3))


def consensus(normaliser: str, patterns: Iterable[str], tokens: Iterable[str]) -> str:
    """What two records must share to say the same."""
    features = {"normaliser": normaliser, "patterns": sorted(patterns), "tokens": sorted(tokens)}
    return canonical.digest(canonical.encode(features))


def scored(record: Abstraction) -> Abstraction:
    """The record with its derived fields computed anew."""
    return msgspec.structs.replace(record, **scores(record)._asdict())


def verify(record: Abstraction) -> None:
    """Raise `Invalid` unless every field keeps its bound, and they fit one another: counts, scores, consensus, provenance, texts."""
    try:
        msgspec.convert(msgspec.to_builtins(record), Abstraction)  # bounds, which a record does not count when it is built
    except msgspec.ValidationError as error:
        raise Invalid(Reason.CONTRACT_INVALID, str(error)[:200]) from None
    for name, value in scores(record)._asdict().items():
        must(getattr(record, name) == value, f"is not what the record gives: {value}", name)
    must(record.examples == len(record.sources), "is not the number of sources", "examples")
    must(record.threshold == threshold(record.examples), "is not max(2, two thirds of the examples)", "threshold")
    must(record.min_resonance <= record.average_resonance, "is over the average", "min_resonance")
    expected = consensus(record.normaliser, record.retained_patterns, record.retained_tokens)
    must(record.consensus_hash == expected, "is not the digest of the retained features", "consensus_hash")
    must(record.parent != record.concept_id, "is the record itself", "parent")
    must(record.lineage_id.rpartition(":")[2] == record.concept_id, "is that of another concept", "lineage_id")
    must(record.first_revision <= record.last_revision, "is after the last", "first_revision")
    must(not record.provenance_dropped or len(record.provenance) == PROVENANCE, "entries were dropped too early", "provenance_dropped")
    for names in ("retained_tokens", "retained_patterns"):
        must(len(set(getattr(record, names))) == len(getattr(record, names)), "one is there twice", names)
    for index, source in enumerate(record.sources):
        must(is_path(source.path), "not a portable path", "sources", index, "path")
        must(source.line_start <= source.line_end, "ends before it starts", "sources", index, "line_end")
    for text in texts(record):
        must("\0" not in text and canonical.is_text(text), "U+0000 or a lone surrogate in a text")
        must(not is_secret_shaped(text), "looks like a key or a token", reason=Reason.SECRET_SHAPED_TEXT)


def texts(record: Abstraction) -> Iterable[str]:
    """Every free text that the record holds."""
    yield record.statement
    yield from record.retained_tokens
    yield from record.retained_patterns
    yield from (source.spec for source in record.sources)
    for entry in record.provenance:
        for value in entry.extra.values():
            yield from value if isinstance(value, tuple) else (str(value),)


def entry(record: Abstraction, operation: Operation, owner: Shard, **extra: Any) -> Entry:
    """What was done to the record, as it is now."""
    return Entry(operation=operation, owner=owner, extra=extra, **msgspec.structs.asdict(record.pin))


def appended(provenance: Sequence[Entry], dropped: int, *new: Entry) -> dict[str, Any]:
    """The fields `provenance` and `provenance_dropped` with more entries: the first and the newest fifteen stay (PR-2)."""
    entries = (*provenance, *new)
    over = max(0, len(entries) - PROVENANCE)
    return {"provenance": (entries[0], *entries[1 + over :]), "provenance_dropped": min(LARGEST, dropped + over)}


def concept(text: str) -> str:
    """The text, which names a concept. Raises `Refused`: INVALID_CONCEPT."""
    if not CONCEPT.fullmatch(text):
        raise Refused(Reason.INVALID_CONCEPT, "a concept is 1 to 64 of a-z 0-9 _ -", todo="Write for example: retry_guard")
    return text


def decode(object_id: str, data: bytes) -> Any:
    """The object of that id. Raises `Invalid`: OBJECT_DAMAGED where the bytes are not the canonical ones of that id (SH-7)."""
    damaged = functools.partial(Invalid, Reason.OBJECT_DAMAGED, at=object_id, todo="sdaqf shard fsck")
    name, _, digest = object_id.removeprefix("SHARD-").partition("-")
    if name not in TYPES or canonical.digest(data) != digest:
        raise damaged(f"the object {object_id[:24]}… is not what its name says")
    try:
        found = msgspec.json.decode(data, type=TYPES[name])
    except msgspec.MsgspecError as error:
        raise damaged(f"the object {object_id[:24]}… is none of its type") from error
    if canonical.encode(found, of_records=True, bounded=False) != data:
        raise damaged(f"the object {object_id[:24]}… is not in its canonical form")
    return found
