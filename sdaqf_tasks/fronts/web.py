"""This module serves one shard over HTTP to programs of the same user on the same machine (ABSTRACTIONS 9).

Who may ask is settled before what is asked. A request names this very server in `Host`, comes from no page of another
origin, and carries the token of a file that only the user can read. A browser sends the first two by itself, so that no
page can speak for its reader; the third keeps out the other users of the machine.
"""

from __future__ import annotations

import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sdaqf_tasks.disk import files
from sdaqf_tasks.errors import Invalid, Malformed, Reason, Refused, SdaqfError
from sdaqf_tasks.flow import report, shard_views
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.flow.shards import Expected, Workbench, mounted
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.fronts import commands, listening
from sdaqf_tasks.fronts.voice import Exit, Voice
from sdaqf_tasks.shards.lookup import HINTS, Query
from sdaqf_tasks.shards.records import Front, Shard, concept

_STATE_TAG = re.compile(r'"(SHARD-STATE-[0-9A-F]{64})"')

View = Mapping[str, Any]


class Asked(NamedTuple):
    """A request that was let in, as the functions of the table take it. `until` is when its answer should be ready."""

    bench: Workbench
    request: Request
    body: bytes
    until: float


class Told(NamedTuple):
    """What is answered."""

    view: View
    status: int = 200


def run(options: commands.Options, voice: Voice) -> int:
    """Serve the mounted shard until a signal ends it."""
    project = commands.project_here()
    which = mounted(project, options.shard)
    bench = Workbench(project, which, Front.HTTP)
    store = bench.store
    store.head()  # it is there
    bench.verify_untracked()
    store.verify_ignored()
    with listening.listen(options.port) as socket:
        port, token = socket.getsockname()[1], secrets.token_urlsafe(32)
        place = store.root / f"token-{port}"  # nobody else has the port, and so the file
        server = listening.server(application(project, which, token, port), listening.Bounds())
        files.replace(place, f"{token}\n".encode("ascii"))
        try:
            url, named = f"http://{listening.LOOPBACK}:{port}", place.relative_to(project.top).as_posix()
            line = f"{which} at {url} · token in {named} · Ctrl-C ends it"
            voice.answer({"url": url, "shard": str(which), "token_file": named}, [line], as_json=options.json)
            server.run(sockets=[socket])
        finally:
            files.remove(place)
    return Exit.DONE


# ---- who may ask ----------------------------------------------------------------------------------------------------


def verify_admitted(path: str, headers: Headers, token: str, port: int) -> None:
    """Raises `Refused`: HTTP_ORIGIN, HTTP_TOKEN."""
    hosts = [f"{name}:{port}" for name in (listening.LOOPBACK, "localhost")]
    if headers.get("host") not in hosts:
        raise Refused(Reason.HTTP_ORIGIN, f"this is {' or '.join(hosts)}", at="host")
    if headers.get("origin") not in (None, *(f"http://{host}" for host in hosts)):
        raise Refused(Reason.HTTP_ORIGIN, "a page of another origin is not heard", at="origin")
    if headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
        raise Refused(Reason.HTTP_ORIGIN, "a page of another site is not heard", at="sec-fetch-site")
    given = headers.get("authorization", "").encode("utf-8")
    if path != "/health" and not hmac.compare_digest(given, f"Bearer {token}".encode("ascii")):
        raise Refused(Reason.HTTP_TOKEN, "the token of this server is wanted: Authorization: Bearer TOKEN", at="authorization")


def guarded(app: ASGIApp, token: str, port: int) -> ASGIApp:
    """The application behind its door."""

    async def admit(scope: Scope, receive: Receive, send: Send) -> None:
        answering = app
        try:
            verify_admitted(scope["path"], Headers(scope=scope), token, port)
        except Refused as error:
            answering = _refusal(error, "")
        await answering(scope, receive, send)

    return admit


# ---- what may be asked ----------------------------------------------------------------------------------------------


def _abstractions(asked: Asked) -> Told:
    """The live records, or what supports a query where one is given."""
    given = asked.request.query_params
    if not given:
        return Told(shard_views.records(asked.bench))
    hint = next((hint for hint in HINTS if hint == given.get("hint")), None)
    if "hint" in given and hint is None:
        raise _malformed(f"one of {', '.join(HINTS)}", "hint")
    paths, tokens, patterns = map(given.getlist, ("path", "token", "pattern"))
    return Told(shard_views.support(asked.bench, paths, tokens, patterns, hint, _limit(asked, Query().limit)))


def _abstraction(asked: Asked) -> Told:
    return Told(shard_views.shown(asked.bench, concept(asked.request.path_params["concept"])))


def _log(asked: Asked) -> Told:
    return Told(shard_views.log(asked.bench, _limit(asked, 50)))


def _sigil(asked: Asked) -> Told:
    """Run what the body says, line by line; what was done stays done when a later line is refused.

    Where the client names a state or a session, the first line is held against it, and each later one against the state
    that the line before it made: nobody else's change comes between them.
    """
    lines, expected = _script(asked), _expected(asked.request.headers)
    results: list[View] = []
    try:
        for line in lines:
            if results and time.monotonic() > asked.until:
                raise Refused(Reason.HTTP_TIME, "the time of the request is over; this line and those after it were not run")
            results += asked.bench.run([line], expected=expected)
            expected = Expected(state=results[-1]["state"]) if expected != Expected() else expected
    except SdaqfError as error:
        if len(lines) == 1:
            raise
        refusal = report.error_object(error, "sigil")
        return Told({"status": "refused", "results": results, "refusal": refusal}, error.reason.status)
    return Told(results[0] if len(lines) == 1 else {"status": "ok", "results": results})


