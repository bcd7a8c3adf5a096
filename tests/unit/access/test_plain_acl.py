"""Account files: upstream's own file, and every mistake reported with its line."""

import re

import pytest

from mocketmq.access.account_file import AccessFileError, accounts_in, parse_yaml
from mocketmq.access.accounts import Accounts, PlainAccount
from mocketmq.access.needs import Permission

PUB, SUB, DENY = Permission.PUB, Permission.SUB, Permission.DENY

UPSTREAM = """\
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""
"""The file that RocketMQ ships (distribution/conf, 4.9.8)."""


def read_accounts(text: str) -> Accounts:
    return accounts_in(parse_yaml(text))


def test_file_of_the_upstream_distribution_is_read() -> None:
    accounts = read_accounts(UPSTREAM)
    assert accounts.trusts("192.168.0.200")
    assert not accounts.trusts("192.168.1.1")
    assert list(accounts.by_key) == ["RocketMQ", "rocketmq2"]
    one, two = accounts.by_key.values()
    assert isinstance(one, PlainAccount)
    assert isinstance(two, PlainAccount)
    assert (one.secret, one.is_admin, one.default_topic, one.default_group) == ("12345678", False, DENY, SUB)
    assert one.topics == {"topicA": DENY, "topicB": PUB | SUB, "topicC": SUB}
    assert one.groups == {"groupA": DENY, "groupB": PUB | SUB, "groupC": SUB}
    assert not one.trusts("192.168.1.1")
    assert (two.is_admin, two.default_topic, two.default_group) == (True, DENY, DENY)
    assert two.trusts("192.168.1.1")


def test_mqadmins_body_and_its_optional_fields() -> None:
    accounts = read_accounts("""\
accounts:
- {accessKey: "12345678", secretKey: '0123.50', admin: TRUE, topicPerms: [' a = PUB '], groupPerms: []}
- accessKey: ~null~~
  secretKey: "null567"
  defaultTopicPerm: ' SUB|PUB '
  defaultGroupPerm: ~
  whiteRemoteAddress: null
  topicPerms: ['%RETRY%g=SUB', x=PUB, x=SUB]
globalWhiteRemoteAddresses:
dataVersion:
- counter: 1
  timestamp: 1600000000000
""")
    one, two = accounts.by_key.values()
    assert isinstance(one, PlainAccount)
    assert isinstance(two, PlainAccount)
    assert (one.access_key, one.secret, one.is_admin, one.topics) == ("12345678", "0123.50", True, {"a": PUB})
    assert (two.access_key, two.secret, two.default_topic) == ("~null~~", "null567", PUB | SUB)
    assert (two.default_group, two.topics, two.groups) == (DENY, {"x": SUB}, {"g": SUB})
    assert read_accounts("accounts: []").by_key == {}


ONE = "accounts:\n  - accessKey: shopkeeper\n    secretKey: very secret\n"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "it is empty; allowed: globalWhiteRemoteAddresses, accounts"),
        ("# all out", "it is empty"),
        ("accounts", "line 1: the file is a scalar; allowed: globalWhiteRemoteAddresses, accounts"),
        ("- a", "line 1: the file is a sequence"),
        ("a: [", "line 1: it is not YAML"),
        ("accounts:\n\t- a", "line 2: it is not YAML: found character"),
        ("accounts: []\n---\nb", "line 2: it is not YAML: but found another document"),
        (
            "account:\n",
            "line 1: 'account' is not a field of the file; allowed: globalWhiteRemoteAddresses, accounts",
        ),
        ("accounts:\naccounts:\n", "line 2: accounts is repeated; allowed: once"),
        ("accounts: many", "line 1: this is a scalar; allowed: a list, whose lines begin with -"),
        ("accounts:\n  - shopkeeper\n", "line 2: an account is a scalar; allowed: accessKey, secretKey,"),
        ("accounts:\n  - secretKey: very secret\n", "line 2: accessKey is missing; allowed: 7 or more"),
        ("accounts:\n  - accessKey: shopkeeper\n", "line 2: secretKey is missing"),
        ("accounts:\n  - accessKey: short\n", "line 2: accessKey has 5 characters; allowed: 7 or more"),
        (ONE.replace("very secret", "hidden"), "line 3: secretKey has 6 characters"),
        (ONE.replace("very secret", "[very, secret]"), "line 3: this is a sequence; allowed: one value"),
        (ONE + ONE.partition("\n")[2], "line 4: the accessKey shopkeeper is repeated; allowed: once"),
        (
            ONE + "    admins: true\n",
            "line 4: 'admins' is not a field of an account; allowed: accessKey, secretKey",
        ),
        (ONE + "    admin: yes\n", "line 4: admin is 'yes'; allowed: true or false"),
        (
            ONE + "    defaultTopicPerm: PUB,SUB\n",
            "line 4: 'PUB,SUB' is not a permission; allowed: DENY, PUB, SUB or",
        ),
        (ONE + "    defaultGroupPerm: sub\n", "line 4: 'sub' is not a permission"),
        (ONE + "    topicPerms: orders=SUB\n", "line 4: this is a scalar; allowed: a list"),
        (
            ONE + "    topicPerms:\n      - a=SUB\n      - orders\n",
            "line 6: 'orders' is not a permission; allowed: name=",
        ),
        (
            ONE + "    groupPerms:\n      - =SUB\n",
            "line 5: '=SUB' is not a permission; allowed: name=permission",
        ),
        (ONE + "    groupPerms:\n      - a=PUB=SUB\n", "line 5: 'PUB=SUB' is not a permission"),
        (
            ONE + "    whiteRemoteAddress: 10.*\n",
            "line 4: '10.*' is not a list of addresses; allowed: such as",
        ),
        (
            "globalWhiteRemoteAddresses:\n  - 10.0.0.1\n  - home\n",
            "line 3: 'home' is not a list of addresses",
        ),
        ("[" * 5_000, "it is nested too deeply"),
        (
            ONE.replace("very secret", '"very secret \\ud800"'),
            "line 3: an escape encodes half a character",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, mistake: str) -> None:
    with pytest.raises(AccessFileError, match=f"^{re.escape(mistake)}"):
        read_accounts(text)


@pytest.mark.parametrize(
    "secret", ["*hidden-word", "@hidden-word", "{hidden-word", "'hidden-word", "!x hidden-word["]
)
def test_a_secret_is_not_quoted(secret: str) -> None:
    text = ONE.replace("very secret", secret) + "    admin: maybe\n"
    with pytest.raises(AccessFileError) as refused:
        read_accounts(text)
    assert "hidden-word" not in str(refused.value)


def test_a_secret_is_not_quoted_with_its_name() -> None:
    with pytest.raises(AccessFileError, match="'secretKey' is not a field of an account"):
        read_accounts("accounts: [{accessKey: shopkeeper, secretKey:hidden-word}]")
