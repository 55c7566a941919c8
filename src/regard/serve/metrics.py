"""The rows of a run's metrics.jsonl as the page gets them. The file may be cut off, damaged, or not ours at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

from regard.serve.responses import MetricsKey

MAX_BYTES = 16 << 20  # of the end of the file; what is before is left out
MAX_LINE = 1 << 20  # bytes
MAX_DEPTH = 4  # of the nesting of a row
LARGEST_STEP = 1 << 53  # JavaScript's numbers are exact up to here
NUMBERS = frozenset({"loss", "nll", "lr", "grad_norm", "tokens_per_second", "bleu", "chrf"})
SAMPLE = frozenset({"source", "reference", "output"})
KINDS = get_args(get_type_hints(MetricsKey)["kind"])


Row = dict[str, Any]  # a MetricsRow


def read_rows(metrics: Path) -> list[Row]:
    """All rows that are as described; other lines, such as one cut off by a kill, are skipped."""
    rows = (parse_row(line) for line in last_lines(metrics, MAX_BYTES))
    return [row for row in rows if row is not None]


def last_step(metrics: Path, tail: int = 1 << 17) -> int:
    """The step of the last whole row, read from the end: the page requests this every few seconds."""
    for line in reversed(list(last_lines(metrics, tail))):
        if (row := parse_row(line)) is not None:
            return int(row["step"])
    return 0


def last_lines(path: Path, size: int) -> Iterator[bytes]:
    """The lines in the last bytes of a file; the first may be cut off. None if it cannot be read."""
    if not path.is_file():  # a pipe would block
        return
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            content = file.read(size)
    except OSError:
        return
    yield from content.split(b"\n")


def parse_row(line: bytes) -> Row | None:
    if len(line) > MAX_LINE:
        return None
    try:
        row = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return row if is_row(row) else None


def is_row(row: Any) -> bool:
    if not isinstance(row, dict) or not is_shallow(row, MAX_DEPTH):
        return False
    step, kind = row.get("step"), row.get("kind")
    if kind not in KINDS or not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < LARGEST_STEP:
        return False
    samples = row.get("samples") or []
    numbers = (row[name] for name in NUMBERS & row.keys())
    return all(map(is_number, numbers)) and isinstance(samples, list) and all(map(is_sample, samples))


def is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def is_sample(sample: Any) -> bool:
    return isinstance(sample, dict) and sample.keys() >= SAMPLE and all(isinstance(sample[key], str) for key in SAMPLE)


def is_shallow(value: Any, depth: int) -> bool:
    """Whether the nesting is not deeper than this."""
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(is_shallow(one, depth - 1) for one in inner)
