"""Finds messages with several rows, in two steps, without collecting rows in one place.

A batch finds its own repeats, and returns the numbers of its messages as masks of 64 neighbouring numbers.
The number of a message is its offset, or a hash of its id. A bucket of 64 numbers is suspect if several
batches saw the same number in it. Only parts with suspect buckets are read again. There are few such parts,
because most repeats are close together.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mocketmq_report.ledger.columns import DELIVERIES
from mocketmq_report.ledger.rows import NONE, Bools, Ints, Rows

SEEN: Final = pa.schema(
    [
        *(("store", pa.int64()), ("is_hash", pa.bool_()), ("bucket", pa.int64())),
        ("mask", pa.int64()),
    ]
)
AGAIN: Final = pa.schema(
    [
        *(DELIVERIES.field(name) for name in ("run", "scheme", "level")),
        *(("store", pa.string()), ("parked_offset", pa.int64()), ("message_id", pa.string())),
        *(("attempt", pa.int32()), ("state", pa.string()), ("forced", pa.bool_())),
        ("is_overdue", pa.bool_()),
    ]
)
_FROM_LEDGER: Final = ("run", "scheme", "level", "parked_offset", "state", "forced")
_MESSAGE: Final = ("store", "parked_offset", "message_id", "attempt")
_BITS: Final = 6
_ONES: Final = np.array([byte.bit_count() for byte in range(256)])
_HASH_BITS: Final = 46
"""Number of bits of a hash. Among fifty million messages, about twenty are suspect by chance."""
_LONGEST: Final = 512  # number of characters of an id that are hashed
_WEIGHTS: Final = np.random.default_rng(17).integers(1, 1 << 62, _LONGEST + 2, np.int64) | 1


class Seen(NamedTuple):
    """The numbers that a batch saw."""

    numbers: pa.Table  # a table of the schema ``SEEN``
    is_twice: Bools  # whether another row of the batch has the same number


def seen(rows: Rows, stores: Ints) -> Seen:
    """Find the numbers in a batch; ``stores`` has the number of each row's store."""
    number, is_hash = _numbers(rows)
    found = [SEEN.empty_table()]
    is_twice = np.zeros(len(rows), bool)
    lines = stores * 2 + is_hash
    for line in np.flatnonzero(np.bincount(lines)):
        store, is_hashed = divmod(int(line), 2)
        is_in = lines == line
        of_line = number if is_in.all() else number[is_in]
        numbers = np.sort(of_line, kind="stable")  # this kind is fast for almost sorted numbers
        is_same = numbers[1:] == numbers[:-1]
        if is_same.any():
            is_twice |= is_in & _is_among(number, numbers[1:][is_same])
        buckets = numbers >> _BITS
        starts = np.flatnonzero(np.append(True, buckets[1:] != buckets[:-1]))
        found.append(
            pa.table(
                {
                    "store": pa.repeat(store, len(starts)),
                    "is_hash": pa.repeat(bool(is_hashed), len(starts)),
                    "bucket": buckets[starts],
                    "mask": np.bitwise_or.reduceat(np.int64(1) << (numbers & 63), starts),
                },
                schema=SEEN,
            )
        )
    return Seen(pa.concat_tables(found), is_twice)


def suspects(seen: pa.Table) -> pa.Table:
    """Return the buckets in which batches share a number, with the masks of all batches combined."""
    found = [SEEN.empty_table()]
    stores, is_hash = seen["store"].to_numpy(), seen["is_hash"].to_numpy()
    for store in np.unique(stores):
        for is_hashed in (False, True):
            is_in = (stores == store) & (is_hash == is_hashed)
            bucket, mask = (seen[name].to_numpy()[is_in] for name in ("bucket", "mask"))
            if not len(bucket):
                continue
            in_order = np.argsort(bucket, kind="stable")
            bucket, mask = bucket[in_order], mask[in_order]
            starts = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
            masks = np.bitwise_or.reduceat(mask, starts)
            again = _ones(masks) < np.add.reduceat(_ones(mask), starts)
            length = int(again.sum())
            found.append(
                pa.table(
                    {
                        **{"store": pa.repeat(int(store), length), "is_hash": pa.repeat(is_hashed, length)},
                        **{"bucket": bucket[starts][again], "mask": masks[again]},
                    },
                    schema=SEEN,
                )
            )
    return pa.concat_tables(found)


