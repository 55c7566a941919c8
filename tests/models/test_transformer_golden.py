"""Our layers and our model against PyTorch's, with the same weights, in float64, to 1e-10."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import FeedForwardKind, NormOrder, TransformerConfig
from regard.core.attention.multi_head import MultiHeadAttention
from regard.core.masks import causal_mask, padding_mask
from regard.core.positions import Positions
from regard.models.transformer import DecoderLayer, EncoderLayer, Transformer

SRC = torch.tensor([[5, 6, 7, 8, 9], [9, 6, 0, 0, 0], [5, 3, 7, 0, 0]])
TGT = torch.tensor([[1, 6, 7, 8], [1, 6, 4, 0], [1, 3, 0, 0]])

KINDS = pytest.mark.parametrize(
    ("order", "ffn"), [("post", "relu"), ("pre", "relu"), ("post", "gelu"), ("pre", "gelu")]
)


def close(actual: Tensor | None, expected: Tensor | None) -> None:
    assert actual is not None
    assert expected is not None
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def config(order: NormOrder, ffn: FeedForwardKind, **others: Any) -> TransformerConfig:
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 20, "n_encoder_layers": 2, "n_decoder_layers": 3}
    rest = {"src_vocab_size": 11, "tgt_vocab_size": 11, "dropout": 0.0}
    return TransformerConfig(norm_order=order, ffn=ffn, **{**sizes, **rest, **others})


def random_weights(module: nn.Module, seed: int = 0) -> None:
    """Biases and gains too, so that one in the wrong place is seen."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in module.double().parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)


def copy(ours: nn.Module, theirs: nn.Module) -> None:
    theirs.load_state_dict(ours.state_dict())


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    state = {"in_proj_weight": ours.qkv.weight, "in_proj_bias": ours.qkv.bias}
    theirs.load_state_dict({**state, "out_proj.weight": ours.out.weight, "out_proj.bias": ours.out.bias})


def copy_encoder_layer(ours: EncoderLayer, theirs: nn.TransformerEncoderLayer) -> None:
    copy_attention(ours.attention, theirs.self_attn)
    copy(ours.ffn.up, theirs.linear1)
    copy(ours.ffn.down, theirs.linear2)
    copy(ours.around_attention.norm, theirs.norm1)
    copy(ours.around_ffn.norm, theirs.norm2)


def copy_decoder_layer(ours: DecoderLayer, theirs: nn.TransformerDecoderLayer) -> None:
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross, theirs.multihead_attn)
    copy(ours.ffn.up, theirs.linear1)
    copy(ours.ffn.down, theirs.linear2)
    copy(ours.around_attention.norm, theirs.norm1)
    copy(ours.around_cross.norm, theirs.norm2)
    copy(ours.around_ffn.norm, theirs.norm3)


def torch_layer(kind: type[nn.Module], c: TransformerConfig) -> Any:
    layer = kind(
        c.d_model, c.n_heads, c.d_ff, dropout=0.0, activation=c.ffn, batch_first=True,
        norm_first=c.norm_order == "pre", dtype=torch.float64,
    )  # fmt: skip
    random_weights(layer, seed=99)
    return layer


def compare_with_gradients(ours: Tensor, theirs: Tensor, pairs: list[tuple[Tensor, Tensor]]) -> None:
    close(ours, theirs)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    for mine, other in pairs:
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-9, atol=1e-9)
        assert mine.grad is not None
        assert mine.grad.any()


