"""RocketMQ's command line with accounts, which it reads from ``conf/tools.yml``."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.access import ACCOUNTS, KEY, SECRET
from tests.clients.java.mqadmin import Mqadmin, MqadminError
from tests.clients.remoting.conftest import running_remoting_broker

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

OPERATOR = "operations"
ACCOUNT = f"""\
  - accessKey: {OPERATOR}
    secretKey: {SECRET}
    admin: true
"""

Keys = Callable[[str], None]


@pytest.fixture
def keys(mqadmin: Mqadmin, home: Path) -> Iterator[Keys]:  # noqa: ARG001 - which makes the folder
    """Make the command line use an account, by writing the file that it reads before each command."""
    file = home / "conf" / "tools.yml"

    def use(key: str) -> None:
        file.write_text(f"accessKey: {key}\nsecretKey: {SECRET}\n")

    yield use
    file.unlink(missing_ok=True)


async def test_keys(mqadmin: Mqadmin, keys: Keys, tmp_path: Path, topic: str) -> None:
    file = tmp_path / "plain_acl.yml"
    file.write_text(ACCOUNTS + ACCOUNT)
    async with running_remoting_broker("--acl", str(file)) as broker:
        guarded = mqadmin.at(broker.name_server)
        make = ("updateTopic", "-b", broker.address, "-t", topic)
        with pytest.raises(MqadminError, match="AclException: No accessKey is configured"):
            await guarded(*make)
        keys(OPERATOR)
        assert "success" in await guarded(*make)
        keys(KEY)
        lacking = f"AclException: Need admin permission for request code=17, but accessKey={KEY} is not"
        with pytest.raises(MqadminError, match=lacking):
            await guarded(*make)
        assert "SEND_OK" in await guarded("sendMessage", "-t", topic, "-p", "hello", "-k", "key")
        [sent] = await broker.control.receive(topic, group="GID_judge")
        assert sent["message_id"] in await guarded("queryMsgByKey", "-t", topic, "-k", "key")
