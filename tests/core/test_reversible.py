"""Reversible layers: the gradients of the same function without undoing, dropout and hashes the same, and memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import AttentionConfig, FullAttention, GptConfig, LshAttentionConfig, TransformerConfig
from regard.config.attention import AdaptiveSpanConfig, BlockwiseAttentionConfig, WindowAttentionConfig
from regard.core.attention.lsh import LshAttention, bucket_load
from regard.core.taps import record
from regard.errors import ConfigError
from regard.models.build import build_model
from regard.models.gpt import Gpt
from regard.models.transformer import Transformer

SIZES: dict[str, Any] = {"d_model": 8, "n_heads": 2, "d_ff": 16, "dropout": 0.3, "attention_dropout": 0.2}
LSH = LshAttentionConfig(n_buckets=4, chunk=2, n_rounds=2)
KINDS = [FullAttention(), LSH, WindowAttentionConfig(window=(3,)), BlockwiseAttentionConfig(block=4)]
KINDS.append(AdaptiveSpanConfig(max_span=8, initial_span=3, ramp=2))


def gpt(attention: AttentionConfig = LSH, n_layers: int = 3, **changes: Any) -> Gpt:
    torch.manual_seed(1)
    sizes = {**SIZES, "n_layers": n_layers, "max_positions": 40, "vocab_size": 11, **changes}
    return spread(Gpt(GptConfig(**sizes, attention=attention, residual="reversible")))


def transformer(**changes: Any) -> Transformer:
    torch.manual_seed(1)
    sizes = {**SIZES, "n_encoder_layers": 2, "n_decoder_layers": 2, "src_vocab_size": 11, "tgt_vocab_size": 11}
    sizes |= {"norm_order": "pre", "residual": "reversible", "activation_dropout": 0.1}
    return spread(Transformer(TransformerConfig(**{**sizes, **changes})))


def spread(model: Any) -> Any:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("span_H"):
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model.double()


def ids(length: int, seed: int = 2) -> Tensor:
    return torch.randint(1, 11, (2, length), generator=torch.Generator().manual_seed(seed))


def results(model: nn.Module, *given: Tensor) -> dict[str, Tensor]:
    """Logits and gradients, with the same random numbers every time."""
    torch.manual_seed(5)
    model.zero_grad(set_to_none=True)
    out = model(*given)
    out.square().sum().backward()
    return {"out": out.detach(), **{name: p.grad for name, p in model.named_parameters() if p.grad is not None}}


def without_undoing(model: nn.Module, patch: pytest.MonkeyPatch) -> None:
    for where in ("gpt", "transformer"):
        module = __import__(f"regard.models.{where}", fromlist=["run_reversibly"])
        plain = module.run_reversibly
        patch.setattr(module, "run_reversibly", lambda *a, plain=plain, **_: plain(*a, undo=False))


def assert_same(model: nn.Module, patch: pytest.MonkeyPatch, *given: Tensor) -> None:
    undone = results(model, *given)
    without_undoing(model, patch)
    held = results(model, *given)
    assert undone.keys() == held.keys() == {"out", *(name for name, _ in model.named_parameters())}
    for name, expected in held.items():
        torch.testing.assert_close(undone[name], expected, rtol=1e-9, atol=1e-10, msg=name)


@pytest.mark.parametrize("dense_up_to", [0, 10**9])
@pytest.mark.parametrize("attention", KINDS, ids=lambda config: config.kind)
def test_gradients_are_those_of_the_same_function(
    attention: AttentionConfig, dense_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training: with dropout, and with hashes drawn for every pass."""
    model = gpt(attention).train()
    for layer in model.layers:
        layer.attention.dense_up_to = dense_up_to
    assert_same(model, monkeypatch, ids(21))


