"""`regard`: the command group, its error messages and exit codes.

Exit codes: 0 success · 1 other error · 2 invalid option or setting · 3 invalid data · 4 invalid model folder ·
5 invalid run folder · 6 training diverged · 7 some lines were not translated · 8 a failed download · 9 a lost rank ·
70 a defect of Regard, described in a log file · 130 interrupted. Each command is a file of this folder and is imported
when it is called; the rest of the package is imported inside the commands.
"""

from __future__ import annotations

import importlib
import keyword
import logging
import sys
from contextlib import suppress
from typing import Any

import click

from regard import __version__
from regard.cli.process import Interruption, check_arguments, close_output, describe_defect, open_standard_streams, say
from regard.errors import RegardError
from regard.extras import from_import_error

# In the order of the help.
COMMANDS = (
    *("translate", "explore", "explain", "site", "attention", "pattern"),
    *("generate", "fill", "classify"),
    *("train", "evaluate", "score", "tokenize", "average", "shortlist", "plot", "params", "config", "doctor"),
    *("models", "data", "import", "export", "completion"),
)


# torch raises a RuntimeError for it.
TORCH_OUT_OF_MEMORY = ("Storage size calculation overflowed", "can't allocate memory", "not enough memory")


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
        say(record.getMessage())


STANDARD_ERROR = StandardErrorHandler()


def show_log() -> None:
    """Print what the package logs, such as that kernels are compiled; as a library, the package is silent."""
    log = logging.getLogger("regard")
    log.setLevel(logging.INFO)
    log.addHandler(STANDARD_ERROR)  # a handler is added only once


def main() -> None:
    """Run the command; print errors on standard error and exit with their code. No traceback reaches the terminal."""
    interruption = Interruption()
    code: Any
    try:
        interruption.listen()
        open_standard_streams()
        show_log()
        check_arguments(sys.argv[1:])
        # The result is the exit code of a command that raised Exit, else None. click handles a closed pipe (head).
        code = regard(prog_name="regard", standalone_mode=False)
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        was_seen, interruption.seen = interruption.seen, True  # Ctrl-C now ends the process
        # Where an import or a library is interrupted, anything may be raised.
        code = report(KeyboardInterrupt() if was_seen else error)
    code = close_output(code)
    interruption.close()
    sys.exit(code)


def report(error: BaseException) -> int:
    """Print what went wrong, and return the exit code."""
    if isinstance(error, click.Abort) and isinstance(error.__cause__, EOFError):
        error = error.__cause__  # click takes each for Ctrl-D at a question, and there are none
    match error:
        case KeyboardInterrupt() | click.Abort():
            say("interrupted")
            return 130
        case click.ClickException():
            with suppress(OSError):
                error.show()
            return error.exit_code
        case ImportError() if missing := from_import_error(error, "this command"):
            say(f"regard: {missing}")
            return missing.code
        case RegardError():
            say(f"regard: {error}")
            return error.code
        case _ if isinstance(error, MemoryError) or any(sign in str(error) for sign in TORCH_OUT_OF_MEMORY):
            say("regard: out of memory; give less text at once, or a smaller model or batch")
            return 1
        case OSError():  # a full disk, a file without permission
            say(f"regard: {error}")
            return 1
        case _:
            say(f"regard: {describe_defect(error)}")
            return 70
