"""The relay reads a message's real topic and due time from its properties, or refuses it with a reason."""

from zoneinfo import ZoneInfo

import pytest

from mocketmq.clock import US_PER_S
from mocketmq.relay.judging import Judge, Judged, UnfitMessageError

NOW_US = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z
SENT_US = NOW_US - 2 * US_PER_S
OWN = ("delayed", "delayed-pending", "delayed-refused")
TOPICS = "1 to 262 characters of a-z, A-Z, 0-9, ., _, %, | and -"
DAY_US = 86_400 * US_PER_S
JUDGE = Judge(400 * DAY_US, OWN)
BODIES = Judge(400 * DAY_US, OWN, ZoneInfo("Asia/Shanghai"))


@pytest.mark.parametrize(
    ("words", "due_us"),
    [
        ({"__STARTDELIVERTIME": "1767225601500"}, NOW_US + 1_500_000),
        ({"__STARTDELIVERTIME": "1767225500000"}, NOW_US),  # already past
        ({"RELAY_DELAY_MS": "5000"}, SENT_US + 5 * US_PER_S),  # counts from the message's time
        ({"RELAY_DELAY_MS": "0"}, NOW_US),
        ({"RELAY_DELAY_MS": "1000", "another": "word"}, NOW_US),
    ],
)
def test_the_due_time_comes_from_the_headers(words: dict[str, str], due_us: int) -> None:
    found = JUDGE.judge({"RELAY_TOPIC": "orders", **words}, b"", SENT_US, NOW_US)
    assert found == Judged("orders", due_us)


def test_due_time_is_rounded_up_to_the_millisecond() -> None:
    found = JUDGE.judge({"RELAY_TOPIC": "orders", "RELAY_DELAY_MS": "0"}, b"", SENT_US, NOW_US + 1)
    assert found.due_us == NOW_US + 1_000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({}, "RELAY_TOPIC is missing; needed: the name of the real topic"),
        (
            {"RELAY_TOPIC": "orders"},
            "the due time is missing; needed: __STARTDELIVERTIME in milliseconds since the epoch, such as"
            " 1767225600000; or RELAY_DELAY_MS",
        ),
        (
            {"RELAY_TOPIC": "orders", "RELAY_DELAY_MS": "1", "__STARTDELIVERTIME": "1"},
            "__STARTDELIVERTIME and RELAY_DELAY_MS are both given; allowed: one",
        ),
        (
            {"RELAY_TOPIC": "orders", "RELAY_DELAY_MS": "10s"},
            "RELAY_DELAY_MS is '10s'; allowed: milliseconds, such as 60000",
        ),
        (
            {"RELAY_TOPIC": "orders", "__STARTDELIVERTIME": "2026-01-01"},
            "__STARTDELIVERTIME is '2026-01-01'; allowed: milliseconds since the epoch, such as"
            " 1767225600000",
        ),
        (
            {"RELAY_TOPIC": "orders", "RELAY_DELAY_MS": str(401 * 86_400_000 + 2_000)},
            "the message is due in 401d; allowed: at most 400d ahead",
        ),
        (
            {"RELAY_TOPIC": "delayed-pending", "RELAY_DELAY_MS": "1"},
            "the real topic is delayed-pending, one of the relay's own; allowed: any other",
        ),
        (
            {"RELAY_TOPIC": "a\x01b", "RELAY_DELAY_MS": "1"},
            f"the real topic is 'a\\x01b'; allowed: {TOPICS}",
        ),
        (
            {"RELAY_TOPIC": "t" * 40_000, "RELAY_DELAY_MS": "1"},
            f"the real topic is '{'t' * 78}…; allowed: {TOPICS}",
        ),
    ],
)
def test_unrelayable_message_is_refused_with_a_reason(words: dict[str, str], sentence: str) -> None:
    with pytest.raises(UnfitMessageError) as refused:
        JUDGE.judge(words, b"", SENT_US, NOW_US)
    assert str(refused.value) == sentence


def test_a_json_body_may_name_topic_and_time_in_a_zone() -> None:
    body = b'{"actualTopic":"orders","actualTime":"2026-01-01 08:00:05","eventId":"7"}'
    assert BODIES.judge({}, body, SENT_US, NOW_US) == Judged("orders", NOW_US + 5 * US_PER_S)


def test_headers_take_precedence_over_the_body() -> None:
    body = b'{"actualTopic":"orders","actualTime":"2026-01-01 08:00:05"}'
    words = {"RELAY_TOPIC": "bills", "RELAY_DELAY_MS": "3000"}
    assert BODIES.judge(words, body, SENT_US, NOW_US) == Judged("bills", NOW_US + US_PER_S)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            b"hello",
            "RELAY_TOPIC is missing; needed: the name of the real topic,"
            " or a JSON body with actualTopic and actualTime",
        ),
        (
            b'{"actualTopic":"orders","actualTime":"tomorrow"}',
            "actualTime is 'tomorrow'; allowed: yyyy-MM-dd HH:mm:ss",
        ),
    ],
)
def test_a_body_without_topic_and_time_is_refused(body: bytes, sentence: str) -> None:
    with pytest.raises(UnfitMessageError) as refused:
        BODIES.judge({}, body, SENT_US, NOW_US)
    assert str(refused.value) == sentence
