"""Tables are as wide as necessary, or as the terminal allows."""

import pytest

from mocketmq.cli.table import Table
from mocketmq.cli.text import cell_width, fold, harmless

COLUMNS = ("time", "id", ">size", "tag", "body")
ROWS = (
    ("2023-11-14T22:13:20.007Z", "E3186257647E1A2041DB157000000000", 7, "paid", "short"),
    (
        "2023-11-14T22:13:20.008Z",
        "E3186257647E1A2041DB157000000001",
        12_345,
        None,
        "a longer body a longer body a longer body a longer body",
    ),
)


def shown(width: int | None, **options: object) -> list[str]:
    return list(Table(COLUMNS, ROWS, **options).lines(width))  # type: ignore[arg-type]


def test_row_is_one_line_without_a_terminal() -> None:
    heading, rule, *rows = shown(None, least=("tag", "size"), folded="body")
    assert heading == f"{'time':<24}   {'id':<32}    size   tag    body"
    assert rule == "─" * (24 + 32 + 5 + 4 + 55 + 4 * 3)
    assert rows == [
        "2023-11-14T22:13:20.007Z   E3186257647E1A2041DB157000000000       7   paid   short",
        "2023-11-14T22:13:20.008Z   E3186257647E1A2041DB157000000001   12345   –      "
        + "a longer body a longer body a longer body a longer body",
    ]


def test_a_long_text_is_folded_between_its_words() -> None:
    heading, _, first, *second = shown(104, folded="body")
    assert heading.split() == ["time", "id", "size", "tag", "body"]
    assert first.endswith("paid   short")
    assert [line[77:] for line in second] == ["a longer body a longer body", "a longer body a longer body"]
    assert {len(line[:77].split()) for line in second} == {4, 0}


def test_columns_are_left_out_the_least_important_first() -> None:
    heading, _, *rows, note = shown(100, least=("tag", "size"), folded="body")
    assert heading.split() == ["time", "id", "size", "body"]
    assert note == "not shown here: tag"
    heading, _, *rows, note = shown(90, least=("tag", "size"), folded="body")
    assert heading.split() == ["time", "id", "body"]
    assert note == "not shown here: size, tag"
    assert all(cell_width(row) <= 90 for row in rows)


def test_ids_and_instants_are_whole_when_they_fit() -> None:
    for width in (59, 60):
        heading, _, *rows, _ = shown(width, least=("tag", "size", "body"), folded="body")
        assert heading.split() == ["time", "id"]
        assert [row.split() for row in rows] == [list(row[:2]) for row in ROWS]
    _, _, first, *_ = shown(40, least=("tag", "size", "body"), folded="body")
    assert first == "2023-11-14T22:13:…   E3186257647E1A2041…"


def test_names_are_shortened_as_the_last_resort() -> None:
    rows = [("g" * 255, "orders", 3, 12), ("billing", "t" * 127, 4, 7)]
    table = Table(("group", "topic", ">queue", ">lag"), rows, least=("queue",), cut=("group", "topic"))
    heading, _, first, second, note = table.lines(40)
    assert heading.split() == ["group", "topic", "lag"]
    assert (first.split(), second.split()) == (
        ["g" * 14 + "…", "orders", "12"],
        ["billing", "t" * 15 + "…", "7"],
    )
    assert note == "not shown here: queue"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 400])
def test_a_table_fits_any_terminal(width: int) -> None:
    rows = [("订" * 127, "E3186257647E1A2041DB157000000000", 7, "r " * 200), ("a", "b", 1, "c" * 255)]
    columns = ("topic", "message", ">queue", "reason")
    for options in ({"cut": ["topic"]}, {"cut": ["topic"], "folded": "reason"}, {}):
        assert max(map(cell_width, Table(columns, rows, least=("queue",), **options).lines(width))) <= width


def test_columns_without_a_value_go_first() -> None:
    table = Table(("a", "b", "c", "d"), [("x" * 10, None, "", "y" * 10)], least=("a",))
    assert next(table.lines(27)).split() == ["a", "b", "d"]
    assert next(table.lines(26)).split() == ["a", "d"]
    assert next(table.lines(22)).split() == ["d"]


def test_a_table_may_have_no_rows() -> None:
    assert list(Table(("a", ">b"), []).lines(80)) == ["a   b", "─────"]


def test_cells_are_escaped_and_shortened() -> None:
    _, _, first, second = Table(("text", ">n"), [("[red]a\tb\x1b[0m é", 7), (None, "x" * 1000)]).lines(None)
    assert first.split("   ")[0] == "[red]a\\tb\\x1b[0m é"
    assert second == f"{'–':<18}   {'x' * 500}…"
    assert harmless("a\nb\x07", "\n") == "a\nb\\x07"


def test_wide_characters_keep_the_columns_in_line() -> None:
    _, _, *rows = Table(("body", ">n"), [("订单", 1), ("e\u0301a", 22)]).lines(None)
    assert rows == ["订单    1", "e\u0301a     22"]
    assert [cell_width(row) for row in rows] == [9, 9]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 5, [""]),
        ("one two", 7, ["one two"]),
        ("one two", 6, ["one", "two"]),
        ("  indented", 20, ["  indented"]),
        ("ab longword c", 4, ["ab", "long", "word", "c"]),
        ("订单订单", 5, ["订单", "订单"]),
        ("订", 1, ["订"]),
    ],
)
def test_lines_end_between_words(text: str, width: int, lines: list[str]) -> None:
    assert list(fold(text, width)) == lines
