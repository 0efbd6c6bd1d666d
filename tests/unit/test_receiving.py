"""The tokens of a receiver: a file that people edit."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pimetrics.errors import WrongUseError
from pimetrics.receiving import Tokens

ONE, OTHER = "the-first-token-of-all", "the-other-token-of-all"


@pytest.mark.parametrize(
    "text", [ONE, f"{ONE}\n", f"{ONE}\r\n", f"\r\n  {ONE}\t\r\n\r\n", f"{ONE}\n{OTHER}", f"{OTHER}\r\n{ONE}\r\n"]
)
def test_however_lines_end_the_tokens_are_those_between(tmp_path: Path, text: str) -> None:
    """An editor of Windows, blanks around, a missing last line end."""
    path = tmp_path / "tokens"
    path.write_bytes(text.encode())
    assert ONE in Tokens(path)()
    assert set(Tokens(path)()) <= {ONE, OTHER}


@pytest.mark.parametrize(
    "data", [b"", b"\r\n \n", b"short\n", f"{ONE}\nshort\n".encode(), b"\xef\xbb\xbf" + ONE.encode(), b"\x00" * 40]
)
def test_what_holds_no_tokens_is_refused_at_the_start(tmp_path: Path, data: bytes) -> None:
    """Empty, too easily guessed, no text: one sentence that does not repeat it."""
    path = tmp_path / "tokens"
    path.write_bytes(data)
    with pytest.raises(WrongUseError, match="tokens") as caught:
        Tokens(path)
    assert ONE not in str(caught.value)
    assert "short" not in str(caught.value)


def test_a_change_holds_at_once_and_one_that_cannot_be_used_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A token is replaced while we run; a file that is empty or gone turns nobody away, and the log says so."""
    path = tmp_path / "tokens"
    path.write_text(f"{ONE}\n")
    tokens = Tokens(path)
    path.write_text(f"{OTHER}\n{ONE}\n")
    assert list(tokens()) == [OTHER, ONE]
    with caplog.at_level(logging.ERROR, "pimetrics"):
        path.write_text("")
        assert [list(tokens()), list(tokens())] == [[OTHER, ONE]] * 2
        path.unlink()
        assert [list(tokens()), list(tokens())] == [[OTHER, ONE]] * 2
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert all("stay in force" in record.getMessage() for record in caplog.records)
    path.write_text(f"{ONE}\n")
    assert list(tokens()) == [ONE]
