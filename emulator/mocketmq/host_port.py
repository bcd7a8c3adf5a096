"""Reads and writes ``host:port``."""


def with_port(host: str, port: int) -> str:
    """Format ``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_host(address: str) -> str:
    """Read the host of a peer's ``host:port``, without the brackets of an IPv6 address."""
    return address.rpartition(":")[0].strip("[]")


def split_address(text: str, port: int) -> tuple[str, int]:
    """Split ``host`` or ``host:port``, removing the brackets of an IPv6 address."""
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), port
    return host.strip("[]"), int(number)
