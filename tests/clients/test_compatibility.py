"""The pages about clients are up to date."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mocketmq.remoting.wire.codes import RequestCode
from tests.clients import compatibility, features, upstream_codes
from tests.clients.node_sdk import FOLDER
from tests.clients.results import Results, note, save, saved

HOW = "make test && make interop && python -m tests.clients.compatibility"


def test_the_page_lists_the_points_and_sdks_of_the_tests() -> None:
    all_held = {sdk: dict.fromkeys(names, True) for sdk, names in compatibility.tried().items()}
    shown = compatibility.PAGE.read_text().replace("**no**", "yes")
    assert shown == compatibility.page(all_held), HOW


def test_every_point_belongs_to_one_section() -> None:
    sections = compatibility.points().values()
    assert sum(map(len, sections)) == len(set().union(*compatibility.tried().values()))


def test_the_page_lists_the_features_clients_and_codes_of_the_tests() -> None:
    all_held = {client: dict.fromkeys(names, True) for client, names in features.tried().items()}
    shown = features.PAGE.read_text().replace("**no**", "yes").replace("**not:** ", "")
    assert shown == features.page(all_held), HOW


def test_every_feature_is_tried_with_a_client() -> None:
    rows = {name for names in features.FEATURES.values() for name in names}
    tried = features.tried()
    assert set().union(*(tried[client] for client in features.CLIENTS)) == rows
    assert set().union(*(tried[client] for client in features.GRPC_CLIENTS)) == set(features.GRPC_FEATURES)


def test_failed_and_untried_features_are_shown() -> None:
    results = {"node": {"Batches": False, "Send and wait": True}, "python": {"Batches": True}}
    lines = features.page(results).splitlines()
    assert f"| | {features.CLIENTS['python']} 0.4.4 | {features.CLIENTS['node']} 3.12.0 |" in lines
    assert {"| Batches | yes | **no** |", "| Send and wait | – | yes |", "| Send oneway | – | – |"} <= set(
        lines
    )


def test_framework_row_shows_working_and_failing_features() -> None:
    results = {"camel": {"Metrics for Prometheus": True, "Batches": False, "Send and wait": True}}
    title = features.FRAMEWORKS["camel"]
    row = f"| {title} | 4.17.0 | Send and wait; **not:** Batches; Metrics for Prometheus |"
    assert row in features.page(results).splitlines()


def test_codes_have_upstreams_names() -> None:
    ours = {int(code): code.name for code in RequestCode}
    of_5 = {code: name for code, name in ours.items() if code not in upstream_codes.NAMES}
    assert {code: upstream_codes.NAMES.get(code) for code in ours if code not in of_5} | of_5 == ours


def test_the_table_of_codes_separates_families_from_unsupported_codes() -> None:
    lines = features.codes().splitlines()
    assert "| 105 | GET_ROUTEINFO_BY_TOPIC | The name server |" in lines
    assert "| 40 | NOTIFY_CONSUMER_IDS_CHANGED | sent by the broker |" in lines
    assert "| 103 | REGISTER_BROKER | – |" in lines
    assert "| 200071 | LITE_SUBSCRIPTION_CTL | –, sent by RocketMQ's proxy |" in lines
    assert not features.NO_CLIENT_SENDS.keys() & set(map(int, RequestCode))


def test_the_table_of_codes_is_written_without_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = features.PAGE.read_text()
    monkeypatch.setattr(features, "PAGE", tmp_path / "page.md")
    features.PAGE.write_text(whole.replace("| 12 | QUERY_MESSAGE | Message queries |\n", ""))
    features.write_codes()
    assert features.PAGE.read_text() == whole


@pytest.mark.parametrize(
    ("args", "wrong"),
    [
        (("Batches", "node"), None),
        (("Batches", "node", "go"), None),
        (("Batch", "node"), "'Batch' is no row of FEATURES in tests.clients.features"),
        (
            ("Batches",),
            r"the mark of 'Batches' names the clients \[\]; allowed: one or more of \['java-4.3', ",
        ),
        (("Batches", "nodejs"), r"names the clients \['nodejs'\]; allowed: "),
        (("Dead letters", "go-grpc"), None),
        (("Send oneway", "go-grpc"), "'Send oneway' is no row of GRPC_FEATURES"),
        (("Batches", "go-grpc", "go"), r"names the clients \['go-grpc', 'go'\]; allowed: "),
    ],
)
def test_marks_of_unknown_rows_or_clients_are_refused(args: tuple[str, ...], wrong: str | None) -> None:
    told = features.misuse(pytest.mark.feature(*args).mark)
    assert told is wrong is None or re.search(wrong or "$^", told or "")


def test_run_counts_for_the_clients_of_its_mark() -> None:
    mark = pytest.mark.feature("Batches", "node", "go").mark
    of_one = SimpleNamespace(callspec=SimpleNamespace(params={"client": "go"}))
    of_all = SimpleNamespace(callspec=SimpleNamespace(params={"other": "go"}))
    assert features.clients_of(mark, cast(pytest.Item, of_one)) == ["go"]
    of_another = SimpleNamespace(callspec=SimpleNamespace(params={"client": "rust"}))
    assert features.clients_of(mark, cast(pytest.Item, of_another)) == []
    assert features.clients_of(mark, cast(pytest.Item, of_all)) == ["node", "go"]
    assert features.clients_of(mark, cast(pytest.Item, SimpleNamespace())) == ["node", "go"]


def test_results_of_other_clients_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "build" / "saved.json"
    save(file, {})
    assert not file.exists()
    save(file, {"go": {"Batches": True, "Send oneway": True}, "node": {"Batches": True}})
    save(file, {"go": {"Batches": False}})
    assert saved(file) == {"go": {"Batches": False}, "node": {"Batches": True}}


def test_feature_holds_if_each_of_its_tests_passes() -> None:
    results: Results = {}
    for held in (True, False, True):
        note(results, "go", "Batches", held)
    assert results == {"go": {"Batches": False}}


def test_partial_runs_do_not_write_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "SAVED", tmp_path / "saved.json")
    monkeypatch.setattr(features, "PAGE", tmp_path / "page.md")
    results = {client: dict.fromkeys(names, True) for client, names in features.tried().items()}
    save(features.SAVED, results | {"node": {"Batches": True}})
    how = "The last run was not one of all tests of node: make test, make interop"
    assert features.write() == how
    save(features.SAVED, results)
    assert features.write() is None
    assert features.PAGE.read_text() == features.page(results)


def test_node_lock_satisfies_the_request_and_names_no_registry() -> None:
    text = (FOLDER / "package-lock.json").read_text()
    wanted = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    assert json.loads(text)["packages"][""]["dependencies"] == wanted
    assert "://" not in text
    assert '"resolved"' not in text
