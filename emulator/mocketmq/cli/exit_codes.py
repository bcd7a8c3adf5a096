"""The exit codes of the command line, and the code for each error."""

from enum import IntEnum

import click

from mocketmq.errors import EmulatorError, InvalidArgumentError, ListenError, SettingError, StoreError


class Exit(IntEnum):
    """An exit code, with its ``meaning`` for ``--help``."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> "Exit":
        """Make the member with this number."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    DONE = 0, "done"
    REFUSED = 1, "the broker refused the request, the demo found a fault, or there are leaks"
    USAGE = 2, "wrong usage, or a setting with a wrong value"
    NOT_READY = 3, "the broker cannot be reached or is not ready"
    NOTHING = 4, "nothing was received or found, or the name or id is unknown"
    NOT_STARTED = 5, "the broker cannot open its store or a port"
    DAMAGED = 6, "a store or a pack is damaged, or files of delayed messages are damaged or misplaced"
    DEFECT = 70, "a defect in mocketmq itself; see the log"
    INTERRUPTED = 130, "interrupted by Ctrl-C; 143 by SIGTERM"


class Failure(click.ClickException):
    """Ends a command with a sentence on stderr and an exit code."""

    def __init__(self, sentence: str, code: Exit) -> None:
        super().__init__(sentence)
        self.exit_code = code  # type: ignore[misc]  # click also reads an instance's exit code

    def format_message(self) -> str:
        """Return the sentence with control characters escaped, because it may quote text from clients."""
        from mocketmq.cli.text import harmless  # noqa: PLC0415 - most commands end without a failure

        return harmless(super().format_message(), "\n")


def exit_of(error: EmulatorError) -> Exit:
    """Return the exit code for an error in this process. Errors from a broker have other codes."""
    match error:
        case SettingError() | InvalidArgumentError():
            return Exit.USAGE
        case StoreError() | ListenError():
            return Exit.NOT_STARTED
    return Exit.DEFECT
