"""Reads and writes frames, which hold commands with either form of header (docs/protocol/remoting.md §1)."""

import struct
from typing import Final

from mocketmq.codec import read_send, write_frame
from mocketmq.remoting.wire.codes import LANGUAGES, FrameError, RequestCode
from mocketmq.remoting.wire.command import JSON, ROCKETMQ, Command
from mocketmq.remoting.wire.json_header import read_header, write_header

MAX_FRAME: Final = 16 * 1024 * 1024
"""Maximum size of a frame, with its length field: RocketMQ's ``com.rocketmq.remoting.frameMaxLength``."""
MAX_HEADER: Final = 1024 * 1024
"""Maximum size of a header in bytes, thirty times the maximum size of properties."""

_MAX_LENGTH: Final = MAX_FRAME - 4

_PREFIX: Final = struct.Struct(">iI")  # length of the rest; form (one byte) and length of the header
_LENGTH: Final = struct.Struct(">i")
_BINARY: Final = struct.Struct(">hbHiii")  # code, language, version, opaque, flag, length of the remark
_KEY: Final = struct.Struct(">h")
_OTHER: Final = "OTHER"
_PLAIN_SEND: Final = int(RequestCode.SEND_MESSAGE_V2)
_LANGUAGE_BYTES: Final = {name: number for number, name in enumerate(LANGUAGES)}


class FrameReader:
    """Reads commands from the bytes of one connection, in chunks of any size."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._wanted = 0  # number of bytes needed before the next attempt to decode

    @property
    def buffered(self) -> int:
        """Bytes of the incomplete frame."""
        return len(self._partial)

    @property
    def lacking(self) -> int:
        """Bytes missing from the incomplete frame, as far as its length is known; 0 between frames."""
        return self._wanted - len(self._partial) if self._partial else 0

    def feed(self, data: bytes) -> list[Command]:
        """Add bytes; return the commands that they complete.

        Raises FrameError as soon as the bytes cannot become a frame. The reader is unusable after the error.
        """
        if self._partial:
            self._partial += data
            if len(self._partial) < self._wanted:
                return []
            data = bytes(self._partial)
            self._partial = bytearray()
        commands: list[Command] = []
        try:
            self._read(data, commands)
        except FrameError as error:
            error.before = commands
            raise
        return commands

    def _read(self, data: bytes, commands: list[Command]) -> None:
        """Append the complete commands to ``commands``, and keep the rest of the bytes."""
        start = 0
        end = _PREFIX.size
        while end <= len(data):
            length, word = _PREFIX.unpack_from(data, start)
            header_length = word & 0xFFFFFF
            if not 4 + header_length <= length <= _MAX_LENGTH or header_length > MAX_HEADER:
                raise _refused(length, header_length)
            end = start + 4 + length
            if end > len(data):
                break
            header_start = start + _PREFIX.size
            body_start = header_start + header_length
            header, body = data[header_start:body_start], data[body_start:end]
            command = None if word >> 24 else _plain_send(header, body)
            if command is None:
                command = _command(word >> 24, header, body)
            command.frame_bytes = end - start
            commands.append(command)
            start = end
            end += _PREFIX.size
        if start < len(data):
            self._keep(data[start:], end - start)

    def _keep(self, rest: bytes, wanted: int) -> None:
        """Keep the beginning of a frame. Raises FrameError if its length is already known to be invalid."""
        if 4 <= len(rest) < _PREFIX.size:
            length = int.from_bytes(rest[:4], signed=True)
            if not 4 <= length <= _MAX_LENGTH:
                raise _refused(length, 0)
        self._partial += rest
        self._wanted = wanted if len(rest) >= 4 else 4


def _refused(length: int, header_length: int) -> FrameError:
    """The error for a frame with invalid lengths, which is refused before its content is kept."""
    if not 4 <= length <= _MAX_LENGTH:
        return FrameError(f"the length of a frame is {length}; allowed: 4 to {_MAX_LENGTH}")
    allowed = min(length - 4, MAX_HEADER)
    return FrameError(f"a header of {header_length} bytes in a frame of {length}; allowed: at most {allowed}")


def _command(form: int, header: bytes, body: bytes) -> Command:
    if form == JSON:
        return _from_json(header, body)
    if form == ROCKETMQ:
        return _from_binary(header, body)
    raise FrameError(f"a header has serialize type {form}; allowed: {JSON} (JSON) and {ROCKETMQ} (ROCKETMQ)")


def _plain_send(header: bytes, body: bytes) -> Command | None:
    """The send with this JSON header, if the codec reads it."""
    send = read_send(header, _PLAIN_SEND)
    if send is None:
        return None
    opaque, flag, version, language, values = send
    return Command(
        _PLAIN_SEND,
        opaque,
        flag,
        None,
        body,
        None,
        _language(language),
        version,
        header=header,
        values=values,
    )


def _from_json(data: bytes, body: bytes) -> Command:
    header, ext = read_header(data)
    return Command(
        code=header.code,
        opaque=header.opaque,
        flag=header.flag,
        ext=ext,
        body=body,
        remark=header.remark or None,
        language=_language(header.language),
        version=header.version,
    )


def _language(value: str | int | None) -> str:
    """The name of a client's language; OTHER if it is unknown."""
    if isinstance(value, str):
        return value if value in _LANGUAGE_BYTES else _OTHER
    return LANGUAGES[value] if value is not None and 0 <= value < len(LANGUAGES) else _OTHER


