"""A page of another origin, in a real browser, tries every way to write that a page has: nothing changes.

The page is served on another port, under both names of this machine and under a foreign name that leads here, as after a
rebinding of DNS. It even knows the token. That its attempts are real is shown beside: the same ones succeed against the
page's own server, and what they sent was at our door.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.fronts.serving import TOKEN, Served, served

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NAMES = ("127.0.0.1", "localhost", "rebound.example")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    "--host-resolver-rules=MAP rebound.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
)

PAGE = """\
<!doctype html><title>a page</title><body><script>
const [SERVER, TOKEN, NAMES] = ARGUMENTS, told = [];
const text = {"Content-Type": "text/plain"}, key = {"Authorization": "Bearer " + TOKEN};
const post = (url, mode, headers, body) => fetch(url, {method: "POST", mode, headers, body, credentials: "include"});

function form(url, enctype) {
  const frame = document.createElement("iframe"), form = document.createElement("form"), field = document.createElement("textarea");
  frame.name = "frame" + Math.random(); document.body.append(frame);
  Object.assign(form, {method: "post", action: url, enctype, target: frame.name});
  Object.assign(field, {name: "begin scratch\\nx", value: "y"});
  form.append(field); document.body.append(form);
  return new Promise(done => { frame.onload = () => done("sent"); form.submit(); });
}

function element(name, url) {
  const made = document.createElement(name);
  made.src = url; document.body.append(made);
  return new Promise((done, failed) => { made.onload = () => done("loaded"); made.onerror = () => failed("not loaded"); });
}

function request(url) {
  const made = new XMLHttpRequest();
  made.open("POST", url); made.setRequestHeader("Content-Type", "text/plain"); made.withCredentials = true;
  made.send("begin scratch");
  return new Promise((done, failed) => { made.onload = () => done(made.status); made.onerror = () => failed("error"); });
}

const guess = {"Authorization": "Bearer guess"}, json = {"Content-Type": "application/json"}, script = '{"script": "begin scratch"}';
const seen = post => post.then(found => found.type == "opaque" ? "opaque" : found.status);

const ATTEMPTS = {
  "cors": base => seen(post(base + "/api/sigil", "cors", text, "begin scratch")),
  "no-cors": base => seen(post(base + "/api/sigil", "no-cors", text, "begin scratch")),
  "cors, with the token": base => seen(post(base + "/api/sigil", "cors", {...text, ...key}, "begin scratch")),
  "no-cors, with the token": base => seen(post(base + "/api/sigil", "no-cors", {...text, ...key}, "begin scratch")),
  "cors, with a guess": base => seen(post(base + "/api/sigil", "cors", {...text, ...guess}, "begin scratch")),
  "JSON": base => seen(post(base + "/api/sigil", "cors", {...json, ...key}, script)),
  "token in the URL": base => seen(post(base + "/api/sigil?token=" + TOKEN, "no-cors", text, "begin scratch")),
  "XMLHttpRequest": base => request(base + "/api/sigil"),
  "beacon": async base => navigator.sendBeacon(base + "/api/sigil", new Blob(["begin scratch"], {type: "text/plain"})),
  "form, text": base => form(base + "/api/sigil", "text/plain"),
  "form, fields": base => form(base + "/api/sigil", "application/x-www-form-urlencoded"),
  "form, parts": base => form(base + "/api/sigil", "multipart/form-data"),
  "read": base => fetch(base + "/api/state", {headers: key}).then(found => found.text()),
  "read health": base => fetch(base + "/health").then(found => found.text()),
  "image": base => element("img", base + "/api/state"),
  "script": base => element("script", base + "/health"),
  "WebSocket": base => new Promise((done, failed) => {
    const made = new WebSocket(base.replace("http", "ws") + "/api/sigil");
    made.onopen = () => { made.send("begin scratch"); done("open"); }; made.onerror = () => failed("error");
  }),
};

const timeout = () => new Promise((_, failed) => setTimeout(() => failed("nothing"), 5000));
async function tried(base, name) {
  let outcome;
  try { outcome = await Promise.race([ATTEMPTS[name](base), timeout()]); } catch (error) { outcome = "failed: " + error; }
  told.push([base, name, String(outcome)]);
}

