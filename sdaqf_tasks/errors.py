"""This module names every way in which the program can say no.

A refusal is a value: a `Reason`, a place, a sentence. Whatever is not an `SdaqfError` is a defect and keeps its
traceback. The table below is the only list of reasons; `docs/errors.md` is generated from it, exit codes and HTTP
statuses belong to it, and artifacts quote its identifiers in their exclusions.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

Place = str | Sequence[str | int]

MESSAGE_LIMIT = 600
"""Characters that a message may have; the rest is cut."""


def printable(text: str) -> str:
    """`text` with everything that does not print as itself (controls, bidi, lone surrogates) as an escape."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def shown(text: str) -> str:
    """`text` as a message may quote it: printable, at most 80 characters; of a longer one the end, which tells paths apart."""
    safe = printable(text[-80:])
    return safe if len(safe) <= 80 and len(text) <= 80 else "…" + safe[-79:]


class Reason(enum.Enum):
    """Why something was refused: identifier, when it happens, what to do next, HTTP status."""

    when: str
    todo: str
    status: int

    def __new__(cls, value: str, when: str, todo: str, status: int = 409) -> Reason:
        member = object.__new__(cls)
        member._value_ = value
        member.when, member.todo, member.status = when, todo, status
        return member

    # Bytes that are not what they should be
    MALFORMED_JSON = ("malformed-json", "The bytes are not strict JSON.", "Write the file again with the program that made it.", 400)
    MALFORMED_YAML = ("malformed-yaml", "The text is outside the YAML subset of manifests.", "Correct the line that is shown.", 400)
    MALFORMED_TOML = ("malformed-toml", "The settings file is not TOML.", "Correct the line that is named.", 400)
    NOT_UTF8 = ("not-utf8", "The bytes are not strict UTF-8.", "Save the file as UTF-8.", 400)
    TOO_LARGE = ("too-large", "The bytes exceed the bound of their kind.", "Make it smaller; the message names the bound.", 400)

    # The gate
    GATE_FAILED = ("gate-failed", "The gate found what it was told to fail at.", "sdaqf check says of each finding what settles it.")

    # Values that break their contract
    CONTRACT_INVALID = ("contract-invalid", "A value breaks the contract of its record.", "Look at the member that is named.", 400)
    IDENTITY_MISMATCH = ("identity-mismatch", "An id or digest is not that of its content.", "The artifact was edited or damaged: build it again.", 400)
    ARTIFACT_TYPE = ("artifact-type", "The artifact is of another type than this place takes.", "Give the artifacts in the order of the usage line.", 400)
    MANIFEST_INVALID = ("manifest-invalid", "The manifest says something that cannot be meant.", "Correct the line that is shown.", 400)
    SETTINGS_INVALID = ("settings-invalid", "The settings hold something unknown or contradictory.", "Correct the key that is named.", 400)

    # Sources and references that cannot be adopted (also exclusion reasons inside artifacts)
    PROVENANCE_INVALID = ("provenance-invalid", "A file named as provenance is not the one that was recorded.", "Read what changed, then compile the manifest again.")
    AUTHORITY_INVALID = ("authority-invalid", "The source claims an authority that its kind, scope or producer does not allow.", "Claim a lower authority, or correct kind and producer.")
    SOURCE_BYTE_LIMIT = ("source-byte-limit", "A source has more than 262,144 bytes, or a reference more than 1,048,576.", "Split the file; no part of a larger one can be a source.")
    CHANGED = ("changed", "The file changed while it was read, or reads differently than recorded.", "Run again; if it stays, compile the manifest again.")
    DIGEST_MISMATCH = ("digest-mismatch", "The file is not the one that was recorded.", "Read what changed, then compile the manifest again.")
    MISSING_OR_UNREADABLE = ("missing-or-unreadable", "The file is missing, a link, not a regular file, not UTF-8, or shorter than the lines asked for.", "Restore the file or correct its path and lines.", 404)
    INVALID_JSON = ("invalid-json", "A source said to be immutable is not strict JSON.", "Correct the file, or give it another freshness.")
    SOURCE_TEXT_LIMIT = ("source-text-limit", "The selected text has more than 65,536 characters.", "Name a section, a symbol or lines of it.")
    SECRET_SHAPED = ("secret-shaped", "The selected text looks like a key or a token.", "Take the secret out, or select other lines.")
    TOTAL_SOURCE_BYTE_LIMIT = ("total-source-byte-limit", "The files of all sources together exceed 8,388,608 bytes.", "Leave out the largest sources.")
    PROVENANCE_UNAVAILABLE = ("provenance-unavailable", "A file named as provenance cannot be read as recorded.", "Restore it, then build again.")

    # Nodes left out by a query (exclusion reasons inside artifacts)
    SENSITIVITY_CLEARANCE = ("sensitivity-clearance", "The node is more sensitive than the query is cleared for.", "Raise the clearance if the reader may see it.")
    STALE = ("stale", "as_of lies outside the window in which the observation holds.", "Observe again.")
    NOT_RETRIEVED = ("not-retrieved", "Nothing in the query leads to the node.", "Name it: require, seeds, terms or identifiers.")
    CONTRADICTION_CLOSURE_UNAVAILABLE = ("contradiction-closure-unavailable", "The node contradicts another one that cannot be taken.", "Settle the other end first; its own reason says why.")
    NODE_BUDGET = ("node-budget", "The budget's number of nodes is used up.", "Raise budget.nodes.")
    EDGE_BUDGET = ("edge-budget", "The budget's number of edges is used up.", "Raise budget.edges.")
    BYTE_BUDGET = ("byte-budget", "The budget's bytes are used up.", "Raise the budget, or name what matters.")

    # Policy over artifacts
    CANDIDATE_MISMATCH = ("candidate-mismatch", "The tree is not the one that the artifact is bound to.", "Build again on the present tree.")
    CANDIDATE_MOVED = ("candidate-moved", "The tree changed while it was read.", "Let the other program finish, then run again.")
    CANONICAL_INVALID = ("canonical-invalid", "There is not exactly one canonical specification as the rules want it.", "Declare one `specification:`.")
    DUPLICATE_LOCATOR = ("duplicate-locator", "Two sources are the same lines of one file.", "Leave one of them out.")
    OWNER_ROOT = ("owner-root", "An owner root is needed and not given, or given and not needed.", "Give --owner-root exactly where owner sources are used.")
    CHAIN_MISMATCH = ("chain-mismatch", "The artifacts do not belong to one another.", "Give artifacts of one chain, or build them again.")
    REQUIRED_UNKNOWN = ("required-unknown", "The query names a node that the graph does not have.", "Compile the query again from this graph.")
    REQUIRED_NOT_CLEARED = ("required-not-cleared", "Required context is more sensitive than the query is cleared for.", "Raise the clearance if the reader may see it.")
    REQUIRED_STALE = ("required-stale", "Required context is outside its window at as_of.", "Observe again, then build.")
    REQUIRED_EXPIRED = ("required-expired", "Required context has expired by today's clock.", "Observe again, then build.")
    REQUIRED_UNAVAILABLE = ("required-unavailable", "Required context cannot be read as recorded.", "The message names the member and the cause.")
    REQUIRED_OVER_BUDGET = ("required-context-over-budget", "Required context does not fit the budget.", "Raise the budget, take a section of the largest, or require fewer.")
    TRAVERSAL_BOUND = ("traversal-bound", "What is reachable exceeds the query's depth, edges or nodes.", "Raise the bound that is named, or allow fewer edge types.")
    UNPUBLISHABLE = ("unpublishable", "The result could not be read back by anybody.", "Raise the clearance or settle the contradictions that are named.")
    PROPOSAL_INVALID = ("proposal-invalid", "The host summary proposal does not fit its snapshot.", "Make the proposal again from this snapshot.")
    ABOVE_CLEARANCE = ("above-clearance", "The document is more sensitive than this output is cleared for.", "--clearance says otherwise, if the reader may see it.", 403)
    CONTRADICTION_HIDDEN = ("contradiction-hidden", "A contradiction of a required source would vanish, because its other end was left out.", "Settle the source that was left out.")
    RENDER_TARGET = ("render-target", "A source is the file that the manifest renders into.", "Leave it out, or render into another file.")

    NO_LOCK = ("no-lock", "There is no lock: nobody has said what was reviewed.", "Review the pinned documents, then: sdaqf lock")
    LOCK_OUT_OF_DATE = ("lock-out-of-date", "The lock lacks a pinned source, or has one too many.", "sdaqf lock")

    # The repository and the machine
    NOT_A_REPOSITORY = ("not-a-repository", "There is no git work tree whose top is this folder.", "Give the top of a work tree.", 404)
    ROOT_IS_A_LINK = ("root-is-a-link", "The root itself is a symbolic link.", "Use the path that it points to.")
    REPOSITORY_UNSUPPORTED = ("repository-unsupported", "The repository is of a kind that the format cannot describe.", "The message says which, and what to do.")
    REPOSITORY_UNBORN = ("repository-unborn", "HEAD has no commit yet.", "Make the first commit.")
    FOREIGN_OWNER = ("foreign-owner", "The repository belongs to another user.", "Set SDAQF_ALLOW_OWNER to that user's number if you trust it.", 403)
    TREE_ENTRY = ("tree-entry", "The tree holds something that cannot be part of it.", "Remove or ignore the path that is named.")
    TREE_LIMIT = ("tree-limit", "The tree exceeds a limit.", "Exclude paths, or raise the limit that is named.")
    GIT_MISSING = ("git-missing", "There is no git program.", "Install git.", 500)
    GIT_FAILED = ("git-failed", "Git did not answer as it should.", "Run `git fsck`; the message quotes what git said.")
    OUTPUT_NOT_IGNORED = ("output-not-ignored", "Git would list what the program writes.", "`sdaqf doctor --repair` ignores the build folder again; what git tracks in it, untrack.")
    OWNER_SOURCES_SKIPPED = ("owner-sources-skipped", "The manifest has owner sources and no owner root is given.", "Give --owner-root or SDAQF_OWNER_ROOT.")

    EXTRA_MISSING = ("extra-missing", "A library that only this command needs is not installed.", "The message names what to install.", 500)

    # Places to write
    OUTPUT_EXISTS = ("output-exists", "The output is there already.", "Choose another name; nothing is overwritten.")
    OUTPUT_INVALID = ("output-invalid", "The output cannot be written there.", "Name a file in an existing folder that is not a link.", 400)
    WRITE_FAILED = ("write-failed", "The system refused to write.", "See to space and permissions, then run again.", 500)
    LOCKED = ("locked", "Another run holds the project.", "Wait for it, or raise --wait.")
    OBJECT_DAMAGED = ("tampered", "A stored object is not what its name says.", "Run `sdaqf build`: it is made again.", 500)
    OBJECT_MISSING = ("object-missing", "A stored object is not there.", "Run `sdaqf build`: it is made again.", 404)
    NOT_BUILT = ("not-built", "Nothing has been built for this yet.", "Run `sdaqf build`.", 404)
    UNKNOWN_NAME = ("unknown-name", "There is no manifest, query or stage of that name.", "`sdaqf status` lists them.", 404)

    # Shards: the command (ABSTRACTIONS 3 to 6)
    INVALID_SHARD = ("InvalidShard", "There is no shard of such a name.", "Write core, or project:ID.", 400)
    INVALID_COMMAND = ("InvalidAbstractionCommand", "The command is malformed or out of bounds.", "The message says what it takes.", 400)
    INVALID_REGION = ("InvalidRegionSpec", "A source is not region:PATH:FIRST-LAST, node:ID or intel:last_result.", "Write for example: region:src/a.py:3-9", 400)
    REGION_OUT_OF_RANGE = ("RegionOutOfRange", "The lines are not all in the file.", "Name lines that are there.", 400)
    REGION_TOO_LARGE = ("RegionTooLarge", "A region has more than 96 lines or 16,384 bytes; regions that touch are one.", "Name fewer lines.", 400)
    TOO_MANY_SOURCES = ("TooManySources", "A command names more than 8 sources.", "Name fewer.", 400)
    TOO_MANY_EXAMPLES = ("TooManyExamples", "The sources give more than 12 examples.", "Name fewer.", 400)
    INVALID_CONCEPT = ("InvalidConcept", "A concept is 1 to 64 of a-z 0-9 _ -.", "Write for example: retry_guard", 400)
    SOURCE_NOT_FOUND = ("SourceNotFound", "A source of the command is not there.", "Correct the path or the id.", 404)
    INTEL_RESULT_MISSING = ("IntelResultMissing", "There is no last result of code intelligence.", "Name the regions themselves.", 404)
    SOURCE_FILE_TOO_LARGE = ("SourceFileTooLarge", "A source file has more than 2 MiB.", "Name another file.")
    SOURCE_UNREADABLE = ("SourceUnreadable", "A source file cannot be read safely.", "The message says why.")
    SOURCE_NOT_UTF8 = ("NotUtf8", "A source file is not strict UTF-8 text.", "Save the file as UTF-8.")
    SECRET_SHAPED_TEXT = ("SecretShaped", "A text looks like a key or a token; nothing of it is kept.", "Take the secret out, or name other lines.")
    NOT_ENOUGH_EXAMPLES = ("NotEnoughExamples", "An abstraction needs at least two examples.", "Name regions that neither overlap nor touch.")
    NO_CONSENSUS = ("NoConsensus", "The examples have too little in common.", "Name examples that are alike.")
    BELOW_THRESHOLD = ("AbstractionBelowThreshold", "An example holds too few of the features that the others share.", "Leave it out, or name a better one.")
    PROTECTED_RECORD = ("ProtectedRecord", "The record is protected.", "sdaqf shard prune unprotect CONCEPT comes first.")
    CATALOG_FULL = ("CatalogFull", "A shard holds at most 4,096 records.", "Use another project shard.")
    CATALOG_TOO_LARGE = ("CatalogTooLarge", "A shard's records take at most 16 MiB.", "Use another project shard.")
    PARENT_NOT_FOUND = ("ParentNotFound", "The parent is neither live nor staged.", "Distil the parent first.", 404)
    PARENT_CYCLE = ("ParentCycle", "The parents lead back to the record.", "Choose another parent.")
    PARENT_CHAIN_TOO_LONG = ("ParentChainTooLong", "A record has at most 4 levels of parents.", "Choose a parent nearer to the root.")

    # Shards: reuse and merge
    REUSE_NEEDS_PROJECT = ("CrossShardReuseRequiresProjectShard", "Reuse decisions belong to a project shard.", "Mount one: --shard project:ID")
    ABSTRACTION_NOT_FOUND = ("AbstractionSourceNotFound", "There is no record of that concept where it must be.", "sdaqf shard list", 404)
    CONFLICT_NEEDS_CHOICE = ("CrossShardConflictRequiresPromoteOrReject", "The local record of that concept says something else.", "sdaqf shard reuse keep-local or reject")
    REUSE_DECISION_NOT_FOUND = ("ReuseDecisionNotFound", "There is no decision about that record.", "sdaqf shard list", 404)
    SELF_MERGE = ("SelfMergeNotAllowed", "A shard is not merged into itself.", "Name another shard.")
    EXPLORATORY_CONTENT = ("ExploratoryContentCannotBePromoted", "What nobody has accepted is not merged.", "Accept it in its own shard first.")
    PRUNABLE_CONTENT = ("PrunableContentCannotBePromoted", "What is prunable is not merged.", "Refresh it in its own shard first.")
    TRUST_NEEDS_HIGHER = ("TrustPromotionRequiresHigherDestination", "Promotion leads to a shard of higher trust.", "Use adopt.")
    USE_PROMOTE = ("UsePromoteForHigherTrustDestination", "A shard of higher trust is entered by promotion only.", "Use promote.")
    MERGE_CONFLICT = ("MergeConflictRefused", "The record that is there says something else.", "Merge it as another concept: as:CONCEPT")
    MERGE_PROTECTED = ("MergeProvenanceRefused", "The record that is there is protected.", "sdaqf shard prune unprotect CONCEPT comes first.")

    # Shards: sessions and states
    SCRATCH_ACTIVE = ("ScratchAlreadyActive", "A session is active already.", "sdaqf shard review; then commit or discard")
    SCRATCH_NOT_ACTIVE = ("ScratchNotActive", "There is no session.", "sdaqf shard begin")
    SCRATCH_SESSION_ACTIVE = ("ScratchSessionActive", "This is not done while a session is active.", "sdaqf shard commit or discard")
    SNAPSHOT_MISSING = ("SnapshotMissing", "Nothing was saved.", "sdaqf shard snapshot saves the live records")
    STATE_NOT_FOUND = ("StateNotFound", "There is no commit of that id in the chain.", "sdaqf shard log", 404)
    HAS_DEPENDENTS = ("HasDependents", "Staged work needs it.", "Drop what the message names first.")
    SESSION_CHANGED = ("SessionChanged", "Another session is active than the one that was named.", "sdaqf shard status")
    STATE_CHANGED = ("StateChanged", "The shard has moved on since.", "Look at it again: sdaqf shard status")
    NEEDS_A_PERSON = ("NeedsAPerson", "Only a person at a terminal accepts an agent's record.", "Run `sdaqf shard accept CONCEPT` at a terminal.", 403)
    NO_SHARD = ("no-shard", "The shard has not been created.", "sdaqf shard init", 404)
    SHARD_EXISTS = ("shard-exists", "The shard is there already.", "sdaqf shard status")

    # HTTP (ABSTRACTIONS 9)
    PORT_TAKEN = ("port-taken", "The port cannot be listened on.", "Name another: sdaqf serve --port 0 takes a free one.")
    HTTP_REQUEST = ("http-request", "The request is malformed, or more than one connection carries.", "The message says what is wrong.", 400)
    HTTP_HEAD_TOO_LARGE = ("http-head-too-large", "The head of the request has more than 16,384 bytes.", "Send fewer headers.", 431)
    HTTP_BODY_TOO_LARGE = ("http-body-too-large", "The body of the request has more than 65,536 bytes.", "Send several requests.", 413)
    HTTP_TIME = ("http-time", "The request took more than its time.", "Send it whole; after a change, look at /api/state first.", 408)
    HTTP_ORIGIN = ("http-origin", "The request is for another host, or comes from a page of another origin.", "Use the URL that `sdaqf serve` printed.", 403)
    HTTP_TOKEN = ("http-token", "The request has no token, or a wrong one.", "Send the token of the file that `sdaqf serve` named.", 401)
    HTTP_PATH = ("http-path", "There is nothing of that path.", "docs/http.md lists the routes.", 404)
    HTTP_METHOD = ("http-method", "The path takes another method.", "The header Allow names it.", 405)
    HTTP_MEDIA = ("http-media", "The body is of a kind that is not taken.", "Send text/plain, or application/json.", 415)


