"""Cells of rows with the same keys, compared with plain Python."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mocketmq_report.compute.cells import Cells
from mocketmq_report.ledger.codes import Codes, joined, of_column, of_numbers

TEXTS = ["a", "b", None, "c"]
KEYS: dict[str, list[Any]] = {
    "near": list(range(-3, 4)),
    "far": [-(1 << 61), 0, 5, 1 << 61],
    "texts": TEXTS,
    "truths": [True, False],
    "nullable": [None, 1, 1 << 40],
}


def codes_of(name: str, values: list[Any]) -> Codes:
    if name in ("near", "far"):
        return of_numbers(np.array(values, np.int64))
    column = pa.array(values)
    return of_column(column.dictionary_encode() if name == "texts" else column)


@pytest.mark.parametrize("rows", [0, 1, 500])
@pytest.mark.parametrize(
    "names", [["near"], ["texts", "truths"], ["nullable", "far"], [*KEYS], ["far", "far", "far", "near"]]
)
def test_cells_aggregate_rows_with_equal_keys(names: list[str], rows: int) -> None:
    random = Random(rows)
    columns = [[random.choice(KEYS[name]) for _ in range(rows)] for name in names]
    values = [random.randrange(-(1 << 50), 1 << 50) for _ in range(rows)]
    expected: dict[tuple[Any, ...], list[int]] = {}
    for *key, value in zip(*columns, values, strict=True):
        expected.setdefault(tuple(key), []).append(value)
    cells = Cells(*map(codes_of, names, columns))
    numbers = np.array(values, np.int64)
    found = zip(
        *([column[place] for place in cells.places] for column in columns),
        *(
            each.tolist()
            for each in (cells.count, cells.sum(numbers), cells.least(numbers), cells.most(numbers))
        ),
        strict=True,
    )
    assert sorted(found, key=str) == sorted(
        ((*key, len(those), sum(those), min(those), max(those)) for key, those in expected.items()), key=str
    )


def test_codes_of_many_wide_keys_stay_below_64_bits() -> None:
    wide = of_numbers(np.array([0, (1 << 32) - 1, 7, 7], np.int64))
    numbers, size = joined([wide] * 9)
    assert size <= 1 << 63
    assert [number == numbers[2] for number in numbers] == [False, False, True, True]
    assert len({*numbers.tolist()}) == 3
