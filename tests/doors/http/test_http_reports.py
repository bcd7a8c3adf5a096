"""Lateness reports that the broker makes by running its own command in a separate process."""

import asyncio
from pathlib import Path

import pytest

from mocketmq.errors import ReportError
from mocketmq.http_api.reports import STEPS, Reports
from tests.support.api import Api, running_api
from tests.support.held_report import HeldReport

TOKEN = "s3cret"  # noqa: S105 - guards nothing


async def make(api: Api) -> str:
    """Make a report, and return its path."""
    page: str = (await api.ok("POST", "/v1/reports"))["page"]
    return page


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldReport:
    return HeldReport(monkeypatch)


async def test_a_report_in_progress_shows_its_step(api: Api, held: HeldReport) -> None:
    nothing = {"step": None, "number": 0, "steps": len(STEPS), "page": None, "at_ms": None}
    assert await api.ok("GET", "/v1/reports") == nothing
    making = asyncio.create_task(api.ok("POST", "/v1/reports"))
    await held.began.wait()
    assert await api.ok("GET", "/v1/reports") == nothing | {"step": "starting", "number": 1}
    for line, number in (("reading", 2), ("measuring", 3), ("SomeWarning: measuring", 3), ("writing", 5)):
        held.tell(line)
        assert await api.ok("GET", "/v1/reports") == nothing | {"step": STEPS[number - 1], "number": number}
    held.go_on.set()
    made = await making
    assert await api.ok("GET", "/v1/reports") == nothing | made


async def test_failed_report_is_no_longer_in_progress(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ReportError("it failed")

    monkeypatch.setattr("mocketmq.http_api.reports._run", fail)
    await api.refused(503, "POST", "/v1/reports")
    assert (await api.ok("GET", "/v1/reports"))["step"] is None


@pytest.mark.parametrize("kept", ["memory", pytest.param("directory", marks=pytest.mark.slow)])
async def test_report_covers_all_deliveries_so_far(
    tmp_path: Path, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(Reports, "_tell", lambda _, line: told.append(line))
    data = ":memory:" if kept == "memory" else str(tmp_path)
    async with running_api(data=data) as api:
        for level in (1, 1, 3):
            await api.send(delay_level=level)
        await api.ok("POST", "/v1/clock/advance", {"by": "5s"})
        first, second = await asyncio.gather(make(api), make(api))
        assert first == second  # only one report runs at a time, so both requests waited for it
        assert [line for line in told if line in STEPS] == [*STEPS[1:]]
        shown = await api.call("GET", first)
        assert "2 delayed deliveries in 1 run" in shown.body.decode()
        assert shown.headers["Content-Type"] == "text/html; charset=utf-8"
        assert shown.headers["Content-Security-Policy"].startswith(
            "sandbox allow-scripts; default-src 'none';"
        )
        detail = (await api.refused(404, "GET", f"{first}x"))["detail"]
        assert detail == "only the newest report is kept, and this one is older; make another"


async def test_report_without_its_extra_names_what_to_install(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = "raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')"
    (tmp_path / "numpy.py").write_text(missing)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert (await api.refused(503, "POST", "/v1/reports"))["detail"] == (
        "lateness reports need more than the broker, and numpy is not installed:"
        " install mocketmq with its extra 'report'"
    )


async def test_a_stopping_broker_makes_no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def never(*_: object) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    monkeypatch.setattr("mocketmq.http_api.reports._run", never)
    async with running_api() as api:
        reports = api.emulator.http.api.reports
        asking = asyncio.create_task(reports.make())
        await began.wait()
        await api.emulator.http.close()
        assert ended.is_set()
        await asyncio.gather(asking, return_exceptions=True)


@pytest.mark.slow
async def test_report_needs_the_token_and_its_page_an_unguessable_name() -> None:
    async with running_api(token=TOKEN) as api:
        await api.refused(401, "POST", "/v1/reports")
        await api.refused(401, "GET", "/v1/reports")
        given = {"Authorization": f"Bearer {TOKEN}"}
        made = await api.call("POST", "/v1/reports", headers=given)
        assert (await api.call("GET", made.body["page"])).status == 200
        await api.refused(404, "GET", "/v1/reports/any")
        other = await api.call("POST", "/v1/reports", headers={**given, "Origin": "http://elsewhere.example"})
        assert other.status == 403
