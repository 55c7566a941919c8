"""What is specific to T5: scores, initial values, sizes; that it learns."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.config import PRESETS, VOCABULARIES, FamilyConfig, convert
from regard.core.taps import record
from regard.errors import ConfigError
from regard.models.build import translation_model
from regard.models.ledger import ledger
from regard.models.t5 import T5


def test_scores_are_not_divided_and_shifting_a_text_changes_nothing_but_its_place(small: Any) -> None:
    """Scores depend on distances only: shifted tokens have the same scores among each other."""
    model = small.model("t5")
    with record(model, "encoder.0.attention.*") as trace:
        model.encode(torch.tensor([[3, 4, 5, 3, 4, 5]]))
    q, k = (trace[f"encoder.0.attention.{name}"] for name in "qk")
    scores = trace["encoder.0.attention.scores"][0]
    small.close(scores, (q @ k.mT)[0] + model.src_positions.bias(6, 6))
    small.close(scores[:, :3, :3], scores[:, 3:, 3:])


def test_hidden_times_the_output_matrix_equals_the_logits(small: Any) -> None:
    from regard.train.loss import vocabulary_loss

    model = small.model("t5", ffn="geglu", tie_embeddings="inputs", scale_output=False, output_bias=True)
    src, tgt = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 2, 3]])
    wanted = torch.tensor([2, 3, 4])
    hidden = model.hidden(src, tgt)[0]
    found = vocabulary_loss(hidden, model.output.weight, wanted, bias_V=model.output_bias).nll
    logp = model(src, tgt)[0].log_softmax(-1)
    small.close(found, -logp[range(3), wanted].sum())


def test_initial_predictions_are_nearly_uniform(small: Any) -> None:
    torch.manual_seed(1)
    for changes in ({}, {"tie_embeddings": "inputs", "scale_output": False}):
        sizes = {"d_model": 64, "n_heads": 4, "head_size": 16, "d_ff": 128, "n_buckets": 32, "max_distance": 128}
        config = small.config("t5", **(sizes | changes | {"src_vocab_size": 500, "tgt_vocab_size": 500}))
        model = T5(config).eval()
        ids = torch.randint(4, 500, (4, 12))
        with torch.inference_mode():
            logits = model(ids, ids.flip(0))
        assert 0.3 < logits.std() < 2.5
        assert logits.log_softmax(-1).exp().max() < 0.5


def test_it_learns_to_copy(small: Any) -> None:
    torch.manual_seed(2)
    model = T5(small.config("t5", d_model=32, head_size=8, n_heads=4, d_ff=64, dropout=0.0))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    src = torch.randint(4, small.vocabulary, (64, 5))
    tgt = torch.cat([torch.full((64, 1), 2), src], dim=1)
    for _ in range(100):
        logits = model(src, tgt[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), src.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1


def test_the_published_parameter_counts() -> None:
    for name, millions in (("t5-small", 60.5), ("t5-base", 222.9)):
        config: FamilyConfig = convert(FamilyConfig, PRESETS[name], name).with_vocabulary(VOCABULARIES[name])
        assert ledger(config).total / 1e6 == pytest.approx(millions, abs=0.05)


def test_impossible_settings_are_refused(small: Any) -> None:
    with pytest.raises(ConfigError, match=r"max_distance = 4 must be more than half of model\.n_buckets = 8"):
        small.config("t5", n_buckets=8, max_distance=4)
    with pytest.raises(ConfigError, match="one vocabulary"):
        small.config("t5", src_vocab_size=13)
    assert isinstance(translation_model(small.config("t5")), T5)
