"""docs/python-api.md lists every operation as defined in the code."""

from mocketmq.client.blocking import BlockingClient
from mocketmq.client.operations import Operations
from tests.support.python_api import OPERATIONS, PAGE, functions, page


def test_the_page_is_that_of_the_code() -> None:
    assert PAGE.read_text() == page(), "python -m tests.support.python_api writes it anew"


def test_every_operation_of_the_async_client_is_one_of_the_blocking_client() -> None:
    operations = {name for file, of in OPERATIONS for name in functions(file, of)}
    assert {name for name in vars(BlockingClient) if name in operations} == operations
    assert operations <= set(dir(Operations))
