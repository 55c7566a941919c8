"""An attention pattern as SVG: what is seen, and in it blocks, global tokens, spans and buckets.

It needs no other library. Rows are queries, columns are keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from regard.inspect.attention_pattern import AttentionPattern

SIDE, GAP, TITLE = 320, 28, 34  # points: of a map, between maps, above a map
VIOLET, LINE, GLOBAL, SPAN = "#8b5cf6", "#94a3b8", "#f59e0b", "#ef4444"
SHADES = 10
MOST_LINES = 64
FONT = 'font-family="system-ui, sans-serif" font-size="11"'


def draw_patterns(patterns: Sequence[AttentionPattern], columns: int = 1) -> str:
    """One map, or several in a grid, on white."""
    rows = -(-len(patterns) // columns)
    width, height = columns * (SIDE + GAP) + GAP, rows * (SIDE + TITLE + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    ]
    parts.append(f'<rect width="{width}" height="{height}" fill="#ffffff"/>')
    for number, pattern in enumerate(patterns):
        x, y = GAP + number % columns * (SIDE + GAP), TITLE + number // columns * (SIDE + TITLE + GAP)
        parts += [f'<g transform="translate({x} {y})">', *one_map(pattern), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def one_map(pattern: AttentionPattern) -> Iterator[str]:
    yield f'<text y="-20" {FONT} font-weight="600" fill="#1e293b">{escape(pattern.title)}</text>'
    yield f'<text y="-6" {FONT} fill="#475569">{escape(caption(pattern))}</text>'
    yield f'<rect width="{SIDE}" height="{SIDE}" fill="#f8fafc"/>'
    yield f'<g fill="{VIOLET}">'
    cell = SIDE / len(pattern.share_CC)
    for row, shares in enumerate(pattern.share_CC):
        column = 0
        for shade, run in groupby(shade_of(share) for share in shares.tolist()):
            n = len(list(run))
            if shade:
                box = f'x="{column * cell:g}" y="{row * cell:g}" width="{n * cell:g}" height="{cell:g}"'
                opacity = f' fill-opacity="{shade / SHADES:.1f}"' if shade < SHADES else ""
                yield f"<rect {box}{opacity}/>"
            column += n
    yield "</g>"
    yield from marks(pattern)
    yield f'<rect width="{SIDE}" height="{SIDE}" fill="none" stroke="{LINE}"/>'


def shade_of(share: float) -> int:
    """What is seen at all can be seen in the figure."""
    return 0 if share == 0 else max(2, round(share * SHADES))


def marks(pattern: AttentionPattern) -> Iterator[str]:
    scale = SIDE / pattern.length
    if len(pattern.blocks) <= MOST_LINES:
        for start in pattern.blocks[1:]:
            at = f"{start * scale:.2f}"
            yield f'<path d="M{at} 0V{SIDE}M0 {at}H{SIDE}" stroke="{LINE}" stroke-width="0.5"/>'
    if pattern.n_global_tokens:
        size = f"{max(pattern.n_global_tokens * scale, 1):.2f}"
        yield f'<path d="M0 {size}H{SIDE}M{size} 0V{SIDE}" stroke="{GLOBAL}" stroke-width="1.5"/>'
    if pattern.span is not None:
        at = f"{pattern.span * scale:.2f}"
        end = f"{SIDE - pattern.span * scale:.2f}"
        yield f'<path d="M0 {at}L{end} {SIDE}" stroke="{SPAN}" stroke-width="1.5" fill="none"/>'
    if pattern.bucket_L:
        n_buckets = max(pattern.bucket_L) + 1
        position = 0
        for bucket, run in groupby(pattern.bucket_L):
            n = len(list(run))
            colour = f"hsl({360 * bucket // n_buckets} 65% 55%)"
            at, size = f"{position * scale:.2f}", f"{n * scale:.2f}"
            yield f'<rect x="-7" y="{at}" width="5" height="{size}" fill="{colour}"/>'
            yield f'<rect y="{SIDE + 2}" x="{at}" width="{size}" height="5" fill="{colour}"/>'
            position += n


def caption(pattern: AttentionPattern) -> str:
    """What the marks mean, and how much is seen."""
    parts = [f"{pattern.seen:.1%} of the pairs are seen"]
    if pattern.n_global_tokens:
        parts.append(f"{pattern.n_global_tokens} global token{'s' if pattern.n_global_tokens > 1 else ''}")
    if pattern.span is not None:
        parts.append(f"span {pattern.span:.0f}, then a ramp")
    if len(pattern.blocks) > 1:
        parts.append(f"{len(pattern.blocks)} blocks")
    if pattern.bucket_L:
        parts.append(f"{len(set(pattern.bucket_L))} buckets in use")
    return ", ".join(parts)
