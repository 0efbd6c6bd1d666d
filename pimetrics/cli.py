"""The command line: `pimetrics COMMAND`. Each command lives in `commands/` and is loaded when it is called."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import click

from pimetrics import __version__
from pimetrics.errors import PimetricsError, WrongUseError
from pimetrics.names import printable

_COMMANDS = {
    "report": "What pi did and cost, as tables or JSON.",
    "doctor": "What is found, what is read, what is wrong.",
    "serve": "Follow what pi writes and serve it to Prometheus.",
    "record": "Run pi, or read its pipe, and keep a stamped recording.",
    "backfill": "Print history as OpenMetrics, for promtool.",
    "ship": "Deliver recordings and session files to a receiver.",
    "demo": "Play bundled recordings into a live exporter.",
    "export": "All tables as Parquet files.",
}
"""Name to one line of help, so that `--help` loads none of them."""


@contextlib.contextmanager
def _wrong_use_in_one_sentence() -> Iterator[None]:
    """Turn click's four lines about wrong use into one sentence, like every other error of pimetrics."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # no error: it shows the help
    except click.UsageError as error:
        what = printable(error.format_message().rstrip(".").replace("\n", " "))
        what = re.sub(r"\.? Did you mean (.*)\?$", r" (did you mean \1?)", what)
        where = error.ctx.command_path if error.ctx else "pimetrics"
        raise WrongUseError(f"{what[:1].lower()}{what[1:]}; {where} --help shows what there is") from None


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

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the options that stand before the command."""
        with _wrong_use_in_one_sentence():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Read the command's own options and run it."""
        with _wrong_use_in_one_sentence():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pimetrics")
def cli() -> None:
    """What the pi coding agent does and costs: tables for analysis, metrics for Prometheus."""


def main() -> None:
    """Run the command line; the only place that turns errors into exit statuses (2: wrong use, or nothing to open)."""
    _occupy_closed_descriptors()
    try:
        sys.exit(cli(prog_name="pimetrics", standalone_mode=False))
    except PimetricsError as error:
        _fail(str(error))
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        # Whoever read the output has seen enough (head, less); what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)


def _occupy_closed_descriptors() -> None:
    """Take the numbers of standard descriptors that we were started without, or the next file opened would get them.

    A recording then had what pi printed in it twice, and `-` was a socket of ours. What takes their place fails as
    closed ones do (EBADF), and no child inherits it.
    """
    for number, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(number)
        except OSError:
            # the lowest free number is given out: this one, since those below it are taken
            os.open(os.devnull, mode)


def _fail(sentence: str) -> NoReturn:
    print(f"pimetrics: {sentence}", file=sys.stderr)  # noqa: T201
    sys.exit(2)
