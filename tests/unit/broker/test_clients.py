"""The client registry without real connections."""

from mocketmq.broker.consuming.selection import MemoryReservation
from mocketmq.broker.registry.clients import (
    BROADCASTING,
    CLUSTERING,
    Clients,
    ConsumerData,
    Heartbeat,
    Member,
    OffsetReset,
)
from mocketmq.remoting.channel import RemotingChannel


class Line(RemotingChannel):
    """A connection that sends nothing."""

    def __init__(self, remote: str) -> None:
        super().__init__(self._refuse, remote, remote, remote, self._refuse, self._load_nothing)

    def _refuse(self, what: object) -> None:
        raise AssertionError(what)

    def _load_nothing(self) -> MemoryReservation:
        raise AssertionError


def test_clients_are_listed_by_id_and_then_by_address() -> None:
    clients = Clients()
    for remote, client_id in (("h:3", "a"), ("h:1", "b"), ("h:2", "a")):
        clients.heartbeat(Line(remote), Heartbeat(client_id, "GO", 317, ["makers"]))
    found: list[Member] = list(clients)
    assert [(each.client_id, each.channel.remote) for each in found] == [
        ("a", "h:2"),
        ("a", "h:3"),
        ("b", "h:1"),
    ]


def test_removing_an_unknown_client_changes_nothing() -> None:
    clients = Clients()
    clients.gone(Line("h:1"))
    clients.leave(Line("h:1"), "makers", "billing")
    clients.push_offsets(OffsetReset("billing", "orders", -1, True, {0: 1}))
    assert (list(clients), clients.find_connected_group("billing")) == ([], None)


def test_producers_are_chosen_in_turns() -> None:
    clients = Clients()
    lines = [Line(f"h:{number}") for number in range(3)]
    for line, groups in zip(lines, (["makers"], ["others"], ["makers", "others"]), strict=True):
        clients.heartbeat(line, Heartbeat(line.remote, "GO", 317, groups))
    turns = [clients.next_producer("makers") for _ in range(4)]
    assert turns in ([lines[0], lines[2]] * 2, [lines[2], lines[0]] * 2)
    clients.leave(lines[0], "makers", None)
    assert [clients.next_producer("makers") for _ in range(2)] == [lines[2]] * 2
    clients.gone(lines[2])
    assert clients.next_producer("makers") is None


def test_a_client_is_found_by_id_and_described_by_its_newest_connection() -> None:
    clients = Clients()
    old, new, other = Line("h:1"), Line("h:2"), Line("h:3")
    billing = ConsumerData("billing", "CONSUME_PASSIVELY", CLUSTERING, "CONSUME_FROM_LAST_OFFSET")

    def found() -> list[object]:
        members = (clients.producer("a"), clients.consumer("billing", "a"), clients.consumer("billing", "b"))
        return [member.channel if member else None for member in members]

    assert found() == [None, None, None]
    clients.heartbeat(old, Heartbeat("a", "JAVA", 409, ["makers"], [billing._replace(model=BROADCASTING)]))
    clients.heartbeat(other, Heartbeat("b", "JAVA", 409, ["makers"]))
    clients.heartbeat(new, Heartbeat("a", "JAVA", 409, ["makers"]))
    assert found() == [new, old, None]
    clients.heartbeat(old, Heartbeat("a", "JAVA", 409))
    assert found() == [old, old, None]
    clients.leave(old, "makers", "billing")
    assert found() == [new, None, None]
    clients.heartbeat(new, Heartbeat("c", "JAVA", 409))
    assert found() == [None, None, None]
    assert clients.producer("c")
    for channel in (new, other, new):
        clients.gone(channel)
    assert not clients.producer("c")
    assert list(clients) == []
