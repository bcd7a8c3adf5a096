"""Animated WebPs, as the film of the console is one."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.animated_webp import Frame, animated, chunks

IMAGES = Path(__file__).parents[2] / "docs" / "images"
ROOT = IMAGES.parents[1]
FILMS = [IMAGES / "console.webp", IMAGES / "zh-CN" / "console.webp"]
PAGES = {
    "README.md": ROOT,
    "README.zh-CN.md": ROOT,
    "kits/site/index.md": ROOT / "docs",
    "kits/site/index.zh-CN.md": ROOT / "docs" / "zh-CN",
}
"""Pages that show the film, and the folders from which they name it."""


class Film(NamedTuple):
    """What a player reads of an animated WebP."""

    flags: int
    size: tuple[int, int]
    frames: list[tuple[tuple[int, int], int, bytes]]
    """Size, duration in milliseconds and picture of each frame."""


def number(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + 3], "little")


def read(webp: bytes) -> Film:
    (first, head), (second, loops), *frames = chunks(webp)
    assert (first, second, {name for name, _ in frames}) == (b"VP8X", b"ANIM", {b"ANMF"})
    assert loops == bytes(6)
    assert all(content[:6] + content[15:16] == bytes(7) for _, content in frames)
    return Film(
        head[0],
        (number(head, 4) + 1, number(head, 7) + 1),
        [((number(one, 6) + 1, number(one, 9) + 1), number(one, 12), one[16:]) for _, one in frames],
    )


def still(*content: bytes) -> bytes:
    joined = b"".join(content)
    return b"RIFF" + (len(joined) + 4).to_bytes(4, "little") + b"WEBP" + joined


def test_frames_are_joined() -> None:
    header = b"VP8X\x0a\0\0\0" + bytes(10)
    profile = b"ICCP\3\0\0\0abc\0"
    odd = b"VP8L\5\0\0\0drawn\0"
    opaque, transparent = b"VP8 \4\0\0\0lost", b"ALPH\1\0\0\0a\0VP8 \2\0\0\0on"
    film = animated(
        [
            Frame(still(header, profile, opaque), 1_500),
            Frame(still(odd), 100),
            Frame(still(header, transparent), 70_000),
        ],
        960,
        1,
    )
    assert int.from_bytes(film[4:8], "little") == len(film) - 8
    assert read(film) == Film(
        0x12,
        (960, 1),
        [((960, 1), 1_500, opaque), ((960, 1), 100, odd), ((960, 1), 70_000, transparent)],
    )


@pytest.mark.parametrize(
    ("picture", "wrong"),
    [
        (b"\x89PNG\r\n\x1a\n", "not a WebP: it begins with b'.x89PNG"),
        (b"", "not a WebP"),
        (still(b"VP8L\x09\0\0\0drawn\0"), "a chunk b'VP8L' of 9 bytes was cut to 6"),
    ],
)
def test_other_pictures_are_refused(picture: bytes, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        animated([Frame(picture, 100)], 1, 1)


@pytest.mark.parametrize("path", FILMS, ids=["en", "zh-CN"])
def test_the_film_of_the_console_is_short_and_light(path: Path) -> None:
    film = read(path.read_bytes())
    assert film.size == (960, 792)
    assert {size for size, _, _ in film.frames} == {film.size}
    assert 12 <= len(film.frames) <= 30
    assert 8_000 <= sum(duration for _, duration, _ in film.frames) <= 13_000
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("page", PAGES)
def test_pages_show_the_film_or_for_those_who_want_no_motion_a_picture(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    [(still_one, moving, words)] = re.findall(
        r'<picture>\n<source media="\(prefers-reduced-motion: reduce\)" srcset="(.+)">\n'
        r'<img src="(.+)" alt="(.+)">\n</picture>\n',
        text,
    )
    film = FILMS["zh-CN" in page]
    assert (PAGES[page] / moving).resolve() == film
    assert (PAGES[page] / still_one).resolve() == film.with_name("console-levels.png")
    assert words
