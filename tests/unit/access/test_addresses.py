"""White lists: every form in upstream's documentation, and invalid lists."""

import pytest

from mocketmq.access.addresses import parse_addresses


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("", "", "127.0.0.1 ::1"),
        ("  ", "", "127.0.0.1"),
        ("*", "127.0.0.1 ::1 a-name", ""),
        ("*.*.*.*", "127.0.0.1 ::1", ""),
        ("*:*:*:*:*:*:*:*", "127.0.0.1 ::1", ""),
        ("192.168.0.7", "192.168.0.7 ::ffff:192.168.0.7", "192.168.0.70 192.168.0.8 a-name"),
        ("192.168.0.*", "192.168.0.0 192.168.0.255", "192.168.1.0"),
        ("192.168.*.*", "192.168.0.0 192.168.255.9", "192.169.0.0"),
        ("192.168.1-9.*", "192.168.1.0 192.168.9.255", "192.168.0.255 192.168.10.0"),
        ("192.168.1.10-20", "192.168.1.10 192.168.1.20", "192.168.1.9 192.168.1.21"),
        ("192.168.0.{1,22}", "192.168.0.1 192.168.0.22", "192.168.0.2 192.168.0.12"),
        ("10.0.0.1,10.0.0.2", "10.0.0.1 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1, ::1", "10.0.0.1 ::1", "10.0.0.2 ::2"),
        ("::1", "::1 0:0:0:0:0:0:0:1", "::2 127.0.0.1"),
        (
            "1050::0005:0600:300c:{326b,1}",
            "1050::5:600:300c:326B 1050:0:0:0:5:600:300c:1",
            "1050::5:600:300c:2",
        ),
        ("2::ac5:78:1-200:*", "2::ac5:78:1:0 2::ac5:78:200:ffff", "2::ac5:78:201:0 2::ac5:78:0:0"),
        ("fe80::1", "fe80::1 fe80::1%eth0", "fe80::2"),
    ],
)
def test_addresses_that_match_a_line(text: str, inside: str, outside: str) -> None:
    trusts = parse_addresses(text)
    assert [host for host in inside.split() if not trusts(host)] == []
    assert [host for host in outside.split() if trusts(host)] == []


@pytest.mark.parametrize(
    "text",
    [
        *(
            "192.168.*",
            "192.168.0.256",
            "192.168.0.-1",
            "192.168.0.9-1",
            "192.168.0.1-256",
            "1.2.3.4.5",
            "a.b.c.d",
        ),
        *(
            "192.168.0.{}",
            "192.168.0.{1",
            "192.168.0.{1,x}",
            "10.0.0.1,",
            "10.0.0.1,x",
            "localhost",
            "10.0.0.0/8",
        ),
        *("1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "::g", "1:2:3:4:5:6:7:8::"),
    ],
)
def test_invalid_lines_of_a_white_list(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of addresses; allowed: such as") as refused:
        parse_addresses(text)
    assert repr(text) in str(refused.value)
