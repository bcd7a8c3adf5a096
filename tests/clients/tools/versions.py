"""The versions of RocketMQ's tools whose requests were recorded."""


def versions() -> dict[str, str]:
    """Return the version of each tool."""
    return {"dashboard": "2.1.0", "exporter": "0.0.2"}
