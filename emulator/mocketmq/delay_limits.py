"""Delay limits, which determine the delays that a system refuses, rounds or holds up.

The broker checks each sent message, and a report checks all rows of a ledger, by the same methods. The
methods therefore take an integer or a NumPy array of integers. All times are microseconds.

The known systems are at the end, with a source for each limit. To add a system, add it to ``_ALL``, its name
to ``settings.DelayLimitsName``, and a row to the table in ``docs/delay-limits.md``.
"""

from bisect import bisect_right, insort
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

from mocketmq.duration import format_duration

Way = Literal["level", "timer", "start"]
"""How a message requests its delay: by level, by ``TIMER_*``, or by ``__STARTDELIVERTIME``."""

ENDLESS_US: Final = 1 << 62


class Source(NamedTuple):
    """The document that states a limit."""

    says: str
    url: str
    date: str  # date of the page, "read" and the day of reading, or a version
    unverified: str = ""  # the part of the limit that could not be verified


class DelayLimits(NamedTuple):
    """The limits of one system. ``docs/delay-limits.md`` describes them."""

    name: str
    title: str
    sources: tuple[Source, ...]
    longest_us: int = ENDLESS_US
    beyond: Literal["refused", "at once"] = "refused"  # the outcome of longer delays
    refusal: str = ""  # the system's own words, with {s}, {ms}; empty if unknown
    grain_us: int = 1  # delays or due times are rounded up to a multiple of this
    rounds: Literal["delay", "due time"] = "delay"
    soon_us: int = 0  # messages with a delay up to this are delivered at once
    knows_levels: bool = False  # RocketMQ's delay levels are supported without limits
    ignores: frozenset[Way] = frozenset()  # ways that the system ignores, so it delivers at once
    ahead: int | None = None  # maximum number of delayed messages of a topic; further messages wait
    in_flight: int | None = None  # maximum number of a topic's messages in flight
    over_limit: str = ""  # the system's own words for a receive above that maximum, which does not wait

    def is_beyond(self, delay_us: Any) -> Any:
        """Whether a delay is longer than the system's longest delay."""
        return delay_us > self.longest_us

    def is_at_once(self, delay_us: Any, *, ignored: Any) -> Any:
        """Whether the system would deliver a message with this delay at once.

        ``ignored`` is whether the message requests the delay in a way that the system ignores.
        """
        too_long = self.is_beyond(delay_us) & (self.beyond == "at once")
        return too_long | (delay_us <= self.soon_us) | ignored

    def is_refused(self, delay_us: Any, *, ignored: Any) -> Any:
        """Whether a message with this delay would be refused."""
        return self.is_beyond(delay_us) & (self.beyond == "refused") & (ignored == False)  # noqa: E712 - arrays

    def rounded_us(self, from_us: Any, due_us: Any) -> Any:
        """The due time that the system gives to a message without a level, accepted at ``from_us``."""
        if self.rounds == "due time":
            return -(-due_us // self.grain_us) * self.grain_us
        return from_us - (from_us - due_us) // self.grain_us * self.grain_us

    def words(self, delay_us: int) -> str:
        """The error text for the sender of a refused message."""
        if self.refusal:
            return self.refusal.format(s=-(-delay_us // 1_000_000), ms=-(-delay_us // 1_000))
        longest = format_duration(self.longest_us)
        return f"{self.title} refuses a delay of {format_duration(delay_us)}; allowed: at most {longest}"


class WaitingLine:
    """The due times of one topic's delayed messages, in order, for systems with head-of-line blocking."""

    def __init__(self, ahead: int) -> None:
        self._ahead = ahead
        self._due_us: list[int] = []

    def load(self, due_us: int) -> None:
        """Add a message whose due time is known."""
        insort(self._due_us, due_us)

    def join(self, now_us: int, due_us: int) -> int:
        """Add a message that arrives at ``now_us``. Return its due time, after the messages that block it."""
        del self._due_us[: bisect_right(self._due_us, now_us)]
        surplus = len(self._due_us) - self._ahead
        if surplus >= 0:
            due_us = max(due_us, self._due_us[surplus])
        insort(self._due_us, due_us)
        return due_us

    def leave(self, due_us: int) -> None:
        """Remove a message with this due time, if its time is not over."""
        with suppress(ValueError):
            self._due_us.remove(due_us)


_MS: Final = 1_000
_S: Final = 1_000_000
_DAY: Final = 86_400 * _S

_ALIYUN: Final = "https://www.alibabacloud.com/help/en/apsaramq-for-rocketmq/cloud-message-queue-rocketmq"
_ALIYUN4_LIMITS: Final = Source(
    "40 days, and a longer delay fails to be sent",
    "https://help.aliyun.com/document_detail/43349.html",
    "read 2026-11-23",
)
_ALIYUN5_LIMITS: Final = Source(
    "7 days on Standard and all serverless instances, else 40 days; delivered at once beyond",
    "https://www.alibabacloud.com/help/doc-detail/440242.html",
    "2026-03-11",
)
_HUAWEI_LIMITS: Final = Source(
    "1 year on 4.8.0, 7 days on 5.x; a longer delay fails to be sent",
    "https://support.huaweicloud.com/devg-hrm/hrm-devg-009.md",
    "read 2026-11-23",
)
_HUAWEI_GRAIN: Final = Source(
    "0.1 s between the due time and the delivery",
    "https://support.huaweicloud.com/intl/zh-cn/devg-hrm/hrm-devg-009.html",
    "2025-04-22",
    "that due times are rounded up",
)
_ROCKETMQ: Final = "https://github.com/apache/rocketmq/blob"

_ALL: Final = (
    DelayLimits(
        "aliyun4",
        "Aliyun's RocketMQ 4.x",
        (
            _ALIYUN4_LIMITS,
            Source(
                "delays and due times to the second",
                f"{_ALIYUN}-4-x-series/developer-reference/"
                "send-and-receive-scheduled-messages-and-delayed-messages-1",
                "2026-03-11",
                "that due times are rounded up",
            ),
        ),
        longest_us=40 * _DAY,
        grain_us=_S,
        rounds="due time",
        knows_levels=True,
    ),
    DelayLimits(
        "aliyun5",
        "Aliyun's RocketMQ 5.x, Professional or Platinum",
        (_ALIYUN5_LIMITS,),
        longest_us=40 * _DAY,
        beyond="at once",
        knows_levels=True,
    ),
    DelayLimits(
        "aliyun5-standard",
        "Aliyun's RocketMQ 5.x, Standard or serverless",
        (_ALIYUN5_LIMITS,),
        longest_us=7 * _DAY,
        beyond="at once",
        knows_levels=True,
    ),
    DelayLimits(
        "huawei",
        "Huawei's DMS for RocketMQ 4.8.0",
        (_HUAWEI_LIMITS, _HUAWEI_GRAIN),
        longest_us=365 * _DAY,
        grain_us=100 * _MS,
        rounds="due time",
        knows_levels=True,
    ),
    DelayLimits(
        "huawei5", "Huawei's DMS for RocketMQ 5.x", (_HUAWEI_LIMITS,), longest_us=7 * _DAY, knows_levels=True
    ),
    DelayLimits(
        "cmq",
        "Tencent's CMQ",
        (
            Source(
                "0 to 3,600 whole seconds; 20,000 delayed messages in a queue: further ones wait for these",
                "https://cloud.tencent.com/document/product/406/8128",
                "2021-08-04",
            ),
        ),
        longest_us=3_600 * _S,
        grain_us=_S,
        ahead=20_000,
    ),
    DelayLimits(
        "sqs",
        "Amazon SQS",
        (
            Source(
                "0 to 15 minutes; about 120,000 messages in flight, then OverLimit for a short poll",
                "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html",
                "read 2026-11-23",
            ),
            Source(
                "the words of the refusal; whole seconds",
                "https://github.com/aws-samples/amazon-sqs-dlq-replay-backoff/issues/8",
                "2022-11-30",
            ),
            Source(
                "the words of OverLimit",
                "https://docs.aws.amazon.com/botocore/latest/reference/services/sqs/client/exceptions/OverLimit.html",
                "read 2026-11-23",
                "that the service says them, which are the documents'",
            ),
        ),
        longest_us=900 * _S,
        refusal=(
            "Value {s} for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."
        ),
        grain_us=_S,
        in_flight=120_000,
        over_limit="OverLimit: The specified action violates a limit.",
    ),
    DelayLimits(
        "pulsar",
        "Apache Pulsar",
        (
            Source(
                "due within one tick, 1 s, is delivered at once; no longest delay by default",
                "https://github.com/apache/pulsar/blob/master/pulsar-broker/src/main/java/org/apache/pulsar/"
                "broker/delayed/AbstractDelayedDeliveryTracker.java",
                "read 2026-11-23",
            ),
        ),
        soon_us=_S,
    ),
    DelayLimits(
        "rabbitmq",
        "RabbitMQ with TTL and dead-lettering",
        (
            Source(
                "a message expires at the head of its queue only",
                "https://www.rabbitmq.com/docs/ttl",
                "read 2026-11-23",
            ),
            Source(
                "up to 4,294,967,295 ms, and the words of the refusal",
                "https://github.com/rabbitmq/rabbitmq-server/pull/4836",
                "2022-05-18",
                "the number and the words, which are those of old versions; newer ones have another limit",
            ),
        ),
        longest_us=4_294_967_295 * _MS,
        refusal="PRECONDITION_FAILED - invalid expiration '{ms}': {{value_too_big,{ms}}}",
        ahead=1,
    ),
    DelayLimits(
        "rocketmq4",
        "Apache RocketMQ 4.x",
        (
            Source(
                "delay levels only; other due times are ordinary properties",
                f"{_ROCKETMQ}/rocketmq-all-4.9.8/store/src/main/java/org/apache/rocketmq/store/CommitLog.java",
                "4.9.8",
            ),
        ),
        ignores=frozenset({"timer", "start"}),
        knows_levels=True,
    ),
    DelayLimits(
        "rocketmq5",
        "Apache RocketMQ 5.x",
        (
            Source(
                "TIMER_* up to timerMaxDelaySec, 3 days, at whole seconds (timerPrecisionMs)",
                f"{_ROCKETMQ}/rocketmq-all-5.3.3/broker/src/main/java/org/apache/rocketmq/broker/util/"
                "HookUtils.java",
                "5.3.3",
            ),
        ),
        longest_us=3 * _DAY,
        refusal=(
            "timer message illegal, the delay time should not be bigger than the max delay 259200000dms;"
            " or if set del msg, the delay time should be bigger than the current time"
        ),
        grain_us=_S,
        rounds="due time",
        ignores=frozenset({"start"}),
        knows_levels=True,
    ),
)

DELAY_LIMITS: Final[Mapping[str, DelayLimits]] = {delay_limits.name: delay_limits for delay_limits in _ALL}
