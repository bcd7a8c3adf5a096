"""Expose an application to each rule, and describe briefly what it saw."""

import asyncio
import re
from pathlib import Path
from typing import Any, Final

from mocketmq import Client
from tests.clients.faults import rules
from tests.clients.faults.applications import CLIENTS, Application, open_application, text_of
from tests.support.process import forked_broker

SENT, CONSUMED = "orders", "parcels"
LONGEST_S = 25.0
"""Time in real seconds after which a send counts as hanging."""
PLAY_S = 400.0
"""Time limit in real seconds for an application to play all rules."""
_NUMBERS: Final = {1: "once", 2: "twice"}
_VAGUE: Final = (
    (r"<AioRpcError .*?status = (\S+).*", r"\1"),
    (r"\n.*", ""),
    (r"(?:[\w$]+\.)+(\w+(?:Exception|Error)\b)", r"\1"),  # the name of a class without its package
    (r"\s*\[fault [^\]]*\]", ""),
    (r"request-id=[-\w]+, ", ""),
    (r",in file .*", ""),
    (r"(DEADLINE_EXCEEDED|UNAVAILABLE): .*", r"\1"),  # gRPC errors, whose remaining text depends on timing
    (r"connect to \S+ failed", "connect to … failed"),
    (r"(MQPushConsumer occurred an error)\1+", r"\1"),
    (r" \(address: .*", ""),
    (r"for queue: \[[^\]]*\]", "for queue …"),
    (r"http://127\.0\.0\.1:\d+(/[^\s?]*)?(\?\S*)?", r"http://…\1"),
    (r"\b(?:127\.0\.0\.1|localhost):\d+", "127.0.0.1:…"),
    (r"cost \[?\d+\]? ?ms", "cost … ms"),
    (r"\b[0-9A-Fa-f]{16,}\b", "…"),
    (r"\s+", " "),
)
"""Parts of errors that vary between runs or carry no information."""
_LONGEST: Final = 120


def told(text: str) -> str:
    """Return the text of an error in the form of the table."""
    text = text.strip()
    for vague, clear in _VAGUE:
        text = re.sub(vague, clear, text, flags=re.DOTALL)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST].rsplit(' ', 1)[0]} …"
    return f"`{text.strip()}`".replace("|", "\\|")


