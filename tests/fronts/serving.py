"""This module serves a shard in a thread of this process, and talks to it as nothing but bytes."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from starlette.types import ASGIApp

from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.flow.shards import Workbench
from sdaqf_tasks.fronts import listening, web
from sdaqf_tasks.fronts.listening import Bounds
from sdaqf_tasks.shards.records import Front, shard
from tests import repositories

TOKEN = "a-token-of-the-tests"
GUARD = (
    "def {name}(client):\n    for attempt in range(3):\n        if client.{name}(attempt):\n            return attempt\n    return None\n"
)
FILES = {f"src/{name}.py": GUARD.format(name=name) for name in ("send", "fetch")}
DISTIL = "/commit_abstractions retry region:src/send.py:1-5 region:src/fetch.py:1-5"


class Answer(NamedTuple):
    """An answer as it came: one document, which parses."""

    status: int
    headers: Mapping[str, str]
    value: Any

    @property
    def reason(self) -> str:
        """The reason of a refusal, which is the one object that every front gives."""
        assert set(self.value) == {"error", "operation", "reason", "where", "message"}
        reason: str = self.value["reason"]
        return reason


class Served(NamedTuple):
    """A server on a free port, and the shard behind it."""

    project: Project
    port: int

    @property
    def bench(self) -> Workbench:
        return Workbench(self.project, shard("project:default"), Front.CLI)

    @property
    def state(self) -> str:
        return self.bench.desk().state_id

    def head(self, method: str = "POST", path: str = "/api/sigil", fields: Mapping[str, str | None] | None = None) -> bytes:
        """The head of a request that is let in, with these fields set, or left out where None."""
        usual = {"Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {TOKEN}", **(fields or {})}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in usual.items() if value is not None)]
        return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")

    def request(self, method: str, path: str, body: str | bytes | None = None, **fields: str | None) -> bytes:
        data = body.encode() if isinstance(body, str) else body
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        if data is not None:
            named = {"Content-Type": "text/plain", "Content-Length": str(len(data)), **named}
        return self.head(method, path, named) + (data or b"")

    def get(self, path: str, **fields: str | None) -> Answer:
        return self.talk(self.request("GET", path, **fields))

    def post(self, script: str | bytes, **fields: str | None) -> Answer:
        return self.talk(self.request("POST", "/api/sigil", script, **fields))

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def talk(self, data: bytes, *, half_close: bool = False) -> Answer:
        """Send bytes, and read one answer to the end of the connection."""
        with self.connect() as sock:
            sock.sendall(data)
            if half_close:
                sock.shutdown(socket.SHUT_WR)
            return parsed(read(sock))


def read(sock: socket.socket) -> bytes:
    """All bytes until the peer ends."""
    found = b""
    while piece := sock.recv(65_536):
        found += piece
    return found


def parsed(data: bytes) -> Answer:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    assert len(headers) == len(lines)
    assert {name.lower(): value for name, value in listening.HEADERS.items()}.items() <= headers.items()
    assert int(headers["content-length"]) == len(body)
    return Answer(int(first.split(" ")[1]), headers, json.loads(body))


@contextlib.contextmanager
def served(
    folder: Path,
    bounds: Bounds = Bounds(),  # noqa: B008
    watched: Callable[[ASGIApp], ASGIApp] = lambda application: application,
) -> Iterator[Served]:
    """A new repository with a shard, served until the end; by the application as `watched` gives it back."""
    project = Project(repositories.make(folder / "repository", FILES).path)
    Workbench(project, shard("project:default"), Front.CLI).create()
    with listening.listen(0) as sock:
        found = Served(project, sock.getsockname()[1])
        server = listening.server(watched(web.application(project, shard("project:default"), TOKEN, found.port)), bounds)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            yield found
        finally:
            server.should_exit = True
            thread.join()
