"""Command lines, recipes and input files that nobody would write, for `commands.py`: drawn at random from a seed."""

from __future__ import annotations

import dataclasses
import gzip
import os
import random
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import click
import zstandard

from regard.cli.main import COMMANDS, regard
from regard.config.attention import AttentionConfig
from regard.config.recipe import flatten

NEVER = ("explore",)  # serves until it is interrupted; requests.py attacks the server
NUMBERS = (
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "1e3",
    "0.5",
    "nan",
    "inf",
    "-inf",
    "1e-300",
    "9" * 30,
    "",
    "many",
    "０",
    "٣",
    "0x10",
)
TEXTS = (
    *(
        "",
        " ",
        "a",
        "I love you.",
        "我爱你。",
        "Привет",
        "½",
        "123",
        "0.5毫克",
        "a b\nc",
        "[MASK]",
        "\ufeff",
        "\u202e",
        "\u2028",
    ),
    *(
        "👩‍👩‍👧‍👦",
        "<s>",
        "▁",
        "<0xE7>",
        "a" * 3000,
        "我" * 2000,
        "(" * 500,
        "a\r\n\tb",
        "-",
        "--",
        "-x",
        "%s",
        "{}",
        "\x1b[31m",
        "1 2 3",
        "[1, 2]",
    ),
)
VALUES: tuple[Any, ...] = (
    *(
        0,
        1,
        2,
        -1,
        3.5,
        -0.5,
        True,
        False,
        "",
        "a",
        "我",
        [],
        [1],
        ["a"],
        {},
        {"a": 1},
        [[]],
        float("inf"),
        float("nan"),
    ),
    *(10**9, 10**18, -(10**18), 10**400, 1e308, "9" * 5000),
)
RECIPE = """
[data]
src_lang = "en"
tgt_lang = "zh"
lowercase = false
[data.tokenizer]
vocab_size = 300
kind = "bpe"
joint = true
[data.filters]
max_tokens = 50
[model]
d_model = 16
n_heads = 2
d_ff = 32
n_encoder_layers = 1
n_decoder_layers = 1
dropout = 0.1
norm = "layernorm"
position = "sinusoidal"
[train]
batch_tokens = 256
max_steps = 1
max_minutes = 0.01
lr = 3e-3
warmup_steps = 4
seed = 1
precision = "float32"
threads = 1
[decode]
beam = 2
length_penalty = 0.6
max_length_ratio = 1.0
"""
TRAIN = RECIPE[RECIPE.index("[train]") : RECIPE.index("[decode]")]
# Of other families, which are trained on one text.
FAMILIES = (
    """
[data.tokenizer]
kind = "characters"
[data.filters]
max_tokens = 40
[model]
family = "gpt"
d_model = 16
n_heads = 2
d_ff = 32
n_layers = 2
max_positions = 40
"""
    + TRAIN,
    """
[data.tokenizer]
kind = "wordpiece"
vocab_size = 60
[data.filters]
max_tokens = 40
[model]
family = "bert"
d_model = 16
n_heads = 2
d_ff = 32
n_layers = 2
max_positions = 40
"""
    + TRAIN,
)
TEXT = "".join(f"{'the red house ' * (n % 4 + 1)}sees {n} dogs\n" for n in range(60))
TEXT_DATA = '[[data.train]]\ntext = "corpus.txt"\n[[data.valid]]\ntext = "corpus.txt"\nstop = 0.1\n'
DATA = '[[data.train]]\ntoy = "copy"\nsize = 60\n[[data.valid]]\ntoy = "copy"\nsize = 4\nseed = 2\n'
TASTES = ("valid", "valid", "any")


class Case(NamedTuple):
    arguments: list[str]
    stdin: bytes


