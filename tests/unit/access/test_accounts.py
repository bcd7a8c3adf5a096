"""Permissions of accounts."""

import pytest

from mocketmq.access.accounts import Accounts, PlainAccount
from mocketmq.access.addresses import parse_addresses
from mocketmq.access.needs import Action, Permission, to_administer, to_consume, to_produce
from mocketmq.errors import AccessError, UnknownAccessKeyError

PUB, SUB, DENY = Permission.PUB, Permission.SUB, Permission.DENY


HOST = "10.0.0.1"


def account(**more: object) -> PlainAccount:
    return PlainAccount(access_key="shopkeeper", secret="very secret", **more)  # type: ignore[arg-type]  # noqa: S106


@pytest.mark.parametrize(
    ("owned", "wanted", "is_allowed"),
    [
        (DENY, PUB, False),
        (DENY, SUB, False),
        (PUB, PUB, True),
        (PUB, SUB, False),
        (SUB, SUB, True),
        (SUB, PUB, False),
        (PUB | SUB, PUB, True),
        (PUB | SUB, SUB, True),
    ],
)
def test_a_permission_is_listed_or_the_default(
    owned: Permission, wanted: Permission, is_allowed: bool
) -> None:
    others = {"another": ~owned}
    for one in (
        account(topics={"orders": owned} | others, default_topic=~owned),
        account(default_topic=owned),
    ):
        needs = list(to_produce("orders") if wanted is PUB else to_consume("orders", None))
        if is_allowed:
            one.check(needs, HOST)
        else:
            with pytest.raises(AccessError, match=r"^No default permission for topic:orders$"):
                one.check(needs, HOST)


def test_a_groups_permissions_apply_to_its_retry_topic() -> None:
    one = account(default_topic=PUB | SUB, groups={"GID_billing": SUB, "GID_closed": PUB})
    one.check(to_consume("GID_closed", "GID_billing"), HOST)
    one.check(to_produce("%RETRY%GID_billing"), HOST)
    for needs in (
        to_consume(None, "GID_closed"),
        to_consume("%RETRY%GID_closed", None),
        to_produce("%RETRY%GID_closed"),
    ):
        with pytest.raises(AccessError, match=r"^No default permission for group:GID_closed$"):
            one.check(needs, HOST)


def test_a_dead_letter_topic_is_a_topic() -> None:
    with pytest.raises(AccessError, match="topic:%DLQ%GID_billing"):
        account(default_group=SUB).check(to_consume("%DLQ%GID_billing", None), HOST)


def test_a_request_needs_all_of_its_permissions() -> None:
    with pytest.raises(AccessError, match="group:GID_billing"):
        account(default_topic=SUB).check(to_consume("orders", "GID_billing"), HOST)


@pytest.mark.parametrize("topic", ["RMQ_SYS_TRACE_TOPIC", "rmq_sys_TRACE_DATA_cn"])
def test_every_account_may_write_traces_but_not_read_them(topic: str) -> None:
    account().check(to_produce(topic), HOST)
    with pytest.raises(AccessError):
        account().check(to_consume(topic, None), HOST)


def test_an_administrator_may_do_everything_unless_permissions_are_listed() -> None:
    needs = [*to_produce("orders"), *to_consume(None, "GID_billing")]
    account(is_admin=True).check(needs, HOST)
    for listed in ({"topics": {"orders": DENY}}, {"groups": {"another": SUB}}):
        with pytest.raises(AccessError):
            account(is_admin=True, **listed).check(needs, HOST)


def test_actions_matter_to_users_only() -> None:
    account().check([to_administer("Topic", "orders", Action.CREATE)], HOST)


def test_other_accounts_are_no_administrators() -> None:
    account(is_admin=True).check_admin("request code=17")
    with pytest.raises(AccessError) as refused:
        account().check_admin("request code=17")
    assert str(refused.value) == "Need admin permission for request code=17, but accessKey=shopkeeper is not"


def test_known_accounts_and_trusted_addresses() -> None:
    accounts = Accounts([account()], [parse_addresses("10.0.0.*"), parse_addresses("::1")])
    assert accounts.find_account("shopkeeper") == account()
    with pytest.raises(UnknownAccessKeyError, match=r"^No accessKey is configured$"):
        accounts.find_account(None)
    with pytest.raises(UnknownAccessKeyError, match=r"^No acl config for k{80}$"):
        accounts.find_account("k" * 1_000_000)
    assert accounts.trusts("10.0.0.9")
    assert accounts.trusts("::1")
    assert not accounts.trusts("10.0.1.9")


def test_a_secret_is_not_shown() -> None:
    assert "very secret" not in repr(account())
    assert "very secret" not in repr(Accounts([account()]).by_key)
