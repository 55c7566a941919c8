"""`regard`: the command, and how its errors and exit codes reach a person.

0 done · 1 an error of no other kind · 2 a wrong option or setting · 3 data · 4 a model folder · 5 a run folder ·
6 the training diverged · 130 interrupted. Each command is a file of this folder and is imported when it is
called; torch and the rest of the package are imported inside the commands.
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

# In the order a newcomer meets them.
COMMANDS = (
    *("translate", "explore", "explain", "attention"),
    *("generate", "fill", "classify"),
    *("train", "evaluate", "score", "tokenize", "average", "shortlist", "plot", "params", "config", "doctor"),
    *("models", "import", "export", "completion"),
)


class Commands(click.Group):
    """The commands, each found in the file of its name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        file = f"{name}_" if keyword.iskeyword(name) else name  # Python has its own word `import`
        command = importlib.import_module(f"regard.cli.{file}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="regard")
def regard() -> None:
    """Attention Is All You Need, whole: train a translator on your own text, use it, see inside.

    \b
    Examples:
      regard translate "我爱你"                          with the models that are installed
      regard train recipes/reverse.toml                  learn a toy task in a minute
      regard translate "red green blue" --model runs/reverse/model
      regard COMMAND --help                              what a command does, with examples
    """


class OnStandardError(logging.Handler):
    """Shows what the package logs as a command says things: a plain line, above a display that is being drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(record.getMessage(), err=True)


ON_STANDARD_ERROR = OnStandardError()


def show_log() -> None:
    """A command tells what the package only logs, such as that it compiles; the package by itself is silent."""
    log = logging.getLogger("regard")
    log.setLevel(logging.INFO)
    log.addHandler(ON_STANDARD_ERROR)  # which changes nothing a second time


def main() -> None:
    """Run the command; say errors in a sentence, on standard error, with an exit code that means something."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # what a program or a notebook put in its place has its own ways
        # UTF-8, as the input is, whatever the locale; half a character, as a name of a file may have, becomes "?".
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    show_log()
    try:
        # What comes back is the code of a command that left by Exit, else None. A reader who has seen enough
        # (head, less) closes the pipe: click ends that quietly by itself.
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
