"""External CSV, JSON lines and Parquet: which values are accepted, and how others are reported."""

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mocketmq_report.ledger import external_files, external_parts
from mocketmq_report.ledger.columns import DELIVERIES
from mocketmq_report.ledger.external_files import FORMATS
from mocketmq_report.ledger.external_values import ABOUT_RUN, ROWS
from mocketmq_report.ledger.ledger import BrokenLedgerError, Columns
from mocketmq_report.ledger.places import Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DUE_US = 1_795_219_201_000_123
DEFAULTS: dict[str, Any] = dict.fromkeys([*DELIVERIES.names, "unreadable", *ABOUT_RUN]) | {
    "state": "delivered",
    "topic": "",
    "scheme": "absolute",
    "attempt": 1,
    "forced": False,
    "due_us": 1,
    "delivered_us": 2,
}
LEAST = "message_id,due_us,delivered_us\n"
ALL: dict[str, Any] = {
    **DEFAULTS,
    "message_id": "A",
    "run": "r1",
    "state": "expired",
    "parked_offset": 5,
    "delivered_offset": 6,
    "topic": "orders",
    "queue_id": 3,
    "queue_offset": 7,
    "scheme": "levels",
    "level": 4,
    "attempt": 2,
    "size": 100,
    "forced": True,
    "born_us": DUE_US - 5,
    "stored_us": DUE_US - 4,
    "due_us": DUE_US,
    "picked_us": DUE_US + 1,
    "delivered_us": DUE_US + 2,
    "pulled_us": DUE_US + 3,
    "pulled_by": "shop",
    "acked_us": DUE_US + 4,
    "fault": "slow disk",
    "broker": "broker-b",
    "version": "5.3.2",
    "host": "lab",
    "profile": "real",
    "clock": "real",
}
GIVEN = {name: value for name, value in ALL.items() if name != "unreadable"}


def write(folder: Path, texts: dict[str, str]) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        content = text.encode()
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return [folder / name for name in texts]


def look(*paths: Path) -> list[external_files.ExternalFile]:
    places = Places(None)
    return [external_files.inspect(places, places.find_data(str(path))) for path in paths]


