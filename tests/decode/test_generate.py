"""Text generation: samples follow the model, depend on their seed only, and never split a character."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import DeepSeekConfig, GptConfig, MixtureConfig
from regard.decode.generate import ENDED, SamplingOptions, decode_stream, generate
from regard.decode.model_texts import ModelTexts
from regard.errors import ConfigError, RegardError
from regard.models.deepseek import DeepSeek
from regard.models.gpt import Gpt
from regard.tokenizers.byte_level_bpe import END_PIECE, VISIBLE, ByteLevelBpeTokenizer
from regard.tokenizers.characters import CharacterTokenizer
from regard.tokenizers.special_ids import BOS, EOS

BYTES = ByteLevelBpeTokenizer({piece: number for number, piece in enumerate([*VISIBLE, END_PIECE])}, [])
LETTERS = CharacterTokenizer("abcdefgh")


def shaken(vocab_size: int, max_positions: int = 12, seed: int = 1) -> Gpt:
    torch.manual_seed(seed)
    config = GptConfig(d_model=8, n_heads=2, d_ff=8, n_layers=2, max_positions=max_positions, vocab_size=vocab_size)
    model = Gpt(config).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.5)
    return model


def written(
    model: Gpt, prompt: Sequence[int], how: SamplingOptions, max_tokens: int = 8, seeds: Sequence[int] = (1,)
) -> tuple[list[list[int]], list[list[float]]]:
    steps = list(generate(ModelTexts(model), LETTERS, prompt, how, max_tokens=max_tokens, seeds=seeds))
    tokens = np.stack([tokens_R for tokens_R, _ in steps], axis=1).tolist()
    return tokens, np.stack([log_probs_R for _, log_probs_R in steps], axis=1).tolist()


MODEL = shaken(LETTERS.size + 3)


def test_greedy_takes_the_likeliest_and_reports_its_probability() -> None:
    [tokens], [log_probs] = written(MODEL, [BOS, 6, 7], SamplingOptions(top_k=1))
    ids = [BOS, 6, 7]
    for token, log_prob in zip(tokens, log_probs, strict=True):
        expected = torch.log_softmax(MODEL(torch.tensor([ids]))[0, -1], dim=-1)
        allowed = expected.clone()
        allowed[[0, 1, 2, 4]] = -torch.inf
        allowed[LETTERS.size :] = -torch.inf
        assert token == int(allowed.argmax())
        assert log_prob == pytest.approx(float(expected[token]), abs=1e-9)
        ids.append(token)


@settings(deadline=None, max_examples=30)
@given(seeds=st.lists(st.integers(0, 2**31), min_size=1, max_size=4), temperature=st.floats(0.5, 3))
def test_a_text_depends_on_its_own_seed_alone(seeds: list[int], temperature: float) -> None:
    how = SamplingOptions(temperature=temperature, top_p=0.95)
    together, _ = written(MODEL, [BOS, 6], how, seeds=seeds)
    for row, seed in zip(together, seeds, strict=True):
        [alone], _ = written(MODEL, [BOS, 6], how, seeds=[seed])
        kept = [token for token in row if token != ENDED]
        assert kept == alone[: len(kept)]
        assert EOS not in kept[:-1]


def test_memory_is_allocated_for_the_text_so_far() -> None:
    steps = generate(ModelTexts(MODEL), LETTERS, [BOS, 6], SamplingOptions(), max_tokens=10**20, seeds=[1, 2])
    [few, _] = written(MODEL, [BOS, 6], SamplingOptions(), max_tokens=2, seeds=[1, 2])
    assert np.stack([next(steps)[0], next(steps)[0]], axis=1).tolist() == few


def test_a_model_without_a_limit_sees_all_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is enlarged repeatedly and keeps the whole text."""
    monkeypatch.setattr("regard.decode.generate.INITIAL_ROOM", 4)
    torch.manual_seed(6)  # one that does not end soon
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 2, "kv_rank": 4, "head_size": 4, "rotary_size": 2}
    config = DeepSeekConfig(**sizes, value_size=4, moe=MixtureConfig(n_experts=2), vocab_size=LETTERS.size)
    model = DeepSeek(config).double().eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.5)
    steps = generate(ModelTexts(model), LETTERS, [BOS, 6, 7], SamplingOptions(top_k=1), max_tokens=10**11, seeds=[1])
    ids = [BOS, 6, 7]
    for _ in range(20):
        [token], [log_prob] = (values.tolist() for values in next(steps))
        expected = torch.log_softmax(model(torch.tensor([ids]))[0, -1], dim=-1)
        assert log_prob == pytest.approx(float(expected[token]), abs=1e-9)
        ids.append(token)


