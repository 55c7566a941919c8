"""Regard: "Attention Is All You Need", whole. Train a Transformer, translate with it, see inside.

`from regard import Translator` (or Writer, Reader, Viewer) loads torch only when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.reader import Reader
    from regard.translator import Translator
    from regard.viewer import Viewer
    from regard.writer import Writer

__all__ = ["Reader", "Translator", "Viewer", "Writer", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Translator":
        from regard.translator import Translator

        return Translator
    if name == "Writer":
        from regard.writer import Writer

        return Writer
    if name == "Viewer":
        from regard.viewer import Viewer

        return Viewer
    if name == "Reader":
        from regard.reader import Reader

        return Reader
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
