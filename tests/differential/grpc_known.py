"""Deliberate differences between mocketmq's gRPC and the proxies of 5.3.3 and 5.5.0, as in :mod:`known`."""

from typing import Final

from tests.differential.difference import Difference
from tests.differential.grpc_values import NOT_MADE
from tests.differential.known import Rule
from tests.upstream.jars import V5_5

UNIMPLEMENTED: Final = 12


def _other_words(difference: Difference) -> bool:
    return difference.path[-1] == "remark"


def _backoff(difference: Difference) -> bool:
    return difference.path[:3] == ("settings", "backoffPolicy", "customizedBackoff")


def _creates(difference: Difference) -> bool:
    return difference.given("topic") == "nowhere~" or any(
        one["topic"] == "nowhere~" for one in difference.given("messages") or ()
    )


def _endpoints(difference: Difference) -> bool:
    return difference.path[-2:] == ("endpoints", "scheme")


def _one_entry(difference: Difference) -> bool:
    if len(difference.given("messages") or ()) > 1 and difference.path == ("entries",):
        return len(difference.theirs) < len(difference.ours)
    return difference.given("topic") == "Batch~" and difference.path[-1] == "message_id"


def _stranger(difference: Difference) -> bool:
    return difference.op.name in ("beat", "terminate") and difference.codes == (40_015, 20_000)


def _missing_topic(difference: Difference) -> bool:
    is_sent = difference.op.name == "produce" and "%DLQ%nobody~" in str(difference.given("messages"))
    return is_sent or (difference.op.name == "receive" and difference.codes == (50_001, 40_401))


def _meaning(difference: Difference) -> bool:
    return difference.codes[0] == 50_001 and difference.codes[1] in (40_010, 40_013, 40_300)


def _lite(difference: Difference) -> bool:
    is_limit = difference.path[-1] in ("liteSubscriptionQuota", "maxLiteTopicSize")
    is_unserved = difference.given("rpc") == "SyncLiteSubscription" and difference.theirs == UNIMPLEMENTED
    return (is_limit and difference.ours is None) or is_unserved


def _unknown_group(difference: Difference) -> bool:
    is_refused = difference.op.name == "settings" and difference.seen[0] == {"refused": True}
    return is_refused and difference.given("subscription") == {"group": {"name": NOT_MADE}}


def _poll(difference: Difference) -> bool:
    return difference.path[-1] == "longPollingTimeout" and difference.theirs == "20s"


def _same_handle(difference: Difference) -> bool:
    return difference.path[-1] == "new" and difference.op.name == "in_order"


def _settled(difference: Difference) -> bool:
    return difference.op.name == "settle" and difference.codes[1] in (30_000, 40_013, 40_403)


def _changed(difference: Difference) -> bool:
    return difference.op.name in ("hide", "forward") and difference.codes == (20_000, 40_013)


def _recall_of_half(difference: Difference) -> bool:
    return difference.path[-1] == "recall" and "RMQ_SYS_TRANS_HALF_TOPIC" in (difference.theirs or ())


def _dead_letter(difference: Difference) -> bool:
    return difference.path[-1] == "dead_letter_queue" and difference.theirs is None


def _dead_letter_attempts(difference: Difference) -> bool:
    is_dead = str(difference.given("topic")).startswith("%DLQ%")
    return is_dead and difference.path[-1] == "delivery_attempt"


GRPC_RULES: Final = (
    Rule("attempts-of-dead-letters", _dead_letter_attempts),
    Rule("settled-again", _settled),
    Rule("changed-again", _changed, ends=True),
    Rule("recall-of-half", _recall_of_half),
    Rule("dead-letter-origin", _dead_letter),
    Rule("missing-topics", _missing_topic),
    Rule("codes-that-mean-it", _meaning),
    Rule("poll-of-client", _poll),
    Rule("handles-in-order", _same_handle),
    Rule("topics-on-first-use", _creates),
    Rule("endpoints-of-client", _endpoints),
    Rule("one-entry", _one_entry),
    Rule("settings-first", _stranger),
    Rule("other-words", _other_words),
    Rule("backoff-of-levels", _backoff),
    Rule("lite-over-grpc", _lite),
    Rule("groups-first", _unknown_group, versions=(V5_5,)),
)
