"""Show a rolling table of a running broker by level: ``mocketmq report --follow``.

The table goes on when the broker stops, starts again, moves its clock or is reset. If another store takes the
place of the first, counting starts again.
"""

import queue
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pyspark.sql import DataFrame, Row, SparkSession
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from mocketmq.clock import US_PER_S
from mocketmq.errors import StoreError
from mocketmq_report.figures import instant
from mocketmq_report.live.delivery_stream import STEPS, DeliveryStream, windows
from mocketmq_report.live.rolling_table import RollingTable
from mocketmq_report.live.status import BrokerStatus, broker_status

TICK_S: Final = 1.0
"""Real seconds between two updates of the table, about."""
_WIDTH: Final = 180
"""Columns of the output if it is no terminal."""


def follow(
    spark: SparkSession,
    path: Path,
    *,
    window_s: float,
    console: Console,
    until: Callable[[], bool] | None = None,
) -> None:
    """Show the table of the broker whose data directory is ``path`` until Ctrl-C.

    In a terminal one table is updated, elsewhere each is printed below the last. ``until`` is called after
    each, and ends this by returning true. Raises StoreError if the store cannot be read at first.
    """
    window_us = max(round(window_s * US_PER_S / STEPS), 1) * STEPS
    now = broker_status(path)
    event: str | None = None
    trouble: str | None = None
    with _screen(console) as show:
        while True:
            with _DeliveryCount(spark, path, now.now_us - window_us, window_us) as counting:
                anew = None
                while anew is None:
                    notes = (Text(each) for each in (event, trouble) if each)
                    show(Group(*notes, counting.table.render(now, console.width)))
                    if until is not None and until():
                        return
                    counting.wait()
                    try:
                        before, now = now, broker_status(path)
                    except StoreError as error:
                        trouble = str(error)
                        continue
                    trouble = None if now.is_running else f"no broker seems to run on {path}"
                    anew = (
                        "another store has taken its place"
                        if now.store != before.store
                        else counting.failure()
                    )
                    event = news(before, now) or event
                event = f"{instant(now.now_us)}: {anew}, so counting starts again"


def news(before: BrokerStatus, now: BrokerStatus) -> str | None:
    """What happened between two looks at a store, in a sentence, or None."""
    if now.run != before.run:
        what = "the broker was started again"
    elif now.moves != before.moves:
        what = "the clock was moved"
    elif now.newest < before.newest:
        what = "the broker was reset"
    else:
        return None
    return f"{instant(now.now_us)}: {what}"


class _DeliveryCount:
    """A streaming query over a store from an instant on, and the table that it fills."""

    def __init__(self, spark: SparkSession, path: Path, since_us: int, window_us: int) -> None:
        self.table = RollingTable(window_us, since_us)
        self._counted: queue.SimpleQueue[list[Row]] = queue.SimpleQueue()
        own = spark.newSession()
        own.conf.set("spark.sql.shuffle.partitions", "1")
        own.dataSource.register(DeliveryStream)
        deliveries = own.readStream.format(DeliveryStream.name()).option("since_us", since_us).load(str(path))
        self._query = (
            windows(deliveries, window_us)
            .writeStream.outputMode("update")
            .trigger(processingTime=f"{TICK_S} seconds")
            .foreachBatch(self._take)
            .start()
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._query.stop()

    def wait(self) -> None:
        """Wait until something was counted, or for a tick."""
        with suppress(queue.Empty):
            self.table.update(self._counted.get(timeout=TICK_S))

    def failure(self) -> str | None:
        """Why the query ended, if the store was the cause. Raises StreamingQueryException for a defect."""
        if (error := self._query.exception()) is None:
            return None
        if StoreError.__module__ + ".Store" not in str(error):
            raise error
        return "the store could not be read"

    def _take(self, changed: DataFrame, _batch: int) -> None:
        self._counted.put(changed.collect())


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[RenderableType], None]]:
    """Show one thing after the other, in a terminal in place of the last."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            yield lambda shown: live.update(shown, refresh=True)
    else:
        console.width = _WIDTH
        yield console.print
