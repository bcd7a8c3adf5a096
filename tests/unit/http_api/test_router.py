"""Routing by path: literals, variables, encoding, and answers if no route matches."""

import pytest

from mocketmq.http_api.router import MethodNotAllowedError, NoSuchPathError, Router


@pytest.fixture
def router() -> Router[str]:
    router: Router[str] = Router()
    for method, path in (
        ("GET", "/topics"),
        ("GET", "/topics/{topic}"),
        ("PUT", "/topics/{topic}"),
        ("POST", "/topics/{topic}/messages"),
        ("POST", "/topics/{topic}/messages/batch"),
        ("GET", "/topics/{topic}/queues/{queue_id}"),
        ("GET", "/topics/all"),
    ):
        router.add_route(method, path, f"{method} {path}")
    return router


@pytest.mark.parametrize(
    ("path", "endpoint", "parameters"),
    [
        ("/topics", "/topics", {}),
        ("/topics/orders", "/topics/{topic}", {"topic": "orders"}),
        ("/topics/all", "/topics/all", {}),
        ("/topics/a/queues/3", "/topics/{topic}/queues/{queue_id}", {"topic": "a", "queue_id": "3"}),
        ("/topics/%25RETRY%25g", "/topics/{topic}", {"topic": "%RETRY%g"}),
        ("/topics/a%2Fb", "/topics/{topic}", {"topic": "a/b"}),
        ("/topics/%2541", "/topics/{topic}", {"topic": "%41"}),
        ("/topics/{topic}", "/topics/{topic}", {"topic": "{topic}"}),
        ("/t%6Fpics", "/topics", {}),
    ],
)
def test_matching_paths(router: Router[str], path: str, endpoint: str, parameters: dict[str, str]) -> None:
    assert router.find_endpoint("GET", path) == (f"GET {endpoint}", parameters)


@pytest.mark.parametrize(
    "path", ["/", "", "/topics/a/queues", "/topics/a/messages/", "/topics/all/x", "/x" * 30_000]
)
def test_unknown_paths(router: Router[str], path: str) -> None:
    with pytest.raises(NoSuchPathError):
        router.find_endpoint("GET", path)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/topic", "no such path; did you mean /topics? /docs lists all"),
        ("/v1/topics", "no such path; did you mean /topics? /docs lists all"),
        ("/topic/orders/messages", "did you mean /topics/{topic}/messages?"),
        ("/", "no such path; /docs lists all"),
        ("/quite/another", "no such path; /docs lists all"),
    ],
)
def test_the_nearest_path_is_named(router: Router[str], path: str, sentence: str) -> None:
    with pytest.raises(NoSuchPathError) as raised:
        router.find_endpoint("GET", path)
    assert sentence in str(raised.value)


def test_empty_segments_are_parameters(router: Router[str]) -> None:
    assert router.find_endpoint("GET", "/topics/").parameters == {"topic": ""}
    assert router.find_endpoint("POST", "/topics//messages").parameters == {"topic": ""}


def test_a_wrong_method_is_refused_with_the_allowed_ones(router: Router[str]) -> None:
    with pytest.raises(
        MethodNotAllowedError, match=r"/topics/\{topic\} does not accept POST; allowed: GET, PUT"
    ) as raised:
        router.find_endpoint("POST", "/topics/orders")
    assert raised.value.headers == {"Allow": "GET, PUT"}


def test_a_path_is_found_again_and_after_another_route() -> None:
    router: Router[str] = Router()
    router.add_route("GET", "/topics/{topic}", "one")
    assert [router.find_endpoint("GET", "/topics/all") for _ in range(2)] == [("one", {"topic": "all"})] * 2
    router.add_route("GET", "/topics/all", "all")
    assert router.find_endpoint("GET", "/topics/all") == ("all", {})
