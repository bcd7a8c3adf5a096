"""Contracts of other systems: each limit at its boundary and beyond, for one delay and for arrays of them."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.clock import US_PER_MS, US_PER_S
from mocketmq.contracts.contract import Contract, Waiting
from mocketmq.contracts.systems import CONTRACTS
from mocketmq.settings import ContractName

DAY = 86_400 * US_PER_S
NOW = 1_800_000_000 * US_PER_S + 123_456
PAGE = (Path(__file__).parents[2] / "docs" / "contracts.md").read_text()

LONGEST = {
    "aliyun4": 40 * DAY,
    "aliyun5": 40 * DAY,
    "aliyun5-standard": 7 * DAY,
    "huawei": 365 * DAY,
    "huawei5": 7 * DAY,
    "cmq": 3_600 * US_PER_S,
    "sqs": 900 * US_PER_S,
    "rabbitmq": 4_294_967_295 * US_PER_MS,
    "rocketmq5": 3 * DAY,
}
WORDS = {
    "sqs": "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.",
    "rabbitmq": "PRECONDITION_FAILED - invalid expiration '4294967296': {value_too_big,4294967296}",
    "cmq": "Tencent's CMQ refuses a delay of 1h1ms; allowed: at most 1h",
}


def test_every_contract_has_a_name_sources_and_a_row_in_the_docs() -> None:
    assert tuple(CONTRACTS) == get_args(ContractName)
    for name, contract in CONTRACTS.items():
        assert f"| `{name}` |" in PAGE
        assert contract.sources
        for source in contract.sources:
            assert source.url in PAGE, (name, source.url)
            assert source.date.removeprefix("read ") in PAGE, (name, source.date)
            assert source.unverified in PAGE, (name, source.unverified)


@pytest.mark.parametrize("name", LONGEST)
def test_the_longest_delay_passes_and_a_longer_one_does_not(name: str) -> None:
    contract, longest = CONTRACTS[name], LONGEST[name]
    assert not contract.is_refused(longest, ignored=False)
    assert not contract.is_at_once(longest, ignored=False)
    beyond = longest + US_PER_MS
    assert contract.is_refused(beyond, ignored=False) is (contract.beyond == "refused")
    assert contract.is_at_once(beyond, ignored=False) is (contract.beyond == "at once")


@pytest.mark.parametrize("name", sorted(CONTRACTS.keys() - LONGEST.keys()))
def test_some_have_no_longest_delay(name: str) -> None:
    assert not CONTRACTS[name].is_refused(36_500 * DAY, ignored=False)
    assert not CONTRACTS[name].is_at_once(36_500 * DAY, ignored=False)


def test_only_aliyun_5_delivers_at_once_what_is_beyond() -> None:
    assert {name for name, each in CONTRACTS.items() if each.beyond == "at once"} == {
        "aliyun5",
        "aliyun5-standard",
    }


@pytest.mark.parametrize("name", WORDS)
def test_a_refusal_has_the_words_of_the_system(name: str) -> None:
    assert CONTRACTS[name].words(LONGEST[name] + US_PER_MS) == WORDS[name]


@pytest.mark.parametrize(
    ("name", "delay_us", "granted_us"),
    [
        *(("sqs", 1, 1_000_000), ("sqs", 1_000_000, 1_000_000), ("sqs", 1_000_001, 2_000_000)),
        *(("cmq", 1_500_000, 2_000_000), ("rabbitmq", 1_500_001, 1_500_001)),
        *(("pulsar", 1_500_001, 1_500_001), ("aliyun5", 1_500_001, 1_500_001)),
    ],
)
def test_a_delay_is_rounded_up(name: str, delay_us: int, granted_us: int) -> None:
    assert CONTRACTS[name].rounded_us(NOW, NOW + delay_us) - NOW == granted_us


@pytest.mark.parametrize(
    ("name", "grain_us"), [("aliyun4", US_PER_S), ("rocketmq5", US_PER_S), ("huawei", 100_000)]
)
def test_a_due_time_is_rounded_up(name: str, grain_us: int) -> None:
    whole = 1_800_000_060 * US_PER_S
    for due, granted in ((whole, whole), (whole - 1, whole), (whole + 1, whole + grain_us)):
        assert CONTRACTS[name].rounded_us(NOW, due) == granted


def test_pulsar_delivers_at_once_what_is_due_within_a_tick() -> None:
    assert CONTRACTS["pulsar"].is_at_once(US_PER_S, ignored=False)
    assert not CONTRACTS["pulsar"].is_at_once(US_PER_S + 1, ignored=False)


def test_only_sqs_limits_what_is_in_flight() -> None:
    limits = {name: each.in_flight for name, each in CONTRACTS.items() if each.in_flight is not None}
    assert limits == {"sqs": 120_000}
    assert CONTRACTS["sqs"].over_limit.startswith("OverLimit: ")


def test_what_a_system_does_not_know_is_delivered_at_once() -> None:
    assert CONTRACTS["rocketmq4"].ignores == {"timer", "start"}
    assert CONTRACTS["rocketmq5"].ignores == {"start"}
    for name in ("rocketmq4", "rocketmq5"):
        assert CONTRACTS[name].is_at_once(4 * DAY, ignored=True)
        assert not CONTRACTS[name].is_refused(4 * DAY, ignored=True)


def test_behind_a_longer_delay_a_shorter_one_waits() -> None:
    line = Waiting(1)
    assert [line.add(0, due) for due in (10, 60, 5, 70, 20)] == [10, 60, 60, 70, 70]
    assert line.add(61, 65) == 70  # the first have gone
    assert line.add(70, 71) == 71  # and now all


def test_so_many_may_wait_and_further_ones_wait_for_them() -> None:
    line = Waiting(3)
    assert [line.add(0, due) for due in (10, 30, 20)] == [10, 30, 20]
    assert line.add(0, 5) == 10  # until there are two
    assert line.add(0, 5) == 10  # the one before is due then, too
    assert line.add(0, 40) == 40
    assert line.add(30, 31) == 31


@given(
    st.sampled_from(list(CONTRACTS.values())),
    st.lists(st.tuples(st.integers(0, 1 << 45), st.booleans()), min_size=1, max_size=20),
)
def test_arrays_are_judged_as_single_delays(contract: Contract, given_: list[tuple[int, bool]]) -> None:
    delays, ignored = [each[0] for each in given_], [each[1] for each in given_]
    many, many_ignored = np.array(delays), np.array(ignored)
    pairs = list(zip(delays, ignored, strict=True))
    refused = contract.is_refused(many, ignored=many_ignored)
    assert refused.tolist() == [contract.is_refused(one, ignored=no) for one, no in pairs]
    at_once = contract.is_at_once(many, ignored=many_ignored)
    assert at_once.tolist() == [contract.is_at_once(one, ignored=no) for one, no in pairs]
    assert not (refused & at_once).any()
    rounded = contract.rounded_us(np.full(len(many), NOW), NOW + many)
    assert rounded.tolist() == [contract.rounded_us(NOW, NOW + one) for one in delays]
    assert (rounded >= NOW + many).all()
    assert (rounded < NOW + many + contract.grain_us).all()
