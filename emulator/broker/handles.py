"""Receipt handles: what a consumer names a message by that it was given.

``<commit offset>-<times taken>-<check of the group>``, in hex: a handle from before the message was taken
again, or of another group, is told apart without anything being kept for it.
"""

import zlib

from emulator.broker.groups import Group, Take
from emulator.clock import US_PER_MS
from emulator.errors import ReceiptError


def handle_of(group: Group, take: Take) -> str:
    """The handle of a take as it stands now."""
    return f"{take.commit_offset:x}-{take.times:x}-{_check(group):x}"


def find_take(group: Group, handle: str, now_us: int) -> Take:
    """The take that the handle settles. Raises ReceiptError when it settles none any more."""
    try:
        commit_offset, times, check = (int(part, 16) for part in handle.split("-"))
    except ValueError:
        raise ReceiptError(f"receipt {handle[:80]!r} is not one that this broker gave out") from None
    take = group.takes.get(commit_offset)
    if take is None or check != _check(group) or take.is_settling or times > take.times:
        raise ReceiptError(
            f"receipt {handle!r} is not one that group {group.name} can settle:"
            " it was settled before, or was not given to this group"
        )
    if times < take.times or take.is_available or take.is_reserved or take.visible_us <= now_us:
        is_known = times == take.times and not take.is_reserved
        when = f"at {take.visible_us // US_PER_MS} ms" if is_known else "and was taken again"
        raise ReceiptError(f"receipt {handle!r} has expired: the message became visible again {when}")
    return take


def _check(group: Group) -> int:
    return zlib.crc32(group.name.encode())
