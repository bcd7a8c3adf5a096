"""Names of client versions, and clients apart from any connection."""

import pytest

from emulator.broker.clients import Clients, Heartbeat, Member, Moved, version_name


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (0, "0"),
        (37, "V3_0_11"),
        (121, "V3_4_9"),
        (231, "231"),
        (232, "V4_1_0_SNAPSHOT"),
        (293, "V4_4_0"),
        (317, "V4_5_2"),
        (333, "V4_6_0"),
        (401, "V4_9_4"),
        (409, "V4_9_8"),
        (412, "V5_0_0_SNAPSHOT"),
        (413, "V5_0_0"),
        (475, "V5_3_1"),
        (479, "V5_3_3"),
        (611, "V5_9_9"),
        (612, "612"),
        (2_147_481_762, "2147481762"),
        (-1, "-1"),
    ],
)
def test_versions_have_names(version: int, name: str) -> None:
    assert version_name(version) == name


class Line:
    """A channel that nothing hears of."""

    def __init__(self, remote: str) -> None:
        self.remote = remote

    def notify_members_changed(self, group: str) -> None:
        raise AssertionError(group)

    def reset_offsets(self, moved: Moved, language: str) -> None:
        raise AssertionError(moved, language)


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


def test_who_was_never_there_leaves_nothing() -> None:
    clients = Clients()
    clients.gone(Line("h:1"))
    clients.leave(Line("h:1"), "makers", "billing")
    clients.tell(Moved("billing", "orders", -1, True, {0: 1}))
    assert (list(clients), clients.find("billing")) == ([], None)
