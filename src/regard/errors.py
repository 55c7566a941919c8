"""The errors a person is meant to read: each says what is wrong, where, and what to do."""


class RegardError(Exception):
    """Something the user can put right. The command prints the message alone, and exits with `code`."""

    code = 1


class ConfigError(RegardError):
    """A recipe, a `--set` or an option that cannot be taken as it stands."""

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
    """The loss is no longer a number."""

    code = 6
