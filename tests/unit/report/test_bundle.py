"""The page's script is made once, and comes from the cache later."""

from pathlib import Path

import pytest
import vl_convert

from mocketmq_report.report.bundle import javascript


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The sources of which a script was made."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sources: list[str] = []

    def bundle(source: str) -> str:
        sources.append(source)
        return "the script"

    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    return sources


def again() -> str:
    """The script, as another process gets it."""
    return javascript.__wrapped__()


def test_it_is_made_once_and_one_is_kept(tmp_path: Path, made: list[str]) -> None:
    folder = tmp_path / "cache" / "mocketmq"
    folder.mkdir(parents=True)
    (folder / "report-0123456789abcdef.js").write_text("of another version")
    assert [again(), again()] == ["the script"] * 2
    assert len(made) == 1
    assert "const specs" in made[0]
    (kept,) = folder.iterdir()
    kept.write_bytes(b"\xff")  # damaged
    assert again() == "the script"
    assert len(made) == 2


def test_without_a_place_for_it_the_page_is_made_all_the_same(tmp_path: Path, made: list[str]) -> None:
    (tmp_path / "cache").write_text("in the way")
    assert [again(), again()] == ["the script"] * 2
    assert len(made) == 2