def rows_of(*paths: Path) -> list[dict[str, Any]]:
    batches = [
        batch
        for file in look(*paths)
        for part in external_parts.parts_of(file)
        for batch in part.batches(Columns((), ()))
    ]
    assert all(batch.schema == ROWS for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def read(*paths: Path) -> dict[str | None, dict[str, Any]]:
    """Return the rows by message id."""
    rows = rows_of(*paths)
    found = {row["message_id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def row(message_id: str | None, path: Path, **changes: Any) -> dict[str, Any]:
    run = path.name.partition(".")[0]
    return DEFAULTS | {"message_id": message_id, "run": run, "source": str(path)} | changes


def wrong(path: Path) -> str:
    with pytest.raises(BrokenLedgerError) as broken:
        look(path)
    return str(broken.value)


def test_every_file_format_gives_the_same_columns(tmp_path: Path) -> None:
    texts = {name: str(value).lower() if value is True else str(value) for name, value in GIVEN.items()}
    paths = write(
        tmp_path / "odd [name], {100%} *",
        {
            "a b.csv": f"{','.join(texts)}\n{','.join(texts.values())}\n",
            "c.csv.gz": "\ufeff" + f"{' , '.join(texts)}\n{' , '.join(texts.values())}\n",
            "d.jsonl": json.dumps(GIVEN) + "\n\n",
            "e.ndjson": json.dumps(texts),
        },
    )
    pq.write_table(pa.Table.from_pylist([GIVEN]), tmp_path / "f.parquet")
    floats = {name: float(v) if type(v) is int else v for name, v in GIVEN.items()} | {"forced": 1}
    pq.write_table(pa.Table.from_pylist([floats]), tmp_path / "g.parquet")
    pq.write_table(pa.Table.from_pylist([texts]), tmp_path / "h.parquet")
    paths += [tmp_path / f"{name}.parquet" for name in "fgh"]
    found = rows_of(*paths)
    assert sorted(found, key=lambda each: str(each["source"])) == [
        ALL | {"source": str(path)} for path in sorted(paths)
    ]


def test_milliseconds_are_multiplied_and_defaults_filled_in(tmp_path: Path) -> None:
    path, other = write(
        tmp_path,
        {
            "ms.csv": "message_id,due_ms,delivered_ms,acked_us,level,state,scheme,x,topic\n"
            "A,1795219201000,1795219201003,1795219201004001,,,,,\n"
            'B,1,,,18,,,"1,""2","a ""b"", c"\n'
            'C,1,,,,lost,timer,3,"a,b\\"\n',
            "by state.csv": "message_id,due_us,state\nD,9,expired\n",
        },
    )
    assert read(path, other) == {
        "A": row(
            "A",
            path,
            due_us=1_795_219_201_000_000,
            delivered_us=1_795_219_201_003_000,
            acked_us=1_795_219_201_004_001,
        ),
        "B": row(
            "B",
            path,
            due_us=1_000,
            delivered_us=None,
            level=18,
            scheme="levels",
            state="pending",
            topic='a "b", c',
        ),
        "C": row("C", path, due_us=1_000, delivered_us=None, scheme="timer", state="lost", topic="a,b\\"),
        "D": row("D", other, due_us=9, delivered_us=None, state="expired"),
    }
    assert [file.ignored for file in look(path, other)] == [["x"], []]


def test_values_of_the_wrong_type_are_noted_with_the_reason(tmp_path: Path) -> None:
    header = "message_id,due_us,delivered_ms,attempt,forced,ignored\n"
    lines = {
        "A": ("1.5,2,1,true,x", "due_us is not a whole number of 64 bits"),
        "B": ("1,soon,1,1,x", "delivered_ms is not a whole number of 64 bits"),
        "C": ("1,9223372036854775,1,0,x", None),
        "D": ("1,9223372036854776,1,0,x", "delivered_ms is not a whole number of 64 bits"),
        "E": ("1,2,2147483648,no,x", "attempt is not a whole number of 32 bits"),
        "F": ("1,2,1,perhaps,x", "forced is not true or false"),
        "I": (" +1 , , ,,x", None),
        "J": ("99999999999999999999,2,1,0,x", "due_us is not a whole number of 64 bits"),
        "K": ("1e3,2,1,0,x", "due_us is not a whole number of 64 bits"),
    }
    (path,) = write(
        tmp_path, {"x.csv": header + "".join(f"{name},{line}\n" for name, (line, _) in lines.items())}
    )
    assert {each["message_id"]: each["unreadable"] for each in rows_of(path)} == {
        name: reason for name, (_, reason) in lines.items()
    }
    assert read(path)["C"]["delivered_us"] == 9_223_372_036_854_775_000


BROKEN = "more or fewer values than columns"


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        ("A,1,2", BROKEN),
        ("A,1,2,3,4", BROKEN),
        ('A,1,2,"open', "open"),
        ('A,1,2,5" wide', '5" wide'),
        ('A,"1\n",2,b', BROKEN),
        ('A,1,2,"a ""b"", c"', 'a "b", c'),
        ("A,1,2,\udcff", "\ufffd"),
        ("A,1,2, b\r", "b"),
    ],
)
def test_a_damaged_line_of_a_csv_does_not_touch_its_neighbours(tmp_path: Path, line: str, topic: str) -> None:
    path = tmp_path / "x.csv"
    good = [f"{n},1,2,t" for n in range(4)]
    path.write_bytes(
        "\n".join([f"{LEAST.strip()},topic", *good[:2], "", line, *good[2:]]).encode(
            "utf-8", "surrogateescape"
        )
    )
    found = rows_of(path)
    assert [row["message_id"] for row in found if row["topic"] == "t"] == ["0", "1", "2", "3"]
    other = [row["unreadable"] or row["topic"] for row in found if row["topic"] != "t"]
    assert set(other) == {topic}
    assert len(other) == (2 if "\n" in line else 1)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "csv.gz", "jsonl.zst", "csv.bz2"])
def test_a_large_text_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setattr(external_parts, "_PART_BYTES", 100)
    monkeypatch.setattr(external_parts, "_BLOCK_BYTES", 64)
    path = tmp_path / f"x.{ending}"
    text = LEAST if "csv" in ending else ""
    line = "{n},1,2\n" if "csv" in ending else '{{"message_id":{n},"due_us":1,"delivered_us":2}}\n'
    text += "".join(line.format(n=n) for n in range(90))
    with pa.output_stream(path) as file:  # compressed according to its name
        file.write(text.strip().encode())
    assert [row["message_id"] for row in rows_of(path)] == [str(n) for n in range(90)]
    (file_,) = look(path)
    assert (len(list(external_parts.parts_of(file_))) > 5) == (path.suffix in (".csv", ".jsonl"))