class Play:
    """One application, and its broker with a manual clock."""

    def __init__(self, door: str, application: Application, control: Client) -> None:
        self._door = door
        self._application = application
        self._control = control
        self._markers = 0

    async def all(self) -> dict[str, str]:
        """Return what the application saw, by rule."""
        await self._control.put_topic(SENT, read_queues=4, write_queues=4)  # the number that clients assume
        await self._control.put_topic(CONSUMED, read_queues=1, write_queues=1)
        await self._warm_up()
        await self._application.consume(CONSUMED)
        await self._mark()
        found = {}
        for rule in rules.rows(self._door):
            found[rule] = await self._meet(rule)
        return found

    async def _meet(self, rule: str) -> str:
        if rule in rules.SENDS:
            return await self._send(rule)
        if rule in rules.RECEIVES:
            return await self._receive(rule)
        if rule in rules.DELIVERIES:
            return await self._deliver(rule)
        await self._application.close()
        await self._add(rule, **({"door": self._door} if rule == rules.BROKER_AWAY else {}))
        try:
            seen = await self._outcome(SENT, rule)
            if rule == rules.NAME_SERVER_AWAY:
                seen = f"{seen}; to a new topic: {await self._outcome('new', rule)}"
        finally:
            await self._control.clear_faults()
        await self._warm_up()
        return seen

    async def _warm_up(self) -> None:
        """Send until a send succeeds, because clients are slow at first, also after an outage."""
        while await self._outcome(SENT, "warm up") != "sent":
            pass

    async def _add(self, rule: str, **more: object) -> str:
        given: dict[str, Any] = rules.fields(rule) | more
        return str((await self._control.add_fault(given.pop("do"), **given))["name"])

    # Sends

    async def _send(self, rule: str) -> str:
        name = await self._add(rule, topic=SENT, door=self._door)
        sending = asyncio.create_task(self._outcome(SENT, rule))
        await asyncio.wait([sending], timeout=LONGEST_S)
        is_waiting = not sending.done()
        tries = (await self._control.fault(name))["fired"]
        await self._control.delete_fault(name)
        seen = await sending
        if is_waiting:
            seen = "waits until the rule ends"
        stored = len(await self._control.sent(SENT, body=rule))
        words = [seen]
        if rule == rules.VARIES and stored == tries > 1:
            return f"{seen}, several tries, stored each time"
        if tries > 1:
            words.append(f"{tries} tries")
        if stored != (seen == "sent"):
            words.append("not stored" if not stored else f"stored {_NUMBERS.get(stored, f'{stored} times')}")
        return ", ".join(words)

    async def _outcome(self, topic: str, body: str) -> str:
        try:
            status = await self._application.send(topic, body)
        except Exception as error:  # noqa: BLE001 - whatever it is, it goes into the table
            return told(text_of(error))
        return "sent" if status in ("SEND_OK", "OK", "0") else f"sent, with status `{status}`"

    # Receives

    async def _receive(self, rule: str) -> str:
        before = len(self._application.problems)
        name = await self._add(rule, topic=CONSUMED, door=self._door)
        await self._control.send(CONSUMED, f"before {rule}")
        await self._until(f"before {rule}", moves=True)
        await self._control.send(CONSUMED, rule)
        got = [rule, *await self._until(rule, moves=True)]
        while (await self._control.fault(name))["state"] != "spent":
            got += await self._mark(moves=True)
        got += await self._mark(moves=True)
        await self._control.delete_fault(name)
        problems = {told(problem) for problem in self._application.problems[before:]}
        times = got.count(rule)
        return ", ".join([*sorted(problems), "received" if times == 1 else f"received {_times(times)}"])

    async def _mark(self, *, moves: bool = False) -> list[str]:
        """Send a marker message, and return the messages received before it."""
        self._markers += 1
        marker = f"marker {self._markers}"
        await self._control.send(CONSUMED, marker)
        return await self._until(marker, moves=moves)

    async def _until(self, body: str, *, moves: bool = False) -> list[str]:
        """Return the messages received before this one. ``moves`` makes taken messages visible again."""
        found: list[str] = []
        while True:
            try:
                async with asyncio.timeout(1 if moves else None):
                    got = await self._application.next()
            except TimeoutError:
                await self._control.advance("1m")
                continue
            if got == body:
                return found
            found.append(got)

    # Deliveries

    async def _deliver(self, rule: str) -> str:
        name = await self._add(rule, topic=CONSUMED)
        kind = rule.partition(" ")[0]
        bodies = [f"{rule} {number}" for number in range(1, 5 if kind == "deliver-shuffled" else 2)]
        if kind == "throttle":
            bodies = [f"{rule} {number}" for number in range(1, 4)]
        for body in bodies:
            await self._control.send(CONSUMED, body, delay_level=1)
        await self._control.advance("1s")
        seen: str = await getattr(self, f"_{kind.replace('-', '_')}")(name, bodies)
        if kind != "hold":
            await self._control.delete_fault(name)
        return seen

    async def _deliver_late(self, _name: str, bodies: list[str]) -> str:
        in_time = await self._mark()
        await self._control.advance("31s")
        late = await self._mark()
        return "received 31 s late" if (in_time, late) == ([], bodies) else f"{in_time}, then {late}"

    async def _deliver_shuffled(self, _name: str, bodies: list[str]) -> str:
        order = []
        for _ in bodies:
            await self._control.move_to_next()
            order.append((await self._application.next())[-1])
        return f"received in the order {' '.join(order)}"

    async def _deliver_again(self, _name: str, bodies: list[str]) -> str:
        found = await self._mark()
        for _ in range(2):
            await self._control.advance("10s")
            found += await self._mark()
        return f"received {found.count(bodies[0])} times"

    async def _hold(self, name: str, bodies: list[str]) -> str:
        await self._control.advance("1h")
        held = await self._mark()
        await self._control.delete_fault(name)
        between = await self._until(bodies[0])
        return f"received when the rule ends{held or between or ''}"

    async def _throttle(self, _name: str, bodies: list[str]) -> str:
        counts = [str(len(await self._mark()))]
        for _ in bodies[1:]:
            await self._control.advance("1s")
            counts.append(str(len(await self._mark())))
        return f"of three due at once {', '.join(counts)} a second"


def _times(count: int) -> str:
    return _NUMBERS.get(count, f"{count} times")


async def seen_by(client: str, home: Path) -> dict[str, str]:
    """Return what an application of this client sees, for each rule of its protocol."""
    async with (
        asyncio.timeout(PLAY_S),
        forked_broker("--clock", "manual") as process,
        Client(process.url) as control,
        open_application(client, process, home) as application,
    ):
        seen = await Play(CLIENTS[client].door, application, control).all()
    for rule, outcomes in rules.OUTCOMES.get(client, {}).items():
        if seen[rule] in outcomes:
            seen[rule] = ", or rarely ".join(outcomes)
    return seen
