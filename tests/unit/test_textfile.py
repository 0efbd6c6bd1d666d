"""`report --textfile` writes what a scrape would show, whole or not at all."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families as parse

from pimetrics.cli import cli
from pimetrics.errors import SourceError, WrongUseError
from tests.cases.scans import case
from tests.golden.recordings import scraped


def test_it_is_the_scrape_of_the_same_files(tmp_path):
    """Every counter and histogram is that of `serve`; nothing else is left in the folder."""
    files = case("14").files
    target = tmp_path / "pi.prom"
    target.write_text("old")
    result = CliRunner().invoke(cli, ["report", "--textfile", str(target), *map(str, files)])
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    found = {(s.name, tuple(sorted(s.labels.items()))): s.value for f in parse(target.read_text()) for s in f.samples}
    live = scraped(*files)
    same = [
        key for key in live if key[0].startswith("pi_") and key[0].endswith(("_total", "_sum", "_count", "_bucket"))
    ]
    assert {key: found[key] for key in same} == {key: live[key] for key in same}
    assert [path.name for path in tmp_path.iterdir()] == ["pi.prom"]


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path):
    """No folder, no file, and nothing half-written."""
    with pytest.raises(SourceError, match="cannot be written"):
        CliRunner().invoke(
            cli,
            ["report", "--textfile", str(tmp_path / "no" / "pi.prom"), str(case("14").files[0])],
            catch_exceptions=False,
        )
    assert list(tmp_path.iterdir()) == []


def test_it_stands_alone(tmp_path):
    """A view or another format beside it is refused."""
    with pytest.raises(WrongUseError, match="alone"):
        CliRunner().invoke(cli, ["report", "--json", "--textfile", str(tmp_path / "x.prom")], catch_exceptions=False)
