"""Reads clients' XML documents, and writes XML documents that every client can read.

Clients' documents of this protocol are two levels deep: a root, and leaves of text. The parser is Python's
expat. The reader refuses a document type declaration as soon as it begins, so only the five entities of XML
itself exist.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from mocketmq.errors import InvalidArgumentError
from mocketmq.event_loop import EventLoopTurns
from mocketmq_compat.aliyun_http.errors import AliyunError

MAX_LEAVES: Final = 1_000
PIECE_BYTES: Final = 64 << 10
"""Number of bytes parsed before other tasks get a turn."""

_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})


async def leaves_of(
    content: bytes, root: str, allowed: Iterable[str], turns: EventLoopTurns
) -> list[tuple[str, str]]:
    """Parse a document with this root into its leaves: pairs of name and text, in order.

    Names are compared without namespaces (X-1). A byte order mark, CDATA and a missing declaration are
    accepted (X-2). A long document is parsed piece by piece, in ``turns``. Raises AliyunError
    ``MalformedXML`` unless it is XML in UTF-8 without a document type (X-3) or an overlong tag, and
    InvalidArgumentError for another root, unknown leaves, more than 1,000 leaves, and deeper elements.
    """
    from xml.parsers import expat  # noqa: PLC0415 - most brokers have no clients of Aliyun

    reader = _Reader(root, frozenset(allowed))
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_document_type
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.add
    try:
        for end in range(PIECE_BYTES, len(content), PIECE_BYTES):
            parser.Parse(content[end - PIECE_BYTES : end], False)
            if end - parser.CurrentByteIndex > PIECE_BYTES:  # expat parses a tag in one step, however long
                raise AliyunError(
                    "MalformedXML", f"the body contains a tag or comment longer than {PIECE_BYTES} bytes"
                )
            await turns.next_turn()
        parser.Parse(content[max(len(content) - 1, 0) // PIECE_BYTES * PIECE_BYTES :], True)
    except expat.ExpatError as error:
        raise AliyunError("MalformedXML", f"the body is not well-formed XML in UTF-8: {error}") from None
    return [(name, "".join(parts)) for name, parts in reader.leaves]


class _Reader:
    """Collects leaves, and refuses the document at the first mistake."""

    def __init__(self, root: str, allowed: frozenset[str]) -> None:
        self.leaves: list[tuple[str, list[str]]] = []
        self._root = root
        self._allowed = allowed
        self._depth = 0

    def start(self, qualified: str, _attributes: Mapping[str, str]) -> None:
        name = qualified.rpartition(":")[2]
        self._depth += 1
        if self._depth == 1:
            if name != self._root:
                raise InvalidArgumentError("the root element", name, self._root)
        elif self._depth > 2:
            raise InvalidArgumentError(f"an element in {self.leaves[-1][0]}", name, "text")
        elif name not in self._allowed:
            raise InvalidArgumentError(f"an element in {self._root}", name, ", ".join(sorted(self._allowed)))
        elif len(self.leaves) == MAX_LEAVES:
            raise InvalidArgumentError("the number of elements", MAX_LEAVES + 1, f"at most {MAX_LEAVES}")
        else:
            self.leaves.append((name, []))

    def end(self, _qualified: str) -> None:
        self._depth -= 1

    def add(self, text: str) -> None:
        if self._depth == 2:
            self.leaves[-1][1].append(text)
        elif not text.isspace():
            raise InvalidArgumentError(f"text in {self._root}", text, "elements only")


def _refuse_document_type(*_: object) -> None:
    raise AliyunError("MalformedXML", "the body contains a document type declaration; allowed: none")


def representable(text: str) -> str:
    """Replace each character that XML 1.0 cannot represent by U+FFFD (X-13)."""
    return _not_xml().sub("\ufffd", text)


@cache
def _not_xml() -> re.Pattern[str]:
    """Compile the pattern when it is first needed, which takes 3 ms because of its ranges."""
    return re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def elements(fields: Iterable[tuple[str, object]]) -> str:
    """Write leaves of plain text without attributes (X-9, X-11); empty leaves are omitted (X-10)."""
    return "".join(
        f"<{name}>{representable(text).translate(_ESCAPES)}</{name}>"
        for name, value in fields
        if (text := str(value))
    )


def document(root: str, namespace: str, inside: str) -> bytes:
    """Write a document in UTF-8 with a declaration and no prefixes (X-12, X-14)."""
    return f'<?xml version="1.0" encoding="utf-8"?>\n<{root} xmlns="{namespace}">{inside}</{root}>'.encode()
