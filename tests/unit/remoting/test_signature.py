"""Signatures, checked with requests of unmodified clients."""

import pytest

from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.frame import FrameReader
from mocketmq.remoting.wire.signature import is_signed, sign
from tests.clients.access import SECRET
from tests.support.commands import changed
from tests.unit.remoting.recorded import SIGNED_FILES, frames, signed_frames

UNASKED = RequestCode.GET_ROUTEINFO_BY_TOPIC
"""A request that needs no key, and that ons-client signs in its own way."""


def commands(whole: list[bytes]) -> list[Command]:
    return [command for frame in whole for command in FrameReader().feed(frame)]


def test_the_vector_of_aliyun() -> None:
    ext = {
        "a": "GID_a",
        "b": "T1",
        "c": "TBW102",
        "d": "4",
        "k": "false",
        "AccessKey": "ak",
        "OnsChannel": "ALIYUN",
    }
    signed = Command(code=310, ext=ext | {"Signature": "DgxICs53obDlzqb9TocnAHWGwLc="}, body=b"hello")
    assert is_signed(signed, "sk")
    assert not is_signed(signed, "sk2")


@pytest.mark.parametrize("name", ["SecurityToken", "_UNIQUE_KEY_QUERY"])
def test_fields_that_clients_sign_or_not(name: str) -> None:
    """Go omits the token. The 5.3 Java client signs the marker of a lookup, and the 4.9 client does not."""
    ext = {"AccessKey": "ak", "topic": "orders", name: "true"}
    for text in ("akorders", {"SecurityToken": "aktrueorders", "_UNIQUE_KEY_QUERY": "aktrueorders"}[name]):
        signature = sign("sk", text.encode()).decode()
        assert is_signed(Command(code=12, ext=ext | {"Signature": signature}), "sk")
        assert not is_signed(Command(code=12, ext=ext | {"Signature": signature}, body=b"x"), "sk")


def test_either_optional_field_may_be_signed() -> None:
    ext = {"AccessKey": "ak", "topic": "orders", "SecurityToken": "t", "_UNIQUE_KEY_QUERY": "true"}
    for text in ("akttrueorders", "aktrueorders", "aktorders", "akorders"):
        assert is_signed(Command(code=12, ext=ext | {"Signature": sign("sk", text.encode()).decode()}), "sk")


@pytest.mark.parametrize("signature", [None, "", "\ud800", "é", "DgxICs53obDlzqb9TocnAHWGwLc"])
def test_invalid_signatures(signature: str | None) -> None:
    ext = {"AccessKey": "ak", "topic": "\ud800"}
    command = Command(code=12, ext=ext if signature is None else ext | {"Signature": signature})
    assert not is_signed(command, "sk")


@pytest.mark.parametrize("client", SIGNED_FILES)
def test_signatures_of_clients(client: str) -> None:
    signed = [command for command in commands(signed_frames(client)) if command.code != UNASKED]
    assert {command.code for command in signed} >= {RequestCode.HEART_BEAT, RequestCode.PULL_MESSAGE}
    for command in signed:
        assert is_signed(command, SECRET), command
        assert not is_signed(command, "another secret")
        assert not is_signed(changed(command, body=command.body + b"x"), SECRET)
        for name in command.ext.keys() - {"Signature", "SecurityToken"}:  # Go does not sign its token
            assert not is_signed(changed(command, ext={**command.ext, name: command.ext[name] + "x"}), SECRET)


@pytest.mark.parametrize(("client", "secret"), [("node", "any"), ("ons-java", "any secret")])
def test_more_signatures_of_aliyun_clients(client: str, secret: str) -> None:
    signed = [one for one in commands(frames(client)) if "AccessKey" in one.ext and one.code != UNASKED]
    assert RequestCode.CONSUMER_SEND_MSG_BACK in {command.code for command in signed}
    for command in signed:
        assert is_signed(command, secret), command
