"""`regard explain`: a self-contained HTML page or a figure of the attention in one translation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.inputs import load_translator, model_option, weights_option
from regard.cli.outputs import check_output, write_output
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.inspect.maps import AttentionMap, MapKind
    from regard.model_folder.weights import StoredAs
    from regard.pipelines.translator import Translator

kind_option = click.option(
    "--kind",
    type=click.Choice(["cross", "encoder", "decoder"]),
    default="cross",
    help="Cross-attention, encoder self-attention or decoder self-attention.",
)
layer_option = click.option("--layer", type=int, show_default="mean of all layers", help="Layer to draw, from 1.")
head_option = click.option("--head", type=int, show_default="mean of all heads", help="Head to draw, from 1.")
translation_option = click.option(
    "--translation",
    metavar="TEXT",
    show_default="the model's translation",
    help="Translation to trace (forced decoding).",
)


@click.command("explain", short_help="Write a page or a figure of a translation's attention.")
@click.argument("text")
@model_option
@click.option("--output", "-o", type=click.Path(path_type=Path), help="HTML page to write; one file, usable offline.")
@click.option(
    "--live", is_flag=True, help="Put the model into the page, so that it also computes other sentences; larger."
)
@weights_option
@click.option("--png", type=click.Path(path_type=Path), help="Attention map to write as PNG, 300 dpi.")
@click.option("--svg", type=click.Path(path_type=Path), help="Attention map to write as SVG, with selectable text.")
@kind_option
@layer_option
@head_option
@translation_option
def command(
    text: str,
    model_path: Path | None,
    output: Path | None,
    live: bool,
    weights: StoredAs | None,
    png: Path | None,
    svg: Path | None,
    kind: MapKind,
    layer: int | None,
    head: int | None,
    translation: str | None,
) -> None:
    """Translate TEXT and write the explorer page for it as one HTML file, or an attention map as a figure.

    --kind, --layer and --head select the attention map of the figures.

    \b
    Examples:
      regard explain "我爱你" -o explain.html --png attention.png
      regard explain "Two dogs run." -o explain.html --model MODEL
      regard explain "我爱你" --live -o page.html
      regard explain "Two dogs run." --svg cross.svg --layer 2 --head 1 --model MODEL
    """
    if output is png is svg is None:
        raise ConfigError("nothing to write: give -o PAGE.html, --png FIGURE.png or --svg FIGURE.svg")
    if live and output is None:
        raise ConfigError("--live puts the model into a page: give -o PAGE.html")
    if weights is not None and not live:
        raise ConfigError("--weights is the type of the model in a page: give --live too")
    for path, suffix in ((output, (".html", ".htm")), (png, (".png",)), (svg, (".svg",))):
        if path is not None and path.suffix.lower() not in suffix:
            raise ConfigError(f"{path}: the file name must end in {suffix[0]}")
        check_output(path)
    if output is not None:
        check_page()
    translator = load_translator(model_path)
    figures = [path for path in (png, svg) if path is not None]
    shown = find_map(translator, text, translation, kind, layer, head) if figures else None
    if output is not None:
        page, note = page_of(translator, text, translation, live, weights)
        write_output(page, output)
        click.echo(f"wrote {output} ({len(page.encode()) / 1e6:.1f} MB{note})")
    if shown is not None:
        write_figures(shown, figures)


def page_of(
    translator: Translator, text: str, translation: str | None, live: bool, weights: StoredAs | None
) -> tuple[str, str]:
    """The page, and what is to be said about its model."""
    from regard.inspect.explorer import Explorer, Question
    from regard.inspect.live_page import live_page
    from regard.inspect.page import explain_page

    way = translator.translator_for(text)
    tgt_ids = None if translation is None else way.tokenizer.encode_tgt([translation])[0]
    given = translator.preprocess(way, text)
    if not live:
        return explain_page(Explorer(way), Question(given, {}), tgt_ids), ""
    page, model = live_page(Explorer(way), given, tgt_ids, weights)
    return page, f" with {model.name} in {model.stored_as}: {model.size / 1e6:.1f} MB"


def write_figures(shown: AttentionMap, paths: list[Path]) -> None:
    from regard.inspect.figure import draw_map

    for path in paths:
        kind = path.suffix.lower().removeprefix(".")
        drawing = draw_map(shown, kind)
        write_output(drawing.content, path)
        click.echo(f"wrote {path}: {shown.title}")
        if drawing.missing and kind == "png":
            click.echo(
                "some characters are missing from the figure: install a font that has them, such as Noto Sans CJK",
                err=True,
            )


def find_map(
    translator: Translator, text: str, translation: str | None, kind: MapKind, layer: int | None, head: int | None
) -> AttentionMap:
    from regard.inspect.maps import attention_map

    translator.translator_for(text).check_attention()
    return attention_map(translator.trace(text, translation, ("*.weights",)), kind, layer, head)


def check_page() -> None:
    """Raise before any work is done if the page has not been built."""
    from regard.errors import RegardError
    from regard.inspect.built import HOW_TO_BUILD, PAGE

    if not (PAGE / "explain.html").is_file():
        raise RegardError(HOW_TO_BUILD)
