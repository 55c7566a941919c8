"""Regard: "Attention Is All You Need" as a package. Train a Transformer, translate with it, look inside.

The public API. Each class takes a model folder, as `regard train` and `regard import` write it:

- `Translator`: translation with the installed models, or with one folder
- `TextGenerator`: text generation with a language model
- `TextEncoder`: masked-token prediction, classification, tagging and embeddings with a BERT
- `ImageClassifier`: image classification with a Vision Transformer

Importing `regard` is cheap: each class is imported on first access. `ImageClassifier` needs torch; so do models
that the engine does not support.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.pipelines.image_classifier import ImageClassifier
    from regard.pipelines.text_encoder import TextEncoder
    from regard.pipelines.text_generator import TextGenerator
    from regard.pipelines.translator import Translator

__all__ = ["ImageClassifier", "TextEncoder", "TextGenerator", "Translator", "__version__"]
__version__ = "0.1.0"

_MODULES = {
    "ImageClassifier": "image_classifier",
    "TextEncoder": "text_encoder",
    "TextGenerator": "text_generator",
    "Translator": "translator",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    try:
        return getattr(import_module(f"regard.pipelines.{_MODULES[name]}"), name)
    except ImportError as error:
        from regard.extras import from_import_error

        raise from_import_error(error, name) or error from None
