"""Optional packages, and what `import regard` gives."""

from __future__ import annotations

import sys

import pytest

import regard
from regard import extras
from regard.errors import MissingPackageError


def test_what_is_said_of_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "package_of_nobody", "nobody")
    with pytest.raises(MissingPackageError) as refused:
        extras.require("package_of_nobody", "dancing")
    assert str(refused.value) == (
        'dancing needs package_of_nobody, which is not installed: pip install "regard[nobody]"'
    )
    extras.require("torch", "training")
    assert str(extras.missing("PIL", "reading images")) == (
        'reading images needs Pillow, which is not installed: pip install "regard[images]"'
    )


def test_what_a_failed_import_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "package_of_nobody", "nobody")
    for name in ("torch.nothing", "regard.nothing", None):  # installed, of nobody's extras, unknown
        assert extras.from_import_error(ImportError("no", name=name), "dancing") is None
    found = extras.from_import_error(ImportError("no", name="package_of_nobody.part"), "dancing")
    assert str(found).startswith("dancing needs package_of_nobody, which is not installed")


def test_the_public_names(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in regard.__all__:
        assert getattr(regard, name)
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'Translater'"):
        _ = regard.Translater
    monkeypatch.setitem(sys.modules, "regard.pipelines.translator", None)
    with pytest.raises(ModuleNotFoundError, match=r"regard\.pipelines\.translator"):
        _ = regard.Translator