def test_special_tokens_are_never_generated() -> None:
    tokens, _ = written(MODEL, [BOS], SamplingOptions(temperature=3.0), max_tokens=40, seeds=range(20))
    drawn = {token for row in tokens for token in row}
    assert drawn <= {ENDED, EOS, *range(5, LETTERS.size)}
    assert {ENDED, EOS} <= drawn
    assert len(drawn) > 5


def test_sampling_follows_the_model() -> None:
    seeds = range(4000)
    tokens, _ = written(MODEL, [BOS, 6], SamplingOptions(), max_tokens=1, seeds=seeds)
    counts = torch.bincount(torch.tensor(tokens)[:, 0], minlength=LETTERS.size).double() / len(seeds)
    expected = torch.softmax(MODEL(torch.tensor([[BOS, 6]]))[0, -1], dim=-1)[: LETTERS.size].clone()
    expected[[0, 1, 2, 4]] = 0
    expected /= expected.sum()
    assert (counts - expected).abs().max() < 0.03


def test_a_text_may_be_longer_than_the_window() -> None:
    """When the window is full, the recent half is read again; otherwise nothing is read twice."""
    [tokens], [log_probs] = written(MODEL, [BOS, 6, 7], SamplingOptions(top_k=1), max_tokens=40)
    if EOS in tokens:
        pytest.fail("choose another model: this one ends too early to show anything")
    ids = [BOS, 6, 7]
    seen = list(ids)
    for token, log_prob in zip(tokens, log_probs, strict=True):
        expected = torch.log_softmax(MODEL(torch.tensor([seen]))[0, -1], dim=-1)
        assert log_prob == pytest.approx(float(expected[token]), abs=1e-9)
        ids.append(token)
        seen = [*seen, token] if len(seen) < 12 else [BOS, *ids[-5:]]


def test_a_prompt_may_be_longer_than_the_window() -> None:
    prompt = [BOS, *[5 + i % 8 for i in range(30)]]
    [tokens], [log_probs] = written(MODEL, prompt, SamplingOptions(top_k=1), max_tokens=1)
    expected = torch.log_softmax(MODEL(torch.tensor([[BOS, *prompt[-5:]]]))[0, -1], dim=-1)
    assert log_probs[0] == pytest.approx(float(expected[tokens[0]]), abs=1e-9)


def test_no_n_gram_twice() -> None:
    [tokens], _ = written(MODEL, [BOS, 6], SamplingOptions(top_k=1, no_repeat_ngram=2), max_tokens=40)
    kept = [BOS, 6, *(token for token in tokens if token != EOS)]
    pairs = list(pairwise(kept))
    assert len(set(pairs)) == len(pairs)
    [one_each], _ = written(MODEL, [BOS], SamplingOptions(top_k=1, no_repeat_ngram=1), max_tokens=40)
    assert sorted(one_each[:-1]) == sorted(set(one_each[:-1]))
    assert one_each[-1] == EOS, "when every letter is used there is nothing left to say"


def test_options_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match="temperature = 0"):
        written(MODEL, [BOS], SamplingOptions(temperature=0.0))
    with pytest.raises(ConfigError, match="max_tokens = 0"):
        written(MODEL, [BOS], SamplingOptions(), max_tokens=0)
    broken = shaken(LETTERS.size)
    broken.last_norm.weight.fill_(torch.nan)
    with pytest.raises(RegardError, match="NaN or infinity at token 2"):
        written(broken, [BOS], SamplingOptions())


@settings(deadline=None)
@given(text=st.text(), data=st.data())
def test_a_stream_never_splits_a_character(text: str, data: st.DataObject) -> None:
    tokens = BYTES.encode([text])[0][: data.draw(st.integers(0, 4 * len(text)))]
    parts = list(decode_stream(tokens, BYTES))
    assert "".join(parts) == BYTES.decode(tokens)
    for part in parts[:-1]:
        assert part in text  # whole characters only: a broken one would be U+FFFD, or not in the text


def test_the_end_of_a_stream() -> None:
    cut = "今".encode()[:2]
    ids = [BYTES.encode(["a"])[0][0], *cut_ids(cut)]
    assert list(decode_stream(ids, BYTES)) == ["a", "\ufffd"]
    assert list(decode_stream([BYTES.end], BYTES)) == []
    space = BYTES.encode([" a"])[0]
    assert "".join(decode_stream(space, BYTES, begins=True)) == "a"
    assert "".join(decode_stream(space, BYTES)) == " a"


def cut_ids(content: bytes) -> list[int]:
    return [VISIBLE.index(VISIBLE[byte]) for byte in content]
