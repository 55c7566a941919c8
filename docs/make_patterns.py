"""Draw docs/pictures/attention-patterns.svg: what each kind of attention sees of 64 tokens.

python docs/make_patterns.py
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from regard.config import attention as kinds
from regard.inspect.attention_pattern import Place, attention_pattern
from regard.inspect.pattern_figure import draw_patterns

PICTURE = Path(__file__).parent / "pictures" / "attention-patterns.svg"
LENGTH = 64
SHOWN: tuple[tuple[str, kinds.AttentionConfig, kinds.AttentionRole], ...] = (
    ("full, causal", kinds.FullAttention(), "decoder"),
    ("window, two-sided, 2 global tokens", kinds.WindowAttentionConfig((6,), n_global_tokens=2), "encoder"),
    ("window, dilated by 3", kinds.WindowAttentionConfig((6,), (3,)), "decoder"),
    ("sparse, local and strided, merged", kinds.SparseAttentionConfig(combine="merged", stride=8), "decoder"),
    ("sparse, fixed, 2 columns", kinds.SparseAttentionConfig(("fixed",), stride=8, summary_columns=2), "decoder"),
    ("block, shifted by 1", kinds.BlockAttentionConfig(LENGTH, 4, (1,)), "encoder"),
    ("adaptive_span", kinds.AdaptiveSpanConfig(LENGTH, initial_span=14, ramp=6), "decoder"),
    ("blockwise, and ring in one process", kinds.BlockwiseAttentionConfig(16), "decoder"),
    ("lsh, 8 buckets, chunks of 8, 2 rounds", kinds.LshAttentionConfig(8, 8, 2), "decoder"),
)


def draw() -> str:
    patterns = []
    for title, config, role in SHOWN:
        place = Place(config, role, "layers.{}.attention", n_layers=1, n_heads=1, head_size=16)
        patterns.append(replace(attention_pattern(place, LENGTH), title=title))
    return draw_patterns(patterns, columns=3)


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
