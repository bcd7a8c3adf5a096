"""Numbers of things, in sentences for people."""


def counted(number: int, what: str) -> str:
    """Format a number of things, such as ``1 message`` or ``1,000 messages``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
