"""Sections, symbols and pieces of files (PIPELINE 2), with every break of FORMAT 5.3 in every place."""

from __future__ import annotations

import re
import sys
import textwrap
import warnings
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sdaqf_tasks.context.excerpts import Heading, Span, characters, headings, pieces, section, symbol
from sdaqf_tasks.errors import Invalid, Reason
from sdaqf_tasks.world import TERMINATORS, lines

BREAKS = ["\r\n", *TERMINATORS]
FINER = [end for end in BREAKS if end not in ("\n", "\r", "\r\n")]
"""Breaks that FORMAT 5.3 counts, and neither Markdown nor Python."""

TEXTS = st.lists(st.sampled_from([*BREAKS, "#", "# ", "## b", "`", "```", "~~~", "---", "===", " ", "a", "def a", "@a", "- ", "|"])).map(
    "".join
)


def selected(text: str, span: Span) -> str:
    return "".join(lines(text)[span.first - 1 : span.last])


def outline(text: str) -> list[tuple[int, str, int]]:
    """Level, text and first line of each heading."""
    return [(level, name, span.first) for level, name, span in headings(text)]


def refusal(text: str, wanted: str, find: Callable[[str, str], Span]) -> Invalid:
    with pytest.raises(Invalid) as caught:
        find(text, wanted)
    assert caught.value.reason is Reason.MANIFEST_INVALID
    return caught.value


