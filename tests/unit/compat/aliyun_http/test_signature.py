"""Signatures: the vectors of docs/protocol/aliyun.md §1.4, and the code of each mistake."""

import base64
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from multidict import CIMultiDict

from mocketmq.access.accounts import Accounts, PlainAccount
from mocketmq.access.addresses import parse_addresses
from mocketmq.clock import US_PER_S
from mocketmq_compat.aliyun_http import signature
from mocketmq_compat.aliyun_http.errors import AliyunError
from mocketmq_compat.aliyun_http.signature import check_digest, check_signature
from mocketmq_compat.aliyun_http.signed_text import sign, string_to_sign

DATE = "Tue, 11 Apr 2017 10:09:19 GMT"
SENT = datetime(2017, 4, 11, 10, 9, 19, tzinfo=UTC)
KEYS = {"ak": "sk", "other": "ACCESS_KEY_SECRET"}
HOST = "10.0.0.1"
ACCOUNTS = Accounts(
    [
        *(PlainAccount(access_key=key, secret=secret) for key, secret in KEYS.items()),
        PlainAccount(access_key="STS.a", secret="sk", security_token="a+token/="),  # noqa: S106
        PlainAccount(access_key="home", secret="unknown", trusts=parse_addresses("10.9.9.9")),  # noqa: S106
    ],
    [parse_addresses("10.8.8.8")],
)
TARGET = "/topics/T1/messages?ns=MQ_INST_1_abc"


@pytest.fixture(autouse=True)
def wall(monkeypatch: pytest.MonkeyPatch) -> None:
    set_wall(monkeypatch, SENT)


def set_wall(monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    monkeypatch.setattr(signature, "wall_us", lambda: int(now.timestamp()) * US_PER_S)


def headers(**more: str) -> CIMultiDict[str]:
    given = {"date": DATE, "X-Mq-Version": "2015-06-06"}
    return CIMultiDict(given | {name.replace("_", "-"): value for name, value in more.items()})


def signed(
    method: str = "POST",
    target: str = TARGET,
    secret: str = "sk",  # noqa: S107
    key: str = "ak",
    **more: str,
) -> CIMultiDict[str]:
    made = headers(**more)
    made["Authorization"] = f"MQ {key}:{sign(secret, string_to_sign(method, target, made))}"
    return made


def refusal(given: Mapping[str, str], target: str = TARGET) -> str:
    with pytest.raises(AliyunError) as refused:
        check_signature("POST", target, given, ACCOUNTS, HOST)
    assert "sk" not in str(refused.value).split()
    return refused.value.code


@pytest.mark.parametrize(
    ("key_id", "method", "target", "more", "expected"),
    [
        (
            "other",
            "PUT",
            "/",
            {"Content_MD5": "574683b3684e3cff610afa155cc2506d", "Content_Type": "text/xml"},
            "G7NRBqmP9XfhTJ/pV3AgYQtXaaU=",
        ),
        ("ak", "POST", TARGET, {"Content_Type": "text/xml;charset=UTF-8"}, "nYVCGSjF1U+O39MjiNp/7V/J08w="),
        (
            "ak",
            "GET",
            "/topics/T1/messages?consumer=GID_a&numOfMessages=3&ns=MQ_INST_1_abc&waitseconds=3&tag=A%7C%7CB",
            {},
            "9lVGepuQ1H4QwZ72gbH73JrmC5E=",
        ),
        (
            "ak",
            "GET",
            "/topics/T1/messages?consumer=GID_a&ns=MQ_INST_1_abc&numOfMessages=3&waitseconds=3",
            {"Content_Type": "text/xml;charset=utf-8"},
            "B6iD19U3D+DmQc02efNCvl4SHUM=",
        ),
    ],
)
def test_documented_signatures_are_accepted(
    key_id: str, method: str, target: str, more: dict[str, str], expected: str
) -> None:
    given = headers(**more)
    assert sign(KEYS[key_id], string_to_sign(method, target, given)) == expected
    given["Authorization"] = f"MQ {key_id}:{expected}"
    account = check_signature(method, target, given, ACCOUNTS, HOST)
    assert account
    assert account.access_key == key_id


def test_own_headers_are_signed_in_order_and_no_others() -> None:
    given = headers(x_mq_b="2", X_MQ_A="1", security_token="t")  # noqa: S106
    assert (
        string_to_sign("GET", "/x", given)
        == f"GET\n\n\n{DATE}\nx-mq-a:1\nx-mq-b:2\nx-mq-version:2015-06-06\n/x"
    )


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        ("", "MissingAuthorizationHeader"),
        ("MQ", "InvalidAuthorizationHeader"),
        ("MQ ak", "InvalidAuthorizationHeader"),
        ("MQ ak:", "InvalidAuthorizationHeader"),
        ("MQ  ak:x", "InvalidAuthorizationHeader"),
        ("MQ ak:x:y", "InvalidAuthorizationHeader"),
        ("Bearer sk", "InvalidAuthorizationHeader"),
        ("MQ nobody:x", "InvalidAccessKeyId"),
        ("MQ ak:x", "SignatureDoesNotMatch"),
        ("MQ ak:\udcff", "SignatureDoesNotMatch"),
    ],
)
def test_invalid_authorization_headers(authorization: str, code: str) -> None:
    assert refusal(headers(Authorization=authorization)) == code