def test_line_without_an_object_is_one_bad_row(tmp_path: Path) -> None:
    lines = {
        '{"message_id": ': (None, "no JSON object"),
        "[1]": (None, "no JSON object"),
        '{"message_id":"A","due_us":1,"delivered_us":2}': ("A", None),
        '{"message_id":7,"due_us":"1","late":1}': ("7", None),
        '{"message_id":"B","due_us":1.5,"delivered_us":2}': ("B", "due_us is not a whole number of 64 bits"),
        '{"message_id":"C","due_us":1,"due_ms":1,"delivered_us":2}': ("C", "both due_us and due_ms"),
        '{"message_id":"D","due_ms":3,"delivered_us":null,"forced":false}': ("D", None),
        '{"message_id":"E","due_us":{"at":1}}': ("E", "due_us is not a whole number of 64 bits"),
    }
    (path,) = write(tmp_path, {"x.jsonl": "\n".join(lines)})
    rows = [(each["message_id"], each["unreadable"], each["due_us"]) for each in rows_of(path)]
    assert sorted(each[:2] for each in rows if each[0]) == sorted(each for each in lines.values() if each[0])
    assert [each[1] for each in rows if not each[0]] == ["no JSON object"] * 2
    assert {each[0]: each[2] for each in rows if not each[1]} == {"A": 1, "7": 1, "D": 3_000}
    assert look(path)[0].ignored == ["late"]


def test_doubles_of_parquet_must_be_whole(tmp_path: Path) -> None:
    nan = float("nan")
    table = {
        "message_id": pa.array(["A", "B", "C", "D", "E"]),
        "due_us": pa.array([float(DUE_US), 1.5, 2.0**53, 2.0**53 + 2, nan]),
        "delivered_us": pa.array([None, 1.0, 1.0, 1.0, nan]),
        "level": pa.array([1, 2, 3, 4, 5], pa.int8()),
        "topic": pa.array(["a", "a", "b", "b", None]).dictionary_encode(),
        "run": pa.array([1, 2, 3, 4, 5], pa.uint32()),
        "forced": [1, 0, None, 0, 2],
        "host": pa.nulls(5),
        "x": pa.array([[1]] * 5),
    }
    pq.write_table(pa.table(table), tmp_path / "x.parquet")
    found = read(tmp_path / "x.parquet")
    assert {name: each["unreadable"] for name, each in found.items()} == {
        "A": None,
        "B": "due_us is not a whole number of 64 bits",
        "C": None,
        "D": "due_us is not a whole number of 64 bits",
        "E": "forced is not true or false",
    }
    assert [found[name]["forced"] for name in "ABC"] == [True, False, False]
    assert (found["A"]["due_us"], found["A"]["state"], found["A"]["run"]) == (DUE_US, "pending", "1")
    assert (found["E"]["due_us"], found["E"]["state"], found["E"]["topic"]) == (None, "pending", "")


def test_files_with_equal_columns_are_read_together(tmp_path: Path) -> None:
    paths = write(tmp_path, {f"n{n}.csv": f"{LEAST}{n},1,2\n" for n in range(5)})
    paths += write(tmp_path, {"other.csv": "due_us,message_id,delivered_us\n1,5,2\n"})
    paths += write(
        tmp_path, {f"{n}.jsonl": f'{{"message_id":{n},"due_us":1,"delivered_us":2,"x{n}":1}}' for n in (6, 7)}
    )
    assert read(*paths) == {str(n): row(str(n), path) for n, path in enumerate(paths)}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_spark_reads_the_same_rows(spark: "SparkSession", tmp_path: Path, ending: str) -> None:
    from mocketmq_report.ledger import spark_rows
    from mocketmq_report.ledger.hadoop_places import HadoopPlaces

    texts = {
        "csv": [f"x,{LEAST.strip()},level", "1,A,1,2,3", "1,B,soon,2,", "1,C,1,2", '1,"D, E",1,,"3"'],
        "jsonl": ['{"message_id":"A","due_us":1,"state":"lost"}', "[", '{"message_id":7,"due_ms":"1"}'],
    }
    paths = [tmp_path / f"{name}.{ending}" for name in ("a", "b")]
    for path in paths:
        if ending == "parquet":
            table = {
                "message_id": ["A", "B"],
                "due_us": [1.0, 1.5],
                "delivered_us": [3, None],
                "forced": [1, 2],
            }
            pq.write_table(pa.table(table), path)
        else:
            path.write_text("\n".join(texts[ending]))
    places = HadoopPlaces()
    files = [external_files.inspect(places, places.find_data(str(path))) for path in paths]
    assert [file.columns for file in files] == [file.columns for file in look(*paths)]
    found = spark_rows.external(spark, files).toArrow().to_pylist()

    def of_interest(rows: list[dict[str, Any]]) -> list[str]:
        # For a broken line, Spark returns the values before the damage.
        broken = {"no JSON object", BROKEN}
        return sorted(
            str(row if row["unreadable"] not in broken else (row["unreadable"], row["source"]))
            for row in rows
        )

    assert of_interest(found) == of_interest(rows_of(*paths))


