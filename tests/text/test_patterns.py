"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import regard.guards
import regard.text
import regard.tokenizers
from regard.text.patterns import LazyPattern, lazy_pattern


def test_it_is_what_re_compiles() -> None:
    lazy, compiled = lazy_pattern(r"(?P<a>\d+)(b)?", re.IGNORECASE), re.compile(r"(?P<a>\d+)(b)?", re.IGNORECASE)
    for text in ("", "1", "12B 3"):
        assert lazy.findall(text) == compiled.findall(text)
        assert lazy.sub("x", text) == compiled.sub("x", text)
        assert [one.span() for one in lazy.finditer(text)] == [one.span() for one in compiled.finditer(text)]
    assert (lazy.groups, dict(lazy.groupindex), lazy.pattern) == (2, {"a": 1}, compiled.pattern)
    assert lazy.fullmatch("12b") is not None


def test_it_is_compiled_once() -> None:
    lazy = lazy_pattern("a")
    assert "search" not in vars(lazy)
    lazy.match("a")
    assert vars(lazy)["search"] is lazy.search


def test_what_a_pattern_does_not_have() -> None:
    with pytest.raises(AttributeError, match="length"):
        lazy_pattern("a").length  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("package", [regard.guards, regard.text, regard.tokenizers])
def test_every_pattern_of_the_package_compiles(package: object) -> None:
    count = 0
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):  # type: ignore[attr-defined]
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, LazyPattern):
                assert value.groups >= 0
                count += 1
    assert count
