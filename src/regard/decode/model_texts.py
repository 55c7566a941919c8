"""A language model in PyTorch that generates (generate.py).

Shapes: R rows = texts being generated, T tokens so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.decode.constraints import block_repeats
from regard.decode.generate import Choice, Numbers, Tokens, corrupt
from regard.decode.sampling import draw_tokens
from regard.models.language_model import LanguageModel


class ModelTexts:
    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.device = model.output.weight.device

    @property
    def longest_text(self) -> int | None:
        return self.model.longest_text

    @torch.inference_mode()
    def read(self, ids_RT: Tokens, room: int) -> tuple[Any, Tensor]:
        state = self.model.begin(len(ids_RT), room)
        hidden_RTD = self.model.read(self.to_device(ids_RT), state)
        return state, self.model.project(hidden_RTD[:, -1:])[:, 0]

    @torch.inference_mode()
    def step(self, tokens_R: Tokens, state: Any) -> Tensor:
        return self.model.step(self.to_device(tokens_R), state)

    @torch.inference_mode()
    def choose(self, logits_RV: Tensor, choice: Choice) -> tuple[Tokens, Numbers]:
        how, ids_RT = choice.options, self.to_device(choice.ids_RT)
        log_probs_RV = log_probabilities(logits_RV, ids_RT.shape[1])
        allowed_RV = log_probs_RV.clone()
        allowed_RV[:, list(choice.suppressed)] = -torch.inf
        allowed_RV[:, choice.size :] = -torch.inf
        if how.no_repeat_ngram:
            block_repeats(allowed_RV, ids_RT, how.no_repeat_ngram)
            allowed_RV[allowed_RV.amax(dim=1) == -torch.inf, choice.end] = 0.0  # every token is blocked
        uniform_R = torch.from_numpy(choice.uniform_R).to(self.device)
        tokens_R = draw_tokens(allowed_RV, uniform_R, how.temperature, how.top_k, how.top_p)
        chosen_R = log_probs_RV.gather(1, tokens_R[:, None])[:, 0]
        return tokens_R.cpu().numpy(), chosen_R.double().cpu().numpy()

    @torch.inference_mode()
    def score(self, ids: Sequence[int]) -> Numbers:
        ids_1L = self.to_device(np.array([ids], np.int64))
        log_probs_LV = torch.log_softmax(self.model(ids_1L)[0, :-1].double(), dim=1)
        return log_probs_LV.gather(1, ids_1L[0, 1:, None])[:, 0].cpu().numpy()

    def to_device(self, ids: Tokens) -> Tensor:
        return torch.from_numpy(ids).to(self.device)


def log_probabilities(logits_RV: Tensor, length: int) -> Tensor:
    wide = torch.promote_types(logits_RV.dtype, torch.float32)
    log_probs_RV = torch.log_softmax(logits_RV, dim=1, dtype=wide)
    if log_probs_RV[:, 0].isnan().any():
        raise corrupt(length + 1)
    return log_probs_RV