def test_trusted_addresses_need_no_signature() -> None:
    assert check_signature("POST", TARGET, headers(), ACCOUNTS, "10.8.8.8") is None
    assert check_signature("POST", TARGET, headers(Authorization="MQ home:x"), ACCOUNTS, "10.9.9.9") is None
    with pytest.raises(AliyunError, match="the request must be signed"):
        check_signature("POST", TARGET, headers(), ACCOUNTS, "10.9.9.9")
    assert refusal(headers(Authorization="MQ home:x")) == "SignatureDoesNotMatch"


def test_everything_signed_is_covered() -> None:
    assert refusal(signed(secret="other")) == "SignatureDoesNotMatch"  # noqa: S106
    assert refusal(signed(), TARGET + "&tag=A") == "SignatureDoesNotMatch"
    for changed in ("Content-MD5", "Content-Type", "x-mq-version", "x-mq-new"):
        assert refusal(CIMultiDict(signed(), **{changed: "x"})) == "SignatureDoesNotMatch"
    check_signature("POST", TARGET, CIMultiDict(signed(), **{"security-token": "t"}), ACCOUNTS, HOST)


def test_a_header_of_any_bytes_can_be_signed() -> None:
    check_signature("POST", TARGET, signed(x_mq_name="caf\udce9"), ACCOUNTS, HOST)


@pytest.mark.parametrize(
    ("date", "code"),
    [
        ("", "MissingDateHeader"),
        ("yesterday", "InvalidDateHeader"),
        ("Tue, 31 Apr 2017 10:09:19 GMT", "InvalidDateHeader"),
        ("Tue, 11 Apr 2017 10:09:19 +99999999999999999999", "InvalidDateHeader"),
        ("Tue, 11 Apr 2016 10:09:19 GMT", "TimeExpired"),
    ],
)
def test_invalid_dates(date: str, code: str) -> None:
    assert refusal(signed(date=date)) == code


@pytest.mark.parametrize(
    "date",
    [
        "Tue, 11 Apr 2017 18:09:19 +0800",
        "Tue, 11 Apr 2017 10:09:19 -0000",
        "11 Apr 2017 10:09:19",
        "Tuesday, 11-Apr-17 10:09:19 GMT",
        "mar., 11 avril 2017 10:09:19 GMT",
    ],
)
def test_dates_are_read_leniently(date: str) -> None:
    check_signature("POST", TARGET, signed(date=date), ACCOUNTS, HOST)


@pytest.mark.parametrize("direction", [-1, 1])
def test_a_date_is_good_for_fifteen_minutes(direction: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_wall(monkeypatch, SENT + direction * timedelta(minutes=15))
    check_signature("POST", TARGET, signed(), ACCOUNTS, HOST)
    now = SENT + direction * timedelta(minutes=15, seconds=1)
    set_wall(monkeypatch, now)
    with pytest.raises(AliyunError, match=f"within 15 minutes of {format_datetime(now, usegmt=True)}"):
        check_signature("POST", TARGET, signed(), ACCOUNTS, HOST)


BODY = b"<Message/>"
DIGEST = hashlib.md5(BODY, usedforsecurity=False)


@pytest.mark.parametrize(
    ("given", "content"),
    [
        (None, BODY),
        ("", BODY),
        (base64.b64encode(DIGEST.digest()).decode(), BODY),
        (base64.b64encode(DIGEST.hexdigest().encode()).decode(), BODY),
        (DIGEST.hexdigest(), BODY),
        (DIGEST.hexdigest().upper(), BODY),
        ("ZDQxZDhjZDk4ZjAwYjIwNGU5ODAwOTk4ZWNmODQyN2U=", b""),
    ],
)
def test_every_encoding_of_a_digest_is_accepted(given: str | None, content: bytes) -> None:
    check_digest(given, content)


@pytest.mark.parametrize("given", [DIGEST.hexdigest(), "x", "ZDQxZDhjZDk4ZjAwYjIwNGU5ODAwOTk4ZWNmODQyN2U="])
def test_a_wrong_digest_is_refused(given: str) -> None:
    with pytest.raises(AliyunError, match="but the body's MD5 is") as refused:
        check_digest(given, BODY + b" ")
    assert refused.value.code == "InvalidDigest"


def test_temporary_key_needs_its_unsigned_token() -> None:
    def given(secret: str, **token: str) -> CIMultiDict[str]:
        made = signed(key="STS.a", secret=secret)
        return CIMultiDict([*made.items(), *token.items()])

    account = check_signature("POST", TARGET, given("sk", **{"Security-Token": "a+token/="}), ACCOUNTS, HOST)
    assert account is not None
    assert account.access_key == "STS.a"
    assert refusal(given("sk")) == "InvalidAccessKeyId"
    for other in ("a+token/", "", "größe"):
        assert refusal(given("sk", **{"security-token": other})) == "InvalidAccessKeyId"
    assert refusal(given("no", **{"security-token": "a+token/="})) == "SignatureDoesNotMatch"


def test_a_security_token_is_ignored_for_a_key_without_one() -> None:
    account = check_signature("POST", TARGET, signed(security_token="any"), ACCOUNTS, HOST)  # noqa: S106
    assert account is not None
    assert account.access_key == "ak"
