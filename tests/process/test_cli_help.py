"""The help of each command, and completion by shells."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from mocketmq.cli import commands
from tests.support.command_line import runner
from tests.support.command_line_reference import walk
from tests.support.process import clean_environment

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.mark.parametrize("path", [path for path, _ in walk(commands)], ids=" ".join)
def test_help_fits_a_terminal_and_its_examples_parse(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = runner().invoke(commands, [*path, "--help"], prog_name="mocketmq")
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 80
    monkeypatch.chdir(tmp_path)
    for directory in ("mocketmq-data", "backup/delay"):
        Path(directory).mkdir(parents=True)
    lines = shown.stdout.partition("  Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert lines
    for line in lines:
        words = shlex.split(re.sub(r" [<>] body\.json$", "", line))
        assert words[: 1 + len(path)] == ["mocketmq", *path]
        understand(commands, words[0], words[1:])


def understand(command: click.Command, name: str, words: list[str]) -> None:
    """Raise UsageError unless the command accepts these words. The command does not run."""
    while isinstance(command, click.Group) and words:
        below = command.get_command(click.Context(command), words[0])
        if below is None:
            break
        command, name, words = below, words[0], words[1:]
    command.make_context(name, words)


@pytest.mark.parametrize("name", ["clients", "clock", "groups", "topics"])
def test_help_of_a_group_with_a_default_ignores_options_of_its_subcommands(name: str) -> None:
    shown = runner().invoke(commands, ["--url", "http://127.0.0.1:9", name, "--help"], prog_name="mocketmq")
    assert (shown.exit_code, f"mocketmq {name} [OPTIONS] COMMAND" in shown.stdout) == (0, True)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("mocketmq to", "plain,topics"),
        ("mocketmq topics c", "plain,create"),
        ("mocketmq topics --j", "plain,--json"),
        ("mocketmq clock n", "plain,next"),
        ("mocketmq receive orders --g", "plain,--group"),
        ("mocketmq --v", "plain,--version"),
    ],
)
def test_shell_completion_lists_the_next_words(words: str, offered: str) -> None:
    assert complete(words).stdout.split() == [offered]


def test_completing_a_command_name_imports_no_command() -> None:
    told = complete("mocketmq ")
    assert len(told.stdout.splitlines()) == len(commands.list_commands(click.Context(commands)))
    ours = {name for name in told.stderr.split() if name.startswith(("mocketmq.cli.", "mocketmq_report"))}
    assert ours == {"mocketmq.cli.exit_codes"}


def complete(words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Return bash's completions of the last word; stderr shows the imported modules."""
    program = (
        "import atexit, sys; from mocketmq.cli import main;"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr)); main()"
    )
    asked = {
        "_MOCKETMQ_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env=clean_environment() | asked | env, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_documented_line_enables_completion(shell: str) -> None:
    [line] = [each for each in PAGE.read_text().splitlines() if f"_MOCKETMQ_COMPLETE={shell}_source" in each]
    if shutil.which(shell):  # only bash is on every machine
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        check = "complete -p mocketmq" if shell == "bash" else "true"
        done = subprocess.run(
            [shell, "-c", f"{line.partition('  #')[0]}\n{check}"],
            env=clean_environment() | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
