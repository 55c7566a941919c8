"""Regard: "Attention Is All You Need", whole. Train a Transformer, translate with it, see inside.

`from regard import Translator` loads torch only when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.translator import Translator

__all__ = ["Translator", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Translator":
        from regard.translator import Translator

        return Translator
    raise AttributeError(f"module 'regard' has no attribute {name!r}")
