"""Examples at the end of a command's help."""


def examples(*commands: str) -> str:
    """An epilog with a line for each; tests/process/test_cli_help.py runs them."""
    return "\b\nExamples:\n" + "\n".join(f"  mocketmq {command}" for command in commands)
