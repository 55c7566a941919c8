"""BLEU (Papineni et al. 2002), with the tokenizers and the smoothing of sacreBLEU (Post 2018), whose scores it gives.

Tokenizers: "13a", that of mteval-v13a; "zh", which also separates Chinese characters; "char", one token per character.
Smoothing "exp": an order without a match counts as half a match, a quarter, …
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

ORDER = 4
Tokenize = Literal["13a", "zh", "char"]
Statistics = npt.NDArray[np.int64]

SYMBOL = re.compile(r"([ !\"#$%&()*+/:;<=>?@\[\\\]^_`{|}~])")
MARK_AFTER_OTHER = re.compile(r"([^0-9])([.,])")
MARK_BEFORE_OTHER = re.compile(r"([.,])([^0-9])")
DASH_AFTER_DIGIT = re.compile(r"([0-9])(-)")
ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
# What sacreBLEU separates, its general punctuation included.
CHINESE = re.compile(
    "([\u2001-\u2a6d\u2e80-\u2fdf\u2ff0-\u303f\u3100-\u312f\u31a0-\u31ef\u3200-\u4db5\u4e00-\u9fbb"
    "\uf900-\ufa2d\ufa30-\ufa6a\ufa70-\ufad9\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef])"
)


def separate_punctuation(line: str) -> list[str]:
    """Tokens of a text in a Latin script: marks are their own tokens, but not within numbers."""
    line = SYMBOL.sub(r" \1 ", line)
    line = MARK_AFTER_OTHER.sub(r"\1 \2 ", line)
    line = MARK_BEFORE_OTHER.sub(r" \1 \2", line)
    return DASH_AFTER_DIGIT.sub(r"\1 \2 ", line).split()


def tokenize_13a(line: str) -> list[str]:
    line = line.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in ENTITIES:
        line = line.replace(entity, character)
    return separate_punctuation(f" {line} ")


def tokenize_zh(line: str) -> list[str]:
    return separate_punctuation(CHINESE.sub(r" \1 ", line.strip()))


def tokenize_characters(line: str) -> list[str]:
    return " ".join(line).split()


TOKENIZERS: dict[Tokenize, Callable[[str], list[str]]] = {
    "13a": tokenize_13a,
    "zh": tokenize_zh,
    "char": tokenize_characters,
}


def bleu_statistics(output: str, reference: str, tokenize: Tokenize, lowercase: bool) -> list[int]:
    """Of one sentence: the lengths of output and reference, the matches of each order, the output's n-grams of each."""
    if lowercase:
        output, reference = output.lower(), reference.lower()
    found, wanted = (TOKENIZERS[tokenize](text.rstrip()) for text in (output, reference))
    matches = [(ngrams(found, n) & ngrams(wanted, n)).total() for n in range(1, ORDER + 1)]
    totals = [max(len(found) - n + 1, 0) for n in range(1, ORDER + 1)]
    return [len(found), len(wanted), *matches, *totals]


def ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[at:] for at in range(n)), strict=False))


def bleu(statistics: Statistics) -> float:
    """The score, 0 to 100, from the sums of the sentences' statistics."""
    length, wanted, *counts = statistics.tolist()
    matches, totals = counts[:ORDER], counts[ORDER:]
    if not any(matches) or not all(totals):
        return 0.0
    logs, part = 0.0, 1.0
    for match, total in zip(matches, totals, strict=True):
        if match == 0:
            part /= 2
        logs += math.log((match or part) / total)
    brevity = min(0.0, 1 - wanted / length)
    return 100 * math.exp(brevity + logs / ORDER)
