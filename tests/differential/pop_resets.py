"""Resets by RocketMQ 5 after pulls or pops, for random sequences."""

from collections.abc import Iterator
from random import Random
from typing import Any

from mocketmq.remoting.wire.codes import RequestCode
from tests.differential.op import Op


def reset(random: Random, number: int, topic: str, sent: int) -> Iterator[Op]:
    """Reset a topic with one queue and ``sent`` messages, for a group of its own."""
    how = random.choice((_pulled, _pulled, _held, _popped, _popped_in_order))
    yield from how(random, number, topic, sent)


def _pulled(random: Random, number: int, topic: str, sent: int) -> Iterator[Op]:
    """A consumer commits before it knows of the reset, and learns of the reset from a pull."""
    place, offset = _place(f"Puller-reset-{number}~", topic), random.randint(0, sent)
    yield _pull(place, 0)
    yield Op("commit", {**place, "beyond": random.choice((0, -1, -2))})
    yield Op("change", {"code": RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, "ext": _ext(place, offset)})
    for _ in range(random.randint(0, 2)):
        yield Op("commit", {**place, "beyond": random.choice((0, -1))})
        yield Op("committed", place)
    for start in (random.randint(0, sent), offset):
        yield _pull(place, start)
    yield Op("commit", {**place, "beyond": random.choice((0, -1))})
    yield Op("committed", place)


def _held(random: Random, number: int, topic: str, sent: int) -> Iterator[Op]:
    """A consumer waits for messages during the reset."""
    place = _place(f"Puller-reset-{number}~", topic)
    yield _pull(place, 0)
    yield Op("commit", {**place, "beyond": 0})
    yield Op("held_reset", {**place, "ext": _ext(place, random.randrange(sent))})
    yield Op("committed", place)


def _popped(random: Random, number: int, topic: str, sent: int, **order: Any) -> Iterator[Op]:
    """A consumer pops before and after the reset."""
    place, offset = _place(f"Reset{number}~", topic), random.randint(0, sent)
    pop = {"group": place["group"], "topic": topic, "queueId": random.choice((0, -1)), **order}
    yield Op("pop", {**pop, "maxMsgNums": random.choice((32, 32, 2))})
    yield Op("change", {"code": RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, "ext": _ext(place, offset)})
    yield Op("pop", {**pop, "maxMsgNums": random.choice((32, 32, 1))})
    yield Op("pop", {**pop, "maxMsgNums": 32})


def _popped_in_order(random: Random, number: int, topic: str, sent: int) -> Iterator[Op]:
    return _popped(random, number, topic, sent, order=True, attemptId=random.choice(("a", "b")))


def _place(group: str, topic: str) -> dict[str, Any]:
    return {"group": group, "topic": topic, "queue_id": 0}


def _pull(place: dict[str, Any], offset: int) -> Op:
    where = {"topic": place["topic"], "queue_id": 0, "at": "absolute", "offset": offset}
    return Op("pull", {**where, "flags": 4, "consumerGroup": place["group"], "subscription": "*"})


def _ext(place: dict[str, Any], offset: int) -> dict[str, str]:
    ext = {"topic": place["topic"], "group": place["group"], "timestamp": "0", "isForce": "true"}
    return ext | {"queueId": "0", "offset": str(offset)}
