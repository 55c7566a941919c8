"""CTranslate2 runs our exported models and gives the same tokens."""

from __future__ import annotations

from pathlib import Path

import ctranslate2
import pytest
import torch

from regard.config import (
    DecodeConfig,
    FeedForwardKind,
    NormKind,
    NormOrder,
    Position,
    TiedEmbeddings,
    TransformerConfig,
)
from regard.data.toy import toy_pairs
from regard.errors import ConfigError, ModelFolderError
from regard.interop.ctranslate2 import SEARCH_RULES, export_ctranslate2
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.transformer import Transformer
from regard.pipelines.translator import Translator
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.training import train_vocabulary

TEXTS = [source for source, _ in toy_pairs("copy", 200, seed=1)]


@pytest.fixture(scope="module")
def tokenizer() -> TokenizerPair:
    vocabulary = train_vocabulary(TEXTS, "bpe", 350)
    return TokenizerPair(vocabulary, vocabulary)


def write_random_model(path: Path, tokenizer: TokenizerPair, config: TransformerConfig) -> None:
    torch.manual_seed(1)
    model = Transformer(config)
    with torch.no_grad():  # away from the start, where biases are 0 and gains 1 and mistakes would not show
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    description = ModelDescription(config, DecodeConfig(), "en", "en", False, tokenizer.files())
    with atomic_folder(path) as folder:
        write_model(folder, description, {n: p.detach().numpy() for n, p in model.named_parameters()}, "card")


@pytest.mark.parametrize(
    ("position", "order", "norm", "ffn", "tie_embeddings"),
    [
        ("sinusoidal", "post", "layernorm", "relu", "all"),
        ("learned", "pre", "layernorm", "gelu", "output"),
        ("none", "pre", "rmsnorm", "swiglu", "none"),
        ("sinusoidal", "post", "layernorm", "swish", "all"),
        ("sinusoidal", "pre", "layernorm", "geglu", "output"),
        ("learned", "post", "layernorm", "gelu_tanh", "all"),
    ],
)
def test_greedy_translations_are_the_same(
    tmp_path: Path,
    tokenizer: TokenizerPair,
    position: Position,
    order: NormOrder,
    norm: NormKind,
    ffn: FeedForwardKind,
    tie_embeddings: TiedEmbeddings,
) -> None:
    size = tokenizer.tgt.size
    config = TransformerConfig(
        *(32, 4, 64, 2, 2, position, 1024, order, norm, ffn, tie_embeddings, 0.1, 0.0, 0.0, size, size),
        output_bias=ffn == "swish",  # as Marian has it
    )
    write_random_model(tmp_path / "model", tokenizer, config)
    export_ctranslate2(tmp_path / "model", tmp_path / "ct2")
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    ours = Translator(tmp_path / "model").translate(TEXTS[:20], beam=1, max_length_ratio=0.0, max_length_extra=12)
    sources = [tokenizer.src.pieces(ids) for ids in tokenizer.encode_src(TEXTS[:20])]
    results = theirs.translate_batch(sources, beam_size=1, max_decoding_length=12, **SEARCH_RULES)
    assert [list(one.alternatives[0].tokens) for one in ours] == [result.hypotheses[0] for result in results]
    assert len({one.text for one in ours}) > 1


def test_other_families_are_refused(recurrent_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not support model\.family = 'recurrent'; it supports 'transformer'"):
        export_ctranslate2(recurrent_model, tmp_path / "ct2")
    assert not (tmp_path / "ct2").exists()


def test_what_ctranslate2_lacks_is_refused(tmp_path: Path, tokenizer: TokenizerPair) -> None:
    size = tokenizer.tgt.size
    config = TransformerConfig(32, 4, 64, 1, 1, "rotary", src_vocab_size=size, tgt_vocab_size=size)
    write_random_model(tmp_path / "model", tokenizer, config)
    with pytest.raises(ConfigError, match=r"to CTranslate2 does not support model\.position = 'rotary'"):
        export_ctranslate2(tmp_path / "model", tmp_path / "ct2")
    (tmp_path / "there").mkdir()
    with pytest.raises(ModelFolderError, match="exists already"):
        export_ctranslate2(tmp_path / "model", tmp_path / "there")
