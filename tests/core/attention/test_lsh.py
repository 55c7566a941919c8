"""LSH attention: the paper's formula with all its rounds, the hashes, what the future may change, and memory.

Shapes: B batch, L length, D model, H heads, K head size, S rounds.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.config.attention import LshAttentionConfig
from regard.core.attention.lsh import LshAttention, bucket_load, hashed
from regard.core.masks import CausalMask, Mask, causal_mask, padding_mask
from regard.core.taps import record

D, H = 16, 2


def build(n_buckets: int = 4, chunk: int = 3, n_rounds: int = 2, dropout: float = 0.0, **other: Any) -> LshAttention:
    torch.manual_seed(0)
    config = LshAttentionConfig(n_buckets=n_buckets, chunk=chunk, n_rounds=n_rounds, **other)
    made = LshAttention(D, H, dropout, config=config).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def texts(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, length, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-11) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def chunks_of(bucket_L: list[int], chunk: int) -> list[tuple[int, int]]:
    """The bucket of each token, and its chunk there."""
    return [(bucket, bucket_L[:i].count(bucket) // chunk) for i, bucket in enumerate(bucket_L)]


def sees(query: tuple[int, int], key: tuple[int, int]) -> bool:
    return query[0] == key[0] and query[1] - key[1] in (0, 1)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("chunk", "n_rounds"), [(1, 1), (2, 3), (3, 2), (20, 4)])
def test_it_is_the_papers_sum_over_rounds(causal: bool, chunk: int, n_rounds: int) -> None:
    """Equation 5: o = Σ_r exp(z_r − z) o_r; in a round, scores less the log of the rounds that see the pair."""
    made, x_1LD = build(chunk=chunk, n_rounds=n_rounds), texts(1, 17)
    made.dense_up_to = 0
    mask = CausalMask(17, 17) if causal else None
    with record(made, "q", "k", "v", "head_out") as seen:
        made(x_1LD, mask=mask)
    q, k, v = (seen[name][0] for name in "qkv")
    for head in range(H):
        rounds = [chunks_of(made.buckets(seen["k"], True)[s, 0, head].tolist(), chunk) for s in range(n_rounds)]
        for i in range(17):
            total, out = 0.0, torch.zeros(D // H, dtype=torch.float64)
            for places in rounds:
                for j in range(i + 1 if causal else 17):
                    if sees(places[i], places[j]):
                        n_rounds_of_pair = sum(sees(other[i], other[j]) for other in rounds)
                        score = float(q[head, i] @ k[head, j]) * made.scale - math.log(n_rounds_of_pair)
                        weight = math.exp(score - (400 if i == j else 0))  # never itself, unless alone
                        total, out = total + weight, out + weight * v[head, j]
            close(seen["head_out"][0, head, i], out / total)


def test_keys_are_queries_of_length_one() -> None:
    made = build()
    with record(made, "q", "k") as seen:
        made(texts(2, 9))
    close(seen["k"], seen["q"] / seen["q"].norm(dim=-1, keepdim=True), 1e-5)


@given(length=st.integers(1, 40), half=st.integers(1, 5), at_once=st.sampled_from([1, 30, 2**20]))
@settings(max_examples=30, deadline=None)
def test_hashes_are_the_argmax_of_both_signs(length: int, half: int, at_once: int) -> None:
    k, rotations = torch.randn(2, H, length, 5), torch.randn(H, 5, half)
    product = k @ rotations
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.core.attention.lsh.HASHED_AT_ONCE", at_once)
        assert torch.equal(hashed(k, rotations), torch.cat([product, -product], -1).argmax(-1))


@given(
    length=st.integers(2, 60),
    n_buckets=st.sampled_from([1, 2, 6]),
    chunk=st.integers(1, 9),
    n_rounds=st.integers(1, 3),
    causal=st.booleans(),
    padding=st.integers(0, 5),
    at_once=st.sampled_from([1, 50, 2**18]),
)
@settings(max_examples=60, deadline=None)
def test_the_fast_path_equals_the_definition(
    length: int, n_buckets: int, chunk: int, n_rounds: int, causal: bool, padding: int, at_once: int
) -> None:
    made = build(n_buckets, chunk, n_rounds)
    x_BLD = texts(2, length).requires_grad_()
    n_real = [length, max(length - padding, 1)]
    ids_BL = torch.tensor([[1] * n + [0] * (length - n) for n in n_real])
    mask: Mask = CausalMask(length, length) if causal else padding_mask(ids_BL, 0)
    found = []
    probe = torch.randn(2, length, D, dtype=torch.float64)
    for dense_up_to in (0, 10**9):
        made.dense_up_to = dense_up_to
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("regard.core.attention.buckets.AT_ONCE", at_once)
            out = made(x_BLD, mask=mask)
            found.append((out, *torch.autograd.grad(out, [x_BLD, *made.parameters()], probe)))
    for fast, defined in zip(*found, strict=True):
        close(fast, defined, 1e-10)


@given(length=st.integers(2, 30), data=st.data())
@settings(max_examples=60, deadline=None)
def test_what_a_token_sees_does_not_depend_on_the_future(length: int, data: st.DataObject) -> None:
    """However many tokens follow, and whatever they are: to the last bit in the places, to rounding in the outputs."""
    made = build(n_buckets=data.draw(st.sampled_from([1, 2, 4])), chunk=data.draw(st.integers(1, 4)))
    made.dense_up_to = data.draw(st.sampled_from([0, 10**9]))
    more, seed = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 99))
    x_BLD = texts(2, length)
    longer_BLD = torch.cat([x_BLD, texts(2, more, seed)], dim=1)
    after = made(longer_BLD, mask=CausalMask(length + more, length + more))
    close(after[:, :length], made(x_BLD, mask=CausalMask(length, length)))


def leak(by_bucket: bool, n_rounds: int, length: int = 256, texts_: int = 8) -> float:
    """Of the earlier tokens, how many see other keys when the second half of the text is another.

    `by_bucket`: chunks are counted in each bucket; otherwise the sorted sequence is cut, as in the paper.
    """
    made, changed, half = build(n_buckets=16, chunk=32, n_rounds=n_rounds), 0, length // 2
    for seed in range(texts_):
        x_1LD = texts(1, length, seed)
        other_1LD = torch.cat([x_1LD[:, :half], texts(1, half, 1000 + seed)], dim=1)
        views = [seen_by(made, text, by_bucket)[:, :, :half, :half] for text in (x_1LD, other_1LD)]
        changed += int((views[0] != views[1]).any(-1).sum())
    return changed / (texts_ * H * half)


def seen_by(made: LshAttention, x_1LD: Tensor, by_bucket: bool) -> Tensor:
    """seen_1HLL in any round, with a causal mask."""
    length = x_1LD.shape[1]
    if by_bucket:
        with record(made, "weights") as recording:
            made(x_1LD, mask=CausalMask(length, length))
        return recording["weights"] > 0
    with record(made, "k") as recording:
        made(x_1LD, mask=CausalMask(length, length))
    bucket_S1HL = made.buckets(recording["k"], fixed=True)
    slot = bucket_S1HL.argsort(dim=-1, stable=True).argsort(-1) // made.chunk
    near = (slot[..., None] - slot[..., None, :]) >> 1 == 0
    same = bucket_S1HL[..., None] == bucket_S1HL[..., None, :]
    return (near & same & causal_mask(length, length)).any(0)


def test_chunks_of_the_sorted_sequence_leak_and_chunks_of_buckets_do_not() -> None:
    for n_rounds in (1, 4):
        assert leak(by_bucket=True, n_rounds=n_rounds) == 0
        assert leak(by_bucket=False, n_rounds=n_rounds) > 0.0005


def test_evaluation_draws_nothing_and_training_draws_from_torchs_generator() -> None:
    made, x_BLD = build(n_buckets=8), texts(2, 30)
    before = torch.get_rng_state()
    first = made(x_BLD)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(made(x_BLD), first)
    assert not torch.equal(build(n_buckets=8, hash_seed=1)(x_BLD), first)
    made.train()
    states, outputs = [], []
    for _ in range(2):
        states.append(torch.get_rng_state())
        outputs.append(made(x_BLD))
    assert not torch.equal(outputs[0], outputs[1])
    torch.set_rng_state(states[0])
    assert torch.equal(made(x_BLD), outputs[0])


def test_layers_have_rotations_of_their_own_and_more_rounds_keep_the_first() -> None:
    config = LshAttentionConfig(n_buckets=8, n_rounds=3)
    first, second = (LshAttention(D, H, config=config, layer=layer) for layer in (0, 1))
    assert not torch.equal(first.rotations_of_seed(), second.rotations_of_seed())
    three = first.rotations_of_seed()  # the first of NumPy's RandomState([0, 0]), which NumPy keeps as they are
    first.evaluation_rounds = 5
    assert torch.equal(first.rotations_of_seed()[:3], three)
    assert three[0, 0, 0].tolist() == pytest.approx([-0.362590, -0.415975, 0.954865, -0.925502], abs=1e-6)


def test_dropout_drops_the_pairs_and_the_gradients_know_which() -> None:
    made, x_BLD = build(dropout=0.4).train(), texts(1, 24).requires_grad_()
    made.dense_up_to = 0

    def run(x: Tensor) -> Tensor:
        torch.manual_seed(7)
        return made(x, mask=CausalMask(24, 24))

    assert not torch.equal(run(x_BLD), made.eval()(x_BLD, mask=CausalMask(24, 24)))
    made.train()
    assert torch.autograd.gradcheck(run, (x_BLD,), fast_mode=True)


def test_mean_over_dropout_is_the_output_without() -> None:
    made, x_BLD = build(dropout=0.25).train(), texts(1, 12)
    made.n_buckets, made.dense_up_to = 1, 0  # no hashes, which training draws anew
    expected = made.eval()(x_BLD)
    made.train()
    mean = made(x_BLD.expand(3000, -1, -1)).mean(0, keepdim=True)  # each row drops pairs of its own
    close(mean, expected, 0.15)


@pytest.mark.parametrize("dense_up_to", [0, 10**9])
@pytest.mark.parametrize("causal", [True, False])
def test_training_counts_buckets_and_pairs(dense_up_to: int, causal: bool) -> None:
    made, length = build(n_buckets=4, chunk=2, n_rounds=2).train(), 20
    made.dense_up_to = dense_up_to
    mask: Mask = CausalMask(length, length) if causal else padding_mask(torch.tensor([[1] * 20, [1] * 15 + [0] * 5]), 0)
    torch.manual_seed(3)
    x_BLD = texts(2, length)
    made(x_BLD, mask=mask)
    load = bucket_load(made)
    assert load is not None
    real = [20, 20] if causal else [20, 15]
    assert load.tokens == sum(real) * H * 2
    assert load.mean == pytest.approx(sum(real) / 8)
    assert load.possible == H * sum(n * (n - 1) for n in real) // (2 if causal else 1)
    torch.manual_seed(3)
    with record(made, "weights") as seen:
        made(x_BLD, mask=mask)
    pairs = (seen["weights"] > 0) & ~torch.eye(length, dtype=torch.bool)
    assert load.seen == int(pairs.sum())
    assert load.share_seen == load.seen / load.possible
    again = bucket_load(made)  # the same hashes
    assert again == load
    assert load.mean < load.largest <= 20
    empty = bucket_load(made)
    assert empty is not None
    assert empty.tokens == 0


def test_no_matrix_of_all_pairs_is_held() -> None:
    """Nothing that is kept for the backward pass, and no scores at a time, are as many as a head's pairs."""
    made, length = build(n_buckets=16, chunk=16, n_rounds=2), 600
    kept: list[int] = []

    def pack(x: Tensor) -> Tensor:
        kept.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = made(texts(1, length).requires_grad_(), mask=CausalMask(length, length))
    assert out.isfinite().all()
    assert max(kept) < length * length // 4


def test_a_prompt_is_read_in_parts_and_long_parts_few_queries_at_a_time() -> None:
    made, length = build(n_buckets=4, chunk=5).requires_grad_(False), 40
    made.dense_up_to = 0
    x_BLD = texts(2, length)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("regard.core.attention.lsh.QUERIES_AT_ONCE", 3)
        cache, parts = made.new_cache(2, length, x_BLD), []
        for start, stop in pairwise((0, 11, 12, 30, 40)):
            mask = CausalMask(stop - start, stop) if stop - start > 1 else None
            parts.append(made(x_BLD[:, start:stop], mask=mask, cache=cache))
    close(torch.cat(parts, dim=1), made(x_BLD, mask=CausalMask(length, length)))


def test_what_it_cannot_do_is_refused() -> None:
    made, x_BLD = build(), texts(1, 4)
    with pytest.raises(ValueError, match="need full or blockwise"):
        made(x_BLD, bias=torch.zeros(4, 4))
    with pytest.raises(ValueError, match="self-attention: its queries are its keys"):
        made(x_BLD, memory_BMD=texts(1, 3))
