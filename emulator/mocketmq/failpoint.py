"""Points of the write and delivery path at which a crash test can kill the process.

``MOCKETMQ_FAILPOINT=writer.written:3`` kills it with SIGKILL the third time that it passes this point,
``log.syncing:3=EIO`` lets that pass fail with this error of the system instead, and ``receive.taken:1=hang``
blocks the thread for ever. Without the variable a point costs one comparison.
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
    "writer.committed",  # committed, nobody told
    "log.syncing",  # committed and visible, not durable
    "log.synced",  # durable, nobody told
    "delivery.picked",  # due messages chosen, not handed to the writer
    "delivery.delivered",  # delivery committed, memory not yet updated
    "offsets.saved",  # profile rocketmq4: offset table saved
    "files.writing",  # a delayed message's file written under its temporary name
    "files.renamed",  # files under their names, not durable
    "files.saved",  # files durable, no sender told
    "files.picked",  # due files read, not handed to the writer
    "files.delivered",  # delivery committed, files still there
    "files.removed",  # a file removed, others and the directory not
    "slots.recorded",  # scheme slots: a record in its day's data, not in the index
    "slots.marked",  # … a record marked in the data, not in the index
    "slots.removed",  # … the indexes of a day that is over removed, its data not
    "wheel.loaded",  # scheme wheel: a file read ahead, not in the wheel
    "wheel.marked",  # … messages marked as done with, not durable
    "wheel.removed",  # … a finished file removed, others not
    "clock.fired",  # everything on the way of a move delivered, the move not yet recorded
    "transactions.prepared",  # half message stored, its producer not told
    "transactions.checked",  # check recorded, nobody asked
    "transactions.decided",  # decision recorded, nobody told
    "receive.taken",  # take recorded, consumer not told
    "receive.settled",  # acknowledgement recorded, consumer not told
)

_name, _, _when = os.environ.get(ENVIRONMENT, "").partition(":")
_count, _, _error = _when.partition("=")
_remaining = int(_count or 1)


def pass_point(name: str) -> None:
    """Kill the process if the environment names this point, and this is the time.

    Raises OSError instead if the environment names an error, and never returns if it says ``hang``.
    """
    global _remaining  # noqa: PLW0603 - one countdown per process is the point
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
