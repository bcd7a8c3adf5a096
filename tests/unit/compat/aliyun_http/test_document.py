"""XML: the parser accepts every spelling of Aliyun's clients but nothing hostile; output is plain."""

import asyncio
import xml.etree.ElementTree as ET
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mocketmq.errors import InvalidArgumentError
from mocketmq.event_loop import EventLoopTurns
from mocketmq_compat.aliyun_http.document import (
    MAX_LEAVES,
    PIECE_BYTES,
    document,
    elements,
    leaves_of,
    representable,
)
from mocketmq_compat.aliyun_http.errors import AliyunError

BODY = "<MessageBody>a</MessageBody>"
FIELDS = ("MessageBody", "MessageTag", "Properties")
NAMESPACE = "http://mq.aliyuncs.com/doc/v1/"


def read(text: str | bytes) -> list[tuple[str, str]]:
    content = text if isinstance(text, bytes) else text.encode()
    return asyncio.run(leaves_of(content, "Message", FIELDS, EventLoopTurns()))


@pytest.mark.parametrize(
    "text",
    [
        f'<?xml version="1.0" encoding="utf-8"?><Message xmlns="{NAMESPACE}">{BODY}</Message>',
        f"<Message>{BODY}</Message>",
        '<Message xmlns="http://x/doc/v1"><MessageBody xmlns="">a</MessageBody></Message>',
        f'<m:Message xmlns:m="{NAMESPACE}"><m:MessageBody>a</m:MessageBody></m:Message>',
        "<m:Message><n:MessageBody>a</n:MessageBody></m:Message>",
        "\ufeff<?xml version='1.0'?><Message><MessageBody>a</MessageBody></Message>",
        "<Message>\n  <MessageBody><![CDATA[a]]></MessageBody>\r\n</Message>\n",
        "<!-- c --><Message><?p i?><MessageBody>&#x61;<!-- c --></MessageBody></Message>",
    ],
    ids=["declared", "bare", "two namespaces", "prefixed", "unknown prefix", "BOM", "CDATA", "comments"],
)
def test_equivalent_documents_give_one_message(text: str) -> None:
    assert read(text) == [("MessageBody", "a")]


def test_leaves_keep_their_order_and_text() -> None:
    body = "<MessageBody> a\tb\n&lt;&amp;&gt;&quot;&apos;&#13;</MessageBody>"
    assert read(f"<Message><Properties/><MessageTag> t </MessageTag>{body}</Message>") == [
        ("Properties", ""),
        ("MessageTag", " t "),
        ("MessageBody", " a\tb\n<&>\"'\r"),
    ]


def test_text_and_cdata_are_one_text() -> None:
    assert read("<Message><MessageBody>a<![CDATA[<b>]]>&gt;你<![CDATA[]]></MessageBody></Message>") == [
        ("MessageBody", "a<b>>你")
    ]


def test_line_ends_are_normalised_as_in_xml() -> None:
    assert read("<Message><MessageBody>a\r\nb\rc</MessageBody></Message>") == [("MessageBody", "a\nb\nc")]