class TestHeadings:
    """An ATX or Setext heading outside fences."""

    @pytest.mark.parametrize(
        ("line", "level", "name"),
        [
            ("# a", 1, "a"),
            ("###### a", 6, "a"),
            ("   ##\ta b ", 2, "a b"),
            ("# a ##", 1, "a"),
            ("# a ## ##", 1, "a ##"),
            ("# a#", 1, "a#"),
            ("# C#  #", 1, "C#"),
            ("##", 2, ""),
            ("## ##", 2, ""),
            ("# `a` *b*", 1, "`a` *b*"),
            ("\ufeff# a", 1, "a"),
        ],
    )
    def test_atx(self, line: str, level: int, name: str) -> None:
        assert headings(f"{line}\ntext\n") == [Heading(level, name, Span(1, 2))]

    @pytest.mark.parametrize(
        "line", ["#a", "####### a", "    # a", "\t# a", "\\# a", "- # a", "1. # a", "> # a", "a # b", "\ufeff\ufeff# a"]
    )
    def test_lines_that_are_no_heading(self, line: str) -> None:
        assert headings(f"{line}\n") == []

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("a\n===\n", [(1, "a", 1)]),
            ("a\n-\n", [(2, "a", 1)]),
            ("\n  a  \n   ---  \n", [(2, "a", 2)]),
            ("one\ntwo\n    three\n---\n", [(2, "one two three", 1)]),
            ("# a\nb\n---\n", [(1, "a", 1), (2, "b", 2)]),
            ("[a]: /u\nb\n---\n", [(2, "b", 2)]),
            ('<a name="a"></a>\nb\n---\n', [(2, '<a name="a"></a> b', 1)]),
            ("- a\n\nb\n---\n", [(2, "b", 3)]),
        ],
    )
    def test_setext(self, text: str, expected: list[tuple[int, str, int]]) -> None:
        assert outline(text) == expected

    @pytest.mark.parametrize(
        "text",
        [
            "a\n\n---\n",
            "---\n",
            "===\n",
            "a\n    ---\n",
            "    a\n---\n",
            "a\n- - -\n",
            "a\n--- -\n",
            "- a\n---\n",
            "- a\nb\n---\n",
            "a\n- b\n---\n",
            "1. a\n---\n",
            "> a\n---\n",
            "| a | b |\n|---|---|\n| c | d |\n---\n",
            "a | b\n--- | ---\n---\n",
            "</p>\n---\n",
            "<div>\na\n---\n",
            "[a]: /u\n---\n",
            "***\n---\n",
        ],
    )
    def test_an_underline_below_anything_but_plain_text_makes_no_heading(self, text: str) -> None:
        assert headings(text) == []

    @pytest.mark.parametrize(
        "text",
        [
            "```\n# a\n```\n",
            "~~~ py\n# a\n```\n# a\n~~~\n",
            "````\n# a\n```\n# a\n`````  \n",
            "   ```\n# a\n    ```\n# a\n   ```\n",
            "``` a\n# a\n``` a\n# a\n```\n",
            "text\n```\n# a\n```\n",
            "- ```sh\n  # a\n  ```\n",
            "10. ```sh\n   # a\n    ```\n",
            "```\nnever closed\n\n# a\n",
            "<!--\n# a\n\n# b\n-->\n",
            "text\n<!-- a\n===\n-->\n",
            "<pre>\n\n# a\n</pre>\n",
            "---\n# a\nb: c\n---\n",
            "---\n# a\nb: c\n...\n",
        ],
    )
    def test_what_stands_in_code_comments_and_front_matter_is_no_heading(self, text: str) -> None:
        assert headings(text) == []
        assert [heading.text for heading in headings(text + "\n# z\n")] == ([] if "never" in text else ["z"])

    @pytest.mark.parametrize(
        "text", ["```a`\n# a\n", "``\n# a\n", "<!-- b -->\n# a\n", "---\n\n# a\n---\n", "---\n# a\n", "\n---\n# a\n---\n"]
    )
    def test_what_opens_nothing_hides_nothing(self, text: str) -> None:
        assert [heading.text for heading in headings(text)] == ["a"]

    @pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
    def test_a_section_ends_before_the_next_heading_of_its_level_or_a_higher_one(self, end: str) -> None:
        text = end.join(["intro", "# a", "", "## b", "x", "### c", "y", "two", "lines", "---", "z", "# d", ""])
        assert headings(text) == [
            Heading(1, "a", Span(2, 11)),
            Heading(2, "b", Span(4, 6)),
            Heading(3, "c", Span(6, 6)),
            Heading(2, "y two lines", Span(7, 11)),
            Heading(1, "d", Span(12, 12)),
        ]

    @pytest.mark.parametrize("end", FINER)
    def test_lines_are_those_of_the_format_and_text_is_that_of_markdown(self, end: str) -> None:
        text = f"x{end}y{end}z\n# a{end}b\nc{end}# no\n\n## e\nf{end}g\n# h"
        assert headings(text) == [Heading(1, f"a{end}b", Span(4, 11)), Heading(2, "e", Span(9, 11)), Heading(1, "h", Span(12, 12))]
        assert selected(text, Span(4, 11)) == f"# a{end}b\nc{end}# no\n\n## e\nf{end}g\n"

    @given(TEXTS)
    def test_sections_of_any_text_begin_with_their_heading_and_are_nested(self, text: str) -> None:
        found = headings(text)
        for one, other in pairwise(found):
            assert one.span.first < other.span.first
            assert one.span.last == other.span.first - 1 if other.level <= one.level else one.span.last >= other.span.last
        for heading in found:
            assert 1 <= heading.span.first <= heading.span.last <= len(lines(text))
            assert heading.text == heading.text.strip()
            assert heading.text.split(" ")[0] in selected(text, heading.span)

    @given(TEXTS)
    def test_the_kind_of_line_end_changes_no_heading(self, text: str) -> None:
        plain = re.sub("\r\n?", "\n", text)
        assert headings(plain.replace("\n", "\r\n")) == headings(plain.replace("\n", "\r")) == headings(plain)

    def test_the_empty_file_has_none(self) -> None:
        assert headings("") == []


CLOSED = [
    "text\n",
    "a\nb\n",
    "```\n# a\n~~~\n```\n",
    "<!--\n# a\n-->\n",
    "- # a\n",
    "| a |\n|--|\n",
    "### deeper\n",
    "a\x0bb\u2028# a\r\n",
    "    # a\r",
]


