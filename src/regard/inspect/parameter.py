"""A trained matrix or vector on its way to a page, exact: whole, or some of its rows or columns."""

from __future__ import annotations

from torch import nn

from regard.errors import ConfigError
from regard.inspect.wire import pack

MOST_NUMBERS = 1 << 22
MOST_ROWS = 2048  # that may be named


def pack_parameter(model: nn.Module, name: str, rows: str | None = None, columns: str | None = None) -> bytes:
    """Rows are named as "3,17,4", and come in this order; columns as "64-128", the last not among them."""
    try:
        value = model.get_parameter(name).detach()
    except AttributeError:
        raise ConfigError(f"this model has no parameter {name!r}; the model's ledger has them all") from None
    if rows is not None:
        value = value[row_numbers(rows, len(value), name)]
    if columns is not None:
        value = value[..., column_range(columns, value.shape[-1], name)]
    if value.numel() > MOST_NUMBERS:
        raise ConfigError(f"{name} has {value.numel():,} numbers, too many to send; name some rows of it")
    return pack({"parameter": name, "rows": rows, "columns": columns}, {name: value.float().cpu().numpy()})


def row_numbers(rows: str, count: int, name: str) -> list[int]:
    chosen = rows.split(",")
    wrong = next((row for row in chosen if not row.isdecimal() or int(row) >= count), None)
    if wrong is not None:
        raise ConfigError(f"{name} has no row {wrong[:20]!r}: it has {count}, numbered from 0; name them as 3,17,4")
    if len(chosen) > MOST_ROWS:
        raise ConfigError(f"{len(chosen)} rows are too many")
    return [int(row) for row in chosen]


def column_range(columns: str, count: int, name: str) -> slice:
    first, _, end = columns.partition("-")
    if not (first.isdecimal() and end.isdecimal() and int(first) < int(end) <= count):
        raise ConfigError(
            f"{name} has no columns {columns[:20]!r}: it has {count}, numbered from 0; all of them are 0-{count}"
        )
    return slice(int(first), int(end))
