"""A parameter of a model, or some of its rows or columns, as a binary body."""

from __future__ import annotations

from torch import nn

from regard.errors import ConfigError
from regard.inspect.answers import ParameterHeader
from regard.inspect.wire import pack

MAX_NUMBERS = 1 << 22
MAX_ROWS = 2048
MAX_DIGITS = 18  # of the number of a row or column


def pack_parameter(model: nn.Module, name: str, rows: str | None = None, columns: str | None = None) -> bytes:
    """`rows` such as "3,17,4" are returned in this order; `columns` such as "64-128" exclude the last."""
    try:
        value = model.get_parameter(name).detach()
    except AttributeError:
        raise ConfigError(
            f"this model has no parameter {name!r}; the names are those in its weights.safetensors"
        ) from None
    if rows is not None:
        value = value[row_numbers(rows, len(value), name)]
    if columns is not None:
        value = value[..., column_range(columns, value.shape[-1], name)]
    if value.numel() > MAX_NUMBERS:
        raise ConfigError(f"{name} has {value.numel():,} numbers, too many to send; request some of its rows")
    return pack(ParameterHeader(name, rows, columns), {name: value.float().cpu().numpy()})


def row_numbers(rows: str, count: int, name: str) -> list[int]:
    chosen = rows.split(",")
    wrong = next((row for row in chosen if not is_number(row) or int(row) >= count), None)
    if wrong is not None:
        raise ConfigError(
            f"{name} has no row {wrong[:20]!r}: it has {count}, numbered from 0; separate rows by commas, as in 3,17,4"
        )
    if len(chosen) > MAX_ROWS:
        raise ConfigError(f"{len(chosen):,} rows are too many; the most is {MAX_ROWS:,}")
    return [int(row) for row in chosen]


def column_range(columns: str, count: int, name: str) -> slice:
    first, _, end = columns.partition("-")
    if not (is_number(first) and is_number(end) and int(first) < int(end) <= count):
        raise ConfigError(
            f"{name} has no columns {columns[:20]!r}: it has {count}, numbered from 0; a range is written as 0-{count}"
        )
    return slice(int(first), int(end))


def is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= MAX_DIGITS