class Cases:
    """Draws cases; files are written to `folder`, where the command is to run."""

    def __init__(
        self, seed: int, folder: Path, models: list[str], remote: Sequence[str] = (), corpora: Sequence[str] = ()
    ) -> None:
        """`remote`: models of a hub; `corpora`: those that can be downloaded."""
        self.random, self.folder, self.models = random.Random(seed), folder, models
        self.remote, self.corpora = remote, corpora
        self.flat = flatten(tomllib.loads(RECIPE))
        context = click.Context(regard)
        self.commands = {name: regard.get_command(context, name) for name in COMMANDS if name not in NEVER}

    def draw(self) -> Case:
        name = self.random.choice([*self.commands, "translate", "translate", "config", "train"])
        command: Any = self.commands[name]
        words = [name]
        while isinstance(command, click.Group) and self.random.random() < 0.97:
            name, command = self.random.choice(sorted(command.commands.items()))
            words.append(name)
        if self.random.random() < 0.03:
            words[self.random.randrange(len(words))] = self.random.choice(TEXTS) or "x"
        return Case([word.replace("\0", "") for word in words + self.options(command)], self.bytes())

    def options(self, command: click.Command) -> list[str]:
        words: list[str] = []
        for parameter in command.params:
            if isinstance(parameter, click.Argument):
                count = self.random.choice((0, 1, 2)) if parameter.nargs != 1 else self.random.random() < 0.95
                words += [self.value(parameter) for _ in range(count)]
            elif parameter.opts[-1] != "--help" and self.random.random() < (
                0.95 if parameter.required or "model" in str(parameter.name) else 0.15
            ):
                option = self.random.choice([*parameter.opts, *parameter.secondary_opts])
                words += [option] if getattr(parameter, "is_flag", False) else [option, self.value(parameter)]
        if self.random.random() < 0.05:
            words.insert(
                self.random.randrange(len(words) + 1), self.random.choice(("--help", "--none", "--", "-", "\udcff"))
            )
        return words

    def value(self, parameter: click.Parameter) -> str:
        name, kind = str(parameter.name), parameter.type
        taste = self.random.choice(TASTES)
        match kind:
            case click.Choice():
                return self.random.choice([str(one) for one in kind.choices]) if self.random.random() < 0.9 else "none"
            case click.types.IntParamType() | click.types.FloatParamType():
                return self.random.choice(NUMBERS if taste == "any" else ("1", "2", "3"))
            case _ if name == "address" and self.remote and self.random.random() < 0.8:
                return self.random.choice(self.remote) + self.random.choice(
                    ("", "", "@main", "@refs/pr/1", "@", "@../x")
                )
            case _ if name == "name" and self.random.random() < 0.8:
                return self.random.choice((*self.corpora, *(Path(one).name for one in (*self.remote, *self.models))))
            case _ if "model" in name or name in ("folder", "folders", "against"):
                return self.random.choice(self.models) if self.random.random() < 0.8 else self.path()
            case _ if name in ("recipe", "path"):
                return self.recipe() if self.random.random() < 0.8 else self.path()
            case _ if name == "overrides":
                key, value = self.random.choice([*self.flat, "none", "a.b.c", ""]), self.random.choice(VALUES)
                return self.random.choice((f"{key}={as_toml(value)}", f"{key}={value}", key, "=", f"{key}=={value}"))
            case _ if name in ("output", "outputs", "png", "svg", "run_path"):
                return self.output(name)
            case click.Path():
                return self.path()
            case _:
                return self.path() if self.random.random() < 0.3 else self.random.choice(TEXTS)

    def output(self, name: str) -> str:
        suffix = {"png": ".png", "svg": ".svg"}.get(name, self.random.choice(("", ".html", ".txt", ".png", ".svg")))
        return self.random.choice(
            (
                f"out{suffix}",
                f"new/folder/out{suffix}",
                f"{self.random.randrange(10**9)}{suffix}",
                ".",
                "/dev/full",
                "/dev/null",
                "text.txt/x",
                "x" * 300,
            )
        )

    def path(self) -> str:
        return self.random.choice(
            (
                self.file(),
                self.file(),
                self.file(),
                "none.txt",
                ".",
                "/",
                "/dev/null",
                "x" * 300,
                "a/b",
                "\udcff",
                "~",
                "$HOME",
                self.folder.name,
            )
        )

    def file(self) -> str:
        """A text file or something like it."""
        name = self.random.choice(("text.txt", "text.gz", "text.zst", "data.tsv", "data.jsonl", "binary", "\udcff.txt"))
        content = self.bytes()
        if name.endswith(".gz"):
            content = gzip.compress(content)
        elif name.endswith(".zst"):
            content = zstandard.compress(content)
        if self.random.random() < 0.3:
            content = self.damaged(content)
        if (self.folder / name).is_dir():  # made for an output
            shutil.rmtree(self.folder / name)
        (self.folder / name).write_bytes(content)
        return name

    def bytes(self) -> bytes:
        lines = self.random.choices(TEXTS, k=self.random.randrange(6))
        content = "\n".join(lines).encode("utf-8", "surrogatepass")
        return self.damaged(content) if self.random.random() < 0.1 else content

    def damaged(self, content: bytes) -> bytes:
        changed = bytearray(content or b"\0")
        for _ in range(self.random.randrange(1, 4)):
            changed[self.random.randrange(len(changed))] = self.random.randrange(256)
        return bytes(changed[: self.random.randrange(len(changed) + 1)] if self.random.random() < 0.5 else changed)

    def recipe(self) -> str:
        """A recipe with a few settings that are changed, missing or new; or one that is hardly TOML."""
        settings, data = dict(self.flat), DATA
        if self.random.random() < 0.2:
            settings, data = flatten(tomllib.loads(self.random.choice(FAMILIES))), TEXT_DATA
            (self.folder / "corpus.txt").write_text(TEXT)
        if self.random.random() < 0.3:
            settings |= self.attention()
        for _ in range(self.random.randrange(3)):
            key = self.random.choice([*settings, "train.none", "none", "model.family", "train.patience", "model.ffn"])
            settings[key] = self.random.choice(VALUES)
        if self.random.random() < 0.2:
            settings.pop(self.random.choice(sorted(settings)))
        text = "".join(f"{key} = {as_toml(value)}\n" for key, value in settings.items()) + self.random.choice(
            (data, data, data, DATA, "")
        )
        match self.random.randrange(20):
            case 0:
                content = self.damaged(text.encode())
            case 1:
                content = b"a = " + b"[" * 100_000
            case 2:
                content = self.bytes()
            case _:
                content = text.encode()
        (self.folder / "recipe.toml").write_bytes(content)
        return "recipe.toml"

    def attention(self) -> dict[str, Any]:
        """The settings of a kind of attention, some of them wrong."""
        kind: Any = self.random.choice(get_args(AttentionConfig))
        place = self.random.choice(("model.attention", "model.attention", "model.decoder_attention"))
        hints = get_type_hints(kind)
        fields = [field for field in dataclasses.fields(kind) if field.name == "kind" or self.random.random() < 0.5]
        return {
            f"{place}.{field.name}": field.default if field.name == "kind" else self.setting(hints[field.name])
            for field in fields
        }

    def setting(self, hint: Any) -> Any:
        if self.random.random() < 0.1:
            return self.random.choice(VALUES)
        if get_origin(hint) is tuple:
            return [self.setting(get_args(hint)[0]) for _ in range(self.random.randrange(1, 3))]
        if get_origin(hint) is Literal:
            return self.random.choice(get_args(hint))
        return self.random.choice((1, 1, 2, 2, 3, 4, 8, 0, 40, 64))


def as_toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case list():
            return "[" + ", ".join(map(as_toml, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{key} = {as_toml(one)}" for key, one in value.items()) + "}"
        case _:
            return str(value) if abs(value) < 10**300 or isinstance(value, float) else hex(value)


def printable(case: Case) -> str:
    return f"{[os.fsencode(word)[:100] for word in case.arguments]} < {case.stdin[:60]!r}"