async function all() {
  const bases = [location.origin, ...NAMES.map(name => `http://${name}:${SERVER}`)];
  for (const base of bases) await Promise.all(Object.keys(ATTEMPTS).map(name => tried(base, name)));
  await fetch("/told", {method: "POST", body: JSON.stringify(told)});
  const next = NAMES[NAMES.indexOf(location.hostname) + 1];
  if (next) location = `http://${next}:${location.port}/`;
}
all();
</script>
"""


class Pages(ThreadingHTTPServer):
    """The page's own server: what it was told by each page, by the name it was opened under, and what else was posted to it."""

    daemon_threads = True

    def __init__(self, server: Served) -> None:
        super().__init__(("127.0.0.1", 0), Visit)
        arguments = json.dumps([server.port, TOKEN, NAMES])
        self.page = PAGE.replace("ARGUMENTS", arguments).encode()
        self.told: dict[str, list[tuple[str, str, str]]] = {}
        self.posted: list[bytes] = []
        self.all_told = threading.Event()


class Visit(BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        self.answer(self.server.page if self.path == "/" else b"{}", "text/html" if self.path == "/" else "text/plain")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(b"", "text/plain")
        if self.path != "/told":
            self.server.posted.append(body)
            return
        self.server.told[self.headers["Host"].partition(":")[0]] = [(base, name, outcome) for base, name, outcome in json.loads(body)]
        if len(self.server.told) == len(NAMES):
            self.server.all_told.set()

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *values: Any) -> None:
        pass


class Watch:
    """The application, and what was asked of it with which status."""

    def __init__(self, application: ASGIApp, seen: list[tuple[dict[str, str], int]]) -> None:
        self._application, self._seen = application, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                fields = {name.decode(): value.decode() for name, value in scope["headers"]}
                self._seen.append(({"method": scope["method"], "path": scope["path"], **fields}, message["status"]))
            await send(message)

        await self._application(scope, receive, watched)


@contextlib.contextmanager
def browser(url: str, folder: Path) -> Iterator[None]:
    """A headless browser with a new profile, on a page."""
    assert CHROMIUM
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}", url]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True) as process:
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: there is no chromium here, so no page could try to write")
def test_a_page_of_another_origin_changes_nothing(tmp_path: Path) -> None:
    seen: list[tuple[dict[str, str], int]] = []
    with served(tmp_path, watched=lambda application: Watch(application, seen)) as server, Pages(server) as pages:
        thread = threading.Thread(target=pages.serve_forever)
        thread.start()
        before = server.state
        try:
            with browser(f"http://{NAMES[0]}:{pages.server_address[1]}/", tmp_path / "profile"):
                assert pages.all_told.wait(90), (pages.told, seen)
        finally:
            pages.shutdown()
            thread.join()
        assert server.state == before

        at = f":{server.port}"
        for name, told in pages.told.items():
            outcomes = {(base, attempt): outcome for base, attempt, outcome in told}
            own = {attempt: outcome for (base, attempt), outcome in outcomes.items() if not base.endswith(at)}
            theirs = {attempt: outcome for (base, attempt), outcome in outcomes.items() if base.endswith(at)}
            assert set(own) == set(theirs), name  # all of them were tried
            # What works against the page's own server …
            worked = {"cors", "no-cors", "cors, with the token", "XMLHttpRequest", "beacon", "form, text", "read", "read health"}
            assert {attempt for attempt in worked if own[attempt].startswith("failed")} == set(), name
            # … tells the page nothing here: it may send blindly, and hears of no success.
            blind = {"opaque", "sent", "true"}
            assert {outcome for outcome in theirs.values() if not outcome.startswith("failed")} <= blind, name
        assert pages.posted.count(b"begin scratch") >= 3 * len(NAMES)

        # What the pages sent was at the door, and none of it came in.
        sent = [(asked, status) for asked, status in seen if asked.get("sec-fetch-site") or asked.get("origin")]
        assert {status for _, status in sent} == {403}
        assert {asked["method"] for asked, _ in sent} >= {"POST", "OPTIONS", "GET"}
        assert {asked.get("sec-fetch-site") for asked, _ in sent} >= {"cross-site", "same-site"}
        assert {asked["host"] for asked, _ in sent} == {f"{name}{at}" for name in NAMES}
