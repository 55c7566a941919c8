"""Toy translation tasks that can be learnt in a minute: copy a sentence, or reverse its words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal, assert_never

WORDS = (
    *("apple", "baby", "bird", "blue", "boat", "book", "bread", "brother", "cat", "chair", "child", "city"),
    *("cloud", "coffee", "cold", "cow", "dance", "day", "dinner", "dog", "door", "dream", "egg", "family"),
    *("fire", "fish", "flower", "friend", "garden", "girl", "glass", "green", "hand", "happy", "hat", "home"),
    *("horse", "house", "kitchen", "lake", "lamp", "letter", "light", "milk", "moon", "morning", "mother"),
    *("music", "night", "old", "orange", "paper", "park", "piano", "rain", "red", "river", "road", "salt"),
    *("school", "sea", "shoe", "sister", "sky", "small", "snow", "song", "star", "stone", "street", "summer"),
    *("sun", "table", "tea", "tree", "warm", "water", "white", "wind", "window", "winter", "yellow", "young"),
)


def toy_pairs(task: Literal["copy", "reverse"], size: int, seed: int) -> Iterator[tuple[str, str]]:
    """`size` sentences of 2 to 10 words with their translations; the same for the same seed."""
    draw = random.Random(seed)
    for _ in range(size):
        words = draw.choices(WORDS, k=draw.randint(2, 10))
        match task:
            case "copy":
                answer = words
            case "reverse":
                answer = words[::-1]
            case _:
                assert_never(task)
        yield " ".join(words), " ".join(answer)
