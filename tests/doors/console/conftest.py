"""One browser for all tests of the console, and one broker for each test."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.support.api import Api, running_api
from tests.support.browser import running_browser

if TYPE_CHECKING:
    from playwright.async_api import Browser


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def browser() -> "AsyncIterator[Browser]":
    async with running_browser() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="package")
async def api() -> AsyncIterator[Api]:
    async with running_api() as api:
        yield api
