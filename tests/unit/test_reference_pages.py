"""The pages of reference are those of the code, and leave nothing out."""

import re
from types import ModuleType

import pytest

from mocketmq.cli import commands
from mocketmq.http_api.server import route_groups
from mocketmq.settings import Settings
from mocketmq.settings_sources import options, variable_of
from tests.support import command_line_reference, json_api_reference, settings_reference
from tests.support.markdown import marked_up

LONGEST = 2_200
"""Lines of a page that somebody may still scroll through."""


@pytest.mark.parametrize("generator", [command_line_reference, json_api_reference, settings_reference])
def test_a_page_is_that_of_the_code(generator: ModuleType) -> None:
    page = generator.page()
    assert generator.PAGE.read_text() == page, f"python -m {generator.__name__} writes it anew"
    assert f"`python -m {generator.__name__}`" in page
    assert len(page.splitlines()) < LONGEST


def test_every_route_is_listed_once() -> None:
    listed = re.findall(r"^### (.+)\n\n`([A-Z]+) (/\S+)`", json_api_reference.PAGE.read_text(), re.MULTILINE)
    routes = [each for group in route_groups(Settings()) for each in group.routes]
    assert sorted(listed) == sorted((each.summary, each.method, each.path) for each in routes)


def test_every_type_that_the_page_links_to_is_described() -> None:
    page = json_api_reference.PAGE.read_text()
    assert set(re.findall(r"\[(\w+)\]\(#", page)) <= set(re.findall(r"^### (\w+)$", page, re.MULTILINE))


def test_every_command_is_listed_with_its_options() -> None:
    page = command_line_reference.PAGE.read_text()
    for path, command in command_line_reference.walk(commands):
        name = " ".join(("mocketmq", *path))
        entry = re.split(r"^##+ ", page.partition(f"# {name}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
        known = entry + page.partition("## mocketmq serve")[0]
        shown = {flag for each in command.params if not getattr(each, "hidden", False) for flag in each.opts}
        elsewhere = {each.flag for each in options()} if path == ("serve",) else set()
        flags = {flag for flag in shown if flag.startswith("-")} - elsewhere
        assert [flag for flag in flags if f"`{flag}`" not in known] == [], name


def test_every_setting_is_listed_with_its_flag_and_variable() -> None:
    page = settings_reference.PAGE.read_text()
    for each in options():
        assert f"| `{each.name}`<br>`{each.flag}`<br>`{variable_of(each.name)}` |" in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("* for all, a-z, _ and -", r"\* for all, a-z, \_ and -"),
        ("tags such as A || B", r"tags such as A \|\| B"),
        ("`a | b` and --max-wait", "`a | b` and `--max-wait`"),
        ("rules for __STARTDELIVERTIME: 1.5s", "rules for `__STARTDELIVERTIME`: `1.5s`"),
        ("RELAY_TOPIC, as max_wait in plain_acl.yml", "`RELAY_TOPIC`, as `max_wait` in `plain_acl.yml`"),
        (
            "%RETRY%<group> (docs/protocol/aliyun.md)",
            r"%RETRY%&lt;group> ([protocol/aliyun.md](protocol/aliyun.md))",
        ),
    ],
)
def test_texts_are_marked_up(text: str, shown: str) -> None:
    assert marked_up(text) == shown
