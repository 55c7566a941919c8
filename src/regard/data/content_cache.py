"""Names of cache entries: every entry is a folder named by a digest of everything that determines its content."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(determinants: dict[str, Any]) -> str:
    """The name of the entry that these values determine."""
    return hashlib.sha256(json.dumps(determinants, sort_keys=True).encode()).hexdigest()[:32]
