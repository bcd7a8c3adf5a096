"""Deliberate differences from RocketMQ 5.3.3 and 5.5.0, as in :mod:`known`."""

from typing import Any, Final

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.difference import Difference
from tests.differential.known import Rule
from tests.differential.pop_sequences import ORDERED
from tests.upstream.jars import V5, V5_5

_PLACE: Final = frozenset(("bornHost", "commitOffset", "handle", "queueId", "queueOffset", "topic"))
_TIMER: Final = frozenset(
    ("REAL_QID", "REAL_TOPIC", "TIMER_DEQUEUE_MS", "TIMER_ENQUEUE_MS", "TIMER_OUT_MS", "TIMER_LOOP_ROLL")
)
_OFFSETS: Final = frozenset(("consumerOffset", "lastTimestamp", "pullOffset"))
_NEWER: Final = frozenset(
    ("IS_SUB_CHANGE", "IS_SUPPORT_HEART_BEAT_V2", "groupRetryPolicy", "groupSysFlag", "topicSysFlag")
)


def _times(difference: Difference) -> int:
    """Return the number of retries of the message at the path, or 0."""
    if "records" not in difference.path[:-2]:
        return 0
    found: Any = difference.seen[0]
    for step in difference.path[: difference.path.index("records") + 2]:
        found = found[int(step)] if isinstance(found, list) else found[step]
    return int(found["reconsumeTimes"])


def _is_refused_alike(difference: Difference) -> bool:
    theirs, ours = difference.codes
    return theirs == ours and theirs not in (0, None)


def _remark_of_success(difference: Difference) -> bool:
    if difference.path[-1] != "remark":
        return False
    says_more = difference.theirs is None and difference.codes == (0, 0)
    return says_more or difference.theirs == "not set any response code"


def _group_attributes(difference: Difference) -> bool:
    changes = difference.given("body") if difference.op.name == "change" else None
    return changes is not None and '"+priority.factor": "50"' in changes and difference.codes == (1, 0)


def _attributes_of_5_5(difference: Difference) -> bool:
    if difference.op.name != "change" or difference.codes not in ((0, 1), (1, 0)):
        return False
    changes = f"{difference.given('ext').get('attributes')} {difference.given('body')}"
    return any(each in changes for each in ("message.type=PRIORITY", "message.type=LITE", "lite."))


def _timer_engine(difference: Difference) -> bool:
    return difference.given("code") == RequestCode.SWITCH_TIMER_ENGINE and difference.codes[0] == 3


def _origin_group(difference: Difference) -> bool:
    return difference.path[-2:] == ("properties", "ORIGIN_GROUP") and difference.ours is None


def _bits_as_numbers(difference: Difference) -> bool:
    remark = str(difference.seen[0].get("remark"))
    return difference.op.name == "acks" and ("BatchAck.setBitSet" in remark or '"bitSet" is null' in remark)


def _other_words(difference: Difference) -> bool:
    return difference.path == ("remark",) and _is_refused_alike(difference)


def _fields_of_refusals(difference: Difference) -> bool:
    return difference.path[0] == "ext" and _is_refused_alike(difference) and difference.ours is None


def _too_late(difference: Difference) -> bool:
    is_late = difference.op.name in ("ack", "acks") and not difference.seen[0].get("held")
    return is_late and difference.codes in ((0, 208), (0, 26))


def _changed_too_late(difference: Difference) -> bool:
    is_late = not difference.given("is_held") and difference.codes == (0, 208)
    return difference.op.name == "invisible" and (is_late or difference.codes == (0, 26))


def _in_place(difference: Difference) -> bool:
    if "offsetTable" in difference.path:
        return "%RETRY%" in difference.path[-1]
    return not _PLACE.isdisjoint(difference.path) and _times(difference) > 0


def _knows_already(difference: Difference) -> bool:
    is_told = difference.op.name == "pull" and difference.seen[0].get("remark") == "OFFSET_RESET"
    return is_told and difference.seen[1].get("remark") != "OFFSET_RESET"


def _committed(difference: Difference) -> bool:
    if difference.op.name == "committed":
        return difference.path == ("ext", "offset") and not difference.given("group").startswith("Puller")
    return "offsetTable" in difference.path and difference.path[-1] in _OFFSETS


def _empty_queues(difference: Difference) -> bool:
    return difference.op.name == "committed" and difference.codes == (22, 0)


def _topic_as_group(difference: Difference) -> bool:
    if difference.path[:2] != ("body", "groupList"):
        return False
    theirs, ours = (set(seen["body"]["groupList"]) for seen in difference.seen)
    refused = {name for name in theirs if name.startswith("Filter")}  # by mocketmq, for its filter
    return theirs - ours - refused <= {difference.given("ext")["topic"]}


def _rates(difference: Difference) -> bool:
    return difference.path[-1] == "consumeTps"


def _newer(difference: Difference) -> bool:
    return difference.path[-1] in _NEWER and difference.ours is None


def _order_counts(difference: Difference) -> bool:
    is_fewer = difference.path[-1] == "times" and difference.theirs < difference.ours
    return is_fewer and difference.given("group") == ORDERED


def _counts_of_attempt(difference: Difference) -> bool:
    if difference.path[-1] != "times" or difference.path[:-2] != ("records",):
        return False
    record = difference.seen[0]["records"][int(difference.path[1])]
    return bool(record["repeats"] and difference.theirs > difference.ours)


def _end_of_filter(difference: Difference) -> bool:
    theirs, ours = difference.codes
    has_operator_of_5 = "CONTAINS" in str(difference.given("exp"))
    return difference.op.name == "pop" and theirs in (0, 210) and (ours == 23 or has_operator_of_5)


def _negative(difference: Difference) -> bool:
    return difference.op.name == "invisible" and difference.given("ms") == -1


def _mode(difference: Difference) -> bool:
    return "OTHER" in str(difference.given("body")) and difference.codes[1] == 1


def _group_names(difference: Difference) -> bool:
    return difference.given("group") in ("", "a b") and difference.codes[1] == 1


def _timer_properties(difference: Difference) -> bool:
    return difference.path[-1] in _TIMER and "properties" in difference.path


POP_RULES: Final = (
    Rule("remark-of-success", _remark_of_success),
    Rule("other-words", _other_words),
    Rule("group-names", _group_names),
    Rule("fields-of-refusals", _fields_of_refusals),
    Rule("late-acknowledgements", _too_late),
    Rule("late-changes", _changed_too_late, ends=True),
    Rule("retries-in-place", _in_place),
    Rule("known-resets", _knows_already),
    Rule("offsets-of-empty-queues", _empty_queues),
    Rule("popped-and-committed", _committed),
    Rule("topic-as-group", _topic_as_group),
    Rule("rates", _rates),
    Rule("fields-of-5", _newer),
    Rule("end-of-filter", _end_of_filter),
    Rule("order-counts", _order_counts),
    Rule("counts-of-attempts", _counts_of_attempt),
    Rule("invisible-times", _negative, ends=True),
    Rule("request-modes", _mode, ends=True),
    Rule("timer-properties", _timer_properties),
    Rule("group-attributes", _group_attributes, ends=True, versions=(V5,)),
    Rule("timer-engine", _timer_engine, versions=(V5,)),
    Rule("attributes-of-5-5", _attributes_of_5_5, ends=True),
    Rule("origin-group", _origin_group, versions=(V5_5,)),
    Rule("bits-as-numbers", _bits_as_numbers, ends=True, versions=(V5_5,)),
)
