"""What the tests of the commands share: `regard` as a person runs it, and small models to run it on."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from regard.cli.main import main
from regard.config import DecodeConfig, TransformerConfig
from regard.kernels import bindings, loader, memory
from regard.kernels.training import TRAINING
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.transformer import Transformer
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.training import train_vocabulary

SENTENCES = ["the cat sat on the mat", "a dog runs", "two dogs run on a mat", "我 爱 你", "the dog sat"] * 4


class Said(NamedTuple):
    code: int
    out: str
    err: str


Regard = Callable[..., Said]
MakeModel = Callable[..., Path]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """The kernels are there before any command runs, which would else say that it compiles them."""
    with suppress(loader.NoKernelsError):
        loader.load(TRAINING)  # in the cache that `doctor` looks into
    loader.library(TRAINING)  # and in this process, by the calls that commands make, whatever cache a test may choose
    loader.library(bindings.ENGINE)
    memory.region()


@pytest.fixture
def regard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Regard:
    """The whole command, errors and exit code included: `regard("params", "base", stdin=b"")`."""

    def run(*arguments: object, stdin: bytes = b"") -> Said:
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def vocabulary() -> SentencePieceModel:
    return train_vocabulary(SENTENCES, "bpe", 300)


@pytest.fixture(scope="session")
def other_vocabulary() -> SentencePieceModel:
    return train_vocabulary([sentence[::-1] for sentence in SENTENCES], "unigram", 290)


@pytest.fixture
def make_model(vocabulary: SentencePieceModel) -> MakeModel:
    """A whole model folder with random weights."""

    def make(
        path: Path,
        seed: int = 1,
        d_model: int = 16,
        tokenizer: TokenizerPair | None = None,
        n_heads: int = 2,
        dropout: float = 0.1,
    ) -> Path:
        tokenizer = tokenizer or TokenizerPair(vocabulary, vocabulary)
        config = TransformerConfig(
            d_model=d_model,
            n_heads=n_heads,
            d_ff=32,
            dropout=dropout,
            n_encoder_layers=2,
            n_decoder_layers=2,
            tie_embeddings="all" if tokenizer.joint else "output",
            src_vocab_size=tokenizer.src.size,
            tgt_vocab_size=tokenizer.tgt.size,
        )
        torch.manual_seed(seed)
        model = Transformer(config)
        weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
        description = ModelDescription(config, DecodeConfig(), "en", "de", tokenizer.lowercase, tokenizer.files())
        with atomic_folder(path) as folder:
            write_model(folder, description, weights, "# A model for tests\n")
        return path

    return make
