"""The protobuf classes of the protocol, in a private descriptor pool, and conversions of times.

RocketMQ's Python client registers files of the same names in protobuf's default pool, which accepts each name
only once. With the private pool, an application can use that client in the same process, with any protobuf.
"""

import re
from typing import Any, Final

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    timestamp_pb2,
)

from mocketmq.clock import US_PER_S
from mocketmq.grpc_proxy.definitions import ENUMS, MESSAGES, PACKAGE

_FILE: Final = "mocketmq/rocketmq_v2.proto"
_FIELD: Final = re.compile(r"(\d+) (\w+)(\??):(\w+)(\[\])?(?:\|(\w+))?")
_Field: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "str": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "i32": _Field.TYPE_INT32,
    "i64": _Field.TYPE_INT64,
    "f32": _Field.TYPE_FLOAT,
}
_WELL_KNOWN: Final = ("Duration", "Timestamp")


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, package=PACKAGE, syntax="proto3")
    file.dependency.extend((duration_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name))
    for line in ENUMS.split("\n"):
        if line:
            name, _, values = line.partition(": ")
            enum = file.enum_type.add(name=name)
            for value in values.split():
                each, _, number = value.partition("=")
                enum.value.add(name=each, number=int(number))
    enums = {enum.name for enum in file.enum_type}
    for line in MESSAGES.split("\n"):
        if line:
            name, _, fields = line.partition(": ")
            _add_fields(file.message_type.add(name=name), fields.split("; "), enums)
    return file


def _add_fields(message: Any, fields: list[str], enums: set[str]) -> None:
    oneofs: dict[str, int] = {}
    optional = []
    for text in fields:
        match = _FIELD.fullmatch(text)
        assert match, text  # noqa: S101 - the table is part of mocketmq
        number, name, may_lack, kind, is_repeated, oneof = match.groups()
        field = message.field.add(name=name, number=int(number))
        field.label = _Field.LABEL_REPEATED if is_repeated or kind == "map" else _Field.LABEL_OPTIONAL
        if kind == "map":
            field.type, field.type_name = (
                _Field.TYPE_MESSAGE,
                f".{PACKAGE}.{message.name}.{_add_map(message, name)}",
            )
        elif kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type = _Field.TYPE_ENUM if kind in enums else _Field.TYPE_MESSAGE
            package = "google.protobuf" if kind in _WELL_KNOWN else PACKAGE
            field.type_name = f".{package}.{kind}"
        if oneof:
            if oneof not in oneofs:
                oneofs[oneof] = len(message.oneof_decl)
                message.oneof_decl.add(name=oneof)
            field.oneof_index = oneofs[oneof]
        elif may_lack:
            optional.append(field)
    for field in optional:  # protoc, too, puts these after the declared oneofs
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{field.name}")


def _add_map(message: Any, name: str) -> str:
    """Add the entry type of a map from string to string; return the type's name."""
    entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    for number, part in enumerate(("key", "value"), 1):
        entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
    return str(entry.name)


def _pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for each in (duration_pb2, timestamp_pb2):
        pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_file().SerializeToString())
    return pool


_POOL: Final = _pool()


def message_class(name: str) -> Any:
    """Return the class of the protobuf message with this name."""
    descriptor = _POOL.FindMessageTypeByName(f"{PACKAGE}.{name}")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_POOL).GetPrototype(descriptor)  # for protobuf before 4.22


class Codec:
    """Protobuf codec for grpclib, which the project's own gRPC clients use."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ARG002 - grpclib's interface
        return bytes(message.SerializeToString())

    def decode(self, data: bytes, message_type: Any) -> Any:
        return message_type.FromString(data)


def us_of(time: Any) -> int:
    """Convert a Timestamp or Duration to microseconds, rounded down."""
    return int(time.seconds) * US_PER_S + int(time.nanos) // 1_000


def set_us(time: Any, us: int) -> None:
    """Set a Timestamp or Duration to a non-negative number of microseconds."""
    time.seconds, time.nanos = us // US_PER_S, us % US_PER_S * 1_000
    time.SetInParent()
