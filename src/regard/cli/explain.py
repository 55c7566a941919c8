"""`regard explain`: the explorer's page for one sentence as a file, and figures of its attention."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from regard.cli.inputs import check_output, load_translator, model_option, write_output
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.inspect.maps import AttentionMap, MapKind
    from regard.pipelines.translator import Translator

kind_option = click.option(
    "--kind",
    type=click.Choice(["cross", "encoder", "decoder"]),
    default="cross",
    help="Which attention: to the source, within the source, within the translation. [cross]",
)
layer_option = click.option("--layer", type=int, help="Draw this layer, from 0. [the mean of all]")
head_option = click.option("--head", type=int, help="Draw this head, from 0. [the mean of all]")
translation_option = click.option("--translation", help="Look at this translation instead of the model's own.")


@click.command("explain", short_help="Write a page or a figure that shows a translation's insides.")
@click.argument("text")
@model_option
@click.option("--output", "-o", type=click.Path(path_type=Path), help="The page: one .html file that needs no network.")
@click.option("--png", type=click.Path(path_type=Path), help="A figure of an attention map, 300 dots an inch.")
@click.option("--svg", type=click.Path(path_type=Path), help="The same figure as a drawing; its text stays text.")
@kind_option
@layer_option
@head_option
@translation_option
def command(
    text: str,
    model_path: Path | None,
    output: Path | None,
    png: Path | None,
    svg: Path | None,
    kind: MapKind,
    layer: int | None,
    head: int | None,
    translation: str | None,
) -> None:
    """Write the explorer's page for TEXT into one file, and figures of its attention.

    --kind, --layer and --head say which attention the figures show.

    \b
    Examples:
      regard explain "我爱你" -o explain.html --png attention.png
      regard explain "Two dogs run." -o explain.html --model MODEL
      regard explain "Two dogs run." --svg cross.svg --layer 1 --head 0 --model MODEL
    """
    if output is png is svg is None:
        raise ConfigError("what shall be written? A page with -o page.html, a figure with --png or --svg")
    for path, suffix in ((output, (".html", ".htm")), (png, (".png",)), (svg, (".svg",))):
        if path is not None and path.suffix.lower() not in suffix:
            raise ConfigError(f"{path}: the name must end in {suffix[0]}")
        check_output(path)
    if output is not None:
        check_page()
    translator = load_translator(model_path)
    figures = [path for path in (png, svg) if path is not None]
    shown = find_map(translator, text, translation, kind, layer, head) if figures else None
    if output is not None:
        from regard.inspect.explorer import Explorer, Question
        from regard.inspect.page import explain_page

        way = translator.translator_for(text)
        tgt_ids = None if translation is None else way.tokenizer.encode_tgt([translation])[0]
        page = explain_page(Explorer(way), Question(translator.preprocess(way, text), {}), tgt_ids)
        write_output(page, output)
        click.echo(f"the page is in {output} ({len(page.encode()) / 1e6:.1f} MB)")
    if shown is not None:
        write_figures(shown, figures)


def write_figures(shown: AttentionMap, paths: list[Path]) -> None:
    from regard.inspect.figure import draw_map
    from regard.model_folder.atomic import atomic_write

    for path in paths:
        kind = path.suffix.lower().removeprefix(".")
        drawing = draw_map(shown, kind)
        atomic_write(path, drawing.content)
        click.echo(f"the figure is in {path}: {shown.title}")
        if drawing.missing and kind == "png":
            click.echo("no font here has all of its characters; install one, such as Noto Sans CJK", err=True)


def find_map(
    translator: Translator, text: str, translation: str | None, kind: MapKind, layer: int | None, head: int | None
) -> AttentionMap:
    from regard.inspect.maps import attention_map

    translator.translator_for(text).check_attention()
    return attention_map(translator.trace(text, translation, ("*.weights",)), kind, layer, head)


def check_page() -> None:
    """Say before the work that there is no page to fill."""
    from regard.errors import RegardError
    from regard.inspect.built import HOW_TO_BUILD, PAGE

    if not (PAGE / "explain.html").is_file():
        raise RegardError(HOW_TO_BUILD)
