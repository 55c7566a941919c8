from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decode.constraints import FREE, allow, block_repeats, stack_prefixes
from regard.tokenizers.special_ids import BOS, PAD, UNK

IDS = st.integers(0, 30).flatmap(
    lambda length: st.lists(st.lists(st.integers(4, 7), min_size=length, max_size=length), min_size=1, max_size=4)
)


@settings(deadline=None, max_examples=100)
@given(rows=IDS, n=st.integers(1, 4))
def test_blocked_is_exactly_what_would_repeat(rows: list[list[int]], n: int) -> None:
    log_probs_RV = torch.zeros(len(rows), 8)
    block_repeats(log_probs_RV, torch.tensor(rows, dtype=torch.int64).view(len(rows), -1), n)
    for ids, values in zip(rows, log_probs_RV.tolist(), strict=True):
        ngrams = {tuple(ids[start : start + n]) for start in range(len(ids) - n + 1)}
        for token in range(8):
            repeats = len(ids) >= n - 1 and (*ids[len(ids) - n + 1 :], token) in ngrams
            assert (values[token] == -torch.inf) == repeats


def test_what_is_allowed_keeps_the_models_log_probabilities() -> None:
    logits_RV = torch.randn(2, 9, generator=torch.Generator().manual_seed(1)).bfloat16()
    before_RV = logits_RV.clone()
    allowed_RV = allow(logits_RV, torch.empty(2, 0, dtype=torch.int64), torch.tensor([FREE, UNK]), 0)
    model_RV = before_RV.float().log_softmax(1)
    assert allowed_RV.dtype == torch.float32
    assert torch.equal(logits_RV, before_RV)
    torch.testing.assert_close(allowed_RV[0, 3:], model_RV[0, 3:])
    assert (allowed_RV[0, [PAD, UNK, BOS]] == -torch.inf).all()
    assert allowed_RV[1].isfinite().nonzero().tolist() == [[UNK]]
    torch.testing.assert_close(allowed_RV[1, UNK], model_RV[1, UNK])


def test_prefixes_are_stacked_and_free_after_their_end() -> None:
    device = torch.device("cpu")
    stacked = stack_prefixes([[5], [], [6, 7]], [9, 9, 9], device)
    assert stacked is not None
    assert stacked.tolist() == [[5, FREE], [FREE, FREE], [6, 7]]
    assert stack_prefixes([[], []], [9, 9], device) is None
