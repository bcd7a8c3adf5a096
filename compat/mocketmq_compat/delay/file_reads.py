"""Read delayed messages in batches."""

import errno
from collections.abc import Callable, Iterable
from typing import Final

from mocketmq.store.writer import MAX_BATCH_BYTES
from mocketmq_compat.delay.delayed_file import Entry

TRY_AGAIN: Final = {
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.ENOSPC, errno.EDQUOT)
}
"""Errors that are not the file's fault."""


def read_batch(
    entries: Iterable[Entry], read: Callable[[Entry], bytes]
) -> list[tuple[Entry, bytes | OSError]]:
    """Contents in this order, as many as fit a batch, or the error of reading one.

    Raises OSError for an error that says nothing of the file.
    """
    contents: list[tuple[Entry, bytes | OSError]] = []
    size = 0
    for entry in entries:
        try:
            content = read(entry)
        except OSError as error:
            if error.errno in TRY_AGAIN:
                raise
            contents.append((entry, error))
            continue
        contents.append((entry, content))
        size += len(content)
        if size > MAX_BATCH_BYTES:
            break
    return contents
