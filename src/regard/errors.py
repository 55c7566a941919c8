"""The errors for users: each message says what is wrong, where, and what to do."""


class RegardError(Exception):
    """An error that the user can fix. The command prints its message without a traceback and exits with `code`."""

    code = 1


class ConfigError(RegardError):
    """An invalid recipe, `--set` or option."""

    code = 2


class MissingPackageError(RegardError):
    """An optional package that is not installed."""


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


class LostRank(RegardError):  # noqa: N818
    """A process of a distributed training run has ended, or does not answer."""

    code = 9


class NotTranslated(RegardError):  # noqa: N818
    """The command did its work, but some lines had to be copied without translation."""

    code = 7


class NetworkError(RegardError):
    """A download that failed or was refused."""

    code = 8

    def __init__(self, message: str, *, temporary: bool = False, status: int | None = None) -> None:
        """`temporary`: trying again may help; `status`: that of the HTTP response, if there was one."""
        super().__init__(message)
        self.temporary = temporary or (status is not None and status >= 500)
        self.status = status
