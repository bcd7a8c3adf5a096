"""Return freed memory to the operating system, which glibc does not do by itself after a flood."""


def give_back() -> None:
    """Call glibc's ``malloc_trim``; do nothing with other C libraries.

    It takes some milliseconds after a flood, otherwise next to nothing.
    """
    try:
        import ctypes  # noqa: PLC0415 - seldom needed

        trim = ctypes.CDLL(None).malloc_trim
    except (ImportError, OSError, AttributeError):
        return
    trim(0)
