"""Every field of recorded requests of unmodified clients can be read (recorded/README.md)."""

import pytest

from mocketmq.remoting.requests.send_header import SendMessageHeader
from mocketmq.remoting.wire.batch import decode_batch
from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.fastjson import loads
from mocketmq.remoting.wire.frame import FrameReader, encode
from mocketmq.remoting.wire.record import decode_properties
from tests.clients.features import CLIENTS
from tests.support.commands import fields
from tests.support.remoting import READERS
from tests.unit.remoting.recorded import FILES, frames

BASICS = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.HEART_BEAT,
    RequestCode.PULL_MESSAGE,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.CONSUMER_SEND_MSG_BACK,
}
"""Requests of every client that produces, consumes and retries."""
SETTINGS = {RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG}
"""Requests whose bodies are lines of properties instead of JSON."""


def command_of(frame: bytes) -> Command:
    (command,) = FrameReader().feed(frame)
    return command


def test_every_client_was_recorded() -> None:
    assert set(FILES) == {*CLIENTS, "java-5.3"}  # of which tests now use a newer one
    for client in FILES:
        assert {command_of(frame).code for frame in frames(client)} >= BASICS, client


@pytest.mark.parametrize("client", FILES)
def test_recorded_frames_are_read_in_any_pieces(client: str) -> None:
    whole = [fields(command_of(frame)) for frame in frames(client)]
    together = b"".join(frames(client))
    assert list(map(fields, FrameReader().feed(together))) == whole
    for size in (1, 1_460):
        reader = FrameReader()
        pieces = [together[start : start + size] for start in range(0, len(together), size)]
        assert [fields(command) for piece in pieces for command in reader.feed(piece)] == whole


@pytest.mark.parametrize("client", FILES)
def test_recorded_commands_survive_a_round_trip(client: str) -> None:
    for frame in frames(client):
        command = command_of(frame)
        again = encode(command)
        assert fields(command_of(again)) == fields(command) | {"frame_bytes": len(again)}


@pytest.mark.parametrize("client", FILES)
def test_recorded_headers_and_bodies_are_read(client: str) -> None:
    for frame in frames(client):
        command = command_of(frame)
        header = READERS[command.code].read(command.ext)
        if not isinstance(header, SendMessageHeader):
            assert not command.body or command.code in SETTINGS or isinstance(loads(command.body), dict)
            continue
        if header.batch:
            assert [entry.body for entry in decode_batch(command.body)] == [b"0", b"1", b"2"]
        else:
            assert decode_properties(header.properties)
