"""Each intervention against a model that was built or changed in that way, in float64."""

from __future__ import annotations

import copy
import functools
import math
import re
from dataclasses import asdict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.config import DecodeConfig, NormOrder, Position, RecurrentConfig, TransformerConfig
from regard.core.masks import padding_mask
from regard.core.residual import Residual
from regard.core.taps import Tap, record
from regard.decode.scoring import score_translations
from regard.decode.search import search
from regard.errors import ConfigError
from regard.inspect.interventions import (
    HeadOff,
    LayerOff,
    MaskOff,
    WeightSet,
    check_cells,
    check_search,
    parse_interventions,
    without_mask,
)
from regard.inspect.patching import intervened
from regard.models.recurrent import RecurrentModel
from regard.models.transformer import Transformer
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import BOS, EOS, PAD

SIZES = {"d_model": 12, "n_heads": 3, "d_ff": 16, "n_encoder_layers": 3, "n_decoder_layers": 3}
VOCABULARY = 14
SOURCE = [5, 9, 4, 12]
SRC = torch.tensor([[*SOURCE, EOS]])
TGT = torch.tensor([[BOS, 6, 7, 13, 8]])
ORDERS: tuple[NormOrder, ...] = ("post", "pre")
HOW = DecodeConfig(beam=3, max_length_ratio=1.0, max_length_extra=4)
CPU = torch.device("cpu")

every_order = pytest.mark.parametrize("order", ORDERS)


@functools.cache
def transformer(order: NormOrder = "post", position: Position = "sinusoidal") -> Transformer:
    torch.manual_seed(3)
    config = TransformerConfig(
        **SIZES, norm_order=order, position=position, src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY
    )
    return perturbed(Transformer(config))


