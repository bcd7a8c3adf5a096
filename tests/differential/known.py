"""Deliberate differences. Each has a row in docs/differences.md that names its rule."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mocketmq.message.properties import TRAN_MSG
from mocketmq.remoting.wire.record import decode_properties
from tests.differential.difference import Difference
from tests.differential.op import CHANGING
from tests.upstream.jars import V4, V5, V5_5

PAGE: Final = Path(__file__).parents[2] / "docs" / "differences.md"
_MARK: Final = re.compile(r"<!-- differential: ([a-z0-9-]+) -->")


class Rule(NamedTuple):
    """A rule that ``explains`` a difference from some ``versions`` of RocketMQ.

    With ``ends``, the brokers cannot be compared afterwards.
    """

    id: str
    explains: Callable[[Difference], bool]
    ends: bool = False
    versions: Collection[str] = (V4, V5, V5_5)


class Known:
    """The rules of one version of RocketMQ, with the number of differences that each rule has explained."""

    def __init__(self, rules: Sequence[Rule], version: str) -> None:
        self.rules = [rule for rule in rules if version in rule.versions]
        self.needed: Counter[str] = Counter()

    def explains(self, difference: Difference) -> bool:
        """Whether a rule explains the difference."""
        rule = rule_of(difference, self.rules)
        if rule:
            self.needed[rule.id] += 1
        return rule is not None

    def ends(self, difference: Difference) -> bool:
        """Whether the brokers cannot be compared after this difference."""
        rule = rule_of(difference, self.rules)
        return difference.op.name in CHANGING if rule is None else rule.ends


def rule_of(difference: Difference, rules: Sequence[Rule]) -> Rule | None:
    """Return the rule that explains a difference, if any."""
    return next((rule for rule in rules if rule.explains(difference)), None)


def ids_on_page() -> list[str]:
    """Return the ids of rules in the rows of the page."""
    return _MARK.findall(PAGE.read_text())


_FAQ: Final = re.compile(
    r"( ?\nSee |See )https?://rocketmq\.apache\.org/docs/(faq/|bestPractice/06FAQ) for further details\.$"
)
_JAVA: Final = ("java.", "org.apache.", "Cannot invoke")
_NEWER: Final = frozenset(
    {
        *(
            "attributes",
            "consumeMessageOrderly",
            "consumeTimeoutMinute",
            "enableActingMaster",
            "groupSysFlag",
        ),
        *("pullOffset", "recallHandle", "topicPutTps", "transactionId"),
    }
)
_SYSTEM_TOPICS: Final = frozenset(
    (
        *("CHECKPOINT_TOPIC", "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster"),
        *("RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"),
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a",
    )
)
_FOUND: Final = (0, 19, 20, 21)


def _properties(difference: Difference) -> dict[str, str]:
    given = difference.given("properties")
    return decode_properties(given) if isinstance(given, str) else {}


def _is_refused(difference: Difference) -> bool:
    """Whether only mocketmq refuses a send."""
    theirs, ours = difference.codes
    return difference.op.name in ("send", "send_batch") and theirs == 0 and ours != 0


def _other_words(difference: Difference) -> bool:
    theirs, ours = difference.theirs, difference.ours
    if difference.path[-1] != "remark" or not isinstance(theirs, str) or not isinstance(ours, str):
        return False
    if difference.given("wrong") == "commitLogOffset":  # which is the next message's here
        return difference.codes[0] == difference.codes[1]
    plain = _FAQ.sub("", theirs).rstrip()
    return (
        _FAQ.sub("", ours).startswith(plain)
        or theirs.startswith(_JAVA)
        or ("queueId[" in theirs and "queueId[" in ours)
    )


def _separators(difference: Difference) -> bool:
    return _is_refused(difference) and difference.given("properties") == "a\x01b\x01c"


def _numbers(difference: Difference) -> bool:
    born, retries = difference.given("born_timestamp"), difference.given("reconsume_times")
    return _is_refused(difference) and (born in (-1, 2**62) or retries == -1)


def _missing(difference: Difference) -> bool:
    fields = difference.op.args
    needed = {
        "send": ("producer_group", "topic", "default_topic", "queue_id"),
        "pull": ("subVersion",),
    }
    return any(fields.get(name, "") is None for name in needed.get(difference.op.name, ()))


def _region(difference: Difference) -> bool:
    theirs, _ = difference.codes
    return theirs != 0 and difference.path[-2:] in (("ext", "MSG_REGION"), ("ext", "TRACE_ON"))


def _newer_fields(difference: Difference) -> bool:
    is_asked = difference.op.name == "asked" and difference.path[-2:] == ("ext", "topic")
    return (difference.path[-1] in _NEWER or is_asked) and difference.theirs is None


def _before_heartbeat(difference: Difference) -> bool:
    return difference.op.name == "pull" and difference.codes[0] == 24 and difference.codes[1] in _FOUND


def _before_newer(difference: Difference) -> bool:
    return difference.op.name == "pull" and difference.codes[0] == 25 and difference.codes[1] in _FOUND


def _retry_route(difference: Difference) -> bool:
    if difference.op.name == "ask" and difference.given("code") == 105:
        return bool(difference.given("ext")["topic"].startswith("%RETRY%")) and difference.codes == (17, 0)
    if difference.path[:2] == ("body", "topicList"):
        theirs, ours = (set(seen["body"]["topicList"]) for seen in difference.seen)
        return all(name.startswith("%RETRY%") for name in theirs ^ ours)
    if difference.given("topic") is not None and difference.given("topic").startswith("%RETRY%"):
        is_smaller = difference.codes[0] in (1, 29)  # it has one queue if a heartbeat created it
        return (difference.codes[1] == 17 or is_smaller) and difference.op.name == "pull"
    if difference.ours is None and "offsetTable" in difference.path:
        return "%RETRY%" in difference.path[-1]
    if difference.path[-1] in ("readQueueNums", "writeQueueNums"):  # here a client's send has created it
        return difference.path[-2].startswith("%RETRY%") and difference.theirs == 1
    is_listed_once = None in (difference.theirs, difference.ours) and difference.op.name == "table"
    return is_listed_once and (difference.path[-1].startswith("%RETRY%") or difference.path[-1] == "none~")


def _retry_of_nobody(difference: Difference) -> bool:
    is_send = difference.op.name in ("send", "send_batch")
    return is_send and difference.given("topic") == "%RETRY%" and difference.codes[1] == 26


def _dead_letters(difference: Difference) -> bool:
    name = difference.path[-1]
    if difference.op.name == "send":  # upstream still delays the previous dead letter
        is_offset = name == "queueOffset" and None not in (difference.theirs, difference.ours)
        is_behind = is_offset and int(difference.theirs) < int(difference.ours)
        return is_behind and difference.given("topic").startswith(("%RETRY%", "%DLQ%"))
    is_about = name in ("DELAY", "REAL_TOPIC", "REAL_QID", "WAIT", "commitOffset")
    return is_about and difference.op.name == "collect" and difference.given("topic").startswith("%DLQ%")


def _unique_key(difference: Difference) -> bool:
    if difference.path == ("ext", "transactionId"):  # the key that both brokers add
        return "UNIQ_KEY" not in _properties(difference) and None not in (difference.theirs, difference.ours)
    return difference.path[-2:] == ("properties", "UNIQ_KEY")


def _pop_handle(difference: Difference) -> bool:
    return difference.path[-2:] == ("properties", "POP_CK") and difference.ours is None


def _empty_body(difference: Difference) -> bool:
    return _is_refused(difference) and difference.given("body") == ""


def _beyond_end(difference: Difference) -> bool:
    return difference.op.name == "committed" and difference.op.args.get("beyond", 0) > 0


def _no_queues(difference: Difference) -> bool:
    return difference.op.name == "send" and difference.given("default_topic_queue_nums") in (0, -1)


def _half_flag(difference: Difference) -> bool:
    is_half = difference.op.name == "send" and difference.given("sys_flag") in (4, 12)
    return is_half and TRAN_MSG not in _properties(difference)


def _pull_beyond_end(difference: Difference) -> bool:
    return difference.path == ("ext", "nextBeginOffset") and difference.codes == (21, 21)


def _pull_before_beginning(difference: Difference) -> bool:
    remarks = tuple(seen.get("remark") for seen in difference.seen)
    is_empty = remarks == ("NO_MESSAGE_IN_QUEUE", "NO_MATCHED_MESSAGE") and difference.codes == (21, 20)
    return is_empty and difference.op.name == "pull"


def _group_names(difference: Difference) -> bool:
    return difference.given("consumerGroup") in ("", "a b") and difference.codes[1] == 1


def _unique_key_any_time(difference: Difference) -> bool:
    return (
        difference.op.name == "query" and bool(difference.given("is_unique")) and difference.codes == (22, 0)
    )


def _repeated_keys(difference: Difference) -> bool:
    found = [record["commitOffset"] for record in difference.seen[0].get("records") or ()]
    return difference.op.name == "query" and len(set(found)) < len(found)


def _less_than_none(difference: Difference) -> bool:
    return difference.op.name == "pull" and (difference.given("maxMsgNums") or 0) < 0


def _end_of_filter(difference: Difference) -> bool:
    theirs, ours = difference.codes
    is_sql = difference.given("expressionType") == "SQL92" or difference.given("flags") == 0
    given = difference.given("subscription"), difference.seen[0].get("filter")
    has_operator_of_5 = "CONTAINS" in str(given)
    return (
        difference.op.name == "pull"
        and is_sql
        and theirs in _FOUND
        and (ours in (23, 27) or has_operator_of_5)
    )


def _other_filter(difference: Difference) -> bool:
    return difference.given("expressionType") == "OTHER" and difference.codes[1] == 1


def _same_hash(difference: Difference) -> bool:
    if difference.op.name != "pull":
        return False
    theirs, ours = (seen.get("records") or [] for seen in difference.seen)
    had = {record["queueOffset"] for record in ours}
    more = [record["properties"].get("TAGS") for record in theirs if record["queueOffset"] not in had]
    return bool(more) and {"Aa", "BB"}.issuperset(more)


def _empty_expression(difference: Difference) -> bool:
    return difference.path[-1] == "subString" and (difference.theirs, difference.ours) == ("", "*")


def _booleans(difference: Difference) -> bool:
    return _is_refused(difference) and difference.given("unit_mode") == "maybe"


def _java_exception(difference: Difference) -> bool:
    theirs, ours = difference.codes
    is_remark = difference.path == ("remark",) and str(difference.theirs).startswith(_JAVA)
    return is_remark and theirs == ours and difference.op.name in ("send", "send_batch")


def _unit(difference: Difference) -> bool:
    return difference.path[-1] == "topicSysFlag" and difference.ours == 0


def _looked_at(difference: Difference) -> bool:
    if difference.path[:2] == ("body", "groupList"):
        theirs, ours = (set(seen["body"]["groupList"]) for seen in difference.seen)
        return theirs < ours
    return "offsetTable" in difference.path and difference.theirs is None


def _mentioned(difference: Difference) -> bool:
    is_listed_once = None in (difference.theirs, difference.ours)
    return (
        difference.path[1:2] == ("subscriptionGroupTable",) and len(difference.path) == 3 and is_listed_once
    )


def _ended(difference: Difference) -> bool:
    is_unanswered = difference.seen[0] == {"answered": False}
    return difference.op.name == "end" and is_unanswered and difference.given("how") == 0


def _remark_of_success(difference: Difference) -> bool:
    if difference.path[-2:] == ("answer", "remark"):
        return difference.theirs == "not set any response code" and difference.ours is None
    is_remark = difference.path == ("remark",) and difference.codes == (0, 0)
    return is_remark and difference.op.name in ("end", "change")


def _stored_anew(difference: Difference) -> bool:
    if difference.op.name not in ("asked", "collect"):
        return False
    is_lost = difference.path[-1] in ("flag", "reconsumeTimes") and difference.theirs == 0
    is_lost |= difference.path[-1] == "WAIT" and difference.theirs == "false"
    is_about = difference.op.name == "asked" or difference.given("topic") == "T5~"
    return is_about and (is_lost or difference.path[-1] == "stored")


def _decided_once(difference: Difference) -> bool:
    is_late = difference.op.name == "end" and bool(difference.given("is_late"))
    return is_late and difference.codes == (0, 1)


def _deleted_route(difference: Difference) -> bool:
    is_asked = difference.op.name == "ask" and difference.given("code") == 105
    return is_asked and bool(difference.given("is_deleted")) and difference.codes == (0, 17)


def _deleted_messages(difference: Difference) -> bool:
    is_looked_up = difference.op.name == "view" and bool(difference.given("is_deleted"))
    return is_looked_up and difference.codes == (0, 1)


def _made_again(difference: Difference) -> bool:
    if difference.op.name == "made_again":
        return bool(difference.theirs == 0)
    is_about = difference.op.name in ("committed", "ask") and bool(difference.given("is_deleted"))
    return is_about and difference.path in (("ext", "offset"), ("body", "groupList"))


def _reset_offline(difference: Difference) -> bool:
    is_reset = difference.op.name == "change" and difference.given("code") == 222
    return is_reset and difference.codes[0] == 1 and difference.codes[1] in (0, 17)


def _unwritable(difference: Difference) -> bool:
    theirs, ours = difference.codes
    return difference.op.name in ("send", "send_batch") and ours == 16 and theirs in (0, 1, 29)


def _order(difference: Difference) -> bool:
    return (
        "topicConfigTable" in difference.path and difference.path[-1] == "order" and difference.ours is True
    )


def _system_topics(difference: Difference) -> bool:
    if difference.op.name != "ask" or difference.given("code") != 305:
        return False
    theirs, ours = (set(seen["body"]["topicList"]) for seen in difference.seen)
    return theirs ^ ours <= _SYSTEM_TOPICS


def _consume_times(difference: Difference) -> bool:
    return difference.op.name == "ask" and difference.given("code") == 303 and difference.codes == (0, 0)


def _batch_properties(difference: Difference) -> bool:
    theirs, ours = difference.theirs, difference.ours
    return "properties" in difference.path and isinstance(theirs, str) and theirs.endswith(f" and {ours}")


def _producers_gone(difference: Difference) -> bool:
    is_list = difference.op.name == "ask" and difference.given("code") == 204
    return is_list and difference.codes == (0, 1)


RULES: Final = (
    Rule("java-exceptions", _java_exception, ends=True),
    Rule("unit-mode", _unit),
    Rule("groups-by-mention", _mentioned),
    Rule("newer-fields", _newer_fields),
    Rule("progress-of-looked-at", _looked_at),
    Rule("separator-in-value", _separators, ends=True),
    Rule("born-and-retries", _numbers, ends=True),
    Rule("missing-fields", _missing, ends=True),
    Rule("region-in-failures", _region),
    Rule("pull-before-heartbeat", _before_heartbeat),
    Rule("pull-before-newer", _before_newer),
    Rule("pull-of-less-than-none", _less_than_none),
    Rule("retry-topic-by-route", _retry_route),
    Rule("retry-of-no-group", _retry_of_nobody, ends=True),
    Rule("dead-letters-at-once", _dead_letters, ends=True),
    Rule("unique-key-added", _unique_key),
    Rule("pop-handle-of-client", _pop_handle),
    Rule("empty-bodies", _empty_body, ends=True),
    Rule("beyond-end", _beyond_end, ends=True),
    Rule("end-of-transaction", _ended),
    Rule("remark-of-success", _remark_of_success),
    Rule("reset-offline", _reset_offline, ends=True),
    Rule("unwritable-topics", _unwritable, ends=True),
    Rule("order-topics", _order),
    Rule("system-topics", _system_topics),
    Rule("consume-times", _consume_times),
    Rule("producers-gone", _producers_gone),
    Rule("batch-properties", _batch_properties),
    Rule("no-queues", _no_queues, ends=True),
    Rule("half-flag-alone", _half_flag, ends=True),
    Rule("pull-beyond-end", _pull_beyond_end),
    Rule("pull-before-beginning", _pull_before_beginning),
    Rule("group-names", _group_names),
    Rule("unique-key-any-time", _unique_key_any_time),
    Rule("repeated-keys", _repeated_keys),
    Rule("booleans", _booleans, ends=True),
    Rule("end-of-filter", _end_of_filter),
    Rule("other-filter", _other_filter),
    Rule("tags-of-one-hash", _same_hash),
    Rule("empty-expressions", _empty_expression),
    Rule("half-stored-anew", _stored_anew),
    Rule("decided-once", _decided_once, ends=True),
    Rule("route-of-deleted", _deleted_route),
    Rule("messages-of-deleted", _deleted_messages),
    Rule("topics-made-again", _made_again),
    Rule("other-words", _other_words),
)
