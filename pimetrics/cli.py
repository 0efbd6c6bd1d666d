"""The command line: `pimetrics COMMAND`. Each command lives in `commands/` and is loaded when it is called."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn

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
        sys.exit(cli(prog_name="pimetrics", standalone_mode=False))
    except PimetricsError as error:
        _fail(str(error))
    except click.UsageError as error:
        where = f"; see {error.ctx.command_path} --help" if error.ctx is not None else ""
        _fail(f"{error.format_message().rstrip('.')}{where}")
    except click.ClickException as error:
        _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has seen enough (head, less); what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _fail(sentence: str) -> NoReturn:
    print(f"pimetrics: {sentence}", file=sys.stderr)  # noqa: T201
    sys.exit(2)
