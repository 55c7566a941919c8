"""The probability that a model gives to a given translation: teacher forcing, all tokens at once.

log P(y | x) = Σ_t log P(y_t | y_<t, x), the EOS included: the same number a search reports for what it finds.

Shapes: B sentences, V vocabulary, L target length with BOS or with EOS, M source length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.config import BeamRule
from regard.decode.checks import check_ids, non_finite_error
from regard.decode.hypotheses import Hypothesis, length_penalty_divisor
from regard.decode.protocols import SearchModel, State
from regard.errors import ConfigError
from regard.tokenizers.special_ids import BOS, EOS, PAD


@torch.inference_mode()
def score_translations(
    model: SearchModel[State],
    src_BM: Tensor,
    translations: Sequence[Sequence[int]],
    *,
    length_penalty: float = 0.6,
    rule: BeamRule = "paper",
) -> list[Hypothesis]:
    """Each given translation (ids without BOS and EOS) with its log-probabilities, as a finished hypothesis."""
    if len(translations) != src_BM.shape[0]:
        raise ConfigError(f"there are {src_BM.shape[0]} sources but {len(translations)} translations; give one each")
    for number, ids in enumerate(translations, start=1):
        check_ids(ids, f"translation {number}")
    if not translations:
        return []
    longest = max(map(len, translations)) + 1
    given = [[BOS, *ids, *[PAD] * (longest - 1 - len(ids))] for ids in translations]
    wanted = [[*ids, EOS, *[PAD] * (longest - 1 - len(ids))] for ids in translations]
    given_BL = torch.tensor(given, dtype=torch.int64, device=src_BM.device)
    wanted_BL = torch.tensor(wanted, dtype=torch.int64, device=src_BM.device)
    logits_BLV = model(src_BM, given_BL)
    wide = torch.promote_types(logits_BLV.dtype, torch.float32)
    log_probs_BL = torch.log_softmax(logits_BLV, dim=2, dtype=wide).gather(2, wanted_BL[:, :, None])[:, :, 0]
    scored = []
    for ids, row in zip(translations, log_probs_BL.tolist(), strict=True):
        token_log_probs = tuple(row[: len(ids) + 1])
        for place, log_prob in enumerate(token_log_probs, start=1):
            if math.isnan(log_prob):
                raise non_finite_error(place)
        total = sum(token_log_probs)
        score = total / length_penalty_divisor(len(token_log_probs), length_penalty, rule)
        scored.append(Hypothesis(tuple(ids), score, total, token_log_probs, finished=True))
    return scored