@KINDS
def test_encoder_layer(order: NormOrder, ffn: FeedForwardKind) -> None:
    c = config(order, ffn)
    ours, theirs = EncoderLayer(c), torch_layer(nn.TransformerEncoderLayer, c)
    random_weights(ours)
    copy_encoder_layer(ours, theirs)
    x = torch.randn(3, 5, 12, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    actual = ours(x, padding_mask(SRC, 0), None, Positions())
    expected = theirs(y, src_key_padding_mask=SRC == 0)
    pairs = [(x, y), (ours.ffn.up.weight, theirs.linear1.weight), (ours.around_ffn.norm.weight, theirs.norm2.weight)]
    compare_with_gradients(actual, expected, pairs)


@KINDS
def test_decoder_layer(order: NormOrder, ffn: FeedForwardKind) -> None:
    c = config(order, ffn)
    ours, theirs = DecoderLayer(c), torch_layer(nn.TransformerDecoderLayer, c)
    random_weights(ours)
    copy_decoder_layer(ours, theirs)
    x = torch.randn(3, 4, 12, dtype=torch.float64, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    memory = torch.randn(3, 5, 12, dtype=torch.float64, requires_grad=True)
    again = memory.detach().clone().requires_grad_()
    actual = ours(x, memory, causal_mask(4, 4), padding_mask(SRC, 0), None, Positions())
    expected = theirs(y, again, tgt_mask=~causal_mask(4, 4), memory_key_padding_mask=SRC == 0)
    pairs = [(x, y), (memory, again), (ours.cross.qkv.weight, theirs.multihead_attn.in_proj_weight)]
    compare_with_gradients(actual, expected, pairs)


def torch_model(ours: Transformer) -> nn.Transformer:
    """nn.Transformer with our weights; post-norm without the last norms that it would add to the paper's."""
    c = ours.config
    pre = c.norm_order == "pre"
    norms = [nn.LayerNorm(c.d_model, dtype=torch.float64) if pre else None for _ in range(2)]
    encoder = nn.TransformerEncoder(
        torch_layer(nn.TransformerEncoderLayer, c), c.n_encoder_layers, norms[0], enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(torch_layer(nn.TransformerDecoderLayer, c), c.n_decoder_layers, norms[1])
    model = nn.Transformer(
        c.d_model, c.n_heads, custom_encoder=encoder, custom_decoder=decoder, batch_first=True, norm_first=pre
    )
    for mine, other in zip(ours.encoder, encoder.layers, strict=True):
        copy_encoder_layer(mine, other)  # type: ignore[arg-type]
    for mine, other in zip(ours.decoder, decoder.layers, strict=True):
        copy_decoder_layer(mine, other)  # type: ignore[arg-type]
    for mine, norm in zip((ours.encoder_norm, ours.decoder_norm), norms, strict=True):
        if norm is not None:
            copy(mine, norm)
    return model


@pytest.mark.parametrize("kernel", ["reference", "fused"])
@KINDS
def test_whole_model(order: NormOrder, ffn: FeedForwardKind, kernel: Any) -> None:
    ours = Transformer(config(order, ffn))
    random_weights(ours)
    for module in ours.modules():
        if isinstance(module, MultiHeadAttention):
            module.kernel = kernel
    theirs = torch_model(ours)
    table, places = ours.tgt_embedding.weight, ours.src_positions.table_LD
    assert isinstance(places, Tensor)
    src = (table[SRC] * 12**0.5 + places[:5]).detach()
    tgt = (table[TGT] * 12**0.5 + places[:4]).detach()
    expected = theirs(
        src, tgt, tgt_mask=~causal_mask(4, 4), src_key_padding_mask=SRC == 0, memory_key_padding_mask=SRC == 0
    )
    close(ours.hidden(SRC, TGT), expected)
    close(ours(SRC, TGT), expected @ table.T)
    memory = theirs.encoder(src, src_key_padding_mask=SRC == 0)
    close(ours.encode(SRC), memory)


def test_pre_norm_stacks_end_in_a_norm_and_post_norm_ones_do_not() -> None:
    for order, kind in (("pre", nn.LayerNorm), ("post", nn.Identity)):
        model = Transformer(config(order, "relu"))  # type: ignore[arg-type]
        assert isinstance(model.encoder_norm, kind)
        assert isinstance(model.decoder_norm, kind)