def _script(asked: Asked) -> list[str]:
    """The lines of the body, one at least."""
    kind, _, parameter = (part.strip() for part in asked.request.headers.get("content-type", "").lower().partition(";"))
    if kind not in ("text/plain", "application/json") or parameter not in ("", "charset=utf-8"):
        raise Malformed(Reason.HTTP_MEDIA, "a body is text/plain or application/json, in UTF-8", at="content-type")
    if kind == "text/plain":
        try:
            text = asked.body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(Reason.NOT_UTF8, f"byte {error.start} is not UTF-8") from None
    else:
        value = canonical.load(asked.body)
        if not isinstance(value, dict) or value.keys() != {"script"} or not isinstance(value["script"], str):
            raise Invalid(Reason.CONTRACT_INVALID, 'write {"script": "…"}')
        text = value["script"]
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise Refused(Reason.INVALID_COMMAND, "there is no command")
    return lines


def _expected(headers: Headers) -> Expected:
    found = _STATE_TAG.fullmatch(headers.get("if-match", ""))
    if "if-match" in headers and not found:
        raise _malformed('one state, as the ETag of an answer: "SHARD-STATE-…"', "if-match")
    return Expected(headers.get("sdaqf-session"), found[1] if found else None)


def _limit(asked: Asked, usual: int) -> int:
    text, *more = asked.request.query_params.getlist("limit") or [str(usual)]
    if more or not commands.LIMIT.fullmatch(text):
        raise _malformed("one number from 1 to 1000", "limit")
    return int(text)


def _malformed(message: str, at: str) -> Malformed:
    return Malformed(Reason.HTTP_REQUEST, message, at=at)


class Row(NamedTuple):
    """A route: what it is called in refusals, what tells its answer, and the parameters that a query may have."""

    method: str
    path: str
    operation: str
    tell: Callable[[Asked], Told]
    takes: frozenset[str] = frozenset()


ROUTES = (
    Row("GET", "/health", "health", lambda asked: Told({"status": "ok"})),
    Row("GET", "/api/state", "state", lambda asked: Told(shard_views.status(asked.bench))),
    Row("GET", "/api/abstractions", "abstractions", _abstractions, frozenset({"path", "token", "pattern", "hint", "limit"})),
    Row("GET", "/api/abstractions/{concept}", "abstractions", _abstraction),
    Row("GET", "/api/reuse", "reuse", lambda asked: Told(shard_views.reuse(asked.bench))),
    Row("GET", "/api/log", "log", _log, frozenset({"limit"})),
    Row("POST", "/api/sigil", "sigil", _sigil),
)


# ---- the application ------------------------------------------------------------------------------------------------


def application(project: Project, which: Shard, token: str, port: int) -> Starlette:
    """The routes on a shard, for whoever holds the token. Every answer is one JSON document, those to defects too."""

    def route(row: Row) -> Route:
        async def answer(request: Request) -> Response:
            until: float = request.state.until
            bench = Workbench(project, which, Front.HTTP, wait=max(0, until - time.monotonic()))
            try:
                if unknown := sorted(request.query_params.keys() - row.takes):
                    raise _malformed("not a parameter here", unknown[0][:80])
                told = await run_in_threadpool(row.tell, Asked(bench, request, await request.body(), until))
            except SdaqfError as error:
                return _refusal(error, row.operation)
            except ClientDisconnect:  # before the body was looked at
                return Response()
            return _response(told.view, told.status)

        return Route(row.path, answer, methods=[row.method])

    made = Starlette(
        routes=[route(row) for row in ROUTES],
        middleware=[Middleware(guarded, token=token, port=port)],
        exception_handlers={HTTPException: _misrouted, Exception: _defect},
    )
    made.router.redirect_slashes = False
    return made


def _response(view: View, status: int, headers: Mapping[str, str] | None = None) -> Response:
    told = view["results"][-1] if view.get("results") else view
    tag = {"ETag": f'"{told["state"]}"'} if "state" in told else {}
    return Response(listening.document(view), status, {**listening.HEADERS, **tag, **(headers or {})})


def _refusal(error: SdaqfError, operation: str, headers: Mapping[str, str] | None = None) -> Response:
    wanted = {"WWW-Authenticate": "Bearer"} if error.reason is Reason.HTTP_TOKEN else {}
    return _response(report.error_object(error, operation), error.reason.status, {**wanted, **(headers or {})})


async def _misrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return _refusal(Refused(Reason.HTTP_METHOD, "the path takes another method; Allow names it"), "", error.headers)
    return _refusal(Refused(Reason.HTTP_PATH, "there is nothing of that name"), "")


async def _defect(request: Request, error: Exception) -> Response:
    message = "a defect of this program; its traceback is on its stderr"
    return _response({"error": "defect", "operation": "", "reason": "defect", "where": "", "message": message}, 500)
