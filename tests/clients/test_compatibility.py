"""What is written down about the SDKs is up to date."""

import json

from tests.clients import compatibility
from tests.clients.node_sdk import FOLDER


def test_the_page_lists_the_points_and_sdks_of_the_tests() -> None:
    all_held = {name: dict.fromkeys(sdks, True) for name, sdks in compatibility.tried().items()}
    shown = compatibility.PAGE.read_text().replace("**no**", "yes")
    assert shown == compatibility.page(all_held), (
        "make test ARGS=tests/clients && python -m tests.clients.compatibility"
    )


def test_every_point_belongs_to_one_section() -> None:
    assert sum(map(len, compatibility.points().values())) == len(compatibility.tried())


def test_the_node_lock_holds_what_is_asked_for_and_names_no_place() -> None:
    text = (FOLDER / "package-lock.json").read_text()
    wanted = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    assert json.loads(text)["packages"][""]["dependencies"] == wanted
    assert "://" not in text
    assert '"resolved"' not in text