@pytest.mark.parametrize("position", ["sinusoidal", "relative"])
def test_encoder_and_decoder(position: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients reach the encoder through its output, and the tables of relative positions."""
    src = ids(9)
    src[1, 6:] = 0
    assert_same(transformer(position=position).train(), monkeypatch, src, ids(7, 3))


def test_random_numbers_afterwards_are_the_same() -> None:
    """Undoing draws again what was drawn, and leaves the generator as it was."""
    model = gpt().train()
    out = model(ids(21))
    before = torch.get_rng_state()
    out.sum().backward()
    assert torch.equal(torch.get_rng_state(), before)


def held_for_the_backward_pass(model: nn.Module, given: Tensor) -> int:
    """Numbers that autograd holds, without parameters."""
    parameters = {p.data_ptr() for p in model.parameters()}
    sizes: list[int] = []

    def pack(x: Tensor) -> Tensor:
        if x.data_ptr() not in parameters:
            sizes.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        model(given)
    return sum(sizes)


def test_memory_grows_with_the_length_and_not_with_the_layers() -> None:
    few, many = (gpt(n_layers=n).train() for n in (2, 12))
    assert held_for_the_backward_pass(few, ids(20)) == held_for_the_backward_pass(many, ids(20))
    longer = held_for_the_backward_pass(few, ids(40)) / held_for_the_backward_pass(few, ids(20))
    assert longer == pytest.approx(2, abs=0.1)


def test_standard_layers_hold_more_the_more_there_are() -> None:
    few, many = (
        Gpt(GptConfig(**SIZES, n_layers=n, max_positions=40, vocab_size=11, attention=LSH)).train() for n in (2, 12)
    )
    assert held_for_the_backward_pass(many, ids(20)) > 4 * held_for_the_backward_pass(few, ids(20))


def test_buckets_are_counted_once() -> None:
    model = gpt().train()
    model(ids(20)).sum().backward()
    load = bucket_load(model)
    assert load is not None
    heads = sum(m.n_heads for m in model.modules() if isinstance(m, LshAttention))
    assert load.tokens == 2 * 20 * heads * LSH.n_rounds


def test_cached_equals_uncached() -> None:
    model, text = gpt().eval().requires_grad_(False), ids(20)
    state = model.begin(2, 20)
    steps = [model.read(text[:, :7], state), *(model.read(text[:, i : i + 1], state) for i in range(7, 20))]
    torch.testing.assert_close(torch.cat(steps, dim=1), model.hidden(text), rtol=0, atol=1e-10)
    translator, src = transformer().eval().requires_grad_(False), ids(9)
    caches = translator.begin(src, 6)
    stepped = torch.stack([translator.step(tokens, caches) for tokens in text[:, :6].T], dim=1)
    torch.testing.assert_close(stepped, translator(src, text[:, :6]), rtol=0, atol=1e-10)


def test_taps_record_both_streams() -> None:
    model = gpt().eval().requires_grad_(False)
    with record(model, "*.resid", "*.weights", "last") as seen:
        hidden = model.hidden(ids(9))
    ends = [seen[f"layers.2.{part}.resid"] for part in ("around_attention", "around_ffn")]
    torch.testing.assert_close(model.last_norm(torch.cat(ends, dim=-1)), hidden)
    assert seen["layers.0.attention.weights"].shape == (2, 2, 9, 9)


def test_streams_are_float32_where_layers_compute_in_bf16() -> None:
    model = gpt(dropout=0.0, attention_dropout=0.0).float().train()
    model.compute_dtype = torch.bfloat16
    assert model.hidden(ids(9)).dtype == torch.bfloat16
    in_bf16 = results(model, ids(21))["layers.0.ffn.up.weight"]
    model.compute_dtype = None
    exact = results(model, ids(21))["layers.0.ffn.up.weight"]
    assert torch.cosine_similarity(in_bf16.flatten(), exact.flatten(), dim=0) > 0.9


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"family": "gpt", "ffn": "moe"}, "would count its tokens twice"),
        ({"family": "transformer"}, "needs norms before the sublayers"),
    ],
)
def test_what_cannot_be_is_refused(config: dict[str, Any], reason: str) -> None:
    kind = {"gpt": GptConfig, "transformer": TransformerConfig}[config.pop("family")]
    with pytest.raises(ConfigError, match=reason):
        build_model(kind(residual="reversible", **config))
