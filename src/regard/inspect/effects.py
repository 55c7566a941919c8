"""What interventions do to a translation: its log-probability, token by token, under each of several changes.

Nothing is searched: the translation is given, and the modified model says how probable it still finds each token.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.decode.search import pad_sources
from regard.inspect.interventions import Intervention
from regard.inspect.patching import intervened
from regard.models.translation_model import TranslationModel
from regard.tokenizers.special_ids import BOS, EOS


@torch.inference_mode()
def token_log_probs(
    model: TranslationModel, src_ids: Sequence[int], tgt_ids: Sequence[int], interventions: Sequence[Intervention] = ()
) -> tuple[float, ...]:
    """Of each token of the translation and of the end token, given those before it; ids without BOS and EOS."""
    device = model.output.weight.device
    src_1M = pad_sources([src_ids], device)
    tgt_1L = torch.tensor([[BOS, *tgt_ids]], device=device)
    wanted_L1 = torch.tensor([*tgt_ids, EOS], device=device)[:, None]
    with intervened(model, interventions):
        logits_LV = model(src_1M, tgt_1L)[0].float()
    return tuple(torch.log_softmax(logits_LV, dim=-1).gather(1, wanted_L1)[:, 0].tolist())