class TestSection:
    """A section is the one whose heading's text equals the value."""

    @given(*[st.lists(st.sampled_from(CLOSED)).map("\n".join)] * 3, st.booleans())
    def test_a_file_that_grows_elsewhere_keeps_its_sections_text(self, before: str, inside: str, after: str, last: bool) -> None:
        wanted = f"## Wanted\n{inside}\n"
        text = f"{before}\n\n{wanted}" + ("" if last else f"# next\n{after}")
        assert selected(text, section(text, "Wanted")) == wanted

    def test_none_of_the_name_offers_the_nearest(self) -> None:
        error = refusal("# Decision\n## Decisions\n## Context\n", "Decison", section)
        assert error.message == 'no heading is called "Decison"'
        assert error.todo == 'Nearest: "Decision", "Decisions"'

    @pytest.mark.parametrize("wanted", ["DECISION", "## Decision", "Decision ##"])
    def test_marks_and_case_are_compared_and_understood(self, wanted: str) -> None:
        assert refusal("# Decision\n", wanted, section).todo == 'Nearest: "Decision"'

    def test_where_nothing_is_near_what_there_is_is_offered(self) -> None:
        text = "".join(f"# {name}\n" for name in ["b\x1b[31m", "a", *"cdefg"])
        assert refusal(text, "Something else", section).todo == r'It has: "b\x1b[31m", "a", "c", "d", "e", "f", …'
        assert refusal("text\n# \n", "a", section).todo == "It has no heading: name lines, or the whole file."

    def test_several_of_the_name_are_an_error_with_their_lines(self) -> None:
        error = refusal("# Added\na\n# x\n\n## Added\x0b\n# Added\n", "Added", section)
        assert error.message == '3 headings are called "Added": lines 1-2, 5-6, 7-7'


SOURCE = textwrap.dedent(
    """\
    import a

    @first
    # between
    @second(
        1,
    )
    class A(B):
        x = 1

        @property
        def m(self):
            def inner():
                pass
            return inner  # last

        async def n(self): pass

    if a:
        def f(): ...
    elif b:
        pass
    else:
        class C:
            def m(self): ...
    try:
        def t1(): ...
    except E:
        def t2(): ...
    else:
        def t3(): ...
    finally:
        def t4(): ...
    with a:
        for b in c:
            while d:
                match e:
                    case 1:
                        def deep(): ...
    """
)

OTHERS = [
    "# {b}{e}",
    "x = '{b}'  # {b}def no(){e}",
    "y = '''{b}{e}def no(): pass{e}'''{e}",
    "\f{e}",
    "if x: pass  # {b}{e}",
]
WANTED = "@d('{b}')  # {b}{e}async def wanted(a='{b}'):{e}    '''{b}{e}{e}'''{e}    # {b}{e}    return '{b}' \\{e} '{b}'  # {b}{e}"


