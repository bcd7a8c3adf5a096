"""RocketMQ's command line with accounts, which it reads from ``conf/tools.yml``."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.access import ACCOUNTS, KEY, RETRIED, SECRET, patiently_sent
from tests.clients.java.conftest import rocketmq_driver
from tests.clients.java.mqadmin import Mqadmin, MqadminError
from tests.clients.remoting.conftest import running_remoting_broker
from tests.clients.remoting.driver import ClientError

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


USERS = f"""\
users:
  - username: {OPERATOR}
    password: {SECRET}
    userType: Super
"""


@pytest.mark.parametrize("mqadmin", ["mqadmin-5.5"], indirect=True)
async def test_users_and_policies(
    mqadmin: Mqadmin, keys: Keys, home: Path, tmp_path: Path, topic: str
) -> None:
    """Users and policies made by mqadmin decide on what a client of Java may do."""
    file = tmp_path / "users.yml"
    file.write_text(USERS)
    async with running_remoting_broker("--acl", str(file)) as broker:
        guarded, at = mqadmin.at(broker.name_server), ("-b", broker.address)
        with pytest.raises(MqadminError, match=r"CODE: 16 .*username cannot be null"):
            await guarded("createUser", *at, "-u", KEY, "-p", SECRET)
        keys(OPERATOR)
        assert "success" in await guarded("updateTopic", *at, "-t", topic)
        assert "success" in await guarded(
            "createUser", *at, "-u", KEY, "-p", "another secret", "-t", "Normal"
        )
        with pytest.raises(MqadminError, match="The user is existed"):
            await guarded("createUser", *at, "-u", KEY, "-p", SECRET)
        assert "success" in await guarded("updateUser", *at, "-u", KEY, "-p", SECRET)
        assert _rows(await guarded("getUser", *at, "-u", KEY)) == [[KEY, *SECRET.split(), "Normal", "enable"]]
        assert [row[0] for row in _rows(await guarded("listUser", *at))] == [OPERATOR, KEY]

        subject = ("-s", f"User:{KEY}")
        policy = ("-r", f"Topic:{topic},Group:*", "-a", "Pub,Sub", "-i", "127.0.0.1", "-d", "Allow")
        assert "success" in await guarded("createAcl", *at, *subject, *policy)
        shown = ["[Pub,", "Sub]", "[127.0.0.1]", "Allow"]
        assert _rows(await guarded("getAcl", *at, *subject)) == [
            [f"User:{KEY}", "Custom", resource, *shown] for resource in (f"Topic:{topic}", "Group:*")
        ]
        keys(KEY)
        with pytest.raises(
            MqadminError, match=f"User:{KEY} has no permission to access Cluster:DefaultCluster"
        ):
            await guarded("listAcl", *at)
        address = {"name_server": broker.name_server, "access_key": KEY, "secret": SECRET}
        async with rocketmq_driver("java-5.5", home, **address) as client:
            await patiently_sent(client, topic, "mine")
            await client.call("consume", group=topic, topic=topic)
            assert await client.bodies(topic, 1) == ["mine"]
            keys(OPERATOR)
            denied = ("-r", f"Topic:{topic}", "-a", "Pub", "-d", "Deny")
            assert "success" in await guarded("updateAcl", *at, *subject, *denied)
            with pytest.raises(ClientError, match=RETRIED):
                await client.call("send", topic=topic, body="not mine")
            assert "success" in await guarded("deleteAcl", *at, *subject, "-r", f"Topic:{topic}")
            assert [row[2] for row in _rows(await guarded("listAcl", *at, *subject))] == ["Group:*"]
            assert "success" in await guarded("deleteUser", *at, "-u", KEY)
            with pytest.raises(ClientError, match=RETRIED):
                await client.call("send", topic=topic, body="not mine")
        assert [row[0] for row in _rows(await guarded("listUser", *at))] == [OPERATOR]


def _rows(printed: str) -> list[list[str]]:
    """Return the rows of a printed table, without its heading."""
    lines = [line.split() for line in printed.splitlines()]
    start = next(number for number, line in enumerate(lines) if line and line[0].startswith("#"))
    return [line for line in lines[start + 1 :] if line]
