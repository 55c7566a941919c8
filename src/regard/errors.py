"""The errors for users: each message says what is wrong, where, and what to do."""


class RegardError(Exception):
    """An error that the user can fix. The command prints its message without a traceback and exits with `code`."""

    code = 1


class ConfigError(RegardError):
    """An invalid recipe, `--set` or option."""

    code = 2


class DataError(RegardError):
    """A corpus that is missing, malformed or empty."""

    code = 3


class ModelFolderError(RegardError):
    """A model folder that is incomplete, altered or of a newer format."""

    code = 4


class RunError(RegardError):
    """A run folder that cannot be started, resumed or written."""

    code = 5


class TrainingDiverged(RegardError):  # noqa: N818
    """The loss is NaN or infinite."""

    code = 6