class TestSymbol:
    """A symbol goes from its first decorator to the end of its definition."""

    @pytest.mark.parametrize(
        ("wanted", "first", "last"),
        [
            ("A", 3, 17),
            ("A.m", 11, 15),
            ("A.m.inner", 13, 14),
            ("A.n", 17, 17),
            ("f", 20, 20),
            ("C", 24, 25),
            ("C.m", 25, 25),
            ("t1", 27, 27),
            ("t2", 29, 29),
            ("t3", 31, 31),
            ("t4", 33, 33),
            ("deep", 39, 39),
        ],
    )
    def test_functions_and_classes_nested_by_dots_under_whatever_statement(self, wanted: str, first: int, last: int) -> None:
        assert symbol(SOURCE, wanted) == (first, last)

    @given(st.data())
    def test_what_is_selected_is_the_definitions_whole_lines_whatever_breaks_stand_where(self, data: st.DataObject) -> None:
        breaks, ends = st.sampled_from(["", "a", *FINER]), st.sampled_from(["\n", "\r\n", "\r"])
        others = st.lists(st.sampled_from(OTHERS), max_size=3).map("".join)

        def filled(template: str) -> str:
            return re.sub(r"\{[be]\}", lambda hole: data.draw(breaks if hole[0] == "{b}" else ends), template)

        before, wanted, after = filled(data.draw(others)), filled(WANTED), filled(data.draw(others))
        if data.draw(st.booleans()):
            wanted, after = wanted.rstrip(TERMINATORS), ""
        for mark in ("", "\ufeff"):
            text = mark + before + wanted + after
            assert selected(text, symbol(text, "wanted")).removeprefix(mark) == wanted

    @pytest.mark.parametrize(
        ("text", "first"),
        [
            ("@(  # @no\n\n    # no\n    d)\ndef f(): pass\n", 1),
            ("x = 1\n@\\\nd\n@e\nclass f: pass\n", 2),
            ("\ufeff@d\ndef f(): pass\n", 1),
            ("if x:\n\t@(d\n\t@ e)\n\tdef f(): pass\n", 2),
            ("\f@d\ndef f(): pass\n", 1),
        ],
    )
    def test_the_first_decorator_begins_at_its_sign(self, text: str, first: int) -> None:
        assert symbol(text, "f") == (first, len(lines(text)))

    @pytest.mark.parametrize("wanted", ["import a", "x", "A.x", "m", "inner", "", "a.A"])
    def test_nothing_else_is_a_symbol(self, wanted: str) -> None:
        assert refusal(SOURCE, wanted, symbol).message == f'no symbol is called "{wanted}"'

    def test_an_unknown_one_offers_the_nearest(self) -> None:
        assert refusal(SOURCE, "A.innr", symbol).todo == 'Nearest: "A.m.inner", "A.n"'
        assert refusal(SOURCE, "inner", symbol).todo == 'Nearest: "A.m.inner"'
        assert refusal("x = 1\n", "x", symbol).todo == "It has no symbol: name lines, or the whole file."

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "@overload\ndef f(a): ...\n@overload\ndef f(b): ...\ndef f(c): ...\n",
                '3 symbols are called "f": lines 1-2, 3-4, 5-5',
            ),
            ("if a:\n    def f(): ...\nelse:\n    def f(): ...\n", '2 symbols are called "f": lines 2-2, 4-4'),
            ("# \x0b\ndef f(): ...\nclass f: ...\n", '2 symbols are called "f": lines 3-3, 4-4'),
        ],
    )
    def test_several_of_one_name_are_an_error_with_their_lines(self, text: str, message: str) -> None:
        assert refusal(text, "f", symbol).message == message

    @pytest.mark.parametrize(
        ("text", "where"),
        [
            ("def f(): pass\nprint 'a'\n", "line 2"),
            ("# \x0b \x85\ndef f(): pass\n  x\n", "line 5"),
            ("def f(): pass\nx = (\n", "line 2"),
            ("def f():\n", "line 1"),
            ("def f(): pass\n\x0bx = 1\n", "line 2"),
            ("def f(): pass\nx\xa0= 1\n", "line 2"),
            ("# Heading\n\nOnly text.\n", "line 3"),
            ("def f(): pass\n" + "-" * 100_000 + "1\n", "too deep, or not the characters of a program"),
            ("def f(): pass\n'\ud800'\n", "too deep, or not the characters of a program"),
        ],
    )
    def test_a_file_that_this_python_cannot_parse_is_an_error_that_says_so(self, text: str, where: str) -> None:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        assert refusal(text, "f", symbol).message == f"this Python ({version}) cannot parse it: {where}"
        assert symbol("def f(): pass\n", "f") == (1, 1)

    def test_a_long_chain_of_conditions_is_no_matter(self) -> None:
        text = "if a: pass\n" + "elif a: pass\n" * 500 + "else:\n    def f(): pass\n"
        assert symbol(text, "f") == (503, 503)

    def test_warnings_about_the_file_are_not_ours_to_give(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert symbol('def f(): return "\\d" is 1\n', "f") == (1, 1)


BEGINS = {"a.py": r"^(?:async def|def|class|@)\b", "a.md": r"^#{1,6} ", "a.markdown": r"^#{1,6} ", "a.txt": r"(?!)", "md": r"(?!)"}


class TestPieces:
    """A long file becomes consecutive pieces, each within the limit."""

    @given(TEXTS, st.sampled_from(sorted(BEGINS)), st.integers(8, 40))
    def test_every_line_is_in_one_piece_and_every_cut_is_where_the_rule_says(self, text: str, path: str, limit: int) -> None:
        rows = lines(text)
        assume(all(len(row) <= limit for row in rows))
        found = pieces(text, path, limit)
        assert "".join(selected(text, span) for span in found) == text
        assert all(characters(text, span) <= limit for span in found)
        first = 0
        for span in found[:-1]:
            fitting = max(end for end in range(first, len(rows)) if sum(map(len, rows[first:end])) <= limit)
            matching = [line for line in range(first + 1, fitting) if re.match(BEGINS[path], rows[line])]
            assert span == (first + 1, matching[-1] if matching else fitting)
            first = span.last
        assert found[-1] == (first + 1, len(rows))

    def test_a_file_within_the_limit_is_one_piece(self) -> None:
        assert pieces("def a\n" * 2, "a.py", 12) == [(1, 2)]
        assert pieces("def a\n" * 2 + "\n", "a.py", 12) == [(1, 1), (2, 3)]
        assert pieces("", "a.py") == [(1, 1)]
        assert pieces("a" * 65_536, "a.py") == [(1, 1)]

    @pytest.mark.parametrize("line", ["def f", "async def f", "class F", "@d", "def", "class-"])
    def test_python_is_cut_before_the_last_line_that_begins_a_definition(self, line: str) -> None:
        assert pieces(f"12345\n{line}\n12345\n12345\n", "a/b.py", len(line) + 13) == [(1, 1), (2, 4)]

    @pytest.mark.parametrize("line", [" def f", "define", "async  def f", "@ d", "@", "classe", "# a"])
    def test_no_other_line_of_python_is_a_place_to_cut(self, line: str) -> None:
        assert pieces(f"12345\n{line}\n12345\n12345\n", "a/b.py", len(line) + 13) == [(1, 3), (4, 4)]

    def test_the_rule_is_lexical_and_parts_a_definition_from_its_decorator(self) -> None:
        assert pieces("1\n@d\ndef f\n2\n3\n", "a.py", 13) == [(1, 2), (3, 5)]

    def test_a_line_that_is_the_first_not_to_fit_is_not_looked_at(self) -> None:
        assert pieces("1\ndef a\n2\ndef b\n", "a.py", 10) == [(1, 1), (2, 3), (4, 4)]

    def test_a_line_after_an_odd_break_is_a_line(self) -> None:
        assert pieces("12345\x0c# a\n1\n12345\n", "a.md", 12) == [(1, 1), (2, 4)]

    def test_a_line_that_no_piece_can_hold_is_an_error_that_names_it(self) -> None:
        with pytest.raises(Invalid) as caught:
            pieces("a\n" + "b" * 65_536 + "\n", "a.md")
        assert caught.value.reason is Reason.SOURCE_TEXT_LIMIT
        assert caught.value.message == "line 2 alone has 65,537 characters; a source has at most 65,536"


class TestCharacters:
    """Of the selected text, terminators included."""

    @given(TEXTS, st.integers(1, 9), st.integers(0, 9))
    def test_they_are_those_of_the_selected_text(self, text: str, first: int, more: int) -> None:
        assert characters(text, Span(first, first + more)) == len(selected(text, Span(first, first + more)))
