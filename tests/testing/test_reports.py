"""Output of a run about its tests: the story of a failed test, and what a test left behind."""

import pytest

from tests.testing.conftest import Run

pytest_plugins = ("pytester",)


def test_a_failed_test_shows_the_brokers_view(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_before(mocketmq):
            mocketmq.send("orders", "forgotten", keys=["order-0"])

        def test_fails(mocketmq):
            mocketmq.send("orders", "x", keys=["order-7"], delay_level=3)
            mocketmq.clock.advance("10s")
            [message] = mocketmq.receive("orders", group="billing")
            mocketmq.acknowledge("billing", [message])
            assert False

        @pytest.fixture
        def broken(mocketmq):
            mocketmq.send("orders", "x", keys=["order-8"])
            assert False

        def test_has_a_broken_fixture(broken):
            pass

        def test_has_a_fault(mocketmq):
            mocketmq.faults.add("deliver-late", by="5s", name="storm")
            mocketmq.send("orders", "x", keys=["order-9"], delay_level=1)
            mocketmq.clock.advance("1s")
            assert False

        def test_is_refused(mocketmq):
            mocketmq.faults.add("refuse", error="SYSTEM_BUZY")

        def test_is_wrong(mocketmq):
            mocketmq.clock.advance("30 min")

        def test_idle(mocketmq):
            assert False

        def test_without_it():
            assert False
        """
    )
    told = run()
    told.assert_outcomes(passed=1, failed=6, errors=1)
    at = "20??-??-?? ??:??:??.??? "
    told.stdout.fnmatch_lines(
        [
            "*ERROR at setup of test_has_a_broken_fixture*",
            "*-- mocketmq --*",
            f"{at}sent to orders by http: *order-8*",
            "*_ test_fails _*",
            "*-- mocketmq --*",
            f"{at}sent to orders by http, parked (level 3) for 10s until *order-7*",
            f"{at}clock moved by 10s*",
            f"{at}delivered to orders: *order-7*",
            f"{at}taken by billing: *order-7*",
            f"{at}acknowledged by billing: *order-7*",
            "*_ test_has_a_fault _*",
            "*-- mocketmq --*",
            f"{at}sent to orders by http, parked (level 1) for 1s until *order-9*",
            f"{at}clock moved by 1s*",
            f"{at}fault storm: deliver-late for delivery: *order-9*",
            "*_ test_is_refused _*",
            ">*SYSTEM_BUZY*",
            "E*BrokerError: error is 'SYSTEM_BUZY'; allowed: SYSTEM_BUSY?*",
            "*_ test_is_wrong _*",
            ">*30 min*",
            "E*InvalidArgumentError: by is '30 min'; allowed: a duration such as*",
            "*_ test_idle _*",
            "*-- mocketmq --*",
            "the broker recorded no events",
        ]
    )
    text = told.stdout.str()
    assert "order-0" not in text
    assert text.count("-- mocketmq --") == 6
    assert "def parse_duration_us" not in text
    assert "def read" not in text


def test_strict_tests_leave_nothing_unacknowledged(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makeini("[pytest]\nmocketmq_strict = true")
    pytester.makepyfile(
        """
        import pytest

        def test_leaves_one(mocketmq):
            mocketmq.send("orders", "x", keys=["order-7"])
            assert mocketmq.receive("orders", group="billing")

        def test_acknowledges(mocketmq):
            mocketmq.send("orders", "x")
            mocketmq.acknowledge("billing", mocketmq.receive("orders", group="billing"))

        @pytest.mark.mocketmq(strict=False)
        def test_may_leave_one(mocketmq):
            mocketmq.send("orders", "x", keys=["order-8"])
            assert mocketmq.receive("orders", group="billing")

        def test_fails_anyway(mocketmq):
            mocketmq.send("orders", "x", keys=["order-9"])
            assert not mocketmq.receive("orders", group="billing")
        """
    )
    told = run()
    told.assert_outcomes(passed=3, failed=1, errors=1)
    told.stdout.fnmatch_lines(
        [
            "*ERROR at teardown of test_leaves_one*",
            "the test left messages that were not acknowledged:",
            "  *order-7*billing*",
            "*-- mocketmq --*",
        ]
    )