def reason_of(text: str) -> Reason | None:
    """The reason that `text` identifies, if any: artifacts made elsewhere may hold other words."""
    return next((reason for reason in Reason if reason.value == text), None)


class SdaqfError(Exception):
    """A refusal. `where` is a member's path (`content/nodes/3/text`) or `file:line:column`; `todo` says what to do next.

    `excerpt` holds lines that show the place. No message holds an absolute path or the text of a source.
    """

    error = "context-contract-invalid"

    def __init__(self, reason: Reason, message: str, *, at: Place = (), todo: str | None = None, excerpt: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
        self.where = at if isinstance(at, str) else "/".join(str(step) for step in at)
        self.todo = todo if todo is not None else reason.todo
        self.excerpt = tuple(excerpt)
        self.origin: Any = None  # what was refused (`flow.run.Origin`), of which `flow.blocked` makes a record
        self.record = ""  # that record, in a line for people

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class Malformed(SdaqfError):
    """Not acceptable bytes: JSON, YAML, UTF-8, sizes."""


class Invalid(SdaqfError, ValueError):
    """A value breaks its contract. Also a ValueError, so that msgspec keeps it as a cause and adds the path."""


class Unreadable(SdaqfError):
    """A file could not be safely observed."""


class Refused(SdaqfError):
    """Well-formed, and policy says no."""


class Conflict(SdaqfError):
    """The place to write or the session is taken."""


class Severity(enum.Enum):
    """How much a finding weighs, heaviest first."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"
    OFF = "off"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Finding(enum.Enum):
    """What `check` finds: identifier, usual severity, what it means, what settles it (PIPELINE 3)."""

    severity: Severity
    means: str
    settles: str

    def __new__(cls, value: str, severity: Severity, means: str, settles: str) -> Finding:
        member = object.__new__(cls)
        member._value_ = value
        member.severity, member.means, member.settles = severity, means, settles
        return member

    CHANGED = ("changed", Severity.ERROR, "A pinned text is not the one that was reviewed.", "Read it, then: sdaqf lock --only PATH")
    MISSING = ("missing", Severity.ERROR, "A pinned file, or the part of it that is pinned, is gone.", "Correct the path, or restore it")
    RENAMED = ("renamed", Severity.ERROR, "A pinned file was moved; git knows where to.", "sdaqf lock --moved")
    MOVED = ("moved", Severity.ERROR, "Pinned lines stand elsewhere in their file, exactly once.", "sdaqf lock --moved")
    NO_LOCK = ("no-lock", Severity.ERROR, "There is no lock: nobody has said what was reviewed.", "sdaqf lock")
    LOCK_OUT_OF_DATE = ("lock-out-of-date", Severity.ERROR, "The lock lacks a pinned source, or has one too many.", "sdaqf lock")
    PHANTOM = ("phantom", Severity.ERROR, "No commit of that path ever had the pinned text.", "On a clean tree: sdaqf lock --only PATH")
    LINE_ENDINGS = ("line-endings", Severity.ERROR, "The pinned text has other line ends here.", "Set them in .gitattributes, then check the file out again")
    LFS_POINTER = ("lfs-pointer", Severity.ERROR, "A pointer of git-lfs stands in place of the file.", "git lfs pull")
    EXPIRED = ("expired", Severity.ERROR, "An observation is past its window.", "Observe again, then: sdaqf lock --observed now")
    TAMPERED = ("tampered", Severity.ERROR, "A stored object is not what its name says.", "sdaqf build")
    CONTRADICTION_HIDDEN = ("contradiction-hidden", Severity.WARNING, "A contradiction is not shown, because one end was left out.", "Settle the source that was left out")
    BLOCK_EDITED = ("block-edited", Severity.ERROR, "A generated block was edited by hand.", "sdaqf render NAME --into FILE")
    BLOCK_OUT_OF_DATE = ("block-out-of-date", Severity.ERROR, "A generated block is not what its context gives now.", "sdaqf render NAME --into FILE")
    REFUSED = ("refused", Severity.ERROR, "The manifest cannot be compiled at all.", "What the message says")
    DRIFTED = ("drifted", Severity.WARNING, "A published abstraction is not what its examples, or its shard, say now.", "Distil it again, or refresh it where it still holds; then publish it")
    DEAD_MENTION = ("dead-mention", Severity.WARNING, "A document names a path, or lines, that are not there any more.", "Edit the document")
    EXPIRES_SOON = ("expires-soon", Severity.WARNING, "An observation ends soon.", "Observe again, then: sdaqf lock --observed now")
    RE_PINNED = ("re-pinned", Severity.NOTICE, "This change says that it reviewed another version.", "A reviewer looks at it")
    DIRTY = ("dirty", Severity.NOTICE, "As reviewed, and not committed yet.", "Commit it")
    NOT_CHECKED = ("not-checked", Severity.NOTICE, "Something could not be checked; it is never shown as a pass.", "What the message says")
