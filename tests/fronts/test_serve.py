"""A shard over HTTP: who may ask, what may be asked, and that whatever is refused has changed nothing."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from scripts import pages
from sdaqf_tasks.errors import Reason
from sdaqf_tasks.flow import shard_views
from sdaqf_tasks.flow.shards import Workbench
from sdaqf_tasks.fronts import listening, web
from sdaqf_tasks.fronts.listening import Bounds
from tests import repositories
from tests.fronts.run import SDAQF, Ran, program
from tests.fronts.serving import DISTIL, FILES, TOKEN, Served, parsed, read, served


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for tests that leave the shard as it was."""
    with served(tmp_path_factory.mktemp("served")) as found:
        yield found


@pytest.fixture
def still(shared: Served) -> Iterator[Served]:
    """The shared server; at the end the shard is in the state in which it was."""
    before = shared.state
    yield shared
    assert shared.state == before


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """A server for one test, which may change the shard."""
    with served(tmp_path) as found:
        yield found


def free_port() -> int:
    with socket.socket() as found:
        found.bind((listening.LOOPBACK, 0))
        port: int = found.getsockname()[1]
        return port


def integers(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from integers(part)


# ---- bytes that are no request --------------------------------------------------------------------------------------

HEAD = "POST /api/sigil HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
TEXT = HEAD + "Content-Type: text/plain\r\n"
WHOLE = TEXT + "Content-Length: 13\r\n"
BEGIN = "\r\nbegin scratch"
CHUNKED = "\r\nd\r\nbegin scratch\r\n0\r\n\r\n"

NOT_REQUESTS = {
    "bare LF": (WHOLE + BEGIN).replace("\r\n", "\n"),
    "one bare LF": WHOLE.replace("plain\r\n", "plain\n") + BEGIN,
    "bare LF ends the head": WHOLE + "\nbegin scratch",
    "bare CR": WHOLE.replace("plain\r\n", "plain\r") + BEGIN,
    "CR CR LF": WHOLE + "\r" + BEGIN,
    "NUL in a value": WHOLE + "X: a\0b\r\n" + BEGIN,
    "NUL in a name": WHOLE + "X\0: a\r\n" + BEGIN,
    "NUL in the path": WHOLE.replace("sigil", "sigil\0") + BEGIN,
    "tab": WHOLE + "X:\ta\r\n" + BEGIN,
    "DEL": WHOLE + "X: \x7f\r\n" + BEGIN,
    "beyond ASCII": WHOLE + "X: \xe9\r\n" + BEGIN,
    "folded by a space": WHOLE + "X: a\r\n b\r\n" + BEGIN,
    "folded by a tab": WHOLE + "X: a\r\n\tb\r\n" + BEGIN,
    "folded first line": WHOLE.replace("HTTP/1.1\r\n", "HTTP/1.1\r\n X: a\r\n") + BEGIN,
    "space before the colon": WHOLE + "X : a\r\n" + BEGIN,
    "no colon": WHOLE + "X\r\n" + BEGIN,
    "no name": WHOLE + ": a\r\n" + BEGIN,
    "doubled Host": WHOLE + "Host: {host}\r\n" + BEGIN,
    "doubled Authorization": WHOLE + "Authorization: Bearer {token}\r\n" + BEGIN,
    "doubled Content-Type": WHOLE + "content-type: text/plain\r\n" + BEGIN,
    "doubled Content-Length": WHOLE + "Content-Length: 13\r\n" + BEGIN,
    "conflicting Content-Length": WHOLE + "Content-Length: 14\r\n" + BEGIN,
    "doubled Origin": WHOLE + "Origin: http://{host}\r\nOrigin: http://{host}\r\n" + BEGIN,
    "doubled If-Match": WHOLE + 'If-Match: "{state}"\r\nIf-Match: "{state}"\r\n' + BEGIN,
    "doubled Sec-Fetch-Site": WHOLE + "Sec-Fetch-Site: none\r\nSec-Fetch-Site: none\r\n" + BEGIN,
    "doubled of any name": WHOLE + "X: 1\r\nX: 2\r\n" + BEGIN,
    "length and encoding": WHOLE + "Transfer-Encoding: chunked\r\n" + CHUNKED,
    "encoding and length": TEXT + "Transfer-Encoding: chunked\r\nContent-Length: 13\r\n" + CHUNKED,
    "chunked": TEXT + "Transfer-Encoding: chunked\r\n" + CHUNKED,
    "identity": WHOLE + "Transfer-Encoding: identity\r\n" + BEGIN,
    "hidden encoding": WHOLE + "Transfer-Encoding : chunked\r\n" + CHUNKED,
    "vertical tab": WHOLE + "Transfer-Encoding:\x0bchunked\r\n" + CHUNKED,
    "upgrade": WHOLE + "Connection: Upgrade\r\nUpgrade: h2c\r\n" + BEGIN,
    "expect": WHOLE + "Expect: 100-continue\r\n" + BEGIN,
    "no Host": WHOLE.replace("Host: {host}\r\n", "") + BEGIN,
    "length with a sign": TEXT + "Content-Length: +13\r\n" + BEGIN,
    "negative length": TEXT + "Content-Length: -13\r\n" + BEGIN,
    "length with a zero": TEXT + "Content-Length: 013\r\n" + BEGIN,
    "list of lengths": TEXT + "Content-Length: 13, 13\r\n" + BEGIN,
    "hexadecimal length": TEXT + "Content-Length: 0xd\r\n" + BEGIN,
    "empty length": TEXT + "Content-Length:\r\n" + BEGIN,
    "two lengths": TEXT + "Content-Length: 1 3\r\n" + BEGIN,
    "underscore": TEXT + "Content-Length: 1_3\r\n" + BEGIN,
    "more than the body": WHOLE + BEGIN + "!",
    "a request after the body": WHOLE + BEGIN + WHOLE + BEGIN,
    "a request in the place of a body": HEAD + "\r\n" + WHOLE + BEGIN,
    "empty line first": "\r\n" + WHOLE + BEGIN,
    "nothing but an end": "\r\n\r\n",
    "lower case": WHOLE.replace("POST", "post") + BEGIN,
    "no version": WHOLE.replace(" HTTP/1.1", "") + BEGIN,
    "HTTP/1.0": WHOLE.replace("1.1", "1.0", 1) + BEGIN,
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two spaces": WHOLE.replace(" HTTP", "  HTTP") + BEGIN,
    "another server's URL": WHOLE.replace("/api", "http://{host}/api") + BEGIN,
    "authority": WHOLE.replace("POST /api/sigil", "CONNECT {host}") + BEGIN,
    "asterisk": WHOLE.replace("POST /api/sigil", "OPTIONS *") + BEGIN,
    "TLS": "\x16\x03\x01\x02\x00\x01\x00",
}


class TestBytes:
    """What is not a plain request is refused by its first wrong byte, and nothing of it is acted upon."""

    @staticmethod
    def filled(text: str, server: Served) -> bytes:
        host, names = f"127.0.0.1:{server.port}", {"token": TOKEN, "state": server.state}
        return re.sub(r"\{(\w+)\}", lambda found: {"host": host, **names}[found[1]], text).encode("latin-1")

    @pytest.mark.parametrize("text", NOT_REQUESTS.values(), ids=list(NOT_REQUESTS))
    def test_it_is_refused(self, text: str, still: Served) -> None:
        answer = still.talk(self.filled(text, still))
        assert (answer.status, answer.reason) == (400, "http-request")

    def test_the_samples_are_wrong_in_nothing_else(self, own: Served) -> None:
        assert own.talk(self.filled(WHOLE + BEGIN, own)).status == 200
        assert own.state != own.bench.desk().state.previous

    @pytest.mark.parametrize("text", ["bare LF", "one bare LF", "NUL in the path", "folded by a space", "CR CR LF", "doubled Host"])
    def test_it_is_refused_byte_by_byte_too(self, text: str, still: Served) -> None:
        with still.connect() as sock:
            with contextlib.suppress(OSError):
                for byte in self.filled(NOT_REQUESTS[text], still):
                    sock.send(bytes([byte]))
            answer = parsed(read(sock))
        assert (answer.status, answer.reason) == (400, "http-request")

    def test_an_answer_is_whole_also_when_a_slow_peer_splits_its_request(self, still: Served) -> None:
        with still.connect() as sock:
            for byte in still.request("GET", "/api/state"):
                sock.send(bytes([byte]))
            assert parsed(read(sock)).value["state"] == still.state

    def test_a_request_after_the_answer_is_not_heard(self, still: Served) -> None:
        with still.connect() as sock:
            sock.sendall(still.request("GET", "/api/state"))
            assert parsed(read(sock)).status == 200
            with contextlib.suppress(OSError):
                sock.sendall(still.request("POST", "/api/sigil", "begin scratch"))
                assert read(sock) == b""

    def test_what_ends_before_it_is_whole_is_refused(self, still: Served) -> None:
        whole = still.request("POST", "/api/sigil", "begin scratch")
        for end in (1, 10, len(whole) - 14, len(whole) - 1):
            answer = still.talk(whole[:end], half_close=True)
            assert (answer.status, answer.reason) == (400, "http-request")
        with still.connect() as sock:
            sock.shutdown(socket.SHUT_WR)
            assert read(sock) == b""

    def test_a_peer_that_has_said_all_still_hears_the_answer(self, own: Served) -> None:
        answer = own.talk(own.request("POST", "/api/sigil", "begin scratch"), half_close=True)
        assert (answer.status, answer.value["state"]) == (200, own.state)

    def test_a_peer_that_is_gone_is_no_defect(self, own: Served, caplog: pytest.LogCaptureFixture) -> None:
        for _ in range(20):
            with own.connect() as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
                sock.sendall(own.request("POST", "/api/sigil", "snapshot"))
        assert own.get("/api/state").status == 200
        assert caplog.records == []

    def test_a_head_has_at_most_16_kib(self, still: Served) -> None:
        usual = still.request("GET", "/api/state", X="")
        filler = "a" * (listening.HEAD_BYTES - len(usual))
        assert still.get("/api/state", X=filler).status == 200
        for more in (filler + "a", filler + 100_000 * "a"):
            answer = still.get("/api/state", X=more)
            assert (answer.status, answer.reason) == (431, "http-head-too-large")
        endless = still.talk(b"GET /" + listening.HEAD_BYTES * b"a")
        assert (endless.status, endless.reason) == (431, "http-head-too-large")

    def test_a_body_has_at_most_64_kib(self, still: Served) -> None:
        fits = still.post(b"x" * listening.BODY_BYTES)
        assert (fits.status, fits.reason) == (400, "InvalidAbstractionCommand")
        for body in (b"x" * (listening.BODY_BYTES + 1), b"x" * 1_000_000):
            answer = still.post(body)
            assert (answer.status, answer.reason) == (413, "http-body-too-large")
        announced = still.talk(still.head(fields={"Content-Length": 300 * "9"}))
        assert (announced.status, announced.reason) == (413, "http-body-too-large")


# ---- time and number ------------------------------------------------------------------------------------------------


class TestBounds:
    def test_a_sender_of_one_byte_at_a_time_is_cut(self, tmp_path: Path) -> None:
        with served(tmp_path, Bounds(seconds=0.5)) as server, server.connect() as sock:
            began, before, sent = time.monotonic(), server.state, 0
            sock.settimeout(0.05)  # the pace
            data = server.request("POST", "/api/sigil", "begin scratch" + 60_000 * " ")
            found = b""
            while not found:
                sent += sock.send(data[sent : sent + 1])
                with contextlib.suppress(TimeoutError):
                    found = sock.recv(65_536)
            assert 0.4 < time.monotonic() - began < 8
            assert (parsed(found).status, parsed(found).reason) == (408, "http-time")
            with contextlib.suppress(OSError):  # and what goes on sending is not listened to for long
                while time.monotonic() - began < 15:
                    sock.send(b" ")
            assert time.monotonic() - began < 15
            assert server.state == before

    def test_300_idle_connections_keep_nobody_out_for_long(self, tmp_path: Path) -> None:
        with served(tmp_path, Bounds(seconds=1, connections=64)) as server, contextlib.ExitStack() as stack:
            for _ in range(300):
                stack.enter_context(server.connect())
            began, told = time.monotonic(), b""
            while not told:  # closed at once
                with contextlib.suppress(ConnectionError), server.connect() as sock:
                    sock.sendall(server.request("GET", "/api/state"))
                    told = read(sock)
                assert time.monotonic() - began < 10
            assert parsed(told).status == 200

    def test_a_full_house_lets_in_who_comes_after_one_has_left(self, tmp_path: Path) -> None:
        with served(tmp_path, Bounds(connections=2)) as server, server.connect(), server.connect() as second:
            with server.connect() as third, contextlib.suppress(ConnectionError):
                third.sendall(server.request("GET", "/api/state"))
                assert read(third) == b""
            second.sendall(server.request("GET", "/api/state"))
            assert parsed(read(second)).status == 200
            assert server.get("/api/state").status == 200

    def test_a_script_ends_before_its_time_and_says_how_far_it_came(self, tmp_path: Path) -> None:
        with served(tmp_path, Bounds(seconds=2)) as server:
            answer = server.post(7_000 * "snapshot\n")
            assert (answer.status, answer.value["refusal"]["reason"]) == (408, "http-time")
            assert answer.value["results"][-1]["state"] == server.state
            assert len(answer.value["results"]) < 7_000

    def test_a_shard_that_somebody_holds_is_waited_for_within_the_time(self, tmp_path: Path) -> None:
        with served(tmp_path, Bounds(seconds=1)) as server:
            before = server.state
            with server.bench.store.lock(1):
                answer = server.post("begin scratch")
            assert (answer.status, answer.reason, server.state) == (409, "locked", before)


# ---- who may ask ----------------------------------------------------------------------------------------------------


class TestDoor:
    """Every request but one for /health names this server, comes from no other page, and holds the token."""

    @pytest.mark.parametrize(
        "host",
        [
            "example.com",
            "example.com:{port}",
            "127.0.0.1",
            "localhost",
            "127.0.0.1:1",
            "[::1]:{port}",
            "localhost.:{port}",
            "LOCALHOST:{port}",
            "127.1:{port}",
            "0.0.0.0:{port}",
            "127.0.0.1:0{port}",
            "127.0.0.1:{port}.example.com",
            "a@127.0.0.1:{port}",
            "",
        ],
    )
    def test_another_host_is_refused(self, host: str, still: Served) -> None:
        for path in ("/api/sigil", "/health"):
            answer = still.talk(still.request("POST", path, "begin scratch", Host=host.format(port=still.port)))
            assert (answer.status, answer.reason, answer.value["where"]) == (403, "http-origin", "host")

    @pytest.mark.parametrize(
        "origin",
        [
            "null",
            "",
            "http://example.com",
            "https://127.0.0.1:{port}",
            "http://127.0.0.1:1",
            "http://localhost",
            "http://[::1]:{port}",
            "http://127.0.0.1:{port}/",
            "HTTP://127.0.0.1:{port}",
            "http://127.0.0.1:{port} http://example.com",
        ],
    )
    def test_another_origin_is_refused(self, origin: str, still: Served) -> None:
        answer = still.post("begin scratch", Origin=origin.format(port=still.port))
        assert (answer.status, answer.reason, answer.value["where"]) == (403, "http-origin", "origin")

    @pytest.mark.parametrize("site", ["cross-site", "same-site", "", "None", "same-origin, cross-site"])
    def test_another_site_is_refused(self, site: str, still: Served) -> None:
        answer = still.post("begin scratch", Sec_Fetch_Site=site)
        assert (answer.status, answer.reason, answer.value["where"]) == (403, "http-origin", "sec-fetch-site")

    @pytest.mark.parametrize(
        "given", [None, "", "Bearer", "Bearer ", f"bearer {TOKEN}", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN]
    )
    def test_without_the_token_nothing_is_told(self, given: str | None, still: Served) -> None:
        answer = still.post("begin scratch", Authorization=given)
        assert (answer.status, answer.reason, answer.headers["www-authenticate"]) == (401, "http-token", "Bearer")
        for row in [*web.ROUTES, web.Row("GET", "/nothing", "", lambda asked: web.Told({}))]:
            status = still.talk(still.request(row.method, row.path, Authorization=given)).status
            assert status == (200 if row.path == "/health" else 401)

    def test_a_token_in_the_url_is_none(self, still: Served) -> None:
        assert still.get(f"/api/state?token={TOKEN}&access_token={TOKEN}", Authorization=None).status == 401

    @pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
    @pytest.mark.parametrize("site", [None, "none", "same-origin"])
    def test_this_server_by_either_name_is_let_in(self, name: str, site: str | None, still: Served) -> None:
        host = f"{name}:{still.port}"
        for origin in (None, f"http://{host}"):
            assert still.get("/api/state", Host=host, Origin=origin, Sec_Fetch_Site=site).status == 200

    def test_no_page_may_read_an_answer(self, still: Served) -> None:
        answers = [still.get("/api/state"), still.get("/health"), still.post("begin scratch", Origin="http://example.com")]
        answers.append(still.talk(still.request("OPTIONS", "/api/sigil", Origin="http://example.com", Authorization=None)))
        assert [name for answer in answers for name in answer.headers if name.startswith("access-control")] == []

    def test_it_listens_on_one_address(self, still: Served) -> None:
        for family, address in ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.2")):
            with socket.socket(family, socket.SOCK_STREAM) as sock, pytest.raises(OSError):
                sock.connect((address, still.port))


# ---- what may be asked ----------------------------------------------------------------------------------------------


class TestRoutes:
    def test_every_answer_parses_and_no_number_is_too_long_for_anybody(self, own: Served) -> None:
        """A shard with one live record, one staged, a saved slot; every route; every kind of refusal."""
        done = own.post(f"begin scratch\n{DISTIL}\ncommit\nsnapshot\nbegin scratch\n/prune_abstractions stale retry")
        assert (done.status, done.value["status"], len(done.value["results"])) == (200, "ok", 6)
        paths = ["/health", "/api/state", "/api/abstractions", "/api/abstractions/retry", "/api/reuse", "/api/log", "/api/log?limit=1"]
        paths += ["/api/abstractions?token=range&pattern=x&path=src/send.py&hint=impact&limit=2", "/api/abstractions?token=caf%C3%A9"]
        answers = [own.get(path) for path in paths]
        assert [answer.status for answer in answers] == len(paths) * [200]
        assert all(abs(number) < 2**53 for answer in [done, *answers] for number in integers(answer.value))
        state = own.state
        assert [answer.headers.get("etag") for answer in answers] == [None, *(len(paths) - 1) * [f'"{state}"']]
        told = {path: answer.value for path, answer in zip(paths, answers, strict=True)}
        assert told["/health"] == {"status": "ok"}
        assert told["/api/state"]["staged"]["records"] == ["retry"]
        assert [record["concept_id"] for record in told["/api/abstractions"]["abstractions"]] == ["retry"]
        assert told["/api/abstractions/retry"]["abstraction"]["decay_state"] == "stale"
        assert [reference["concept_id"] for reference in told[paths[7]]["references"]] == ["retry"]
        assert len(told["/api/log"]["events"]) == 7 and len(told["/api/log?limit=1"]["events"]) == 1
        assert {event["front"] for event in told["/api/log"]["events"][:-1]} == {"http"}

    @pytest.mark.parametrize(
        ("path", "status", "reason"),
        [
            ("/", 404, "http-path"),
            ("/api", 404, "http-path"),
            ("/api/state/", 404, "http-path"),
            ("//api/state", 404, "http-path"),
            ("/api/../api/state", 404, "http-path"),
            ("/api/abstractions/", 404, "http-path"),
            ("/api/abstractions/a/b", 404, "http-path"),
            ("/api/abstractions/a%2Fb", 404, "http-path"),
            ("/api/sigil", 405, "http-method"),
            ("/api/abstractions/nothing", 404, "AbstractionSourceNotFound"),
            ("/api/abstractions/UPPER", 400, "InvalidConcept"),
            ("/api/abstractions/%00%E2%80%AE%FF", 400, "InvalidConcept"),
            ("/api/abstractions?hint=guess", 400, "http-request"),
            ("/api/abstractions?token=a&limit=0", 400, "http-request"),
            ("/api/abstractions?tokens=a", 400, "http-request"),
            ("/api/log?limit=1001", 400, "http-request"),
            ("/api/log?limit=1&limit=2", 400, "http-request"),
            ("/api/log?limit=-1", 400, "http-request"),
            ("/api/state?x", 400, "http-request"),
        ],
    )
    def test_a_refusal_is_the_one_object(self, path: str, status: int, reason: str, still: Served) -> None:
        answer = still.get(path, Sec_Fetch_Site="none")
        assert (answer.status, answer.reason) == (status, reason)

    @pytest.mark.parametrize("row", web.ROUTES, ids=lambda row: row.path)
    def test_another_method_is_refused_and_the_right_one_named(self, row: web.Row, still: Served) -> None:
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - {row.method}:
            answer = still.talk(still.request(method, row.path, "begin scratch"))
            assert (answer.status, answer.reason) == (405, "http-method")
            assert row.method in answer.headers["allow"].split(", ")

    def test_reading_leaves_every_byte_as_it_was(self, still: Served) -> None:
        def everything() -> dict[Path, bytes]:
            return {path: path.read_bytes() for path in still.bench.store.root.rglob("*") if path.is_file()}

        before = everything()
        for row in web.ROUTES:
            still.get(row.path.replace("{concept}", "a"))
        still.get("/api/abstractions?token=if")
        assert everything() == before

    def test_a_defect_is_told_as_one(self, still: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        def broken(bench: object) -> Any:
            raise ZeroDivisionError

        monkeypatch.setattr(shard_views, "status", broken)
        answer = still.get("/api/state")
        assert (answer.status, answer.reason) == (500, "defect")
        assert "ZeroDivisionError" in caplog.text

    def test_every_status_of_a_reason_can_be_sent(self) -> None:
        assert [reason for reason in Reason if not 400 <= reason.status <= 599] == []


class TestSigil:
    def test_one_command_is_answered_by_itself(self, own: Served) -> None:
        answer = own.post("BEGIN  scratch\r\n\n")
        assert (answer.status, answer.value["status"], answer.value["command"]) == (200, "ok", "begin scratch")
        assert answer.value["state"] == own.state
        assert answer.value["snapshots"] == {"scratchActive": True, "committed": False, "snapshot": False}

    def test_a_script_may_be_json(self, own: Served) -> None:
        answer = own.post(json.dumps({"script": f"begin scratch\n{DISTIL}"}), Content_Type="application/json; charset=UTF-8")
        assert (answer.status, [result["status"] for result in answer.value["results"]]) == (200, ["ok", "ok"])
        assert answer.value["results"][1]["abstraction"]["concept_id"] == "retry"

    def test_a_script_stops_at_the_first_refusal_and_keeps_what_was_done(self, own: Served) -> None:
        answer = own.post("begin scratch\ncommit\ncommit\nsnapshot")
        assert (answer.status, answer.value["status"]) == (409, "refused")
        assert [result["command"] for result in answer.value["results"]] == ["begin scratch", "commit"]
        assert answer.value["refusal"]["reason"] == "ScratchNotActive"
        assert answer.value["results"][-1]["state"] == own.state
        assert answer.headers["etag"] == f'"{own.state}"'

    @pytest.mark.parametrize(
        ("body", "kind", "status", "reason"),
        [
            (b"", "text/plain", 400, "InvalidAbstractionCommand"),
            (b" \n\n", "text/plain", 400, "InvalidAbstractionCommand"),
            (b"dance", "text/plain", 400, "InvalidAbstractionCommand"),
            (b"commit", "text/plain", 409, "ScratchNotActive"),
            (b"revert", "text/plain", 409, "SnapshotMissing"),
            (b"accept retry", "text/plain", 409, "ScratchNotActive"),
            (DISTIL.encode(), "text/plain", 409, "ScratchNotActive"),
            (b"begin \xff", "text/plain", 400, "not-utf8"),
            (b"begin scratch", "text/html", 415, "http-media"),
            (b"begin scratch", "application/x-www-form-urlencoded", 415, "http-media"),
            (b"begin scratch", "multipart/form-data; boundary=x", 415, "http-media"),
            (b"begin scratch", "text/plain; charset=utf-16", 415, "http-media"),
            (b"begin scratch", "", 415, "http-media"),
            (b"begin scratch", "application/json", 400, "malformed-json"),
            (b'{"script": "begin scratch", "script": "snapshot"}', "application/json", 400, "malformed-json"),
            (b'{"script": "begin scratch", "more": 1}', "application/json", 400, "contract-invalid"),
            (b'{"script": ["begin scratch"]}', "application/json", 400, "contract-invalid"),
            (b'"begin scratch"', "application/json", 400, "contract-invalid"),
            (60_000 * b"[", "application/json", 400, "malformed-json"),
        ],
    )
    def test_what_is_refused_changes_nothing(self, body: bytes, kind: str, status: int, reason: str, still: Served) -> None:
        answer = still.post(body, Content_Type=kind)
        assert (answer.status, answer.reason) == (status, reason)

    def test_without_a_kind_a_body_is_refused(self, still: Served) -> None:
        answer = still.post("begin scratch", Content_Type=None)
        assert (answer.status, answer.reason) == (415, "http-media")

    def test_nobody_accepts_over_http_and_nothing_is_imported(self, own: Served) -> None:
        own.post(f"begin scratch\n{DISTIL}")
        before = own.state
        assert (own.post("accept retry").status, own.post("accept retry").reason) == (403, "NeedsAPerson")
        assert own.post("/import_abstractions src/send.py").reason == "InvalidAbstractionCommand"
        assert own.state == before


class TestExpected:
    """A change names the state that it expects, and is refused in any other: so it may be sent twice."""

    def test_a_change_that_is_sent_again_is_done_once(self, own: Served) -> None:
        tag = own.get("/api/state").headers["etag"]
        assert own.post("begin scratch", If_Match=tag).status == 200
        after = own.state
        again = own.post("begin scratch", If_Match=tag)
        assert (again.status, again.reason, own.state) == (409, "StateChanged", after)

    def test_the_tag_of_an_answer_leads_to_the_next_change(self, own: Served) -> None:
        tag = own.get("/api/state").headers["etag"]
        for line in ("begin scratch", DISTIL, "commit", "snapshot", "revert"):
            answer = own.post(line, If_Match=tag)
            assert (answer.status, answer.headers["etag"]) == (200, f'"{own.state}"')
            tag = answer.headers["etag"]

    def test_of_eight_at_once_one_wins(self, own: Served) -> None:
        tag = own.get("/api/state").headers["etag"]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: own.post("snapshot", If_Match=tag), range(8)))
        assert sorted(answer.status for answer in answers) == [200, *7 * [409]]
        assert {answer.reason for answer in answers if answer.status == 409} == {"StateChanged"}
        assert [answer.value["state"] for answer in answers if answer.status == 200] == [own.state]
        assert len(own.get("/api/log").value["events"]) == 2

    def test_of_eight_that_expect_nothing_none_is_lost(self, own: Served) -> None:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: own.post("snapshot"), range(8)))
        assert [answer.status for answer in answers] == 8 * [200]
        assert len(own.get("/api/log").value["events"]) == 9

    def test_nobody_comes_between_the_lines_of_a_script_that_expects_a_state(self, own: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        run = Workbench.run

        def interrupted(bench: Any, lines: Any, **given: Any) -> Any:
            found = run(bench, lines, **given)
            run(own.bench, ["snapshot"])
            return found

        monkeypatch.setattr(Workbench, "run", interrupted)
        pinned = own.post("snapshot\nsnapshot", If_Match=own.get("/api/state").headers["etag"])
        assert (pinned.status, pinned.value["refusal"]["reason"], len(pinned.value["results"])) == (409, "StateChanged", 1)
        assert own.post("snapshot\nsnapshot").status == 200

    def test_a_session_may_be_named(self, own: Served) -> None:
        session = own.post("begin scratch").value["session"]
        other = session[:-1] + ("0" if session[-1] != "0" else "1")
        before = own.state
        assert own.post("discard", Sdaqf_Session=other).reason == "SessionChanged"
        assert own.state == before
        script = own.post("commit\nsnapshot", Sdaqf_Session=session)
        assert (script.status, len(script.value["results"])) == (200, 2)

    @pytest.mark.parametrize("tag", ["*", "", "{state}", 'W/"{state}"', '"{state}", "{state}"', '"{state}"x', '"SHARD-STATE-1"'])
    def test_what_names_no_state_is_refused(self, tag: str, still: Served) -> None:
        answer = still.post("begin scratch", If_Match=tag.format(state=still.state))
        assert (answer.status, answer.reason, answer.value["where"]) == (400, "http-request", "if-match")


# ---- the page -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("curl") is None, reason="NOT TESTED: there is no curl here, so nothing runs the page's example")
def test_the_example_of_the_page_prints_what_it_shows(own: Served) -> None:
    page = (pages.TOP / "docs/http.md").read_text("utf-8")
    shown = next(part.body for part in pages.parts(page) if part.info == "console")
    (own.bench.store.root / "token-7323").write_text(f"{TOKEN}\n")
    script = [command.replace("127.0.0.1:7323", f"127.0.0.1:{own.port}") for command in pages.commands(shown)]
    printed = [line for line in shown.splitlines(keepends=True) if not line.startswith("$ ")]
    assert pages.bash("\n".join(script), own.project.top) == "".join(printed)


def test_the_page_names_every_route() -> None:
    page = (pages.TOP / "docs/http.md").read_text("utf-8")
    assert [row.path for row in web.ROUTES if f"`{row.method} {row.path.replace('{concept}', 'CONCEPT')}`" not in page] == []


# ---- the command ----------------------------------------------------------------------------------------------------


class TestCommand:
    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        path = repositories.make(tmp_path / "repository", FILES).path
        assert program("shard", "init", cwd=path).code == 0
        return path

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_it_serves_until_a_signal_ends_it(self, number: int, project: Path) -> None:
        tokens = set()
        for _ in range(2):
            with subprocess.Popen(
                [SDAQF, "serve", "--port", "0", "--json"], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
                assert process.stdout and process.stderr
                said = "".join(iter(process.stdout.readline, "}\n")) + "}"
                told = json.loads(said)
                place = project / told["token_file"]
                assert told["shard"] == "project:default" and not Path(told["token_file"]).is_absolute()
                assert stat.S_IMODE(place.stat().st_mode) == 0o600
                tokens.add(token := place.read_text().removesuffix("\n"))
                port = int(told["url"].rpartition(":")[2])
                with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
                    sock.sendall(f"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
                    assert parsed(read(sock)).status == 200
                process.send_signal(number)
                assert (process.wait(20), process.stdout.read(), process.stderr.read()) == (130, "", "")
                assert not place.exists()
        assert len(tokens) == 2 and min(map(len, tokens)) >= 43

    @pytest.mark.parametrize(
        ("spoil", "reason"), [("folder", "output-invalid"), ("gitignore", "output-not-ignored"), ("tracked", "output-not-ignored")]
    )
    def test_where_the_token_cannot_be_kept_it_is_refused(self, spoil: str, reason: str, project: Path) -> None:
        root, port = project / ".sdaqf/shards", free_port()
        place = root / f"token-{port}"
        if spoil == "folder":
            place.mkdir()
        elif spoil == "gitignore":
            (root / ".gitignore").write_text("!*\n")
        else:
            place.write_text("old")
            subprocess.run(["git", "add", "--force", place], cwd=project, check=True)
        ended = program("serve", "--port", str(port), "--json", cwd=project)
        assert (ended.code, ended.value["reason"], ended.err) == (1, reason, "")
        assert [path.name for path in root.glob("token-*") if path.is_file()] == ([place.name] if spoil == "tracked" else [])

    def test_git_sees_no_token(self, project: Path) -> None:
        (project / ".sdaqf/shards/token-1").write_text("x")
        listed = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=project, capture_output=True, check=True)
        assert listed.stdout == b""

    def test_a_port_that_is_taken_is_named(self, project: Path) -> None:
        with listening.listen(0) as sock:
            port = sock.getsockname()[1]
            ran = program("serve", "--port", str(port), "--json", cwd=project)
        assert (ran.code, ran.value["reason"]) == (1, "port-taken")
        assert f"port {port} " in ran.value["message"]
        assert [path.name for path in (project / ".sdaqf/shards").glob("token*")] == []

    def test_a_shard_that_is_not_there_is_not_served(self, project: Path) -> None:
        ran = program("serve", "--port", "0", "--shard", "project:other", "--json", cwd=project)
        assert (ran.code, ran.value["reason"]) == (1, "no-shard")

    @pytest.mark.parametrize("port", ["-1", "65536", "x", "", "1e3", "٣"])
    def test_a_port_is_a_number(self, port: str, sdaqf: Callable[..., Ran]) -> None:
        assert sdaqf("serve", f"--port={port}").code == 2

    def test_without_the_libraries_it_says_what_to_install(self, sdaqf: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        ran = sdaqf("serve")
        assert (ran.code, ran.out) == (1, "")
        assert "starlette and uvicorn" in ran.err and "pip install 'sdaqf-tasks[serve]'   (extra-missing)" in ran.err

    def test_the_libraries_are_loaded_by_nothing_else(self, project: Path) -> None:
        words = "main(['shard', 'status']); print({*sys.modules} & {'starlette', 'uvicorn'})"
        loaded = f"import sys; from sdaqf_tasks.fronts.cli import main; {words}"
        ran = program("-c", loaded, cwd=project, by=(os.fspath(SDAQF.parent / "python"),))
        assert ran.out.splitlines()[-1] == "set()"
