"""This module stands between a socket and an application: what is read, how much of it, and for how long.

One connection is one request. Its bytes are collected here and held against a grammar so much narrower than HTTP's that
a request can be read in one way only; what fits is handed on whole, everything else is refused before any of it is acted
upon:

    a head of at most 16,384 bytes: printable ASCII in lines that end with CRLF
    METHOD /TARGET HTTP/1.1, then lines of NAME: VALUE, none folded and no name twice
    a Host; no Transfer-Encoding, Upgrade or Expect
    no body, or one of Content-Length bytes, a plain number up to 65,536; and nothing after it

A connection ends when its answer has been sent, and at the latest when its time is over, whatever its peer does.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from http import HTTPStatus
from typing import Any, NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sdaqf_tasks.errors import Conflict, Malformed, Reason, Refused, SdaqfError, shown
from sdaqf_tasks.flow import report

LOOPBACK = "127.0.0.1"
HEAD_BYTES, BODY_BYTES = 16_384, 65_536
LINGER = 1.0
"""Seconds that a refused connection is drained for, so that its peer can read why."""

HEADERS = {
    "Content-Type": "application/json",
    "Connection": "close",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""What every answer carries."""

_FOREIGN = re.compile(rb"[^\r\n -~]|(?<!\r)\n|\r[^\n]")
_REQUEST = re.compile(rb"[A-Z]{1,16} /[!-~]* HTTP/1\.1")
_FIELD = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_`|~-]+):([ -~]*)")
_LENGTH = re.compile(rb"0|[1-9][0-9]*")
_END = b"\r\n\r\n"
_NEVER = (b"transfer-encoding", b"upgrade", b"expect")


class Bounds(NamedTuple):
    """Seconds that a connection may take, from its first moment to the end of its answer; and how many there may be."""

    seconds: float = 10
    connections: int = 64


def document(value: Any) -> bytes:
    """A value as the JSON document of an answer: sorted keys, ASCII."""
    return json.dumps(value, sort_keys=True).encode("ascii") + b"\n"


def body_bytes(head: bytes) -> int:
    """How long the body is that a head announces. `head` ends before the empty line. Raises `Malformed`."""
    first, *lines = head.split(b"\r\n")
    if not _REQUEST.fullmatch(first):
        raise _not_http("the first line is not METHOD /PATH HTTP/1.1")
    fields: dict[bytes, bytes] = {}
    for line in lines:
        if not (found := _FIELD.fullmatch(line)):
            raise _not_http("a header is not NAME: VALUE on one line")
        name = found[1].lower()
        if name in fields or name in _NEVER:
            raise _not_http("the header is there twice" if name in fields else "the header is not taken here", name)
        fields[name] = found[2].strip(b" ")
    if b"host" not in fields:
        raise _not_http("there is no Host header")
    length = fields.get(b"content-length", b"0")
    if not _LENGTH.fullmatch(length):
        raise _not_http("not a plain number", b"content-length")
    if len(length) > 9 or int(length) > BODY_BYTES:
        raise Malformed(Reason.HTTP_BODY_TOO_LARGE, f"a body has at most {BODY_BYTES} bytes")
    return int(length)


def _not_http(message: str, header: bytes = b"") -> Malformed:
    return Malformed(Reason.HTTP_REQUEST, message, at=shown(header.decode("ascii")))


class Connection(H11Protocol):
    """One connection: collecting, then with the application or refused; `_taken` says that no byte is awaited any more."""

    bounds = Bounds()
    _timer: asyncio.TimerHandle | None = None
    _taken = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.bounds.connections:
            self._taken = True
            transport.abort()
            return
        super().connection_made(transport)
        self._collected, self._looked, self._whole = bytearray(), 0, 0
        self._timer = self.loop.call_later(self.bounds.seconds, self._overdue)
        self.app_state = {**self.app_state, "until": time.monotonic() + self.bounds.seconds * 0.8}

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer:
            self._timer.cancel()
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._taken:
            return
        self._collected += data
        try:
            self._taken = self._is_whole()
        except SdaqfError as error:
            self._refuse(error)
        else:
            if self._taken:
                super().data_received(bytes(self._collected))

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether to stay, although the peer will send no more: for an answer that it waits for."""
        if self._taken:
            return self.cycle is not None and not self.cycle.response_complete
        if self._collected:
            self._refuse(_not_http("the request ended before it was whole"))
        return False

    def send_400_response(self, msg: str) -> None:
        self._refuse(_not_http("the request is not HTTP/1.1"))

    def _is_whole(self) -> bool:
        if not self._whole:
            end = self._collected.find(_END, max(0, self._looked - 3))
            stop = end if end >= 0 else len(self._collected)
            if (end + len(_END) if end >= 0 else stop + 1) > HEAD_BYTES:
                raise Malformed(Reason.HTTP_HEAD_TOO_LARGE, f"a head has at most {HEAD_BYTES} bytes")
            if _FOREIGN.search(self._collected, max(0, self._looked - 1), stop):
                raise _not_http("a head is printable ASCII in lines that end with CRLF")
            self._looked = stop
            if end < 0:
                return False
            self._whole = end + len(_END) + body_bytes(bytes(self._collected[:end]))
        if len(self._collected) > self._whole:
            raise _not_http("there is more after the request, and a connection takes one")
        return len(self._collected) == self._whole

    def _overdue(self) -> None:
        if self._taken:
            self.transport.abort()
        else:
            self._refuse(Refused(Reason.HTTP_TIME, f"a request has {self.bounds.seconds:g} seconds"))

    def _refuse(self, error: SdaqfError) -> None:
        """Say why, and close for good a moment later: what is left unread at a close may take the answer with it."""
        self._taken = True
        body, status = document(report.error_object(error, "")), HTTPStatus(error.reason.status)
        fields = {**HEADERS, "Content-Length": str(len(body))}
        head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status} {status.phrase}", *map(": ".join, fields.items()), ""))
        self.transport.write(head.encode("ascii") + body)
        self.transport.write_eof()
        if self._timer:
            self._timer.cancel()
        self._timer = self.loop.call_later(LINGER, self.transport.abort)


def listen(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1, and nowhere else; on any free port for 0. Raises `Conflict`: PORT_TAKEN."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((LOOPBACK, port))
        made.listen()
    except OSError as error:
        made.close()
        raise Conflict(Reason.PORT_TAKEN, f"port {port} cannot be had: {(error.strerror or 'unknown').lower()}") from None
    return made


def server(application: Any, bounds: Bounds) -> uvicorn.Server:
    """What serves the application within the bounds; `run(sockets=[…])` returns when it was told to end."""
    config = uvicorn.Config(
        application,
        http=type("Connection", (Connection,), {"bounds": bounds}),
        loop="asyncio",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    return uvicorn.Server(config)
