"""`regard`: the command group, its error messages and exit codes.

Exit codes: 0 success · 1 other error · 2 invalid option or setting · 3 invalid data · 4 invalid model folder ·
5 invalid run folder · 6 training diverged · 7 failed download · 130 interrupted. Each command is a file of
this folder and is imported when it is called; torch and the rest of the package are imported inside the commands.
"""

from __future__ import annotations

import importlib
import io
import keyword
import logging
import sys

import click

from regard import __version__
from regard.errors import RegardError

# In the order of the help.
COMMANDS = (
    *("translate", "explore", "explain", "attention"),
    *("generate", "fill", "classify"),
    *("train", "evaluate", "score", "tokenize", "average", "shortlist", "plot", "params", "config", "doctor"),
    *("models", "import", "export", "completion"),
)


class Commands(click.Group):
    """Imports each command from the module of its name, when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        file = f"{name}_" if keyword.iskeyword(name) else name  # `import` is a keyword of Python
        command = importlib.import_module(f"regard.cli.{file}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(__version__, prog_name="regard")
def regard() -> None:
    """Train Transformer models on your own text, translate with them, and inspect them.

    \b
    Examples:
      regard translate "我爱你"                    translate with an installed model
      regard train recipes/reverse.toml            train a toy model in about a minute
      regard translate "red green blue" --model runs/reverse/model
      regard COMMAND --help                        show the help and examples of a command
    """


class StandardErrorHandler(logging.Handler):
    """Prints log records of the package as plain lines on standard error, above a live display."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(record.getMessage(), err=True)


STANDARD_ERROR = StandardErrorHandler()


def show_log() -> None:
    """Print what the package logs, such as that kernels are compiled; as a library, the package is silent."""
    log = logging.getLogger("regard")
    log.setLevel(logging.INFO)
    log.addHandler(STANDARD_ERROR)  # a handler is added only once


def main() -> None:
    """Run the command; print errors on standard error and exit with their code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a program or a notebook may have replaced it
        # UTF-8 whatever the locale, as for input; a lone surrogate, which a file name may contain, becomes "?".
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    show_log()
    try:
        # The result is the exit code of a command that raised Exit, else None. click handles a closed pipe (head).
        sys.exit(regard(prog_name="regard", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except RegardError as error:
        click.echo(f"regard: {error}", err=True)
        sys.exit(error.code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except OSError as error:  # a full disk, a file without permission
        click.echo(f"regard: {error}", err=True)
        sys.exit(1)
