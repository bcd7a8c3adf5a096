"""Relays in front of real RocketMQs with accounts and TLS."""

from pathlib import Path

import pytest

from mocketmq.calling.call import Credentials
from mocketmq.connections.certificate import _self_signed
from mocketmq.relay.judging import RELAY_DELAY_MS, RELAY_REFUSED, RELAY_TOPIC
from tests.support.relays import (
    GROUP,
    LATER,
    ORDERS,
    QUEUES,
    forked_relay,
    ids_of,
    line_of,
    properties_of,
    refused_start,
    user_of,
)
from tests.upstream.jars import V4, V5, JarsMissingError, class_path
from tests.upstream.process import HOST, SMALL, running_upstream

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("version", [V4, V5])]

ADMIN = Credentials("administrator", "secret-of-administrator")
RELAY = Credentials("relay-of-orders", "secret-of-relay")
FORBIDDEN = "not-for-relays"
ACCOUNTS = f"""
accounts:
- accessKey: {ADMIN.access_key}
  secretKey: {ADMIN.secret}
  admin: true
- accessKey: {RELAY.access_key}
  secretKey: {RELAY.secret}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - {LATER}=%s
  - {LATER}-pending=%s
  - {LATER}-refused=PUB
  - {ORDERS}=PUB
  groupPerms:
  - {GROUP}=SUB
"""
READ = {V4: ("SUB", "PUB|SUB"), V5: ("ALL", "ALL")}
"""Relay's permissions on the topics that it reads. In 5.x, SUB alone does not cover a queue's bounds."""
_AUTH = "org.apache.rocketmq.auth"
SETTINGS = {
    V4: {"aclEnable": "true"},
    V5: {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{_AUTH}.authentication.provider.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": (
            f"{_AUTH}.authentication.provider.LocalAuthenticationMetadataProvider"
        ),
        "authorizationEnabled": "true",
        "authorizationProvider": f"{_AUTH}.authorization.provider.DefaultAuthorizationProvider",
        "authorizationMetadataProvider": f"{_AUTH}.authorization.provider.LocalAuthorizationMetadataProvider",
        "migrateAuthFromV1Enabled": "true",
    },
}


def written(folder: Path, version: str) -> tuple[str, ...]:
    """Write accounts and a certificate, and return the Java options for them."""
    (folder / "accounts.yml").write_text(ACCOUNTS % READ[version])
    certificate, key = _self_signed([HOST])
    (folder / "cert.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(key)
    return (
        "-Drocketmq.acl.plain.file=../accounts.yml",  # relative to its home
        "-Dtls.test.mode.enable=false",
        f"-Dtls.server.certPath={folder}/cert.pem",
        f"-Dtls.server.keyPath={folder}/key.pem",
    )


def access(account: Credentials, folder: Path) -> tuple[str, ...]:
    """Return the options of a relay with this account."""
    keys = "--access-key", account.access_key, "--secret-key", account.secret
    return (*keys, "--tls-ca", str(folder / "cert.pem"))


async def test_a_relays_account_has_the_least_permissions(version: str, tmp_path: Path) -> None:
    try:
        class_path(version)
    except JarsMissingError as error:
        pytest.skip(str(error))
    settings = {**SMALL, **SETTINGS[version], "brokerFastFailureEnable": "false"}
    java = written(tmp_path, version)
    bodies = [b"%d" % number for number in range(20)]
    async with (
        running_upstream(tmp_path / "there", version, settings, java=java, account=ADMIN) as there,
        user_of(HOST, there.broker_port, ADMIN) as user,
    ):
        name_server = f"{HOST}:{there.namesrv_port}"
        wrong = Credentials(RELAY.access_key, "another secret")
        assert "ignature" in await refused_start(name_server, *access(wrong, tmp_path))
        assert "create it first" in await refused_start(name_server, *access(RELAY, tmp_path))
        await user.make_topic(f"{LATER}-pending")
        await user.make_topic(f"{LATER}-refused", 1)
        await user.make_topic(FORBIDDEN)
        relay = await forked_relay(name_server, *access(RELAY, tmp_path))
        try:
            await line_of(relay, f"serving {QUEUES} partitions")
            await user.send(b"secret", {RELAY_TOPIC: FORBIDDEN, RELAY_DELAY_MS: "1"})
            await user.send(b"bad", {RELAY_DELAY_MS: "1"})
            await user.delay(bodies, 500)
            records = await user.received(bodies)
            [refused] = await user.received([b"bad"], f"{LATER}-refused")
            await user.look(FORBIDDEN)
            relay.terminate()
            assert await relay.wait() == 0
        finally:
            relay.kill()
    assert all(len(ids) == 1 for ids in ids_of(records).values())
    assert RELAY_REFUSED in properties_of(refused)
    assert user.read[FORBIDDEN] == []
