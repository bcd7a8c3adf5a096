"""Give freed memory back to the system: after a flood the C library keeps it, unless it is asked."""


def give_back() -> None:
    """Ask glibc; others have no such call. Takes some milliseconds after a flood, else next to nothing."""
    try:
        import ctypes  # noqa: PLC0415 - seldom needed

        trim = ctypes.CDLL(None).malloc_trim
    except (ImportError, OSError, AttributeError):
        return
    trim(0)
