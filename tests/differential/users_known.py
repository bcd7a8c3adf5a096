"""Deliberate differences from RocketMQ 5.5.0 in access control."""

from typing import Final

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.difference import Difference
from tests.differential.known import RULES, Rule

_UNCHECKED: Final = (
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_ASSIGNMENT,
    RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
)
_JAVA: Final = ("java.", "org.apache.rocketmq.auth.", "An system error occurred")


def _unchecked(difference: Difference) -> bool:
    is_one = difference.given("code") in _UNCHECKED or difference.given("rpc") == "SyncLiteSubscription"
    return is_one and difference.theirs is None


def _failures(difference: Difference) -> bool:
    """Java's exceptions and "system errors" (1), which are refusals with a reason here."""
    theirs, ours = difference.codes
    remark = str(difference.seen[0].get("remark"))
    return theirs == 1 and remark.startswith(_JAVA) and ours in (1, 16)


def _repeated_actions(difference: Difference) -> bool:
    is_list = difference.path[-1] == "actions" and isinstance(difference.theirs, list)
    return is_list and [*dict.fromkeys(difference.theirs)] == difference.ours


USER_RULES: Final = (
    *(rule for rule in RULES if rule.id == "remark-of-success"),
    Rule("unchecked-requests", _unchecked),
    Rule("failures-of-administration", _failures),
    Rule("repeated-actions", _repeated_actions),
)
