"""A producer that leaves half messages undecided, and answers check-backs."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import NamedTuple

from mocketmq.remoting.wire.codes import RequestCode
from mocketmq.remoting.wire.command import Command
from mocketmq.remoting.wire.record import WireRecord, decode_records
from tests.doors.remoting import consuming
from tests.support.remoting import RemotingClient

ANSWERS: Mapping[str, int] = {"commit": 8, "roll back": 12, "do not know": 0, "wrong group": 8}
"""Possible answers, as bits of a sysFlag. The producer may also stay silent or leave the group."""
LATE_S = 0.5
"""Lateness in real seconds, half of the interval between checks, that may cause or spare another check."""
WATCH_S = 0.05


class Check(NamedTuple):
    """A check-back, and the broker's reaction to the answer."""

    question: Command
    record: WireRecord
    answer: asyncio.Future[Command] | None


class UndecidedProducer:
    """Answers each check-back as planned and at once; after a late answer, upstream asks with other offsets.

    A half message is identified by the number at the start of its body.
    """

    def __init__(self, client: RemotingClient, now_s: Callable[[], float] = monotonic) -> None:
        self.stalled_s = 0.0
        """Longest time for which this process did not run."""
        self.reaction_s = 0.0
        """Longest time until the broker reacted to an answer."""
        self._client = client
        self._now_s = now_s
        self._plans: dict[str, tuple[str, list[str]]] = {}
        self._checks: defaultdict[str, list[Check]] = defaultdict(list)
        self._came = asyncio.Condition()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._watch())]

    @property
    def was_late(self) -> bool:
        """Whether the broker may have had an answer too late for what it does next."""
        return max(self.stalled_s, self.reaction_s) > LATE_S

    async def close(self) -> None:
        """Stop answering."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def produce(self, group: str, serial: str, plan: Sequence[str]) -> None:
        """Join a group as producer, with planned answers to the check-backs of one half message."""
        self._plans[serial] = group, list(plan)
        if plan:
            body = consuming.beat(client="id-asked", producers=(group,))
            await self._client.ok(consuming.HEART_BEAT, body=body)

    async def checks(self, serial: str) -> list[Check]:
        """Return all check-backs up to the last planned answer."""
        async with self._came:
            await self._came.wait_for(lambda: not self._plans[serial][1])
        return self._checks[serial]

    async def _watch(self) -> None:
        while True:
            began_s = self._now_s()
            await asyncio.sleep(WATCH_S)
            self.stalled_s = max(self.stalled_s, self._now_s() - began_s - WATCH_S)

    async def _read(self) -> None:
        while True:
            question = await self._client.pushes.get()
            [record] = decode_records(question.body)
            serial = serial_of(record)
            group, plan = self._plans[serial]
            how = plan[0] if plan else "silent"
            answer, said_s = self._say(how, group, question.ext), self._now_s()
            if answer is not None:
                answer.add_done_callback(partial(self._reacted, said_s))
            async with self._came:
                self._checks[serial].append(Check(question, record, answer))
                del plan[:1]
                self._came.notify_all()

    def _reacted(self, said_s: float, _: asyncio.Future[Command]) -> None:
        self.reaction_s = max(self.reaction_s, self._now_s() - said_s)

    def _say(self, how: str, group: str, ext: Mapping[str, str]) -> asyncio.Future[Command] | None:
        if how == "leave":
            gone = {"clientID": "id-asked", "producerGroup": group}
            return self._client.ask(consuming.UNREGISTER, gone)
        if how == "silent":
            return None
        said = {
            "producerGroup": "other" if how == "wrong group" else group,
            "tranStateTableOffset": ext["tranStateTableOffset"],
            "commitLogOffset": ext["commitLogOffset"],
            "commitOrRollback": str(ANSWERS[how]),
            "fromTransactionCheck": "true",
            "msgId": ext.get("msgId", ""),
        }
        if how == "do not know":
            self._client.oneway(RequestCode.END_TRANSACTION, said)
            return None
        return self._client.ask(RequestCode.END_TRANSACTION, said)


def serial_of(record: WireRecord) -> str:
    """Return the number at the start of the body."""
    return record.body[:12].partition(b":")[0].decode("utf-8", "replace")
