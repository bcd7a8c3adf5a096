"""Deliberate differences from RocketMQ 5.5.0 in general sequences, beside those of :mod:`known`."""

import re
from typing import Any, Final

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.difference import Difference
from tests.differential.known import Rule
from tests.differential.values import GROUPS
from tests.upstream.jars import V5_5

_FIELDS: Final = frozenset(
    (
        *("IS_SUB_CHANGE", "IS_SUPPORT_HEART_BEAT_V2", "groupRetryPolicy", "groupSysFlag", "topicSysFlag"),
        *("totalGroupNum", "totalTopicNum", "forbiddenType", "bname", "__transactionId__"),
    )
)
_OF_BATCH: Final = ((("properties", "CLUSTER"), "DefaultCluster"), (("properties", "common"), "c"))
_PLACE: Final = (("properties", "REAL_QID"), ("properties", "REAL_TOPIC"))
_TIMERS: Final = (("properties", "TIMER_DELAY_SEC"), ("properties", "TIMER_DELIVER_MS"))
_SHORTENED: Final = re.compile(r"… \((\d+) characters")
_MOST: Final = 256 << 10
_OTHERWISE_STORED: Final = 4 << 10
"""Limit on the bytes of a pull, and how much less the bodies of a full one have."""
_TRACING: Final = (("properties", "MSG_REGION"), ("properties", "TRACE_ON"))


def _fields(difference: Difference) -> bool:
    return difference.path[-1] in _FIELDS and difference.ours is None


def _tracing(difference: Difference) -> bool:
    return difference.path[-2:] in _TRACING and difference.theirs in ("DefaultRegion", "true")


def _empty_queues(difference: Difference) -> bool:
    return difference.op.name == "committed" and difference.codes == (22, 0)


def _check_backs(difference: Difference) -> bool:
    if difference.op.name != "asked":
        return False
    is_asked_again = difference.path == ("checks",) and len(difference.theirs or ()) > len(
        difference.ours or ()
    )
    return is_asked_again or difference.path[-2:] == ("ext", "topic")


def _committed_halves(difference: Difference) -> bool:
    return difference.path[-2:] in _PLACE and difference.theirs is None


def _timers_of_levels(difference: Difference) -> bool:
    return difference.path[-2:] in _TIMERS and difference.theirs is None


def _batch(difference: Difference) -> bool:
    return (difference.path[-2:], difference.ours) in _OF_BATCH


def _bytes_of_records(difference: Difference) -> bool:
    if difference.op.name != "pull" or difference.codes != (0, 0):
        return False
    fewer, more = sorted((seen["records"] for seen in difference.seen), key=len)
    is_cut = len(fewer) < len(more) and all(
        one["queueOffset"] == other["queueOffset"] for one, other in zip(fewer, more, strict=False)
    )
    return is_cut and 0 <= _MOST - sum(map(_body_bytes, fewer)) <= _OTHERWISE_STORED


def _body_bytes(record: dict[str, Any]) -> int:
    shortened = _SHORTENED.search(record["body"])
    return int(shortened[1]) if shortened else len(record["body"])


def _overtaking(difference: Difference) -> bool:
    return difference.op.name == "pipelined" and difference.ours == 0


def _recall_of_half(difference: Difference) -> bool:
    return difference.path[-1] == "recallHandle" and difference.ours is None


def _pull_offset(difference: Difference) -> bool:
    theirs, ours = difference.theirs, difference.ours
    return difference.path[-1] == "pullOffset" and None not in (theirs, ours) and theirs > ours


def _pushed_resets(difference: Difference) -> bool:
    if difference.op.name != "pushes" or not isinstance(difference.ours, list):
        return False
    rest = [push for push in difference.ours if push["code"] != RequestCode.RESET_CONSUMER_CLIENT_OFFSET]
    return rest == (difference.theirs or [])


def _former_subscribers(difference: Difference) -> bool:
    if difference.path[:2] != ("body", "groupList"):
        return False
    theirs, ours = (set(seen["body"]["groupList"]) for seen in difference.seen)
    return bool(theirs - ours) and theirs - ours <= set(GROUPS)


def _order_of_retries(difference: Difference) -> bool:
    is_flag = difference.path[-1] == "order" and difference.path[-2].startswith("%RETRY%")
    return is_flag and difference.theirs is True


def _rates(difference: Difference) -> bool:
    return difference.path[-1] == "topicPutTps"


def _unknown_group(difference: Difference) -> bool:
    is_reset = difference.op.name == "change" and difference.given("code") == 222
    return (is_reset or difference.op.name == "commit") and difference.codes == (26, 0)


def _empty_body(difference: Difference) -> bool:
    return difference.given("body") == "" and difference.codes == (1, 13)


def _other_words(difference: Difference) -> bool:
    theirs, ours = difference.codes
    return difference.path == ("remark",) and theirs == ours and theirs not in (0, None)


NEWER_RULES: Final = (
    Rule("fields-of-5", _fields, versions=(V5_5,)),
    Rule("region-of-clients", _tracing, versions=(V5_5,)),
    Rule("offsets-of-empty-queues", _empty_queues, versions=(V5_5,)),
    Rule("check-backs-of-5", _check_backs, versions=(V5_5,)),
    Rule("properties-of-batches", _batch, versions=(V5_5,)),
    Rule("bytes-of-records", _bytes_of_records, versions=(V5_5,)),
    Rule("queries-overtake", _overtaking, versions=(V5_5,)),
    Rule("places-of-halves", _committed_halves, versions=(V5_5,)),
    Rule("timers-of-levels", _timers_of_levels, versions=(V5_5,)),
    Rule("recall-of-half", _recall_of_half, versions=(V5_5,)),
    Rule("pull-offsets", _pull_offset, versions=(V5_5,)),
    Rule("pushed-resets", _pushed_resets, versions=(V5_5,)),
    Rule("former-subscribers", _former_subscribers, versions=(V5_5,)),
    Rule("order-of-retries", _order_of_retries, versions=(V5_5,)),
    Rule("rates", _rates, versions=(V5_5,)),
    Rule("offsets-of-no-group", _unknown_group, ends=True, versions=(V5_5,)),
    Rule("empty-bodies", _empty_body, ends=True, versions=(V5_5,)),
    Rule("other-words", _other_words, versions=(V5_5,)),
)
