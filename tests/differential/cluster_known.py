"""Deliberate differences of clusters from those of RocketMQ 5.5.0."""

from typing import Final

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.difference import Difference
from tests.differential.known import Rule
from tests.upstream.jars import V5_5


def _locks(difference: Difference) -> bool:
    return difference.op.name == "lock" and difference.path == ("body", "lockOKMQSet") and not difference.ours


def _changes(difference: Difference) -> bool:
    codes = RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    is_change = difference.op.name == "change" and difference.given("code") in codes
    return is_change and difference.codes == (0, 1)


def _begun(difference: Difference) -> bool:
    """Whether a group that has asked for its offset, and committed none, has one in a static topic."""
    is_stats = difference.given("code") == RequestCode.GET_CONSUME_STATS
    return (
        is_stats
        and difference.path[-1] == "consumerOffset"
        and (difference.theirs, difference.ours) == (-1, 0)
    )


def _handed_back(difference: Difference) -> bool:
    """Whether only mocketmq's broker has got the offset that its acting master had."""
    is_offset = difference.op.name == "committed" and difference.path == ("ext", "offset")
    return is_offset and difference.codes == (0, 0) and int(difference.theirs) < int(difference.ours)


STATIC_RULES: Final = (Rule("begun-groups", _begun, versions=(V5_5,)),)
ACTING_RULES: Final = (Rule("offsets-handed-back", _handed_back, versions=(V5_5,)),)
SLAVE_RULES: Final = (
    Rule("locks-of-slaves", _locks, versions=(V5_5,)),
    Rule("changes-at-slaves", _changes, versions=(V5_5,)),
)
