"""Files of users: what they may have, and every mistake reported with its line."""

import re
from pathlib import Path

import pytest

from mocketmq.access.access import Access
from mocketmq.access.account_file import AccessFileError, has_users, parse_yaml, users_in
from mocketmq.access.policies import MAX_ENTRIES
from mocketmq.access.users import UserAccount, UserAccounts
from mocketmq.errors import AuthError, SettingError

WHOLE = """\
users:
  - username: root
    password: 0123
    userType: super
  - username: clerk
    password: 'null'
    userStatus: Disable
    policies:
      - resources: [Topic:orders*, 'Group:*']
        actions: [pub, Sub]
        sourceIps: [192.168.0.0/16, 10.0.0.7]
        decision: allow
      - resources: ['*']
        actions: [All]
        decision: Deny
        policyType: default
"""


def read(text: str) -> list[UserAccount]:
    root = parse_yaml(text)
    assert has_users(root)
    return users_in(root)


def test_all_that_a_file_may_have() -> None:
    root, clerk = read(WHOLE)
    assert (root.access_key, root.secret, root.user_type, root.status) == ("root", "0123", "Super", "enable")
    assert root.policies.as_json() == []
    assert (clerk.secret, clerk.user_type, clerk.status) == ("null", "Normal", "disable")
    sources = ["192.168.0.0/16", "10.0.0.7"]
    assert clerk.policies.as_json() == [
        {
            "policyType": "Custom",
            "entries": [
                {"resource": name, "actions": ["Pub", "Sub"], "sourceIps": sources, "decision": "Allow"}
                for name in ("Topic:orders*", "Group:*")
            ],
        },
        {"policyType": "Default", "entries": [{"resource": "*", "actions": ["All"], "decision": "Deny"}]},
    ]


def test_a_file_may_have_no_users() -> None:
    assert read("users:\n") == []
    assert not has_users(parse_yaml("accounts: []"))
    assert not has_users(parse_yaml(""))


USER = "users:\n  - username: clerk\n    password: very secret\n"
POLICY = USER + "    policies:\n      - {resources: ['*'], actions: [All], decision: Deny}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("users: 7", "line 1: this is a scalar; allowed: a list"),
        ("users: []\naccounts: []", "line 2: 'accounts' is not a field of the file; allowed: users"),
        ("users: [x]", "line 1: a user is a scalar; allowed: username"),
        ("users:\n  - password: x", "line 2: username is missing; allowed: 1 to 255 characters"),
        ("users:\n  - username: clerk", "line 2: password is missing"),
        (USER.replace("very secret", "' '"), "line 3: password is missing"),
        (USER.replace("very secret", "s" * 256), "line 3: password has 256 characters"),
        (
            USER + "  - {username: clerk, password: x}",
            "line 4: the username clerk is repeated; allowed: once",
        ),
        (USER + "    userType: king", "line 4: 'king' is not userType; allowed: Super, Normal"),
        (USER + "    userStatus: off", "line 4: 'off' is not userStatus; allowed: enable, disable"),
        (USER + "    admin: true", "line 4: 'admin' is not a field of a user; allowed: username, password"),
        (
            POLICY.replace("'*'", "orders"),
            "line 5: 'orders' is not a resource; allowed: such as Topic:orders",
        ),
        (POLICY.replace("'*'", ""), "line 5: resources is missing"),
        (POLICY.replace("resources: ['*'], ", ""), "line 5: resources is missing"),
        (
            POLICY.replace("[All]", "[Write]"),
            "line 5: 'Write' is not an action; allowed: All, Pub, Sub, Create",
        ),
        (POLICY.replace("[All]", "[]"), "line 5: actions is missing"),
        (POLICY.replace(", decision: Deny", ""), "line 5: decision is missing; allowed: Allow or Deny"),
        (POLICY.replace("Deny", "No"), "line 5: 'No' is not decision; allowed: Allow, Deny"),
        (POLICY.replace("Deny", "Deny, sourceIps: [here]"), "line 5: 'here' is not a source IP; allowed: an"),
        (
            POLICY.replace("Deny", "Deny, policyType: x"),
            "line 5: 'x' is not policyType; allowed: Custom, Def",
        ),
        (
            POLICY.replace("'*'", ", ".join(f"'Topic:{number}'" for number in range(MAX_ENTRIES + 1))),
            f"line 5: the user would have {MAX_ENTRIES + 1} policy entries; allowed: at most {MAX_ENTRIES}",
        ),
    ],
)
def test_mistakes_are_reported_with_their_line(text: str, why: str) -> None:
    with pytest.raises(AccessFileError, match=f"^{re.escape(why)}") as mistake:
        read(text)
    assert "very secret" not in str(mistake.value)


def test_a_file_of_users_is_reloaded_and_joined_by_the_store(tmp_path: Path) -> None:
    file = tmp_path / "users.yml"
    file.write_text(USER)
    access = Access(file)
    assert access.users
    access.stored["stored"] = UserAccount(access_key="stored", secret="x")  # noqa: S106
    access.stored["clerk"] = UserAccount(access_key="clerk", secret="x")  # noqa: S106
    assert access.users.find_account("stored")
    assert access.users.find_account("clerk").secret == "very secret"  # noqa: S105
    file.write_text(USER.replace("clerk", "another"))
    assert access.users.find_account("another")
    assert {user.access_key for user in access.users} == {"another", "stored", "clerk"}
    file.write_text("accounts: []")
    assert not isinstance(access.accounts, UserAccounts)
    assert access.accounts.get("stored") is None
    file.write_text(WHOLE)
    with pytest.raises(AuthError, match=r"^User:clerk is disabled\.$"):
        access.accounts.find_account("clerk")


def test_refusals_of_unknown_users(tmp_path: Path) -> None:
    file = tmp_path / "users.yml"
    file.write_text(USER)
    accounts = Access(file).accounts
    for name, why in (
        (None, "username cannot be null."),
        ("", "username cannot be null."),
        ("n" * 1_000, f"User:{'n' * 80} is not found."),
    ):
        with pytest.raises(AuthError) as refused:
            accounts.find_account(name)
        assert str(refused.value) == why
    assert str(accounts.signature_error(accounts.find_account("clerk"))) == "check signature failed."


def test_a_broker_does_not_start_with_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "users.yml"
    file.write_text("users: 7")
    with pytest.raises(SettingError, match=r"plain_acl\.yml, or of users \(line 1: this is a scalar"):
        Access(file)
