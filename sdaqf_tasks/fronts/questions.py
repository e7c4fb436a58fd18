"""This module answers `explain` and `rule`. Nothing is written.

Each returns plain values in the order in which people read them.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from sdaqf_tasks.context.explain import Explanation, Told
from sdaqf_tasks.context.query import Origins
from sdaqf_tasks.errors import Finding, Reason, Refused, SdaqfError
from sdaqf_tasks.flow import stages
from sdaqf_tasks.flow.build import held
from sdaqf_tasks.flow.project import Chain, ManifestFile
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.status import status
from sdaqf_tasks.formats.declaration import DEFAULT, Declared
from sdaqf_tasks.formats.entries import meant
from sdaqf_tasks.formats.plain_yaml import nearest
from sdaqf_tasks.formats.records import Metadata

Result = dict[str, Any]

_START_OF_ID = re.compile(r"CTX-(?:NODE|SOURCE)-[0-9A-F]{4,64}")


def explain(run: Run, label: str, wanted: str | None = None) -> Result:
    """Why the sources of a context are in or out, in the order of rank; all about one, where `wanted` is one.

    `wanted` is an alias, a path (`docs/a.md`, or `docs/a.md:1-40`), or a node's or source's id or its beginning. Raises
    `Refused`: UNKNOWN_NAME, NOT_BUILT.
    """
    if wanted is None:
        _verify_no_source(run, label)
    chain, state = chain_of(run, label)
    built = run.store.ref(stages.ref_name(chain, "snapshot")) is not None
    manifest, graph, selection = (held(run, chain, name, state["next"] or None) for name in ("manifest", "graph", "selection"))
    told = Told(manifest, graph, selection, held(run, chain, "snapshot") if built else None)
    explanation, declared = Explanation(told), _declared(run, chain, told)
    entries = explanation.listing()
    for position, entry in enumerate(entries, 1):
        found = declared.get(entry["source_id"])
        entry |= {"alias": found.alias if found else None, "position": position}
    chosen = [entry for entry in entries if wanted is None or _is_meant(wanted, entry)]
    if wanted is not None and not chosen:
        known = {name for entry in entries for name in (entry["alias"], _path(entry)) if name}
        message = f"{label} has no source {wanted[:80]!a}{meant(wanted, known)}"
        raise Refused(Reason.UNKNOWN_NAME, message, todo=f"`sdaqf explain {label}` lists them.")
    content = told.selection.content
    result = {
        "context": chain.label,
        "state": state["state"],
        "why": state["why"],
        "budget": {"bytes": content.budget_bytes, "used": content.used_bytes},
        "clearance": content.query.clearance.value,
        "as_of": content.as_of,
        "sources": chosen,
        "detail": None,
    }
    if wanted is not None and len(chosen) == 1:
        (entry,), source_id = chosen, chosen[0]["source_id"]
        source = declared.get(source_id)
        members = sum(other["alias"] == entry["alias"] for other in entries)
        origin = _origin(source, explanation.sources[source_id]) if source else {}
        result["detail"] = explanation.of(source_id) | {"alias": entry["alias"], "alias_members": members, "origin": origin}
    return result


def _verify_no_source(run: Run, label: str) -> None:
    """Refuse a source where a context belongs, with the command that was meant."""
    manifests, path = run.project.manifests, label.partition(":")[0]
    if label.partition(".")[0] in {manifest.name for manifest in manifests}:
        return
    if name := next((manifest.name for manifest in manifests if _takes(run, manifest, path)), "NAME" if "/" in path else ""):
        message = f"{label[:80]!a} is a source, not a context"
        raise Refused(Reason.UNKNOWN_NAME, message, todo=f"Say: sdaqf explain {name} {shlex.quote(label)}")


def _takes(run: Run, manifest: ManifestFile, path: str) -> bool:
    try:
        return any(declared.takes(path) for declared in run.reading(manifest).declaration.sources)
    except SdaqfError:
        return False


def _path(entry: Result) -> str:
    return str(entry["source"]).rpartition(":")[0]


def _is_meant(wanted: str, entry: Result) -> bool:
    if _START_OF_ID.fullmatch(wanted):
        return any((entry[name] or "").startswith(wanted) for name in ("node_id", "source_id"))
    return wanted in (entry["alias"], entry["source"], _path(entry))


def chain_of(run: Run, label: str) -> tuple[Chain, Result]:
    """The chain of NAME or NAME.QUERY, and what `status` says of it."""
    name, _, asked = label.partition(".")
    manifest = run.project.manifest(name)
    entries = status(run, [manifest.name])["contexts"]
    chain = Chain(manifest.name, asked or DEFAULT)
    known = [entry["context"] for entry in entries]
    if entries[0]["state"] != "blocked" and chain.label not in known:
        close = nearest(chain.label, known) or known[0]
        message = f"there is no context {label[:80]!a}; did you mean {close}?"
        raise Refused(Reason.UNKNOWN_NAME, message, todo=f"There are: {', '.join(known)}")
    return chain, next((entry for entry in entries if entry["context"] == chain.label), entries[0])


def _declared(run: Run, chain: Chain, told: Told) -> dict[str, Declared]:
    """Where each source is written in the YAML as it is now; nothing where it cannot be read."""
    try:
        declaration = run.reading(run.project.manifest(chain.manifest)).declaration
    except SdaqfError:
        return {}
    origins = Origins(declaration)
    return {source.source_id: declared for source in told.manifest.content.sources if (declared := origins.of(source))}


def _origin(declared: Declared, member: Metadata) -> Result:
    """Where authority and sensitivity come from: `file:line:column`, or the default that holds (PIPELINE 2)."""
    origin = {}
    for what in ("authority", "sensitivity"):
        value, spot = getattr(member, what), declared.says(what)
        usual = "the default" if value is getattr(declared, what) else "the YAML, which has changed since"
        origin[what] = {"value": value.value, "from": spot.document.place(spot.path) if spot else usual}
    return origin


# ---- rule -----------------------------------------------------------------------------------------------------------


def rule(code: str | None = None) -> list[Result]:
    """What a finding or a reason means, and what to do; all of them without a code. Raises `Refused` with UNKNOWN_NAME."""
    known = [_rule(finding.value, finding.severity.value, finding.means, finding.settles) for finding in Finding]
    known += [_rule(reason.value, None, reason.when, reason.todo) for reason in Reason]
    found = sorted((one for one in known if code in (None, one["code"])), key=lambda one: (one["code"], one["kind"]))
    if not found and code is not None:
        codes = sorted({one["code"] for one in known})
        close = nearest(code, codes) or next((other for other in codes if code in other), None)
        message = f"there is no rule {code[:60]!a}" + (f"; did you mean {close}?" if close else "")
        raise Refused(Reason.UNKNOWN_NAME, message, todo="`sdaqf rule` lists them all.")
    return found


def _rule(code: str, severity: str | None, means: str, todo: str) -> Result:
    return {"code": code, "kind": "finding" if severity else "reason", "severity": severity, "means": means, "todo": todo}
