"""The broker's address that clients are given."""

from pathlib import Path

import pytest

from mocketmq.hosts import with_port
from mocketmq.remoting.listening.advertised_address import Advertiser, container_gateway

PORT = 10_911
GATEWAY = "172.17.0.1"
ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t000012AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth2\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0
eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0
"""


@pytest.mark.parametrize(
    ("local", "peer", "address", "store_host"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1:10911", "127.0.0.1:10911"),
        ("10.0.0.7", "10.0.0.9", "10.0.0.7:10911", "10.0.0.7:10911"),
        ("::ffff:10.0.0.7", "::ffff:10.0.0.9", "10.0.0.7:10911", "10.0.0.7:10911"),
        ("::1", "::1", "[::1]:10911", "127.0.0.1:10911"),
        ("fe80::1%eth0", "fe80::2%eth0", "[fe80::1]:10911", "127.0.0.1:10911"),
    ],
)
def test_advertised_address_is_the_one_used_by_the_client(
    local: str, peer: str, address: str, store_host: str
) -> None:
    for gateway in (None, GATEWAY):
        assert Advertiser(None, gateway).address_for(local, peer, PORT) == (address, store_host)


@pytest.mark.parametrize("peer", [GATEWAY, f"::ffff:{GATEWAY}"])
def test_the_gateway_of_a_container_stands_for_the_host_of_its_ports(peer: str) -> None:
    assert Advertiser(None, GATEWAY).address_for("172.17.0.2", peer, PORT).address == "127.0.0.1:10911"
    assert Advertiser(None, None).address_for("172.17.0.2", peer, PORT).address == "172.17.0.2:10911"
    fixed = Advertiser("10.0.0.1", GATEWAY).address_for("172.17.0.2", peer, PORT)
    assert fixed == ("10.0.0.1:10911", "10.0.0.1:10911")


@pytest.mark.parametrize(
    ("fixed", "address", "store_host"),
    [
        ("10.0.0.7", "10.0.0.7:10911", "10.0.0.7:10911"),
        ("10.0.0.7:1234", "10.0.0.7:1234", "10.0.0.7:1234"),
        ("broker.test", "broker.test:10911", "127.0.0.1:10911"),
        ("broker.test:1234", "broker.test:1234", "127.0.0.1:1234"),
        ("[::1]", "[::1]:10911", "127.0.0.1:10911"),
        ("[::1]:1234", "[::1]:1234", "127.0.0.1:1234"),
    ],
)
def test_setting_overrides_the_advertised_address(fixed: str, address: str, store_host: str) -> None:
    assert Advertiser(fixed, None).address_for("127.0.0.1", "127.0.0.1", PORT) == (address, store_host)


def test_only_ipv6_stands_in_brackets() -> None:
    assert (with_port("::1", 1), with_port("10.0.0.7", 1), with_port("a.b", 1)) == (
        "[::1]:1",
        "10.0.0.7:1",
        "a.b:1",
    )


def test_the_gateway_is_that_of_the_default_route(tmp_path: Path) -> None:
    mark, routes = tmp_path / "mark", tmp_path / "route"
    routes.write_text(ROUTES)
    assert container_gateway([mark], routes) is None
    mark.touch()
    assert container_gateway([tmp_path / "other", mark], routes) == GATEWAY
    routes.write_text(ROUTES.partition("eth0")[0])
    assert container_gateway([mark], routes) is None
    assert container_gateway([mark], tmp_path / "missing") is None
