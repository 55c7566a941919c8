"""The decoding settings of a Hugging Face folder, as ours."""

from __future__ import annotations

from regard.config import DecodeConfig
from regard.interop.huggingface.folder import HuggingFaceFolder, build_settings


def decode_settings(folder: HuggingFaceFolder, beam: int, longest: int) -> DecodeConfig:
    """`beam` and `longest` (in tokens, the decoder's start token included) are the defaults.

    Newer folders have generation_config.json for these; older ones have them in config.json.
    """

    def integer(name: str, default: int) -> int:
        return folder.generation.number(name, folder.config.number(name, default))

    def real(name: str, default: float) -> float:
        return folder.generation.real(name, folder.config.real(name, default))

    early = folder.generation.get("early_stopping", folder.config.get("early_stopping", False))
    if early is not False:
        folder.say(f"early_stopping = {early!r} is ignored: the search continues until no active hypothesis can win")
    return build_settings(
        DecodeConfig,
        folder.generation.where if folder.generation.values else folder.config.where,
        beam=integer("num_beams", beam),
        beam_rule="huggingface",
        length_penalty=real("length_penalty", 1.0),
        max_length_ratio=0.0,
        max_length_extra=integer("max_length", longest) - 1,
        no_repeat_ngram=integer("no_repeat_ngram_size", 0),
    )
