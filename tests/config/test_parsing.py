"""The strict reader with what requests and interventions need beyond recipes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from regard.config.parsing import build, convert, setting
from regard.errors import ConfigError


@dataclass(frozen=True)
class Circle:
    radius: float = setting(low=0.0)
    kind: Literal["circle"] = setting("circle", stated=True)


@dataclass(frozen=True)
class Square:
    side: float
    name: str | None = None
    kind: Literal["square"] = setting("square", stated=True)


@dataclass(frozen=True)
class Drawing:
    title: str = setting(max_length=8)
    shapes: tuple[Circle | Square, ...] = setting((), max_length=2)
    options: dict[str, Any] = field(default_factory=dict)
    scale: float | None = setting(None, low=1.0)


def test_a_tree_of_all_kinds() -> None:
    tree = {
        "title": "two",
        "shapes": [{"kind": "square", "side": 2, "name": None}, {"radius": 1.5, "kind": "circle"}],
        "options": {"a": [1]},
        "scale": 3,
    }
    assert build(Drawing, tree, "") == Drawing("two", (Square(2.0), Circle(1.5)), {"a": [1]}, 3.0)
    assert build(Drawing, {"title": ""}, "") == Drawing("")


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, "title is missing; the keys are 'title', 'shapes', 'options', 'scale'"),
        ({"title": None}, "title = None is not possible; it must be a text"),
        ({"title": "123456789"}, "title has 9 characters; the most is 8"),
        ({"title": "", "shapes": [0] * 3}, "shapes has 3 items; the most is 2"),
        ({"title": "", "shapes": [{"radius": 1}]}, "shapes[0].kind is missing; it may be one of 'circle', 'square'"),
        ({"title": "", "shapes": [{"kind": "circle"}]}, "shapes[0].radius is missing"),
        ({"title": "", "shapes": [{"kind": "circle", "radius": -1}]}, "shapes[0].radius = -1.0 is too small"),
        (
            {"title": "", "shapes": [{"kind": "circle", "side": 1}]},
            "shapes[0].side is a setting of the kind 'square', but shapes[0].kind is 'circle'",
        ),
        ({"title": "", "shapes": [{"kind": "square", "side": 1, "name": 2}]}, "shapes[0].name = 2 is not possible"),
        ({"title": "", "options": []}, "options must be a table of settings (in JSON, an object), not []"),
        ({"title": "", "scale": 0.5}, "scale = 0.5 is too small; the least is 1.0"),
        ({"title": "", "scale": 10**400}, "… is too large"),
    ],
)
def test_errors_name_the_path_of_the_key(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Drawing, tree, "")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


def test_list_indices_are_part_of_the_path() -> None:
    with pytest.raises(ConfigError, match=r"drawings\[1\]\.title is missing"):
        convert(tuple[Drawing, ...], [{"title": "a"}, {}], "drawings")


def test_a_class_without_fields_accepts_no_keys() -> None:
    @dataclass(frozen=True)
    class Empty:
        pass

    assert build(Empty, {}, "") == Empty()
    with pytest.raises(ConfigError, match="unknown key a; no keys are accepted here"):
        build(Empty, {"a": 1}, "")
