"""What the tests of several folders share: a model that has learnt something, small enough to be trained here."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from regard.config import DecodeConfig, FamilyConfig, TransformerConfig, convert
from regard.config.recipe import run_from_dict
from regard.data.toy import WORDS
from regard.kernels.store import VARIABLE as KERNELS_VARIABLE
from regard.kernels.store import kernels_folder
from regard.model_folder import registry
from regard.model_folder.atomic import atomic_folder, make_private_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.build import build_model
from regard.models.transformer import Transformer
from regard.pipelines.model_translator import ModelTranslator
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.special_ids import EOS
from regard.tokenizers.training import train_vocabulary
from regard.train import launch
from regard.train.reports import StepReport, ValidationReport
from regard.train.run_folder import RunFolder

REVERSE_WORDS = WORDS[:16]
CHINESE_AND_ENGLISH = [
    *("我爱你。", "我有三个苹果，你要不要？", "图书馆在哪里？", "他说：“今天很热。”", "她昨天去了北京。"),
    *("I love you.", "I have three apples, do you want one?", "Where is the library?", "He said it was hot today."),
]


def pytest_configure() -> None:
    """A shell's background jobs ignore Ctrl-C, and so would the processes that tests interrupt and wait for."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Compiling takes half a minute: tests and their processes share the kernels, whatever cache they have.
    os.environ.setdefault(KERNELS_VARIABLE, str(kernels_folder()))
    settings.register_profile("regard", deadline=None)  # a busy machine is no failure
    settings.load_profile("regard")


def new_empty_cache(folder: Path) -> Path:
    """A cache without anything; the compiled kernels are not in it (pytest_configure)."""
    make_private_folder(folder)
    return folder


@pytest.fixture(scope="session")
def new_cache() -> Callable[[Path], Path]:
    return new_empty_cache


class Silence:
    def message(self, text: str) -> None: ...
    def step(self, report: StepReport) -> None: ...
    def validation(self, report: ValidationReport) -> None: ...


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def reverse_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Two to five different words, and the same words the other way round."""
    draw = random.Random(seed)
    drawn = [draw.sample(REVERSE_WORDS, draw.randint(2, 5)) for _ in range(count)]
    return [(" ".join(words), " ".join(words[::-1])) for words in drawn]


def train_reversing(folder: Path, model: dict[str, Any], train: dict[str, Any]) -> Path:
    """The folder of a model that reverses sentences of `reverse_pairs`, nearly always rightly."""
    for name, count, seed in (("train.tsv", 4000, 1), ("valid.tsv", 20, 2)):
        lines = [f"{src}\t{tgt}\n" for src, tgt in reverse_pairs(count, seed)]
        (folder / name).write_text("".join(lines), "utf-8")
    run = run_from_dict(
        {
            "data": {
                "src_lang": "en",
                "tgt_lang": "reversed",
                "train": [{"file": str(folder / "train.tsv")}],
                "valid": [{"file": str(folder / "valid.tsv")}],
                "tokenizer": {"vocab_size": 400},
            },
            "model": {"d_model": 64, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.0} | model,
            "train": {
                "validate_every": train["max_steps"],
                "batch_tokens": 512,
                "warmup_steps": 40,
                "schedule": "cosine",
                "threads": 1,
                "precision": "float32",
                "average_checkpoints": 1,
                "label_smoothing": 0.0,
            }
            | train,
        }
    )
    with pytest.MonkeyPatch.context() as patch, one_thread():
        patch.setenv("REGARD_CACHE", str(new_empty_cache(folder / "cache")))
        outcome = launch.start(run, RunFolder(folder / "run"), Silence())
    assert outcome.model is not None
    return outcome.model


@pytest.fixture(scope="session")
def reverse_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer."""
    folder = tmp_path_factory.mktemp("reverse")
    return train_reversing(folder, {"n_heads": 4, "d_ff": 128}, {"max_steps": 450, "lr": 5e-3})


@pytest.fixture(scope="session")
def reverse(reverse_model: Path) -> ModelTranslator:
    return ModelTranslator(reverse_model)


@pytest.fixture(scope="session")
def recurrent_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An LSTM with Bahdanau's attention."""
    folder = tmp_path_factory.mktemp("recurrent")
    return train_reversing(folder, {"family": "recurrent"}, {"max_steps": 150, "lr": 1e-2, "clip_norm": 1.0})


@pytest.fixture(scope="session")
def recurrent(recurrent_model: Path) -> ModelTranslator:
    return ModelTranslator(recurrent_model)


