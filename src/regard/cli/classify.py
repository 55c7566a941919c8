"""`regard classify`: classify images or texts, or tag the tokens of a text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli.inputs import complete_file, named_model_option, read_lines
from regard.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console
    from rich.text import Text

    from regard.pipelines.classification import Classification
    from regard.pipelines.image_classifier import ClassifiedImage
    from regard.pipelines.text_encoder import Tag

COLUMNS = 28  # characters per image, about; MNIST's size
GAP = 3


@click.command("classify", short_help="Classify an image or a text.")
@click.argument("inputs", nargs=-1, metavar="[INPUT]...", shell_complete=complete_file)
@named_model_option
@click.option("--top", type=click.IntRange(min=1), default=3, help="Number of classes to show.")
@click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON object per input: all classes, attention of images."
)
def command(inputs: tuple[str, ...], model_path: Path, top: int, as_json: bool) -> None:
    """Classify each INPUT and show the most probable classes.

    With a Vision Transformer, INPUT is an image file; below the classes, the image is drawn with the attention of the
    class token per patch beside it. Images need Pillow: pip install "regard[images]".

    With a BERT that has a classification head, INPUT is a text or a file with one text per line; without INPUT,
    standard input is read. With a tagging head, every token is labelled.

    \b
    Examples:
      regard classify boot.png --model runs/vit-fashion/model
      regard classify *.jpg --top 1 --json --model vit-base-imported
      regard classify "a gripping film" --model runs/bert-sst2/model
    """
    from regard.config import ViTConfig
    from regard.model_folder.folder import read_description
    from regard.model_folder.registry import find_folder

    folder = find_folder(model_path)
    is_vit = isinstance(read_description(folder).model, ViTConfig)
    (classify_images if is_vit else classify_texts)(inputs, folder, top, as_json)


def classify_images(inputs: tuple[str, ...], model_path: Path, top: int, as_json: bool) -> None:
    from regard.cli.tables import open_console
    from regard.pipelines.image_classifier import ImageClassifier

    if not inputs:
        raise ConfigError("no input: give one or more image files, such as boot.png")
    viewer, console = ImageClassifier(model_path), open_console()
    for name in inputs:  # one by one: the first result is shown before the last image is read
        view = viewer(name)
        if as_json:
            attention = view.attention_YX.round(6).tolist()
            click.echo(json.dumps({**describe(name, view.classification), "attention": attention}, ensure_ascii=False))
        else:
            show_classes(name, view.classification, top)
            draw(view, console)


def classify_texts(inputs: tuple[str, ...], model_path: Path, top: int, as_json: bool) -> None:
    from regard.pipelines.text_encoder import TextEncoder

    reader = TextEncoder(model_path)
    texts = [line for source in inputs or (None,) for line in read_lines(source)]
    if "tags" in reader.config.heads and "classes" not in reader.config.heads:
        for text in texts:
            show_tags(text, reader.tag(text), as_json)
        return
    for text, classification in zip(texts, reader.classify(texts), strict=True):
        if as_json:
            click.echo(json.dumps(describe(text, classification), ensure_ascii=False))
        else:
            show_classes(text, classification, top)


def show_tags(text: str, tags: Sequence[Tag], as_json: bool) -> None:
    if as_json:
        rows = [{"piece": tag.piece, "label": tag.label, "probability": tag.probability} for tag in tags]
        click.echo(json.dumps({"input": text, "tags": rows}, ensure_ascii=False))
    else:
        click.echo(" ".join(f"{tag.piece}/{tag.label}" for tag in tags))


def describe(name: str, classification: Classification) -> dict[str, Any]:
    labels = [{"label": label, "probability": probability} for label, probability in classification.labels]
    return {"input": name, "label": classification.label, "labels": labels}


def show_classes(name: str, classification: Classification, top: int) -> None:
    """The most probable classes, with a bar each."""
    from rich.cells import cell_len

    from regard.cli.params import bar

    shown = classification.labels[:top]
    width = max(cell_len(label) for label, _ in shown)
    click.echo(f"{name}: {classification.label}")
    for label, probability in shown:
        click.echo(f"  {label}{' ' * (width - cell_len(label))}  {probability:6.1%}  {bar(probability)}".rstrip())


def draw(view: ClassifiedImage, console: Console) -> None:
    """The image and, beside it, the attention per patch: darker is more."""
    across = len(view.attention_YX)
    columns = across * max(1, round(COLUMNS / across))
    picture = resized(view.pixels_CYX.mean(axis=0), columns)
    attention = resized(view.attention_YX / view.attention_YX.max(), columns)
    click.echo(f"\n  {'image':<{columns + GAP}}attention")
    for left, right in zip(picture, attention, strict=True):
        line = shades(left, "default").append(" " * GAP).append_text(shades(right, "rgb(139,92,246)"))
        line.rstrip()
        console.print("  ", line, sep="", no_wrap=True, crop=False, overflow="ignore")
    click.echo()


def resized(values_YX: np.ndarray, columns: int) -> np.ndarray:
    """Resize to `columns`, and half as many rows: a character is twice as high as it is wide."""
    import numpy as np

    def parts(length: int, count: int) -> list[np.ndarray]:
        if length < count:  # fewer pixels than characters: repeat them
            return [np.array([place * length // count]) for place in range(count)]
        return np.array_split(np.arange(length), count)

    rows = [values_YX[part].mean(axis=0) for part in parts(len(values_YX), max(columns // 2, 1))]
    square = np.stack(rows)
    return np.stack([square[:, part].mean(axis=1) for part in parts(square.shape[1], columns)], axis=1)


def shades(values: np.ndarray, style: str) -> Text:
    from rich.text import Text

    from regard.cli.attention import SHADES

    marks = (SHADES[min(int(value * len(SHADES)), len(SHADES) - 1)] for value in values.tolist())
    return Text("".join(marks), style=style)
