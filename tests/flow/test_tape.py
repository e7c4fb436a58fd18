"""What is asked is heard in order, with what it took to make a value that is used again; answers come back as they were."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdaqf_tasks.errors import Reason, Unreadable
from sdaqf_tasks.flow import tape
from sdaqf_tasks.flow.tape import QUESTIONS, Asked, Digest, Heard, Known, Told, Witness
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.world import Tree

NAMES = (st.binary(max_size=8) | st.sampled_from([b"\\", b"\\x80", b"\\\\", b"\x80\\"])).map(
    lambda name: name.decode("utf-8", "surrogateescape")
)
NAME_LISTS = st.lists(NAMES, max_size=4).map(tuple)
ANSWERS = {
    "observe": st.builds(
        Tree, NAMES, NAMES, NAMES, NAME_LISTS, NAME_LISTS, NAME_LISTS, NAME_LISTS, NAME_LISTS.map(frozenset), NAME_LISTS.map(frozenset)
    ),
    "history": st.binary(max_size=50),
    "blobs": st.lists(st.none() | st.binary(max_size=20), max_size=4),
    "resolve": st.none() | NAMES,
    "modified": NAME_LISTS,
    "is_shallow": st.booleans(),
}


class Root:
    """A folder of two files, one of which cannot be read."""

    def __init__(self) -> None:
        self.asked = 0
        self.other = "not a question"

    def read(self, path: str, limit: int) -> bytes:
        self.asked += 1
        if path == "no":
            raise Unreadable(Reason.MISSING_OR_UNREADABLE, "gone", at=path)
        return b"yes"

    def has(self, path: str) -> bool:
        return path == "yes"


def plain(heard: Heard) -> list[tuple[Any, ...]]:
    return [(asked.who, asked.what, asked.about, str(asked.answer)) for asked in heard.asked]


@pytest.mark.parametrize("what", ANSWERS)
@given(chance=st.data())
def test_an_answer_comes_back_as_it_was_and_equal_ones_are_equal_bytes(what: str, chance: st.DataObject) -> None:
    answer = chance.draw(ANSWERS[what])
    data = tape.encode(answer)
    assert tape.decode(data, QUESTIONS["git"][what]) == answer
    assert tape.encode(tape.decode(data, QUESTIONS["git"][what])) == data


@given(about=st.lists(NAMES | st.integers(0, 10) | NAME_LISTS, max_size=3).map(tuple), other=st.lists(NAMES, max_size=3).map(tuple))
def test_two_questions_have_the_same_words_only_where_they_are_the_same(about: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert (tape.words(about) == tape.words(other)) is (about == other)


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000, b'{"a":1}'])
def test_what_is_no_answer_is_said_so(data: bytes) -> None:
    with pytest.raises(ValueError):
        tape.decode(data, Tree)


def test_questions_are_heard_with_answers_and_failures_and_nothing_else_is() -> None:
    root: Any = Witness("repository", Root())
    root.read("before", 1)
    with Heard() as heard:
        assert root.read("yes", 1) == b"yes"
        with pytest.raises(Unreadable):
            root.read("no", 2)
        assert root.has("no") is False
        assert root.other == "not a question"
    root.read("after", 1)
    assert plain(heard) == [
        ("repository", "read", ("yes", 1), "b'yes'"),
        ("repository", "read", ("no", 2), "no: gone"),
        ("repository", "has", ("no",), "False"),
    ]


def test_what_an_answer_asks_itself_is_not_heard() -> None:
    inner: Any = Witness("repository", Root())

    class Past:
        def tell(self, path: str) -> str:
            return str(inner.read(path, 1))

    with Heard() as heard:
        assert Witness("past", Past()).tell("yes") == "b'yes'"
    assert [asked.who for asked in heard.asked] == ["past"]


def test_whoever_takes_a_known_value_hears_what_made_it_and_hears_it_once() -> None:
    root = Root()
    witness: Any = Witness("repository", root)
    known = Known()

    def make() -> Any:
        return witness.read("yes", 1)

    known.get("key", make)
    with Heard() as first:
        assert [known.get("key", make) for _ in range(3)] == [b"yes"] * 3
    with Heard() as second:
        known.put("key", make)
        known.get("key", make)
    assert (root.asked, len(first.asked), len(second.asked)) == (2, 1, 1)


def test_a_value_that_cannot_be_made_is_heard_and_not_known() -> None:
    root = Root()
    witness: Any = Witness("repository", root)
    known = Known()
    for _ in range(2):
        with Heard() as heard, pytest.raises(Unreadable):
            known.get("key", lambda: witness.read("no", 1))
        assert len(heard.asked) == 1
    assert root.asked == 2


def test_one_thread_does_not_hear_another() -> None:
    root: Any = Witness("repository", Root())
    with Heard() as heard:
        thread = threading.Thread(target=root.read, args=("yes", 1))
        thread.start()
        thread.join()
    assert heard.asked == []


@pytest.mark.parametrize(("size", "is_kept"), [(tape.HELD, True), (tape.HELD + 1, False)], ids=["last good", "first bad"])
def test_of_what_is_over_the_bound_the_digest_is_held(size: int, is_kept: bool) -> None:
    heard, data = Heard(), b"x" * size
    heard.hear(Asked("repository", "read", ("a", 1), data))
    [asked] = heard.asked
    assert asked.answer == (data if is_kept else Digest(canonical.digest(data)))


def test_what_holds_no_bytes_is_held_whatever_the_room() -> None:
    heard = Heard()
    for answer in (b"x" * (tape.HELD + 1), [b"x"], {"a": b"x"}, None, [], "name"):
        heard.hear(Asked("store", "ref", ("a",), answer))
    assert [type(asked.answer) for asked in heard.asked] == [Digest, Digest, Digest, type(None), list, str]


def test_who_is_told_the_answers_asks_nobody() -> None:
    told: Any = Told("store", lambda who, what, about: (who, what, about))
    assert told.ref("name") == ("store", "ref", ("name",))
    assert told.is_there == ("store", "is_there", ())
    with pytest.raises(AttributeError):
        told.put("id", b"")
