"""The rules and the page list the same differences, and a seed always gives the same sequences."""

from collections import Counter

from tests.differential.cluster_known import ACTING_RULES, SLAVE_RULES, STATIC_RULES
from tests.differential.difference import differences
from tests.differential.grpc_known import GRPC_RULES
from tests.differential.grpc_sequences import grpc_sequence
from tests.differential.known import RULES, Known, Rule, ids_on_page, rule_of
from tests.differential.newer_known import NEWER_RULES
from tests.differential.op import Op
from tests.differential.pop_known import POP_RULES
from tests.differential.pop_sequences import pop_sequence
from tests.differential.sequences import sequence
from tests.differential.users_known import USER_RULES
from tests.upstream.jars import V4, V5, V5_5


def test_every_row_with_an_id_has_a_rule_and_every_rule_a_row() -> None:
    clusters = (STATIC_RULES, SLAVE_RULES, ACTING_RULES)
    kinds = (RULES, NEWER_RULES, *clusters, POP_RULES, GRPC_RULES, USER_RULES)
    ids = {rule.id for rules in kinds for rule in rules}
    assert Counter(ids_on_page()) == Counter(ids)
    for rules in kinds:
        assert len({rule.id for rule in rules}) == len(rules)


def test_equal_seeds_give_equal_sequences() -> None:
    assert sequence(7, 3) == sequence(7, 3)
    assert sequence(7, 3) != sequence(7, 4)
    assert sequence(7, 3) != sequence(8, 3)
    assert pop_sequence(7, 3) == pop_sequence(7, 3)
    assert pop_sequence(7, 3) != pop_sequence(7, 4)
    assert grpc_sequence(7, 3) == grpc_sequence(7, 3)
    assert grpc_sequence(7, 3) != grpc_sequence(7, 4)


def test_differences_are_found_at_the_innermost_places() -> None:
    op = Op("pull", {})
    theirs = {"code": 0, "records": [{"queueId": 1, "body": "a"}, {"queueId": 1, "body": "b"}]}
    ours = {"code": 0, "records": [{"queueId": 1, "body": "a"}, {"queueId": 2, "body": "b"}]}
    [found] = differences(op, theirs, ours)
    assert (found.path, found.theirs, found.ours) == (("records", "1", "queueId"), 1, 2)
    assert found.kind == ("pull", "records", "#", "queueId")
    [found] = differences(op, theirs, {**ours, "records": []})
    assert found.path == ("records",)


def test_an_unexplained_difference_ends_a_sequence_only_at_a_change() -> None:
    known = Known(RULES, V4)
    for name, ends in (("send", True), ("pull", False)):
        [found] = differences(Op(name, {}), {"code": 0}, {"code": 1})
        assert rule_of(found, RULES) is None
        assert not known.explains(found)
        assert known.ends(found) is ends


def test_a_rule_explains_only_its_own_differences() -> None:
    known = Known(RULES, V4)
    sent = {"code": 0, "ext": {"queueId": "0", "transactionId": None}}
    [meant] = differences(Op("send", {}), sent, {"code": 0, "ext": {"queueId": "0", "transactionId": "A"}})
    [other] = differences(Op("send", {}), sent, {"code": 0, "ext": {"queueId": "1", "transactionId": None}})
    assert known.explains(meant)
    assert not known.ends(meant)
    assert not known.explains(other)
    assert known.needed == {"newer-fields": 1}


def test_a_rule_of_one_version_explains_no_difference_from_another() -> None:
    rule = Rule("only-5.3.3", lambda difference: difference.op.name == "send", versions=(V5,))
    [found] = differences(Op("send", {}), {"code": 0}, {"code": 1})
    assert Known([rule], V5).explains(found)
    assert not Known([rule], V5_5).explains(found)


def test_only_a_repeated_attempt_may_bring_attempts_of_other_messages() -> None:
    known = Known(POP_RULES, V5_5)
    for repeats, is_listed in ((True, True), (False, False)):
        theirs, ours = ({"code": 0, "records": [{"times": times, "repeats": repeats}]} for times in (1, 0))
        [found] = differences(Op("pop", {"group": "Ordered~"}), theirs, ours)
        assert known.explains(found) is is_listed


def test_a_retry_topic_that_a_send_created_may_have_more_queues_but_no_other_topic() -> None:
    known = Known(RULES, V4)
    for topic, is_listed in (("%RETRY%G1~", True), ("T1~", False)):
        theirs, ours = (
            {"code": 0, "body": {"topicConfigTable": {topic: {"readQueueNums": queues}}}} for queues in (1, 4)
        )
        [found] = differences(Op("table", {}), theirs, ours)
        assert known.explains(found) is is_listed
