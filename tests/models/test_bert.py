"""BERT: bidirectional attention, masked padding, and the heads."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import PRESETS, VOCABULARIES, BertConfig, FamilyConfig, build, convert, to_dict
from regard.core.taps import record, tap_paths
from regard.errors import ConfigError
from regard.models.bert import Bert
from regard.models.build import build_model, translation_model
from regard.models.ledger import ledger

SIZES = {"d_model": 12, "n_heads": 2, "d_ff": 20, "n_layers": 2, "max_positions": 10, "vocab_size": 17, "n_labels": 3}
ALL = ("masked", "next", "classes", "tags")
IDS = st.lists(st.integers(1, 16), min_size=1, max_size=8)


def shaken(**changes: object) -> Bert:
    torch.manual_seed(1)
    model = Bert(BertConfig(**{**SIZES, "heads": ALL, **changes})).double().eval().requires_grad_(False)  # type: ignore[arg-type]
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


MODEL = shaken()


def everything(ids_BL: torch.Tensor, segments_BL: torch.Tensor | None = None) -> list[torch.Tensor]:
    hidden = MODEL(ids_BL, segments_BL)
    words = [hidden, MODEL.masked_logits(hidden), MODEL.tag_logits(hidden)]
    whole = [MODEL.next_logits(hidden), MODEL.class_logits(hidden), MODEL.sentence(hidden, ids_BL)]
    return words + whole


@settings(deadline=None)
@given(texts=st.lists(IDS, min_size=1, max_size=3), more=st.integers(0, 2))
def test_padding_and_batch_mates_are_irrelevant(texts: list[list[int]], more: int) -> None:
    longest = max(map(len, texts)) + more
    together = everything(torch.tensor([ids + [0] * (longest - len(ids)) for ids in texts]))
    for number, ids in enumerate(texts):
        alone = everything(torch.tensor([ids]))
        for all_of_them, one in zip(together, alone, strict=True):
            row = all_of_them[number] if all_of_them.dim() == 2 else all_of_them[number, : len(ids)]
            torch.testing.assert_close(row, one[0], rtol=0, atol=1e-11)


def test_attention_is_bidirectional() -> None:
    ids = torch.tensor([[2, 5, 6, 3]])
    for place in range(4):
        changed = ids.clone()
        changed[0, place] = 9
        difference = (MODEL(ids) - MODEL(changed)).abs().amax(dim=-1)[0]
        assert (difference > 1e-6).all()


def test_segments_distinguish_two_texts() -> None:
    ids = torch.tensor([[2, 5, 3, 6, 3]])
    one_text, two_texts = MODEL(ids), MODEL(ids, torch.tensor([[0, 0, 0, 1, 1]]))
    assert (one_text - two_texts).abs().max() > 1e-3
    torch.testing.assert_close(MODEL(ids, torch.zeros_like(ids)), one_text)


def test_shapes_of_the_heads() -> None:
    shapes = [tuple(found.shape) for found in everything(torch.tensor([[2, 5, 3], [2, 3, 0]]))]
    assert shapes == [(2, 3, 12), (2, 3, 17), (2, 3, 3), (2, 2), (2, 3), (2, 12)]


def test_the_masked_head_by_hand() -> None:
    hidden = MODEL(torch.tensor([[2, 5, 3]]))
    head = MODEL.masked_head
    assert head is not None
    inner = torch.nn.functional.gelu(hidden @ head.map.weight.T + head.map.bias)
    inner = torch.nn.functional.layer_norm(inner, (12,), head.norm.weight, head.norm.bias, 1e-12)
    torch.testing.assert_close(MODEL.masked_hidden(hidden), inner)
    torch.testing.assert_close(MODEL.masked_logits(hidden), inner @ MODEL.embedding.weight.T + head.bias_V)
    chosen = MODEL.masked_logits(hidden[0, [1]])  # any places
    torch.testing.assert_close(chosen, MODEL.masked_logits(hidden)[0, [1]])


def test_taps() -> None:
    ids = torch.tensor([[2, 5, 3]])
    with record(MODEL) as seen:
        logits = MODEL.class_logits(MODEL(ids))
    assert set(seen.paths()) == set(tap_paths(MODEL))
    assert torch.equal(seen["logits"], logits)
    weights = seen["layers.0.attention.weights"]
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(1, 2, 3).double())
    torch.testing.assert_close(seen["memory"], MODEL(ids), rtol=0, atol=1e-12)
    assert seen["summary"].shape == (1, 12)


def test_precision_of_the_activations() -> None:
    model = Bert(BertConfig(**{**SIZES, "heads": ALL}))  # type: ignore[arg-type]
    model.compute_dtype = torch.bfloat16
    hidden = model(torch.tensor([[2, 5, 3]]))
    assert hidden.dtype == torch.bfloat16
    heads = (model.masked_logits, model.next_logits, model.class_logits, model.tag_logits)
    sum(head(hidden).float().sum() for head in heads).backward()  # type: ignore[union-attr]
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in model.parameters())


def test_a_missing_head_is_an_error() -> None:
    bare = shaken(heads=("masked",), pooler=False)
    hidden = bare(torch.tensor([[2, 5, 3]]))
    with pytest.raises(ConfigError, match=r"no head 'classes'; its heads \(model.heads\): 'masked'"):
        bare.class_logits(hidden)
    with pytest.raises(ConfigError, match="no pooler"):
        bare.pool(hidden)
    with pytest.raises(ConfigError, match=r"model.heads has 'next', which needs the pooler"):
        BertConfig(heads=("next",), pooler=False)
    with pytest.raises(ConfigError, match="names a head twice"):
        BertConfig(heads=("tags", "tags"))


def test_settings_survive_being_written() -> None:
    config = BertConfig(heads=("tags",), n_labels=4)
    assert build(BertConfig, {**to_dict(config), "heads": ["tags"]}, "model") == config
    with pytest.raises(ConfigError, match=r"model.heads\[0\] = 'mask' is not possible"):
        build(BertConfig, {"heads": ["mask"]}, "model")


def test_the_published_size() -> None:
    config = convert(FamilyConfig, PRESETS["bert-base"], "bert-base").with_vocabulary(VOCABULARIES["bert-base"])
    book = ledger(config)
    assert book.total == 109_482_240
    whole = ledger(BertConfig(**{**SIZES, "heads": ALL}))  # type: ignore[arg-type]
    assert whole.total == sum(parameter.numel() for parameter in MODEL.parameters())


def test_it_does_not_translate() -> None:
    config = BertConfig(**SIZES)  # type: ignore[arg-type]
    assert isinstance(build_model(config), Bert)
    with pytest.raises(
        ConfigError, match="a bert model does not translate: it predicts masked tokens, with regard fill"
    ):
        translation_model(config)


def test_it_can_learn_a_missing_word() -> None:
    """In plain torch: between 5 and 6 is a 7, between 6 and 5 an 8."""
    torch.manual_seed(1)
    model = Bert(BertConfig(**{**SIZES, "heads": ("masked",), "dropout": 0.0, "attention_dropout": 0.0}))  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    ids, wanted = torch.tensor([[2, 5, 4, 6, 3], [2, 6, 4, 5, 3]]), torch.tensor([7, 8])
    for _ in range(120):
        loss = torch.nn.functional.cross_entropy(model.masked_logits(model(ids)[:, 2]), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1
