"""The module that stands for aiohttp's ``web`` has the same classes."""

import pytest
from aiohttp import web as documented

from mocketmq.http_api import web


@pytest.mark.parametrize("name", web.__all__)
def test_each_name_is_the_one_that_aiohttp_documents(name: str) -> None:
    assert getattr(web, name) is getattr(documented, name)