def _from_binary(data: bytes, body: bytes) -> Command:
    try:
        code, language, version, opaque, flag, remark_length = _BINARY.unpack_from(data)
        remark, position = _text(data, _BINARY.size, remark_length, "a remark")
        (ext_length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        end = position + ext_length
        if not position <= end <= len(data):
            raise FrameError(
                f"the ext fields declare {ext_length} bytes, but only {len(data) - position} are left"
            )
        ext = {}
        while position < end:
            (length,) = _KEY.unpack_from(data, position)
            key, position = _text(data, position + _KEY.size, length, "an ext field's name")
            (length,) = _LENGTH.unpack_from(data, position)
            value, position = _text(data, position + _LENGTH.size, length, "an ext field's value")
            if value:  # RocketMQ treats an empty value as missing
                ext[key] = value
        if position != end:
            raise FrameError(
                f"the ext fields are {ext_length} bytes long, but the last field ends beyond them"
            )
    except struct.error:
        raise FrameError(f"a binary header of {len(data)} bytes ends in the middle of a field") from None
    return Command(
        code=code,
        opaque=opaque,
        flag=flag,
        ext=ext,
        body=body,
        remark=remark or None,
        language=_language(language),
        version=version,
        serialization=ROCKETMQ,
    )


def _text(data: bytes, start: int, length: int, name: str) -> tuple[str, int]:
    """The text that begins at ``start``, and the index of its end."""
    end = start + length
    if not start <= end <= len(data):
        raise FrameError(f"{name} declares {length} bytes, but only {len(data) - start} are left")
    return data[start:end].decode("utf-8", "replace"), end


def encode(command: Command) -> bytes:
    """Encode a command as a frame. Raises FrameError if the frame would be too large for its reader."""
    if command.serialization == ROCKETMQ:
        header = _to_binary(command)
    else:
        code, flag, opaque, version = command.code, command.flag, command.opaque, command.version
        ext, language, remark, body = command.ext, command.language, command.remark, command.body
        frame = None if remark else write_frame(code, ext, flag, language, opaque, version, body)
        if frame is not None:
            return frame
        header = write_header(code, ext, flag, language, opaque, version, remark)
    length = 4 + len(header) + len(command.body)
    if length > _MAX_LENGTH or len(header) > MAX_HEADER:
        raise _refused(length, len(header))
    return _PREFIX.pack(length, command.serialization << 24 | len(header)) + header + command.body


def _to_binary(command: Command) -> bytes:
    remark = (command.remark or "").encode()
    ext = b"".join([_field(key, value) for key, value in command.ext.items()])
    return b"".join(
        (
            _BINARY.pack(
                command.code,
                _LANGUAGE_BYTES[command.language],
                command.version & 0xFFFF,
                command.opaque,
                command.flag,
                len(remark),
            ),
            remark,
            _LENGTH.pack(len(ext)),
            ext,
        )
    )


def _field(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return b"".join((_KEY.pack(len(key)), key, _LENGTH.pack(len(text)), text))
