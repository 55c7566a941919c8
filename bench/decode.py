"""Translation speed beside CTranslate2 with the same weights: source and output of 20 tokens, in one run.

    python bench/decode.py                     # small and base, batches of 1 and 64, greedy and beam 4
    python bench/decode.py --size small --repeats 7 --json decode.json

The weights are random, with an end of sentence that never wins, so that every system writes exactly 20 tokens a
sentence. Each repeat times every system in turn; the figure is the median of output tokens per second.
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
from pathlib import Path

import ctranslate2
import numpy as np
import torch
from interleaved import Work, median_seconds

from regard.config import PRESETS, DecodeConfig, ModelConfig
from regard.core.precision import cpu_matrix_units
from regard.decode.beam import beam_search
from regard.files import atomic_folder
from regard.folder import ModelDescription, write_model
from regard.interop.ctranslate2 import export_ctranslate2
from regard.models.transformer import Transformer
from regard.text.tokenizer import EOS, Tokenizer, train_vocabulary

VOCABULARY, LENGTH = 10_000, 20


def make_tokenizer() -> Tokenizer:
    """A vocabulary of the right size, from random words: what its pieces are does not matter here."""
    letters = np.random.default_rng(1).integers(97, 123, size=(40_000, 7)).astype(np.uint8)
    vocabulary = train_vocabulary([row.tobytes().decode() for row in letters], "bpe", VOCABULARY)
    assert vocabulary.size == VOCABULARY
    return Tokenizer(vocabulary, vocabulary)


def make_model(size: str, tokenizer: Tokenizer, folder: Path) -> tuple[Transformer, Path]:
    """A random model and its folder."""
    torch.manual_seed(1)
    sizes = {"src_vocab_size": VOCABULARY, "tgt_vocab_size": VOCABULARY}
    model = Transformer(ModelConfig(**{**PRESETS[size], **sizes})).eval().requires_grad_(False)
    model.output.weight.data[EOS] = 0.0  # its logit is 0, and of ten thousand others some are always above
    weights = {name: parameter.numpy() for name, parameter in model.named_parameters()}
    description = ModelDescription(model.config, DecodeConfig(), "en", "en", False, tokenizer.files())
    with atomic_folder(folder / size) as path:
        write_model(path, description, weights, "random")
    return model, folder / size


def ours(model: Transformer, batch: int, beam: int) -> Work:
    sources = np.random.default_rng(1).integers(4, VOCABULARY, size=(batch, LENGTH))
    src_BM = torch.from_numpy(np.concatenate([sources, np.full((batch, 1), EOS)], axis=1))
    lengths = [LENGTH] * batch
    return lambda: beam_search(model, src_BM, beam=beam, length_penalty=0.6, max_lengths=lengths)


def theirs(translator: ctranslate2.Translator, tokenizer: Tokenizer, batch: int, beam: int) -> Work:
    sources = np.random.default_rng(1).integers(4, VOCABULARY, size=(batch, LENGTH))
    tokens = [tokenizer.src.pieces(row) for row in sources]
    limits = {"min_decoding_length": LENGTH, "max_decoding_length": LENGTH}
    return lambda: translator.translate_batch(tokens, beam_size=beam, max_batch_size=batch, **limits)


def load_ctranslate2(model: Path, folder: Path, quantization: str, threads: int) -> ctranslate2.Translator:
    output = folder / f"{model.name}-{quantization}-{threads}"
    export_ctranslate2(model, output, quantization)
    return ctranslate2.Translator(str(output), intra_threads=threads, compute_type=quantization)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=["small", "base", "both"], default="both")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    args = parser.parse_args()
    threads = torch.get_num_threads()
    print(f"{threads} threads, {cpu_matrix_units() or 'no bf16 units'}, CTranslate2 {ctranslate2.__version__}")
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder, tokenizer = Path(temporary), make_tokenizer()
        for size in ("small", "base") if args.size == "both" else (args.size,):
            model, path = make_model(size, tokenizer, folder)
            peers = {q: load_ctranslate2(path, folder, q, threads) for q in ("float32", "int8")}
            for batch, beam in ((1, 1), (64, 1), (64, 4)):
                works: dict[str, Work] = {
                    "regard float32": ours(model, batch, beam),
                    "regard bf16": ours(copy.deepcopy(model).bfloat16(), batch, beam),
                }
                works |= {f"CTranslate2 {name}": theirs(peer, tokenizer, batch, beam) for name, peer in peers.items()}
                seconds = median_seconds(works, args.repeats)
                found = {name: batch * LENGTH / value for name, value in seconds.items()}
                best, own = (max(v for n, v in found.items() if n.startswith(who)) for who in ("CT", "regard"))
                line = "   ".join(f"{name} {value:,.0f}" for name, value in found.items())
                print(f"{size:<6} batch {batch:<3} beam {beam}   {line}   ratio {own / best:.2f}")
                rows.append({"size": size, "batch": batch, "beam": beam, "tokens_per_second": found})
    if args.json:
        args.json.write_text(json.dumps({"threads": threads, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
