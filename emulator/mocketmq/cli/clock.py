"""``mocketmq clock``, which shows or moves the broker's clock."""

import click

from mocketmq.cli.connection import with_broker
from mocketmq.cli.options import GroupWithDefault, examples
from mocketmq.cli.output import Output, instant
from mocketmq.client.answer import JsonObject
from mocketmq.client.blocking import BlockingClient
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration


@click.group(
    cls=GroupWithDefault,
    default="show",
    epilog=examples("clock", "clock advance 30m", "clock to 2030-01-31T08:00:00Z", "clock next"),
)
def clock() -> None:
    """Show the broker's clock, or move it forward.

    A move ends once all messages that became due on the way are delivered.
    """


@clock.command("show", epilog=examples("clock show --json"))
@with_broker
def show(broker: BlockingClient, output: Output) -> None:
    """Show the broker's time."""
    found = broker.clock()
    output.show(found, f"{instant(found['now_ms'])}, clock {found['mode']}", _describe_pending(found))


# Without this, an argument with a leading minus would be reported as an unknown option, not a wrong value.
_SETTINGS = {"ignore_unknown_options": True}


@clock.command("advance", context_settings=_SETTINGS, epilog=examples("clock advance 1h30m"))
@click.argument("duration")
@with_broker
def advance(broker: BlockingClient, output: Output, duration: str) -> None:
    """Move the clock by DURATION, such as 200ms, 10s or 2h."""
    move = broker.advance(duration)
    output.show(move, *_describe_move(move))


@clock.command("to", context_settings=_SETTINGS, epilog=examples("clock to 2030-01-31T08:00:00Z"))
@click.argument("target", metavar="INSTANT")
@with_broker
def to(broker: BlockingClient, output: Output, target: str) -> None:
    """Move the clock to INSTANT: epoch milliseconds, or as 2030-01-31T08:00:00Z."""
    move = broker.move_to(target)
    output.show(move, *_describe_move(move))


@clock.command("next", epilog=examples("clock next"))
@with_broker
def to_next(broker: BlockingClient, output: Output) -> None:
    """Move the clock to the next due time."""
    move = broker.move_to_next()
    output.show(move, *_describe_move(move))


def _describe_move(move: JsonObject) -> tuple[str, str]:
    by = format_duration((move["now_ms"] - move["from_ms"]) * US_PER_MS)
    return f"{instant(move['now_ms'])}, moved by {by}: {move['fired']} delivered", _describe_pending(move)


def _describe_pending(answer: JsonObject) -> str:
    if not answer["pending"]:
        return "nothing is pending"
    due = answer["next_due_ms"]
    return f"{answer['pending']} pending" + (
        "" if due is None else f", the next due {instant(due, answer['now_ms'])}"
    )
