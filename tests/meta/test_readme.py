"""The README says what the code does."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from pimetrics.cli import _COMMANDS, cli
from tests.meta.readme_tables import README, rendered

TEXT = README.read_text(encoding="utf-8")


def test_tables_and_metrics_are_those_of_the_code():
    """COLUMNS and METRICS stand in the README as the code has them."""
    assert rendered(TEXT) == TEXT, "run: python -m tests.meta.readme_tables"


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_is_in_the_readme_and_has_help(name):
    """Every subcommand has its row in the README and says what it does."""
    assert re.search(rf"^\| `{name}[ `]", TEXT, re.MULTILINE)
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 5


def test_every_dependency_is_in_the_readme():
    """Each dependency of the project has its row with a reason."""
    project = (README.parent / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[(.*?)\]", project, re.DOTALL | re.MULTILINE).group(1)
    names = re.findall(r'"([a-z-]+)', block)
    table = TEXT.partition("## Dependencies")[2]
    assert [name for name in names if name not in table] == []
