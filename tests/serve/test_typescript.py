from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from regard.serve import typescript
from regard.serve.typescript import interface, type_name, write_types

TYPES = Path(__file__).parents[2] / "web" / "src" / "api" / "types.ts"


def test_the_types_of_the_page_are_those_of_the_server() -> None:
    assert TYPES.read_text("utf-8") == write_types(), "web/src/api/types.ts is stale: run `make api-types`"


@dataclass(frozen=True)
class Shape:
    """A shape."""

    name: str
    sizes: tuple[int | None, ...]  # None: unknown
    kind: Literal["a", "b"] = "a"


def test_an_interface() -> None:
    assert interface(Shape, complete=False) == (
        "/** A shape. */\n"
        "export interface Shape {\n"
        "  name: string;\n"
        "  /** null: unknown */\n"
        "  sizes: (number | null)[];\n"
        '  kind?: "a" | "b";\n'
        "}\n"
    )
    assert '  kind: "a" | "b";' in interface(Shape, complete=True)


def test_names_of_types() -> None:
    assert type_name(dict[str, tuple[bool, ...]]) == "Record<string, boolean[]>"
    assert type_name(Shape | None) == "Shape | null"


def test_two_classes_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typescript, "request_records", lambda: (Shape, type("Shape", (), {})))
    with pytest.raises(TypeError, match="two classes of the API have the same name"):
        write_types()
