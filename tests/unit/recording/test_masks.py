"""What masks replace, and what they keep."""

import hmac
import json
from typing import Any

import pytest

from mocketmq.errors import InvalidArgumentError
from mocketmq.message.properties import KEYS, TAGS, UNIQ_KEY
from mocketmq.recording.masks import Masks

BODY: dict[str, Any] = {
    "phone": "138",
    "paid": True,
    "amount": 7.5,
    "note": None,
    "lines": [{"sku": "a", "count": 2}, {"sku": "b", "count": 3}],
}
PROPERTIES = {KEYS: "order-7 order-8", TAGS: "new", UNIQ_KEY: "0A", "region": "eu", "shop": "9"}


def masked(body: object, *masks: str, is_plain: bool = True) -> Any:
    return json.loads(Masks(masks, b"key").body(json.dumps(body).encode(), is_plain=is_plain))


@pytest.mark.parametrize(
    ("mask", "changed"),
    [
        ("body.phone", {"phone": "***"}),
        ("body.phone=star", {"phone": "***"}),
        ("body['phone']", {"phone": "***"}),
        ("body.paid", {"paid": False}),
        ("body.amount", {"amount": 0}),
        ("body.note", {}),
        ("body.nothing", {}),
        ("body.phone.deeper", {}),
        ("body.lines[*].sku", {"lines": [{"sku": "***", "count": 2}, {"sku": "***", "count": 3}]}),
        ("body.lines[-1]", {"lines": [{"sku": "a", "count": 2}, {"sku": "***", "count": 0}]}),
        ("body.phone=hash", {"phone": hmac.digest(b"key", b"138", "sha256").hex()[:16]}),
    ],
)
def test_a_path_masks_values_in_the_body(mask: str, changed: dict[str, Any]) -> None:
    assert masked(BODY, mask) == BODY | changed


def test_hashes_keep_kinds_and_equality() -> None:
    one = masked([{"a": 7, "b": "x", "c": True}, {"a": 7, "b": "y", "c": False}], "body[*]=hash")
    assert one[0]["a"] == one[1]["a"] != 7
    assert 0 <= one[0]["a"] < 10**15
    assert one[0]["b"] != one[1]["b"]
    assert [each["c"] for each in one] == [False, False]
    other = Masks(["body.b=hash"], b"another key")
    assert json.loads(other.body(b'{"b":"x"}', is_plain=True))["b"] != one[0]["b"]
    assert other.key_check != Masks(["body.b=hash"], b"key").key_check


def test_a_body_that_cannot_be_searched_is_masked_whole() -> None:
    masks = Masks(["body.phone"], b"key")
    for body, is_plain in (
        (b"138", True),
        (b"phone: 138", True),
        (b"\xff", True),
        (b'{"phone":"138"}', False),
    ):
        assert masks.body(body, is_plain=is_plain) == b"***"
    assert masks.broken == 4
    assert Masks(["body"], b"key").body(b"{}", is_plain=True) == b"***"
    assert len(Masks(["body=hash"], b"key").body(b"\xff", is_plain=False)) == 16
    assert Masks(["keys"], b"key").body(b"\xff", is_plain=True) == b"\xff"


@pytest.mark.parametrize(
    ("mask", "changed"),
    [
        ("keys", {KEYS: "***"}),
        ("tag", {TAGS: "***"}),
        ("properties", {"region": "***", "shop": "***"}),
        ("properties.region", {"region": "***"}),
        ("properties.nothing", {}),
        ("body.phone", {}),
    ],
)
def test_properties_are_masked_by_name(mask: str, changed: dict[str, str]) -> None:
    assert Masks([mask], b"key").properties(PROPERTIES) == PROPERTIES | changed


def test_keys_are_hashed_one_by_one() -> None:
    keys = Masks(["keys=hash"], b"key").properties(PROPERTIES)[KEYS].split()
    assert len(set(keys)) == 2
    assert all(len(key) == 16 for key in keys)


@pytest.mark.parametrize(
    "mask", ["", "phone", "bodyphone", "body.", "body.a=md5", "properties.", "message_id"]
)
def test_other_places_are_refused(mask: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"^mask is .*; allowed: body, a path in it such as body\.phone"
    ):
        Masks([mask], b"key")


def test_matches_of_each_mask_are_counted() -> None:
    masks = Masks(
        ["body.phone", "body.lines[*].sku=hash", "body.customer.phone", "tag", "properties.x"], b"key"
    )
    masks.body(json.dumps(BODY).encode(), is_plain=True)
    masks.body(b'{"phone": null}', is_plain=True)
    masks.body(b"no JSON", is_plain=True)
    masks.properties(PROPERTIES)
    assert masks.matches == {
        "body.phone": 2,
        "body.lines[*].sku=hash": 1,
        "body.customer.phone": 0,
        "tag": 1,
        "properties.x": 0,
    }
    whole = Masks(["body", "properties"], b"key")
    whole.body(b"no JSON", is_plain=True)
    whole.properties({KEYS: "order-7"})
    assert whole.matches == {"body": 1, "properties": 0}


def test_the_id_of_a_message_cannot_be_masked() -> None:
    with pytest.raises(InvalidArgumentError, match="allowed: other properties, because UNIQ_KEY tells apart"):
        Masks(["properties.UNIQ_KEY=hash"], b"key")
