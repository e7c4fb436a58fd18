"""Every reader takes any bytes: it reads them or refuses them, within bounds of time and memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reliability import hostile
from tests.reliability.readers import READERS, tried

QUICK = [name for name, reader in READERS.items() if not reader.slow]
SLOW = [name for name, reader in READERS.items() if reader.slow]
MORE = 268_435_456
"""Bytes of address space that a reader may take beyond the loaded program."""
SECONDS = 5
"""Of a processor. The bound is one second; five allow for any machine."""

TOKENS = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"\n", b" ", b"\t", b"\r", b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(
        b"null",
        b"-0",
        b"1e9",
        b"9" * 5_000,
        b"\\ud800",
        b"<<: ",
        b"&a",
        b"*a",
        b"!!python/object:os.system ",
        b"---\n",
        b"? ",
        b"- ",
        b"|2\n",
        b"#",
    ),
    *(
        b"ref: ",
        b"refs/heads/main",
        b"../",
        b"/dev/zero",
        b"[extensions]\n",
        b"[include]\n\tpath=/etc/passwd\n",
        b"<<<<<<< a\n",
        b"=======\n",
        b">>>>>>> b\n",
    ),
]


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """What a reader takes, cut, turned, doubled and mixed."""
    data = draw(st.sampled_from(READERS[name].seeds) | st.binary(max_size=60))
    for _ in range(draw(st.integers(0, 5))):
        at, to = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        data = draw(
            st.sampled_from(
                (
                    data[:at],
                    data[:at] + data[to:],
                    data[:at] + data[at:to] * 2 + data[to:],
                    data[:at] + draw(st.sampled_from(TOKENS)) + data[at:],
                    data[:at] + draw(st.binary(min_size=1, max_size=4)) + data[at + 1 :],
                )
            )
        )
    return data


def check(name: str, data: bytes) -> None:
    began = time.thread_time()
    tried(name, data)
    assert time.thread_time() - began < SECONDS


@pytest.mark.parametrize("name", READERS)
def test_what_a_reader_takes_it_takes(name: str) -> None:
    assert any(tried(name, seed) for seed in READERS[name].seeds)


@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_bytes_break_a_reader(name: str, data: st.DataObject) -> None:
    check(name, data.draw(damaged(name)))


@pytest.mark.parametrize("name", SLOW)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_bytes_break_a_reader_that_asks_git(name: str, data: st.DataObject) -> None:
    check(name, data.draw(damaged(name)))


@pytest.mark.long
@pytest.mark.parametrize("name", READERS)
def test_no_bytes_break_a_reader_for_long(name: str) -> None:
    @settings(max_examples=1_500 if name in SLOW else 30_000, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def fuzz(data: st.DataObject) -> None:
        check(name, data.draw(damaged(name)))

    fuzz()


def limited(case: str) -> dict[str, float]:
    """What became of a hostile input, in a process that may take no more than MORE bytes."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.reliability.hostile", case, str(MORE)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, (case, ended.stderr.decode()[-2_000:])
    found: dict[str, float] = json.loads(ended.stdout)
    assert found["processor"] < SECONDS
    return found


@pytest.mark.parametrize(
    "case",
    [
        *("json: 16 MiB of empty lists", "json: a text that never ends", "manifest: many sources", "manifest: the last of many sources"),
        *("manifest: one unknown among many that are near", "conflict: line feeds after a brace", "conflict: line feeds after a comma"),
        *("settings: dots", "README: many headings", "git index: 190 MiB of nothing"),
    ],
)
def test_a_sample_of_the_worst_inputs_stays_within_its_bounds(case: str) -> None:
    limited(case)


@pytest.mark.long
@pytest.mark.parametrize("case", hostile.CASES)
def test_the_worst_inputs_stay_within_their_bounds(case: str) -> None:
    limited(case)


def test_the_bound_is_one() -> None:
    """The process that tries it cannot take more."""
    assert hasattr(resource, "RLIMIT_AS")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.reliability.hostile", "too much", "20000000"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )
    assert b"MemoryError" in ended.stderr