@pytest.fixture(scope="session")
def reverse_test() -> list[tuple[str, str]]:
    """Pairs of the reverse task that were not trained on."""
    return [pair for pair in reverse_pairs(60, 3) if len(pair[0].split()) > 2][:40]


@pytest.fixture(scope="session")
def reverse_vocabulary(reverse: ModelTranslator) -> SentencePieceModel:
    return reverse.tokenizer.src


RandomModel = Callable[..., Path]


@pytest.fixture
def random_model(tmp_path: Path, reverse_vocabulary: SentencePieceModel) -> RandomModel:
    """A whole model folder with random weights: of float64 unless told, so that no sum depends on its order."""

    def make(
        name: str = "random",
        dtype: torch.dtype = torch.float64,
        tgt_lang: str = "reversed",
        change: Callable[[Any, SentencePieceModel], None] = lambda model, vocabulary: None,
        **sizes: Any,
    ) -> Path:
        size = reverse_vocabulary.size
        wanted: dict[str, Any] = {"d_model": 16, "n_encoder_layers": 1, "n_decoder_layers": 2}
        if "family" not in sizes:
            wanted |= {"n_heads": 2, "d_ff": 32}
        wanted |= {"src_vocab_size": size, "tgt_vocab_size": size}
        config: FamilyConfig = convert(FamilyConfig, wanted | sizes, "model")
        torch.manual_seed(7)
        model = build_model(config).to(dtype).requires_grad_(False)
        change(model, reverse_vocabulary)
        weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
        files = TokenizerPair(reverse_vocabulary, reverse_vocabulary).files()
        with atomic_folder(tmp_path / name) as folder:
            write_model(folder, ModelDescription(config, DecodeConfig(), "en", tgt_lang, False, files), weights, "")
        return tmp_path / name

    return make


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package without models, and no folder of the user's."""
    monkeypatch.setattr(registry, "BUNDLED", tmp_path / "no bundled models")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "no share"))
    monkeypatch.delenv("REGARD_MODELS", raising=False)
    monkeypatch.delenv("REGARD_MODEL", raising=False)


@pytest.fixture(scope="session")
def registry_of_babble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for REGARD_MODELS: Chinese → English and back, with random weights, so that they loop and babble."""
    place = tmp_path_factory.mktemp("models")
    vocabulary = train_vocabulary(CHINESE_AND_ENGLISH * 4, "bpe", 420)
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 1, "n_decoder_layers": 1}
    config = TransformerConfig(**sizes, src_vocab_size=vocabulary.size, tgt_vocab_size=vocabulary.size)
    for seed, (src_lang, tgt_lang) in enumerate((("zh", "en"), ("en", "zh"))):
        torch.manual_seed(seed)
        weights = {name: parameter.detach().numpy() for name, parameter in build_model(config).named_parameters()}
        files = TokenizerPair(vocabulary, vocabulary).files()
        description = ModelDescription(config, DecodeConfig(), src_lang, tgt_lang, False, files)
        card = "---\nlicence: CC0\nbleu: 0.1\n---\n# babble\n"
        with atomic_folder(place / f"{src_lang}-{tgt_lang}") as folder:
            write_model(folder, description, weights, card, stored_as="bfloat16")
    return place


@pytest.fixture
def babble(registry_of_babble: Path, nothing_installed: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is installed but the models that babble."""
    monkeypatch.setenv("REGARD_MODELS", str(registry_of_babble))
    return registry_of_babble


@pytest.fixture
def newline_model(random_model: RandomModel) -> Path:
    """A model that likes nothing better than the bytes of line breaks, and never ends."""

    def prefer_line_breaks(model: Transformer, vocabulary: SentencePieceModel) -> None:
        pieces = vocabulary.pieces(range(vocabulary.size))
        # \n, \r, and the three bytes of U+2028 in order
        wanted = [pieces.index(f"<0x{byte:02X}>") for byte in (0x0A, 0x0D, 0xE2, 0x80, 0xA8)]
        norm = model.decoder[-1].around_ffn.norm
        norm.weight.zero_()
        norm.bias.zero_()
        norm.bias[0] = 1.0
        liking_V = model.output.weight[:, 0]
        liking_V.uniform_()
        liking_V[EOS] = -50.0
        liking_V[wanted] = torch.arange(len(wanted) + 10.0, 10.0, -1.0, dtype=liking_V.dtype)

    return random_model("newlines", tie_embeddings="none", change=prefer_line_breaks)
