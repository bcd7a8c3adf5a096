"""Knows up to which log offset a snapshot and the store have the same messages.

A message never changes after its commit, unless a crash loses it, and log offsets rise. Two states of one
broker therefore have the same messages up to the log offset at which their histories part. They part at a
restore, because messages that are stored after it get log offsets that were given out before, and at a loss.
So a history is a list of branches, each with the log offset at which it begins, and a restore or a loss
begins a new one. Either state may lack messages that were deleted.

Only states that this process has saved or restored are known, by the digest of their database: a file that
was changed by hand has another one. Nothing is known of earlier runs, whose last commits a power failure may
have undone.
"""

from collections.abc import Sequence
from itertools import count, zip_longest
from typing import Final, NamedTuple

MAX_STATES: Final = 64
MAX_BRANCHES: Final = 1_000
"""Limits of the states that are remembered, and of the branches of one."""


class _Branch(NamedTuple):
    """The messages from a log offset on, as far as the next branch."""

    begin: int
    number: int


class StateHistory(NamedTuple):
    """The branches of a state, and its next log offset."""

    branches: Sequence[_Branch]
    end: int


class Lineage:
    """The history of the store's messages, and those of snapshots."""

    def __init__(self) -> None:
        self._numbers = count()
        self._branches = [self._new_branch(0)]
        self._states: dict[str, StateHistory] = {}  # by digest

    def history(self, end: int) -> StateHistory:
        """The history of the store as it is now, whose next log offset is ``end``."""
        return StateHistory([one for one in self._branches if one.begin < end], end)

    def saved(self, digest: str, history: StateHistory) -> None:
        """Note the history of a snapshot. It is that of the store when its rows were copied."""
        self._remember(digest, history)

    def restored(self, digest: str, end: int) -> None:
        """Note that a snapshot was restored, whose next log offset is ``end``."""
        state = self._states.get(digest)
        if state is None or len(state.branches) >= MAX_BRANCHES:
            state = StateHistory([self._new_branch(0)], end)
        self._remember(digest, state)
        self._branches = [*state.branches, self._new_branch(end)]

    def changed(self, begin: int) -> None:
        """Note that messages from this log offset on may have changed."""
        kept = [one for one in self._branches if one.begin < begin]
        self._branches = (
            [*kept, self._new_branch(begin)] if len(kept) < MAX_BRANCHES else [self._new_branch(0)]
        )

    def shared_end(self, digest: str) -> int:
        """The log offset up to which store and snapshot share their messages; 0 if the state is unknown."""
        state = self._states.get(digest)
        if state is None:
            return 0
        for ours, theirs in zip_longest(self._branches, state.branches):
            if ours != theirs:
                return min(state.end, *(one.begin for one in (ours, theirs) if one is not None))
        return state.end

    def _remember(self, digest: str, state: StateHistory) -> None:
        self._states.pop(digest, None)
        self._states[digest] = state
        while len(self._states) > MAX_STATES:
            del self._states[next(iter(self._states))]

    def _new_branch(self, begin: int) -> _Branch:
        return _Branch(begin, next(self._numbers))