LAUGHS = '<!ENTITY l0 "ha">' + "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9))
URL = "http://127.0.0.1:9/x"
HOSTILE = {
    "billion laughs": f"<!DOCTYPE Message [{LAUGHS}]><Message><MessageBody>&l9;</MessageBody></Message>",
    "external entity": (
        '<!DOCTYPE Message [<!ENTITY f SYSTEM "file:///etc/passwd">]>'
        "<Message><MessageBody>&f;</MessageBody></Message>"
    ),
    "external parameter entity": f'<!DOCTYPE Message [<!ENTITY % p SYSTEM "{URL}"> %p;]><Message/>',
    "external document type": f'<!DOCTYPE Message SYSTEM "{URL}"><Message/>',
    "empty document type": "<!DOCTYPE Message><Message><MessageBody>a</MessageBody></Message>",
    "undeclared entity": "<Message><MessageBody>&nbsp;</MessageBody></Message>",
    "end of CDATA": "<Message><MessageBody><![CDATA[a]]>b]]></MessageBody></Message>",
    "control character": "<Message><MessageBody>\x01</MessageBody></Message>",
    "reference to a control character": "<Message><MessageBody>&#1;</MessageBody></Message>",
    "reference to a surrogate": "<Message><MessageBody>&#xD800;</MessageBody></Message>",
    "cut short": "<Message><MessageBody>a",
    "two roots": "<Message/><Message/>",
    "an attribute twice": "<Message a='1' a='2'/>",
    "nothing": "",
    "JSON": '{"MessageBody": "a"}',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_foreign_xml_is_malformed(text: str) -> None:
    with pytest.raises(AliyunError) as refused:
        read(text)
    assert refused.value.code == "MalformedXML"
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "content", [b"\xff\xfe<\x00M\x00", b"<Message>\xff</Message>", b"<Message>\xed\xa0\x80"]
)
def test_documents_in_other_encodings_are_refused_as_malformed(content: bytes) -> None:
    with pytest.raises(AliyunError, match="UTF-8") as refused:
        read(content)
    assert refused.value.code == "MalformedXML"


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("<Messages/>", "Message"),
        ("<Message><MessageBody><b>a</b></MessageBody></Message>", "text"),
        ("<Message>" + "<MessageBody>" * 100_000, "text"),
        ("<Message><Body>a</Body></Message>", "MessageBody, MessageTag, Properties"),
        ("<Message>a</Message>", "elements only"),
        ("<Message><MessageBody>a</MessageBody>b</Message>", "elements only"),
        (f"<Message>{'<MessageTag/>' * (MAX_LEAVES + 1)}</Message>", "at most 1000"),
        (f"<{'x' * 60_000}/>", "Message"),
    ],
    ids=["root", "nested", "deep", "unknown", "text", "text behind", "many", "long name"],
)
def test_document_of_another_kind_is_refused_by_name(text: str, allowed: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        read(text)
    assert refused.value.allowed == allowed
    assert len(str(refused.value)) < 200


def test_a_large_body_is_read_whole() -> None:
    body = "你<&>" * 500_000
    assert read(document("Message", NAMESPACE, elements([("MessageBody", body)]))) == [("MessageBody", body)]


def test_a_document_is_plain() -> None:
    inside = elements([("Code", "a<b>&\"'"), ("Empty", ""), ("Number", 5)])
    assert document("Error", "urn:x", inside).decode() == (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<Error xmlns="urn:x"><Code>a&lt;b&gt;&amp;"\'</Code><Number>5</Number></Error>'
    )


def test_a_carriage_return_is_escaped_and_preserved() -> None:
    written = document("Message", NAMESPACE, elements([("MessageBody", "a\r\nb\rc]]>")]))
    assert b"a&#13;\nb&#13;c]]&gt;" in written
    assert read(written) == [("MessageBody", "a\r\nb\rc]]>")]


def test_characters_invalid_in_xml_are_replaced() -> None:
    assert representable("\x00\x08\t\n\r \x0b\x1f\ufffe\uffff\udc80🙂") == "��\t\n\r �����🙂"


@given(st.text(min_size=1))
def test_documents_survive_a_round_trip(text: str) -> None:
    written = document("Message", NAMESPACE, elements([("MessageBody", text)]))
    assert read(written) == [("MessageBody", representable(text))]
    [leaf] = ET.fromstring(written)  # noqa: S314 - our own
    assert leaf.text == representable(text)


MARKUP = st.lists(
    st.sampled_from(
        ["<Message>", "</Message>", "<MessageBody>", "</MessageBody>", "<MessageTag/>", "<!DOCTYPE"]
    )
    | st.sampled_from(
        ["<![CDATA[", "]]>", "&lt;", "&#0;", "&#x", ">", "<", "<!--", "-->", "<?", "?>", "xmlns=''"]
    )
    | st.text(max_size=3)
).map("".join)


@given(st.binary() | MARKUP.map(lambda text: text.encode(errors="surrogatepass")))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(AliyunError, InvalidArgumentError):
        assert all(name in FIELDS for name, _ in read(content))


LONG = "x\n é&amp;<![CDATA[<]]>" * 20_000


@pytest.mark.parametrize("shift", range(7))
def test_a_long_document_is_read_piece_by_piece(shift: int) -> None:
    before, body = " " * shift, LONG[:100_000]
    text = f"<Message>{before}<MessageBody>{body[: body.rindex('x')]}</MessageBody></Message>"
    assert len(text) > PIECE_BYTES
    root = ET.fromstring(text)  # noqa: S314 - ours
    assert read(text) == [("MessageBody", root[0].text)]


@pytest.mark.parametrize("size", [PIECE_BYTES * n + more for n in (1, 2) for more in (-1, 0, 1)])
def test_document_may_end_with_a_chunk(size: int) -> None:
    around = len("<Message><MessageBody></MessageBody></Message>")
    body = "x" * (size - around)
    assert read(f"<Message><MessageBody>{body}</MessageBody></Message>") == [("MessageBody", body)]


@pytest.mark.parametrize(
    "tag",
    [
        "<MessageBody " + " ".join(f"a{number}='{number}'" for number in range(20_000)) + ">",
        "<" + "a" * 200_000 + ">",
        "<!--" + "-a" * 100_000 + "-->",
    ],
)
def test_endless_tags_are_refused(tag: str) -> None:
    with pytest.raises(AliyunError, match="a tag or comment longer than 65536 bytes"):
        read(f"<Message>{tag}")
