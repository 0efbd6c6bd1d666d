"""The command line: `pimetrics COMMAND`. Each command lives in `commands/` and is loaded when it is called."""

from __future__ import annotations

import importlib
import sys

import click

from pimetrics import __version__
from pimetrics.errors import PimetricsError

_COMMANDS = {
    "report": "What pi did and cost, as tables or JSON.",
    "doctor": "What is found, what is read, what is wrong.",
    "serve": "Follow what pi writes and serve it to Prometheus.",
    "record": "Run pi, or read its pipe, and keep a stamped recording.",
    "backfill": "Print history as OpenMetrics, for promtool.",
    "demo": "Play bundled recordings into a live exporter.",
    "export": "All tables as Parquet files.",
}
"""Name to one line of help, so that `--help` loads none of them."""


class _Lazy(click.Group):
    """Loads a command when it is called: `record` must not wait for what `report` needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's interface
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        found = importlib.import_module(f"pimetrics.commands.{cmd_name}").command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pimetrics")
def cli() -> None:
    """What the pi coding agent does and costs: tables for analysis, metrics for Prometheus."""


def main() -> None:
    """Run the command line; the only place that turns errors into exit statuses (2: wrong use, or nothing to open)."""
    try:
        cli(prog_name="pimetrics")
    except PimetricsError as error:
        print(f"pimetrics: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