def has_suspects(seen: pa.Table, suspects: pa.Table) -> bool:
    """Return whether a part saw any of the suspect buckets."""
    keys = ["store", "is_hash", "bucket"]
    return bool(seen.select(keys).join(suspects.select(keys), keys, join_type="left semi").num_rows)


def elsewhere(rows: Rows, stores: Ints, suspects: pa.Table) -> Bools:
    """Return which rows of a batch are in suspect buckets, except repeats that the batch itself found."""
    number, is_hash = _numbers(rows)
    is_suspect = np.zeros(len(rows), bool)
    for store in np.unique(stores):
        for is_hashed in (False, True):
            wanted = (suspects["store"].to_numpy() == store) & (suspects["is_hash"].to_numpy() == is_hashed)
            buckets = suspects["bucket"].to_numpy()[wanted]
            is_in = (stores == store) & (is_hash == is_hashed)
            is_suspect |= is_in & np.isin(number >> _BITS, buckets)
    return is_suspect & ~seen(rows, stores).is_twice


def again(rows: Rows, stores: Ints, names: Sequence[str], is_overdue: Bools, is_again: Bools) -> pa.Table:
    """Select the possible repeats, for which ``is_again`` is true.

    ``names`` has the names of the stores, by number.
    """
    chosen = rows.where(is_again)
    has_none = pa.array(chosen.numbers("parked_offset") == NONE)
    columns = {name: chosen.text([name])[name] for name in AGAIN.names if name in _FROM_LEDGER}
    for name in ("message_id", "attempt"):  # only needed for messages without an offset
        found = chosen.column(name) if name in chosen else pa.nulls(len(chosen))
        columns[name] = pc.if_else(has_none, found.cast(AGAIN.field(name).type), None)
    columns["store"] = pa.array(names, pa.string()).take(pa.array(stores[is_again]))
    columns["is_overdue"] = pa.array(is_overdue[is_again])
    return pa.table(columns, schema=AGAIN)


def several(rows: pa.Table) -> pa.Table:
    """Select the rows of messages with several rows: equal offsets in a store, or equal ids and attempts."""
    numbered = rows.append_column("row", pa.array(np.arange(rows.num_rows)))
    counts = numbered.group_by(list(_MESSAGE)).aggregate([("row", "list"), ([], "count_all")])
    found = counts.filter(pa.array(counts["count_all"].to_numpy() > 1))["row_list"].combine_chunks()
    return rows.take(found.flatten())


def _ones(masks: Ints) -> Ints:
    """Count the bits set in each mask."""
    found: Ints = _ONES[masks.view(np.uint8)].reshape(-1, 8).sum(axis=1)
    return found


def _is_among(values: Ints, few: Ints) -> Bools:
    """Return whether each value is among a few sorted values."""
    found: Bools = few[np.minimum(np.searchsorted(few, values), len(few) - 1)] == values
    return found


def _numbers(rows: Rows) -> tuple[Ints, Bools]:
    """Return the number of each row's message, and whether the number is a hash."""
    number = rows.numbers("parked_offset")
    is_hash: Bools = number == NONE
    if is_hash.any():
        number = number.copy()
        number[is_hash] = _hashes(rows.where(is_hash))
    return number, is_hash


def _hashes(rows: Rows) -> Ints:
    """Hash ids and attempts as letters times random weights, which are the same in every process."""
    ids = rows.column("message_id")
    _, ends_buffer, letters_buffer = ids.buffers()
    ends = np.frombuffer(ends_buffer, np.int32)[ids.offset : ids.offset + len(ids) + 1]
    letters = np.frombuffer(letters_buffer, np.uint8)[ends[0] : ends[-1]].astype(np.int64)
    ends, lengths = ends - ends[0], np.diff(ends)
    at = np.minimum(np.arange(len(letters)) - np.repeat(ends[:-1], lengths), _LONGEST - 1)
    sums = np.add.reduceat((letters + 1) * _WEIGHTS[at], ends[:-1])
    mixed = sums + rows.numbers("attempt") * _WEIGHTS[-1] + lengths * _WEIGHTS[-2]
    found: Ints = (mixed.view(np.uint64) >> np.uint64(64 - _HASH_BITS)).astype(np.int64)
    return found
