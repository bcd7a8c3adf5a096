"""The Chinese catalogues of the report's and the lab's pages."""

import json
import re
from importlib.resources import files

import pytest

PACKAGES = ("mocketmq_report.report", "mocketmq_report.lab")


@pytest.mark.parametrize("package", PACKAGES)
def test_chinese_texts_have_the_fields_of_the_english_ones_in_their_order(package: str) -> None:
    for english, chinese in json.loads(files(package).joinpath("zh.json").read_text()).items():
        numbers = re.findall(r"\{[=#&_]?(\d)\}", english)
        assert numbers == [str((number + 1) % 10) for number in range(len(numbers))], english
        assert sorted(re.findall(r"\{[=#&_]?\d\}", english)) == sorted(
            re.findall(r"\{[=#&_]?\d\}", chinese)
        ), english


@pytest.mark.parametrize("package", PACKAGES)
def test_every_text_of_the_template_has_a_chinese_one(package: str) -> None:
    texts = set(json.loads(files(package).joinpath("zh.json").read_text()))
    texts |= set(json.loads(files(PACKAGES[0]).joinpath("zh.json").read_text()))
    name = "lab.html.jinja" if package.endswith("lab") else "report.html.jinja"
    template = files(package).joinpath(name).read_text().split("<body>")[1]
    template = re.sub(r"\{#.*?#\}|<script.*?</script>", "", template, flags=re.S)
    plain = re.findall(r">([^<>{}]*[A-Za-z]{2}[^<>{}]*)<", template)  # texts without a field
    missing = {text.strip() for text in plain} - texts - {"code"}
    assert missing == set()