def test_a_folder_named_like_a_file_is_treated_as_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "all.csv"
    write(folder, {"part-0.csv": f"{LEAST}A,1,2\n", "part-1.csv": f"{LEAST}B,1,2\n", "_SUCCESS": ""})
    assert read(folder) == {name: row(name, folder) for name in "AB"}
    write(folder, {"part-2.csv": "message_id,due_us,state\n"})
    assert wrong(folder) == "its files have different columns"
    (tmp_path / "none.csv").mkdir()
    assert wrong(tmp_path / "none.csv") == "there is nothing in it"


NEEDED = (
    "; needed: message_id, due_us or due_ms, and delivered_us, delivered_ms or state (docs/ledger-format.md)"
)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.csv", "", "it is empty: the first line of a CSV file names its columns"),
        ("a.csv", "due_us,late\n", "it has no column message_id; found: due_us, late" + NEEDED),
        ("a.csv", "message_id\n", "it has no column due_us or due_ms; found: message_id" + NEEDED),
        (
            "a.csv",
            "message_id,due_us\n",
            "it has no column delivered_us or delivered_ms or state; found: message_id, due_us" + NEEDED,
        ),
        ("a.csv", "\n", "it has no column message_id; found: none" + NEEDED),
        ("a.csv", "due_us,message_id,due_us,state\n", "two of its columns are called due_us"),
        (
            "a.csv",
            "message_id,due_us,delivered_us,delivered_ms\n",
            "it has both delivered_us and delivered_ms; allowed: one of them",
        ),
        ("a.jsonl", "1\nx\n", "none of its first 2 lines is a JSON object"),
        (
            "a.jsonl",
            '{"due_us":1}\n{"state":1}',
            "it has no column message_id; found: due_us, state" + NEEDED,
        ),
        ("a.xlsx", "", f"its name has none of the endings of a ledger: {FORMATS}"),
    ],
)
def test_missing_columns_are_reported(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (path,) = write(tmp_path, {name: text})
    assert wrong(path) == reason


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (
            pa.array([1], pa.timestamp("us")),
            "timestamp[us]; allowed: a whole number of 64 bits",
        ),
        (pa.array([True]), "bool; allowed: a whole number of 64 bits"),
        (pa.array([1], pa.uint64()), "uint64; allowed: a whole number of 64 bits"),
        (pa.array([[1]]), "list<element: int64>; allowed: a whole number of 64 bits"),
    ],
)
def test_a_parquet_column_of_a_wrong_type_is_reported(tmp_path: Path, column: pa.Array, reason: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"message_id": ["A"], "due_us": column, "state": ["lost"]}), path)
    assert wrong(path) == f"its column due_us is {reason}"


def test_empty_files_are_empty_ledgers(tmp_path: Path) -> None:
    assert read(*write(tmp_path, {"a.csv": LEAST, "b.jsonl": "", "c.csv": LEAST.strip()})) == {}


def test_ignored_columns_may_have_any_name(tmp_path: Path) -> None:
    (path,) = write(tmp_path, {"a.csv": f"x,x,,DUE_US,a b.c`,{LEAST.strip()}\n1,2,3,4,5,A,1,2\n"})
    assert read(path) == {"A": row("A", path)}
    assert look(path)[0].ignored == ["x", "x#1", "", "DUE_US", "a b.c`"]
