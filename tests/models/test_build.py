"""Every config gives the model of its family, and every model implements the common interface."""

from __future__ import annotations

import pytest
import torch

from regard.config import DecodeConfig, DeepSeekConfig, FamilyConfig, GptConfig, RecurrentConfig, TransformerConfig
from regard.decode.search import search
from regard.models.build import build_model
from regard.models.language_model import LanguageModel
from regard.models.recurrent import RecurrentModel
from regard.models.transformer import Transformer
from regard.models.translation_model import TranslationModel

CONFIGS: list[FamilyConfig] = [
    TransformerConfig(d_model=8, n_heads=2, d_ff=8, src_vocab_size=11, tgt_vocab_size=11),
    RecurrentConfig(d_model=8, src_vocab_size=11, tgt_vocab_size=11),
    RecurrentConfig(d_model=8, cell="rnn", attention="none", src_vocab_size=11, tgt_vocab_size=11),
]


def test_the_settings_choose_the_model() -> None:
    assert [type(build_model(config)) for config in CONFIGS] == [Transformer, RecurrentModel, RecurrentModel]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.family)
def test_every_translation_model_implements_the_interface(config: FamilyConfig) -> None:
    torch.manual_seed(1)
    model = build_model(config).double().eval()
    src, tgt = torch.tensor([[4, 5, 3], [6, 3, 0]]), torch.tensor([[2, 7, 8], [2, 9, 0]])
    hidden = model.hidden(src, tgt)
    assert hidden.shape == (2, 3, model.output.weight.shape[1])
    torch.testing.assert_close(model.project(hidden), hidden @ model.output.weight.T)
    torch.testing.assert_close(model(src, tgt), model.project(hidden))
    state = model.begin(src, 3)
    for place in range(2):
        torch.testing.assert_close(model.step(tgt[:, place], state), model(src, tgt)[:, place])
    assert model.compute_dtype is None
    assert model.longest_target is None
    model.float().compute_dtype = torch.bfloat16
    assert model.hidden(src, tgt).dtype == torch.bfloat16


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.family)
@pytest.mark.parametrize("how", [DecodeConfig(beam=3), DecodeConfig(beam=1), DecodeConfig(method="sample", seed=4)])
def test_it_can_be_searched_and_batches_change_nothing(config: FamilyConfig, how: DecodeConfig) -> None:
    torch.manual_seed(1)
    model = build_model(config).double().eval().requires_grad_(False)
    sources = [[5, 6, 7, 8], [4], [9, 10, 4], []]
    n_best = min(2, how.beam)
    together = search(model, sources, how, torch.device("cpu"), n_best)
    for number, source in enumerate(sources):
        if how.method == "beam":  # a sample's seed goes with its place
            [alone] = search(model, [source], how, torch.device("cpu"), n_best)
            assert [one.ids for one in alone] == [one.ids for one in together[number]]
        for one in together[number]:
            assert one.log_prob == pytest.approx(sum(one.token_log_probs))


@pytest.mark.parametrize(
    "config",
    [
        GptConfig(d_model=8, n_heads=2, d_ff=8, n_layers=2, vocab_size=11),
        DeepSeekConfig(d_model=8, n_heads=2, d_ff=8, n_layers=2, vocab_size=11),
    ],
    ids=lambda config: config.family,
)
def test_every_language_model_implements_the_interface(config: FamilyConfig) -> None:
    torch.manual_seed(1)
    model = build_model(config).double().eval().requires_grad_(False)
    assert isinstance(model, LanguageModel)
    ids = torch.tensor([[4, 5, 3, 9], [6, 3, 7, 10]])
    hidden = model.hidden(ids)
    torch.testing.assert_close(model.project(hidden), hidden @ model.output.weight.T)
    torch.testing.assert_close(model(ids), model.project(hidden))
    state = model.begin(2, 4)
    torch.testing.assert_close(model.read(ids[:, :2], state), hidden[:, :2])
    state.reorder(torch.tensor([1, 0]))
    torch.testing.assert_close(model.step(ids[[1, 0], 2], state), model(ids)[[1, 0], 2])
    assert model.compute_dtype is None
    model.float().compute_dtype = torch.bfloat16
    assert model.hidden(ids).dtype == torch.bfloat16
    assert model.longest_text is None or model.longest_text >= 4


def test_an_incomplete_model_class_cannot_be_instantiated() -> None:
    class Half(TranslationModel):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]
