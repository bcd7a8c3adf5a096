"""Which messages a snapshot shares with the store, after any sequence of saves, restores and deletions."""

import random

import pytest

from mocketmq.broker.snapshots.restorer import MAX_BRANCHES, MAX_STATES, Lineage


class Model:
    """A store whose messages are numbers that never repeat, by log offset, and its snapshots by digest."""

    def __init__(self, seed: int) -> None:
        self.lineage = Lineage()
        self.snapshots: dict[str, tuple[dict[int, int], int]] = {}
        self.shared = 0
        self._random = random.Random(seed)
        self._messages: dict[int, int] = {}
        self._end = 0
        self._sent = 0

    def step(self) -> None:
        """Do something at random."""
        match self._random.choice(("send", "send", "delete", "save", "restore", "restore elsewhere")):
            case "send":
                for _ in range(self._random.randrange(1, 4)):
                    self._sent += 1
                    self._messages[self._end] = self._sent
                    self._end += 1
            case "delete" if self._messages:
                del self._messages[self._random.choice([*self._messages])]
            case "save":
                digest = f"{len(self.snapshots)}"
                self.snapshots[digest] = {**self._messages}, self._end
                self.lineage.remember(digest, self.lineage.history(self._end))
                assert self.lineage.shared_end(digest) == self._end
            case "restore" if self.snapshots:
                self._restore(self._random.choice([*self.snapshots]))
            case "restore elsewhere":
                self._sent += 1
                self.snapshots[f"other {self._sent}"] = {0: -self._sent}, self._random.randrange(1, 4)
                self._restore(f"other {self._sent}")

    def lose(self) -> None:
        """Change the newest messages, as a crash does that loses them."""
        begin = self._random.randrange(self._end + 1)
        for offset in [each for each in self._messages if each >= begin]:
            self._sent += 1
            self._messages[offset] = self._sent
        self.lineage.changed(begin)

    def _restore(self, digest: str) -> None:
        messages, end = self.snapshots[digest]
        shared = self.lineage.shared_end(digest)
        assert shared <= end
        for offset in range(shared):
            if offset in messages and offset in self._messages:
                assert messages[offset] == self._messages[offset]
                self.shared += 1
        self._messages, self._end = {**messages}, end
        self.lineage.restored(digest, end)
        assert self.lineage.shared_end(digest) == end


@pytest.mark.parametrize("seed", range(20))
def test_messages_below_the_shared_end_are_equal(seed: int) -> None:
    model = Model(seed)
    for _ in range(300):
        model.step()
    assert model.shared
    for _ in range(100):
        model.step()
        model.lose()


def test_states_part_at_the_restore_after_which_they_differ() -> None:
    lineage = Lineage()
    lineage.remember("ten", lineage.history(10))
    lineage.remember("twenty", lineage.history(20))
    lineage.restored("ten", 10)
    assert lineage.shared_end("twenty") == 10
    lineage.remember("other twenty", lineage.history(20))
    assert lineage.shared_end("other twenty") == 20
    lineage.restored("twenty", 20)
    assert lineage.shared_end("other twenty") == 10
    assert lineage.shared_end("ten") == 10
    assert lineage.shared_end("unknown") == 0


def test_the_oldest_states_are_forgotten() -> None:
    lineage = Lineage()
    for number in range(MAX_STATES + 1):
        lineage.remember(str(number), lineage.history(1))
    assert (lineage.shared_end("0"), lineage.shared_end("1")) == (0, 1)


def test_a_history_of_many_restores_begins_again() -> None:
    lineage = Lineage()
    for number in range(MAX_BRANCHES + 2):
        lineage.remember(str(number), lineage.history(number + 1))
        lineage.restored(str(number), number + 1)
        assert lineage.shared_end(str(number)) == number + 1
    assert lineage.shared_end(str(MAX_BRANCHES - 10)) == 0
