"""How a Hugging Face folder wants its model decoded, as our settings."""

from __future__ import annotations

from regard.config import DecodeConfig
from regard.interop.huggingface.folder import ForeignFolder


def decode_settings(folder: ForeignFolder, beam: int, longest: int) -> DecodeConfig:
    """`beam` and `longest` (tokens, the first that starts the decoder among them) are for a folder that says nothing.

    Newer folders have a file of their own for this; older ones have it among the sizes of the model.
    """

    def integer(name: str, default: int) -> int:
        return folder.generation.number(name, folder.config.number(name, default))

    def real(name: str, default: float) -> float:
        return folder.generation.real(name, folder.config.real(name, default))

    early = folder.generation.get("early_stopping", folder.config.get("early_stopping", False))
    if early is not False:
        folder.say(f"early_stopping = {early!r} is not kept: the search goes on until nothing better is in sight")
    return DecodeConfig(
        beam=integer("num_beams", beam),
        beam_rule="huggingface",
        length_penalty=real("length_penalty", 1.0),
        max_length_ratio=0.0,
        max_length_extra=integer("max_length", longest) - 1,
        no_repeat_ngram=integer("no_repeat_ngram_size", 0),
    )
