"""Failpoints, places in the write and delivery path at which a crash test can kill the process.

``MOCKETMQ_FAILPOINT=writer.written:3`` kills the process with SIGKILL when it passes this point for the third
time. ``log.syncing:3=EIO`` makes that pass fail with this system error instead, and ``receive.taken:1=hang``
blocks the thread for ever. Without the variable, a failpoint costs one comparison.
"""

import errno
import os
import signal

ENVIRONMENT = "MOCKETMQ_FAILPOINT"
POINTS = (
    "migrate.upgraded",  # schema changed, not committed
    "writer.formed",  # offsets given out, nothing written
    "writer.writing",  # rows of one statement written
    "writer.written",  # rows written, not committed
    "writer.committed",  # committed, no caller notified
    "log.syncing",  # committed and visible, not durable
    "log.synced",  # durable, no caller notified
    "delivery.picked",  # due messages chosen, not handed to the writer
    "delivery.delivered",  # delivery committed, memory not yet updated
    "offsets.saved",  # profile rocketmq4: offset table saved
    "files.writing",  # a delayed message's file written under its temporary name
    "files.renamed",  # files under their names, not durable
    "files.saved",  # files durable, no sender answered
    "files.picked",  # due files read, not handed to the writer
    "files.delivered",  # delivery committed, files still there
    "files.removed",  # a file removed, others and the directory not
    "slots.recorded",  # scheme slots: a record in its day's data, not in the index
    "slots.marked",  # … a record marked in the data, not in the index
    "slots.removed",  # … the indexes of a past day removed, its data not
    "wheel.loaded",  # scheme wheel: a file read, not yet in the wheel
    "wheel.marked",  # … messages marked as settled, not durable
    "wheel.removed",  # … a finished file removed, others not
    "clock.fired",  # all messages due during a move delivered, the move not yet recorded
    "snapshots.written",  # a snapshot's file complete and durable under its temporary name
    "snapshots.renamed",  # … under its own name
    "snapshots.noted",  # restore: identities of delayed messages to be written recorded, none written
    "snapshots.staged",  # … these messages written, the store not yet replaced
    "snapshots.restored",  # … the store replaced, messages of the former state still in their scheme
    "transactions.prepared",  # half message stored, its producer not answered
    "transactions.checked",  # check recorded, no producer asked
    "transactions.decided",  # decision recorded, not answered
    "receive.taken",  # receipts recorded, consumer not answered
    "receive.settled",  # acknowledgement recorded, consumer not answered
)

_name = _error = ""
_remaining = 0


def arm(text: str) -> None:
    """Fail at the point and the pass that the text names, instead of those of the environment."""
    global _name, _error, _remaining  # noqa: PLW0603 - the process must have only one countdown
    _name, _, when = text.partition(":")
    count, _, _error = when.partition("=")
    _remaining = int(count or 1)


def pass_point(name: str) -> None:
    """Kill the process if the environment names this point and this pass.

    If the environment names an error, raise OSError instead. If it says ``hang``, block for ever.
    """
    global _remaining  # noqa: PLW0603
    if name != _name:
        return
    _remaining -= 1
    if _remaining == 0:
        while _error == "hang":
            signal.pause()
        if _error:
            number = getattr(errno, _error)
            raise OSError(number, os.strerror(number))
        os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get(ENVIRONMENT, ""))
