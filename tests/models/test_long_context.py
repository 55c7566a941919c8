"""Models with long-context attention: the layers' settings, generation in bounded memory, parameter counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import (
    AdaptiveSpanConfig,
    AttentionConfig,
    BertConfig,
    BlockAttentionConfig,
    BlockwiseAttentionConfig,
    DecodeConfig,
    GptConfig,
    LinformerConfig,
    LshAttentionConfig,
    SparseAttentionConfig,
    TransformerConfig,
    ViTConfig,
    WindowAttentionConfig,
)
from regard.core.attention.sparse import Strided
from regard.core.attention.window import Window
from regard.core.cache import PrunedCache
from regard.core.masks import CausalMask
from regard.decode.model_engine import build_engine
from regard.decode.search import search
from regard.errors import ConfigError
from regard.inspect.text_trace import trace_text
from regard.models.bert import Bert
from regard.models.build import build_model
from regard.models.gpt import Gpt
from regard.models.ledger import ledger
from regard.models.transformer import Transformer

SIZES: dict[str, Any] = {"d_model": 8, "n_heads": 2, "d_ff": 16, "dropout": 0.0, "attention_dropout": 0.0}
WINDOW = WindowAttentionConfig(window=(3,), n_global_tokens=1)
SPAN = AdaptiveSpanConfig(max_span=8, initial_span=3, ramp=2)
LOCAL = SparseAttentionConfig(("local",), stride=3)
FIXED = SparseAttentionConfig(("fixed",), stride=4, summary_columns=1)
LSH = LshAttentionConfig(n_buckets=4, chunk=2, n_rounds=2)
DECODERS = {"window": WINDOW, "local": LOCAL, "fixed": FIXED, "adaptive_span": SPAN}


def gpt(attention: AttentionConfig, **changes: Any) -> Gpt:
    torch.manual_seed(1)
    sizes = {**SIZES, "n_layers": 2, "max_positions": 200, "vocab_size": 11, **changes}
    model = Gpt(GptConfig(**sizes, attention=attention)).double().eval().requires_grad_(False)
    for name, parameter in model.named_parameters():
        if not name.endswith("span_H"):
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


@pytest.mark.parametrize("name", DECODERS)
def test_a_text_of_any_length_is_generated_in_bounded_memory(name: str) -> None:
    """160 tokens one by one; what is held afterwards is what the kind can see, twice over at most."""
    model, length = gpt(DECODERS[name]), 160
    ids_RL = torch.randint(11, (2, length), generator=torch.Generator().manual_seed(2))
    state, largest = model.begin(2, 200), 0
    steps = [model.read(ids_RL[:, :20], state)]
    for position in range(20, length):
        steps.append(model.read(ids_RL[:, position : position + 1], state))
        for cache in state.layers:
            assert isinstance(cache, PrunedCache)
            largest = max(largest, cache.k_RHTK.shape[2])
    torch.testing.assert_close(torch.cat(steps, dim=1), model.hidden(ids_RL), rtol=0, atol=1e-10)
    seen = {"window": 4, "local": 4, "fixed": 4 + length // 4, "adaptive_span": 8}
    assert largest <= 2 * seen[name] + 1


def test_lsh_generates_what_it_computes_at_once() -> None:
    model, length = gpt(LSH), 60
    ids_RL = torch.randint(11, (2, length), generator=torch.Generator().manual_seed(2))
    state = model.begin(2, 200)
    steps = [model.read(ids_RL[:, :20], state)]
    steps += [model.read(ids_RL[:, position : position + 1], state) for position in range(20, length)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model.hidden(ids_RL), rtol=0, atol=1e-10)


def test_windows_and_patterns_go_by_layer() -> None:
    windows = gpt(WindowAttentionConfig(window=(2, 5)))
    assert [layer.attention.patterns for layer in windows.layers] == [(Window(2),) * 2, (Window(5),) * 2]
    turns = gpt(SparseAttentionConfig(("strided", "local"), combine="layers", stride=3))
    assert [layer.attention.patterns for layer in turns.layers] == [(Strided(3),) * 2, (Window(3),) * 2]
    heads = gpt(SparseAttentionConfig(("strided", "local"), stride=3))
    assert [layer.attention.patterns for layer in heads.layers] == [(Strided(3), Window(3))] * 2


def test_blockwise_is_the_same_model_with_the_same_gradients() -> None:
    ids_BL = torch.randint(11, (2, 21), generator=torch.Generator().manual_seed(3))
    gradients = []
    for attention in (None, BlockwiseAttentionConfig(block=4)):
        model = gpt(attention or GptConfig().attention, ffn="relu").requires_grad_().train()
        model(ids_BL).square().sum().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected, rtol=1e-9, atol=1e-9, msg=name)


def test_a_transformer_has_an_attention_of_its_own_in_each_place() -> None:
    config = TransformerConfig(
        **SIZES,
        n_encoder_layers=2,
        n_decoder_layers=1,
        src_vocab_size=9,
        tgt_vocab_size=9,
        attention=LinformerConfig(length=12, projected_length=4, sharing="layer"),
        decoder_attention=WINDOW,
        cross_attention=BlockwiseAttentionConfig(block=2),
    )
    torch.manual_seed(0)
    model = Transformer(config).double().eval()
    src, tgt = torch.tensor([[5, 6, 7, 3], [4, 3, 0, 0]]), torch.tensor([[2, 5, 6, 7, 8, 4]] * 2)
    state = model.begin(src, 6)
    stepped = torch.stack([model.step(tokens, state) for tokens in tgt.T], dim=1)
    torch.testing.assert_close(stepped, model(src, tgt), rtol=0, atol=1e-10)
    with pytest.raises(ValueError, match="13 tokens, but the length projections of this model end at 12"):
        model(src.new_ones(1, 13), tgt)


class Read:
    """All that a search has fed, without a cache."""

    def __init__(self, src_BM: Tensor) -> None:
        self.src_RM, self.tgt_RL = src_BM, src_BM.new_empty(len(src_BM), 0)

    def reorder(self, rows_R: Tensor) -> None:
        self.src_RM, self.tgt_RL = self.src_RM[rows_R], self.tgt_RL[rows_R]


class Uncached(nn.Module):
    """The same model, which computes everything again at every step."""

    longest_target = None

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def begin(self, src_BM: Tensor, max_length: int) -> Read:
        return Read(src_BM)

    def step(self, tokens_R: Tensor, state: Read) -> Tensor:
        state.tgt_RL = torch.cat([state.tgt_RL, tokens_R[:, None]], dim=1)
        return self(state.src_RM, state.tgt_RL)[:, -1]

    def forward(self, src_BM: Tensor, tgt_BL: Tensor) -> Tensor:
        return self.model(src_BM, tgt_BL)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", [*DECODERS, "lsh"])
def test_a_search_prunes_and_reorders_its_caches_and_the_engine_leaves_it_alone(name: str) -> None:
    sizes: dict[str, Any] = {"n_encoder_layers": 1, "n_decoder_layers": 2, "src_vocab_size": 30, "tgt_vocab_size": 30}
    torch.manual_seed(3)
    model = (
        Transformer(TransformerConfig(**SIZES, **sizes, decoder_attention={**DECODERS, "lsh": LSH}[name]))
        .double()
        .eval()
    )
    assert build_engine(model.requires_grad_(False), "float32") is None
    sources, cpu = [[5, 6, 7, 8, 13], [4, 6, 23]], torch.device("cpu")
    cached, uncached = (
        search(one, sources, DecodeConfig(beam=3, length_penalty=1.0), cpu, n_best=2)
        for one in (model, Uncached(model))
    )
    assert max(len(found.ids) for best in cached for found in best) > 10
    for ours, theirs in zip(cached, uncached, strict=True):
        assert [found.ids for found in ours] == [found.ids for found in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-9)


def test_one_length_projection_for_all_layers_is_stored_once() -> None:
    config = LinformerConfig(length=16, projected_length=4, sharing="layer")
    model = Bert(BertConfig(**SIZES, n_layers=3, max_positions=16, vocab_size=9, attention=config))
    assert len({id(layer.attention.project_k.weight) for layer in model.layers}) == 1
    assert [name for name, _ in model.named_parameters() if "project" in name] == [
        "layers.0.attention.project_k.weight"
    ]
    assert model.layers[0].attention.project_k.weight.std() > 0


@pytest.mark.parametrize(
    ("attention", "extra"),
    [
        (BlockwiseAttentionConfig(), 0),
        (WINDOW, 2 * (3 * 8 * 8 + 3 * 8)),
        (BlockAttentionConfig(length=16), 0),
        (LSH, -2 * (8 * 8 + 8)),  # keys are queries
        (LinformerConfig(length=16, projected_length=4, sharing="none"), 2 * 2 * 2 * 4 * 16),
        (LinformerConfig(length=16, projected_length=4, sharing="head"), 2 * 2 * 4 * 16),
        (LinformerConfig(length=16, projected_length=4, sharing="kv"), 2 * 4 * 16),
        (LinformerConfig(length=16, projected_length=4, sharing="layer"), 4 * 16),
    ],
)
def test_parameter_counts_know_the_kind(attention: AttentionConfig, extra: int) -> None:
    full = BertConfig(**SIZES, n_layers=2, max_positions=16, vocab_size=9)
    counts = ledger(full.changed(attention=attention))
    assert counts.total == ledger(full).total + extra
    assert counts.totals["attention"] == ledger(full).totals["attention"] + extra
    model = build_model(full.changed(attention=attention))
    assert sum(p.numel() for p in model.parameters()) == counts.total


def test_spans_are_counted() -> None:
    full = GptConfig(**SIZES, n_layers=2, vocab_size=9)
    assert ledger(full.changed(attention=SPAN)).total == ledger(full).total + 2 * 2


def test_a_trace_of_linformer_says_that_it_has_no_weight_for_each_token() -> None:
    config = BertConfig(**SIZES, n_layers=1, max_positions=8, vocab_size=9, attention=LinformerConfig(8, 2))
    trace = trace_text(model := Bert(config).eval(), model, [4, 5, 6], ["a", "b", "c"])
    assert trace["layers.0.attention.weights"].shape == (2, 3, 2)
    with pytest.raises(ConfigError, match="no weight for each token"):
        trace.attention()


def test_vit_looks_block_by_block() -> None:
    attention = BlockAttentionConfig(length=6, n_blocks=3)
    config = ViTConfig(**SIZES, n_layers=1, image_size=8, patch_size=4, n_labels=2, attention=attention)
    model: nn.Module = build_model(config).eval()
    assert model(torch.randn(2, 1, 8, 8)).isfinite().all()


def test_a_causal_mask_is_made_when_it_is_asked_for() -> None:
    model, mask = gpt(WINDOW), CausalMask(9, 9)
    model.layers[0](torch.randn(1, 9, 8, dtype=torch.float64), mask)
    assert "dense" not in vars(mask)
    gpt(GptConfig().attention).layers[0](torch.randn(1, 9, 8, dtype=torch.float64), mask)
    assert "dense" in vars(mask)