@functools.cache
def recurrent() -> RecurrentModel:
    torch.manual_seed(4)
    sizes = {"d_model": 8, "src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY}
    return perturbed(RecurrentModel(RecurrentConfig(**sizes)))


def perturbed(model: Any) -> Any:
    """Random biases and norms, so that leaving one out changes the result."""
    model = model.double().eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def logits_of(model: TranslationModel, *trees: dict[str, Any]) -> Tensor:
    with intervened(model, parse_interventions(list(trees))):
        return model(SRC, TGT)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


def differ(one: Tensor, other: Tensor) -> None:
    assert (one - other).abs().max() > 1e-3


@every_order
@pytest.mark.parametrize("where", ["encoder.1.attention", "decoder.0.attention", "decoder.2.cross"])
def test_a_disabled_head_equals_zero_columns_of_the_output_matrix(order: NormOrder, where: str) -> None:
    model = transformer(order)
    changed = logits_of(model, {"kind": "head", "where": where, "head": 1})
    other = copy.deepcopy(model)
    size = 12 // 3
    other.get_submodule(where).out.weight[:, size : 2 * size] = 0
    close(changed, other(SRC, TGT))
    differ(changed, model(SRC, TGT))


@every_order
def test_every_head_off_leaves_the_bias_alone_and_attention_off_leaves_nothing(order: NormOrder) -> None:
    model = transformer(order)
    where = "decoder.1.cross"
    heads = parse_interventions([{"kind": "head", "where": where, "head": head} for head in range(3)])
    with intervened(model, heads), record(model, f"{where}.*") as seen:
        silent = model(SRC, TGT)
    assert seen[f"{where}.weights"].abs().max() == 0
    assert seen[f"{where}.head_out"].abs().max() == 0
    close(seen[f"{where}.attn_out"], model.get_submodule(where).out.bias.expand(1, TGT.shape[1], -1))
    off = parse_interventions([{"kind": "attention", "where": where}])
    with intervened(model, off), record(model, f"{where}.attn_out") as seen:
        nothing = model(SRC, TGT)
    assert seen[f"{where}.attn_out"].abs().max() == 0
    other = copy.deepcopy(model)
    other.get_submodule(where).out.weight.zero_()
    close(silent, other(SRC, TGT))
    other.get_submodule(where).out.bias.zero_()
    close(nothing, other(SRC, TGT))


@every_order
def test_without_a_feed_forward_network(order: NormOrder) -> None:
    model = transformer(order)
    other = copy.deepcopy(model)
    for parameter in other.encoder[2].ffn.down.parameters():
        parameter.zero_()
    close(logits_of(model, {"kind": "ffn", "where": "encoder.2"}), other(SRC, TGT))


@every_order
@pytest.mark.parametrize(
    "gone", [("encoder.0",), ("decoder.2",), ("encoder.1", "encoder.2"), ("decoder.1", "decoder.0")]
)
def test_without_layers_is_a_model_without_them(order: NormOrder, gone: tuple[str, ...]) -> None:
    model = transformer(order)
    changed = logits_of(model, *({"kind": "layer", "where": where} for where in gone))
    other = copy.deepcopy(model)
    for side in ("encoder", "decoder"):
        kept = [layer for i, layer in enumerate(getattr(other, side)) if f"{side}.{i}" not in gone]
        setattr(other, side, nn.ModuleList(kept))
    close(changed, other(SRC, TGT))
    differ(changed, model(SRC, TGT))


class NoSkip(Residual):
    def after(self, x: Tensor, change: Tensor) -> Tensor:
        return change if self.pre else self.norm(change)


@every_order
@pytest.mark.parametrize("where", ["encoder.0", "decoder.1"])
def test_without_skip_connections(order: NormOrder, where: str) -> None:
    model = transformer(order)
    other = copy.deepcopy(model)
    for module in other.get_submodule(where).modules():
        if isinstance(module, Residual):
            module.__class__ = NoSkip
    close(logits_of(model, {"kind": "residual", "where": where}), other(SRC, TGT))


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "alibi", "relative"])
def test_without_the_scale(position: Position) -> None:
    model = transformer(position=position)
    other = copy.deepcopy(model)
    for name, parameter in other.named_parameters():
        if ".qkv." in name:
            parameter[:12] *= math.sqrt(12 // 3)  # the queries
    close(logits_of(model, {"kind": "scale"}), other(SRC, TGT))


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary", "alibi", "relative"])
def test_without_positions(position: Position) -> None:
    model = transformer(position=position)
    other = transformer(position="none")
    weights = {name: value for name, value in model.state_dict().items() if "positions" not in name}
    other = copy.deepcopy(other)
    other.load_state_dict(weights)
    changed = logits_of(model, {"kind": "positions"})
    close(changed, other(SRC, TGT))
    # A source without positions is a bag of words.
    with intervened(model, parse_interventions([{"kind": "positions"}])):
        close(model(SRC.flip(1), TGT), changed)


@every_order
@pytest.mark.parametrize("position", ["sinusoidal", "alibi"])
def test_without_the_mask(order: NormOrder, position: Position) -> None:
    model = transformer(order, position)
    memory, length = model.encode(SRC), TGT.shape[1]
    x = model.embed(model.tgt_embedding, model.tgt_positions, TGT)
    bias = model.tgt_positions.bias(length, length)
    for layer in model.decoder:
        x = layer(x, memory, None, padding_mask(SRC, PAD), bias, model.tgt_positions)
    close(logits_of(model, {"kind": "mask"}), model.project(model.decoder_norm(x)))


@pytest.mark.parametrize(
    ("where", "row"), [("encoder.1.attention", 2), ("decoder.0.attention", 3), ("decoder.1.cross", 4)]
)
def test_a_weight_is_set_and_the_rest_of_its_row_shares_what_is_left(where: str, row: int) -> None:
    model = transformer()
    with record(model, f"{where}.*") as plain:
        model(SRC, TGT)
    tree = {"kind": "weight", "where": where, "head": 2, "row": row, "column": 1, "value": 0.9}
    with intervened(model, parse_interventions([tree])), record(model, f"{where}.*") as seen:
        model(SRC, TGT)
    before, after = plain[f"{where}.weights"][0], seen[f"{where}.weights"][0]
    assert after[2, row, 1] == 0.9
    close(after.sum(dim=-1), torch.ones(after.shape[:2], dtype=torch.float64))
    others = [i for i in range(before.shape[2]) if i != 1]
    close(after[2, row, others] / 0.1, before[2, row, others] / before[2, row, others].sum())
    before[2, row] = after[2, row]
    close(after, before)
    close(seen[f"{where}.head_out"][0], after @ seen[f"{where}.v"][0])


def test_several_weights_of_a_row_are_set_together() -> None:
    model = transformer()
    place = {"kind": "weight", "where": "decoder.1.cross", "head": 0, "row": 1}
    trees = [{**place, "column": 0, "value": 0.5}, {**place, "column": 3, "value": 0.25}]
    with intervened(model, parse_interventions(trees)), record(model, "decoder.1.cross.weights") as seen:
        model(SRC, TGT)
    row = seen["decoder.1.cross.weights"][0, 0, 1]
    assert (row[0], row[3]) == (0.5, 0.25)
    assert row.sum().item() == pytest.approx(1)
    trees[1]["value"] = 0.6
    with pytest.raises(ConfigError, match=r"row 1 of decoder\.1\.cross, head 0, sum to more than 1"):
        logits_of(model, *trees)


def test_a_weight_in_a_silent_head_is_all_that_it_has() -> None:
    model = transformer()
    weight = {"kind": "weight", "where": "decoder.1.cross", "head": 0, "row": 1, "column": 2, "value": 0.3}
    off = {"kind": "head", "where": "decoder.1.cross", "head": 0}
    with intervened(model, parse_interventions([weight, off])), record(model, "decoder.1.cross.weights") as seen:
        model(SRC, TGT)
    weights = seen["decoder.1.cross.weights"][0, 0]
    assert weights.sum() == weights[1, 2] == 0.3


SEARCHED: list[list[dict[str, Any]]] = [
    [
        {"kind": "head", "where": "decoder.1.attention", "head": 0},
        {"kind": "head", "where": "encoder.0.attention", "head": 1},
    ],
    [{"kind": "attention", "where": "decoder.0.attention"}],
    [{"kind": "attention", "where": "decoder.2.cross"}],
    [{"kind": "ffn", "where": "decoder.1"}],
    [{"kind": "residual", "where": "decoder.1"}],
    [{"kind": "layer", "where": "decoder.0"}, {"kind": "layer", "where": "decoder.1"}],
    [{"kind": "layer", "where": "encoder.1"}],
    [{"kind": "scale"}],
    [{"kind": "positions"}],
    [{"kind": "weight", "where": "decoder.1.cross", "head": 1, "row": 2, "column": 3, "value": 1}],
    [{"kind": "weight", "where": "decoder.0.attention", "head": 1, "row": 3, "column": 1, "value": 0.8}],
    [{"kind": "weight", "where": "encoder.0.attention", "head": 1, "row": 3, "column": 1, "value": 0.8}],
]


@every_order
@pytest.mark.parametrize("trees", SEARCHED, ids=lambda trees: "+".join(tree["kind"] for tree in trees))
def test_a_search_and_a_whole_pass_agree(order: NormOrder, trees: list[dict[str, Any]]) -> None:
    agree(transformer(order), trees)


@pytest.mark.parametrize(
    "tree",
    [
        {"kind": "attention", "where": "decoder.0.cross"},
        {"kind": "head", "where": "decoder.0.cross", "head": 0},
        {"kind": "weight", "where": "decoder.0.cross", "head": 0, "row": 2, "column": 3, "value": 0.9},
    ],
    ids=lambda tree: tree["kind"],
)
def test_a_recurrent_model_can_be_changed_too(tree: dict[str, Any]) -> None:
    agree(recurrent(), [tree])


def agree(model: TranslationModel, trees: list[dict[str, Any]]) -> None:
    """The log-probabilities of a search with interventions equal those of a whole pass."""
    interventions = parse_interventions(trees)
    with intervened(model, interventions):
        [found] = search(model, [SOURCE], HOW, CPU, n_best=3)
        for one in found:
            ids = torch.tensor([[BOS, *one.ids]])
            log_probs = model(SRC, ids)[0].log_softmax(-1)
            wanted = [*one.ids, EOS][: len(one.token_log_probs)]
            expected = [log_probs[i, token].item() for i, token in enumerate(wanted)]
            assert one.token_log_probs == pytest.approx(expected, abs=1e-5)
    plain = score_translations(model, SRC, [found[0].ids])[0]
    assert plain.token_log_probs[: len(wanted)] != pytest.approx(found[0].token_log_probs, abs=1e-5)


@pytest.mark.parametrize("fails", [False, True])
def test_afterwards_the_model_is_what_it_was(fails: bool) -> None:
    model = transformer()
    before, modules = model(SRC, TGT), dict(model.named_modules())
    trees = [
        *({"kind": kind} for kind in ("scale", "positions", "mask")),
        *({"kind": kind, "where": "decoder.1"} for kind in ("ffn", "layer", "residual")),
        {"kind": "head", "where": "decoder.1.cross", "head": 0},
        {"kind": "weight", "where": "decoder.1.cross", "head": 1, "row": 1, "column": 1, "value": 0.5},
    ]
    try:
        with intervened(model, parse_interventions(trees)):
            differ(model(SRC, TGT), before)
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert torch.equal(model(SRC, TGT), before)
    assert dict(model.named_modules()) == modules
    assert list(dict(model.named_modules())) == list(modules)
    assert not any(module.hooked for module in model.modules() if isinstance(module, Tap))


def test_none_is_none() -> None:
    model = transformer()
    with intervened(model, ()):
        assert not any(module.hooked for module in model.modules() if isinstance(module, Tap))


def test_json_and_back() -> None:
    trees = [tree for trees in SEARCHED for tree in trees] + [{"kind": "mask"}]
    assert [asdict(one) for one in parse_interventions(trees)] == trees
    assert parse_interventions([]) == ()


WRONG: list[tuple[Any, str]] = [
    ("head", r"interventions must be a list, not 'head'"),
    ({"kind": "head"}, r"interventions must be a list"),
    (["head"], r"interventions\[0\] must be a table of settings \(in JSON, an object\), not 'head'"),
    ([{}], r"interventions\[0\]\.kind is missing; it may be one of 'scale', 'positions'"),
    ([{"kind": "haed"}], r"interventions\[0\]\.kind = 'haed'"),
    ([{"kind": ["head"]}], r"interventions\[0\]\.kind"),
    ([{"kind": "scale"}, {"kind": "head", "where": "decoder.0.cross"}], r"interventions\[1\]\.head is missing"),
    ([{"kind": "scale", "where": "all"}], r"interventions\[0\]\.where is a setting of the kind 'head'"),
    ([{"kind": "ffn", "wher": "encoder.0"}], r"unknown key interventions\[0\]\.wher; did you mean 'where'\?"),
    ([{"kind": "ffn", "where": 0}], r"interventions\[0\]\.where = 0 is not possible; it must be a text"),
    ([{"kind": "head", "where": "decoder.0.cross", "head": "1"}], r"\.head = '1' is not possible; it must be a whole"),
    ([{"kind": "head", "where": "decoder.0.cross", "head": True}], r"\.head = True is not possible"),
    ([{"kind": "head", "where": "decoder.0.cross", "head": -1}], r"\.head = -1 is too small; the least is 0"),
    (
        [{"kind": "weight", "where": "decoder.0.cross", "head": 0, "row": 0, "column": 0, "value": 1.5}],
        r"\.value = 1\.5 is too large; the most is 1\.0",
    ),
    (
        [{"kind": "weight", "where": "decoder.0.cross", "head": 0, "row": 0, "column": 0, "value": math.nan}],
        r"\.value = nan must be finite",
    ),
    (
        [{"kind": "weight", "where": "decoder.0.cross", "head": 0, "row": 0, "column": 0, "value": 10**400}],
        r"\.value = 1000+… is too large",
    ),
]


@pytest.mark.parametrize(("trees", "message"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_what_is_malformed_is_refused_with_a_sentence(trees: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_interventions(trees)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"kind": "head", "where": "decoder.0.cross", "head": 3}, "decoder.0.cross has no head 3: it has 3, numbered"),
        (
            {"kind": "head", "where": "decoder.9.cross", "head": 0},
            "there is no 'decoder.9.cross' to change with 'head'",
        ),
        ({"kind": "attention", "where": "encoder.0.cross"}, "one of 'decoder.0.attention', 'decoder.0.cross'"),
        ({"kind": "ffn", "where": "decoder.1.ffn"}, "one of 'decoder.0', 'decoder.1', 'decoder.2', 'encoder.0'"),
        ({"kind": "layer", "where": "*"}, "there is no '*' to change"),
    ],
)
def test_unknown_places_are_refused(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        logits_of(transformer(), tree)


@pytest.mark.parametrize("tree", [{"kind": "scale"}, {"kind": "positions"}, {"kind": "ffn", "where": "encoder.0"}])
def test_interventions_that_a_recurrent_model_does_not_support(tree: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"this model has no|none in this model"):
        logits_of(recurrent(), tree)


def test_positions_of_a_model_that_has_none() -> None:
    with pytest.raises(ConfigError, match="no position information to remove"):
        logits_of(transformer(position="none"), {"kind": "positions"})


def test_the_mask_intervention_is_refused_in_a_search() -> None:
    both = (MaskOff(), LayerOff("encoder.0"))
    with pytest.raises(ConfigError, match="'mask' has no effect on a search"):
        check_search(both)
    check_search(without_mask(both))
    assert without_mask(both) == both[1:]


@pytest.mark.parametrize(
    ("where", "row", "column", "message"),
    [
        ("encoder.0.attention", 5, 0, "there is no row 5 in encoder.0.attention: it has 5, numbered from 0 to 4"),
        ("encoder.0.attention", 0, 5, "there is no column 5"),
        ("decoder.0.cross", 7, 0, "there is no row 7"),
        ("decoder.0.cross", 0, 5, "there is no column 5"),
        ("decoder.0.attention", 1, 2, "row 1 of decoder.0.attention cannot attend to column 2: the causal mask"),
    ],
)
def test_weights_outside_the_map(where: str, row: int, column: int, message: str) -> None:
    weight = WeightSet(where, 0, row, column, 0.5)
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_cells([weight], n_src=5, n_tgt=7)
    check_cells([HeadOff(where, 0)], n_src=5, n_tgt=7)


def test_weights_within_the_map() -> None:
    check_cells([WeightSet("decoder.0.cross", 0, 6, 4, 0.5)], n_src=5, n_tgt=7)
    check_cells([WeightSet("decoder.0.cross", 0, 99, 4, 0.5)], n_src=5)  # the length of the target is not known yet
    check_cells([MaskOff(), WeightSet("decoder.0.attention", 0, 1, 2, 0.5)], n_src=5, n_tgt=7)
