"""An attention map as a figure for a paper: PNG, or SVG with selectable text."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.extras import require

if TYPE_CHECKING:
    from regard.inspect.maps import AttentionMap

PIXELS_PER_INCH = 300
# Fonts with Chinese characters; the first that is installed is the fallback of matplotlib's own.
CHINESE_FONTS = ("Noto Sans CJK SC", "Source Han Sans SC", "PingFang SC", "Microsoft YaHei", "WenQuanYi Micro Hei")


@dataclass(frozen=True)
class Drawing:
    content: bytes
    missing: bool  # no installed font has all of the characters


def draw_map(shown: AttentionMap, kind: str) -> Drawing:
    """The figure as a file's contents; `kind` is "png" or "svg"."""
    require("matplotlib", "drawing a figure")
    import matplotlib
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "font.family": font_family(),
        "font.size": 9,
        "svg.fonttype": "none",
        "svg.hashsalt": "regard",  # the same map gives the same file
    }
    n_rows, n_columns = shown.weights_LM.shape
    size = (min(1.6 + 0.3 * n_columns, 30.0), min(1.2 + 0.3 * n_rows, 30.0))
    with matplotlib.rc_context(style), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = Figure(figsize=size, dpi=PIXELS_PER_INCH, layout="constrained")
        draw_on(figure, shown)
        written = io.BytesIO()
        figure.savefig(written, format=kind, facecolor="white", metadata={"Date": None} if kind == "svg" else None)
    missing = any("missing from" in str(warning.message) for warning in caught)
    return Drawing(written.getvalue(), missing)


def draw_on(figure: Any, shown: AttentionMap) -> None:
    axes = figure.subplots()
    image = axes.imshow(shown.weights_LM, cmap="Purples", vmin=0, vmax=1, aspect="equal", interpolation="nearest")
    axes.set_xticks(range(len(shown.columns)), shown.columns, rotation=90, parse_math=False)
    axes.set_yticks(range(len(shown.rows)), shown.rows, parse_math=False)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_color("0.8")
    axes.set_xlabel(shown.title, fontsize=8, color="0.4")
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=15, ticks=[0, 0.5, 1])
    bar.outline.set_edgecolor("0.8")


def font_family() -> list[str]:
    """Matplotlib's own font, and one with Chinese characters if there is one."""
    from matplotlib import font_manager

    chinese = [font for font in CHINESE_FONTS if font in font_manager.get_font_names()]
    return ["DejaVu Sans", *chinese[:1]]
