"""This module holds the policies that relate an artifact to the world: candidate, owner root, evidence (FORMAT 4 to 6).

Each function returns where the rule holds and raises `Refused` or `Unreadable` with the reason where it does not.
"""

from __future__ import annotations

from collections.abc import Iterable

from sdaqf_tasks.errors import Malformed, Reason, Refused, SdaqfError, Unreadable
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Relationship
from sdaqf_tasks.formats.records import CandidateIdentity, Edge, FreshnessKind, Metadata, Node, Provenance, RootScope
from sdaqf_tasks.world import SOURCE_BYTES, Sources, observe, observe_reference


def verify_candidate(sources: Sources, candidate: CandidateIdentity) -> None:
    """The tree is the one that `candidate` names (FORMAT 4.2)."""
    tree = sources.tree()
    if tree.git_head != candidate.git_head:
        message = f"HEAD is {tree.git_head[:12]}, the artifact names {candidate.git_head[:12]}"
        raise Refused(Reason.CANDIDATE_MISMATCH, message, at="candidate/git_head")
    if tree.repository_digest != candidate.repository_digest:
        raise Refused(Reason.CANDIDATE_MISMATCH, "the files are not those that the artifact names", at="candidate/repository_digest")


def verify_owner_root(members: Iterable[Metadata], given: bool) -> None:
    """An owner root is given exactly where a member lies under it."""
    needed = any(member.locator.root_scope is RootScope.OWNER for member in members)
    if needed != given:
        lacks = "there are owner sources and no owner root is given"
        raise Refused(Reason.OWNER_ROOT, lacks if needed else "an owner root is given and no source lies under it")


def observe_member(sources: Sources, member: Metadata) -> tuple[bytes, str]:
    """File and selected text of a source or node; an immutable one is strict JSON as a whole file (FORMAT 1.4, 5)."""
    data, text = observe(sources, member.locator)
    if member.freshness.kind is FreshnessKind.IMMUTABLE:
        try:
            canonical.load(data, SOURCE_BYTES)
        except Malformed as error:
            raise Unreadable(Reason.INVALID_JSON, f"{member.locator.path} is said to be immutable: {error}") from None
    return data, text


def verify_node(sources: Sources, node: Node, as_of: str) -> None:
    """The text of a node is still that of its file, and holds at `as_of`. Its provenance is *not* looked at."""
    if observe_member(sources, node)[1] != node.text:
        raise Unreadable(Reason.CHANGED, "the selected text is not the one that was recorded")
    if not node.freshness.holds_at(as_of):
        raise Unreadable(Reason.STALE, f"holds until {node.freshness.valid_until}; as_of is {as_of}")


def observe_provenance(sources: Sources, scope: RootScope, provenance: Provenance) -> None:
    """Every file that the provenance names is there, and is the one that was recorded."""
    for reference in provenance.references:
        observe_reference(sources, scope, reference)


def verify_relation(sources: Sources, relation: Relationship | Edge, *at: str | int) -> None:
    """The provenance of a relation, under the repository root whatever its ends are."""
    try:
        observe_provenance(sources, RootScope.REPOSITORY, relation.provenance)
    except Unreadable as error:
        raise unavailable(error, f"the provenance of a relationship ({relation.edge_type.value})", *at) from None


def unavailable(error: SdaqfError, what: str, *at: str | int) -> Refused:
    """The refusal that an unreadable member causes where it is required; the cause's reason stays its reason."""
    return Refused(error.reason, f"{what}: {error.message}", at=at, todo=error.todo)
