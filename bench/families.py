"""GPT and BERT in the engine beside CTranslate2's Generator and Encoder, and transformers: same weights, one thread.

    python bench/families.py                # the sizes of GPT-2 and BERT base; needs ctranslate2 and transformers
    python bench/families.py --toy --repeats 1

The weights are random, written in the Hugging Face format, converted by CTranslate2 and imported by Regard. Generation
is greedy, 64 tokens after a prompt of 32, for 1 and 8 texts; encoding takes texts of 8 to 64 tokens, 1 and 32 at once.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from interleaved import rates_in_turn
from peers import missing
from report import Comparison, Report, options

from regard.decode.engine import Engine, NumberFormat, engine_from_folder
from regard.decode.engine_texts import EngineTexts, encode_texts
from regard.interop.huggingface.imports import import_folder
from regard.kernels.instruction_sets import has_int8
from regard.model_folder.folder import read_description
from regard.tokenizers.byte_level_bpe import END_PIECE, VISIBLE

TOY = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 128, "vocab_size": 400}
GPT2 = {"n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50_257}
PROMPT, WRITTEN, COUNTS = 32, 64, (1, 8)
BATCHES = (1, 32)
Ids = list[int]


def write_gpt2(folder: Path, sizes: dict[str, int]) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    fillers = [f"filler{number}" for number in range(sizes["vocab_size"] - len(VISIBLE) - 1)]
    pieces = [*VISIBLE, *fillers, END_PIECE]
    ends = {"bos_token_id": len(pieces) - 1, "eos_token_id": len(pieces) - 1}
    model = GPT2LMHeadModel(GPT2Config(**sizes, **ends)).eval()
    model.save_pretrained(folder)
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}), "utf-8")
    return model


def write_bert(folder: Path, sizes: dict[str, int]) -> Any:
    from transformers import BertConfig, BertModel

    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=min(sizes["vocab_size"], 30_522),
        hidden_size=sizes["n_embd"],
        num_hidden_layers=sizes["n_layer"],
        num_attention_heads=sizes["n_head"],
        intermediate_size=4 * sizes["n_embd"],
        position_embedding_type="absolute",  # CTranslate2's converter reads it
    )
    model = BertModel(config).eval()
    model.save_pretrained(folder)
    pieces = ["[PAD]", *(f"[unused{n}]" for n in range(1, 100)), "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += [f"word{number}" for number in range(config.vocab_size - len(pieces))]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), "utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return model


def engines(folder: Path) -> dict[str, Engine]:
    forms: tuple[NumberFormat, ...] = ("float32", "int8") if has_int8() else ("float32",)
    found = {form: engine_from_folder(folder, read_description(folder), form) for form in forms}
    return {f"regard {form}": engine for form, engine in found.items() if engine is not None}


def convert(folder: Path, output: Path) -> Path:
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(folder)).convert(str(output))
    return output


def compare_gpt2(folder: Path, sizes: dict[str, int], repeats: int, report: Report) -> None:
    import ctranslate2

    model = write_gpt2(folder / "gpt2", sizes)
    import_folder(folder / "gpt2", folder / "gpt2-regard")
    converted = convert(folder / "gpt2", folder / "gpt2-ctranslate2")
    prompt: Ids = np.random.default_rng(1).integers(0, len(VISIBLE), size=PROMPT).tolist()
    pieces = [VISIBLE[token] for token in prompt]

    def transformers(count: int) -> float:
        ids = torch.tensor([prompt] * count)
        with torch.inference_mode():
            model.generate(ids, max_new_tokens=WRITTEN, min_new_tokens=WRITTEN, do_sample=False, pad_token_id=0)
        return float(count * WRITTEN)

    def generator(translator: Any, count: int) -> float:
        translator.generate_batch(
            [pieces] * count, min_length=WRITTEN, max_length=WRITTEN, sampling_topk=1, include_prompt_in_result=False
        )
        return float(count * WRITTEN)

    def ours(engine: Engine, count: int) -> float:
        texts = EngineTexts(engine)
        state, logits_RV = texts.read(np.array([prompt] * count), PROMPT + WRITTEN)
        for _ in range(WRITTEN - 1):
            logits_RV = texts.step(logits_RV[:, : len(VISIBLE)].argmax(axis=1), state)  # never the end
        return float(count * WRITTEN)

    generators = {
        f"CTranslate2 {form}": ctranslate2.Generator(str(converted), compute_type=form, intra_threads=1)
        for form in ("float32", "int8")
    }
    our_engines = engines(folder / "gpt2-regard")
    for count in COUNTS:
        works: dict[str, Callable[[], float]] = {"transformers float32": lambda count=count: transformers(count)}  # type: ignore[misc]
        for name, peer in generators.items():
            works[name] = lambda peer=peer, count=count: generator(peer, count)  # type: ignore[misc]
        for name, engine in our_engines.items():
            works[name] = lambda engine=engine, count=count: ours(engine, count)  # type: ignore[misc]
        figures = rates_in_turn(works, repeats)
        report.add(Comparison(f"generate, {count} texts", "tokens/s", figures, base="transformers float32"))


def compare_bert(folder: Path, sizes: dict[str, int], repeats: int, report: Report) -> None:
    import ctranslate2

    model = write_bert(folder / "bert", sizes)
    import_folder(folder / "bert", folder / "bert-regard")
    converted = convert(folder / "bert", folder / "bert-ctranslate2")
    rng = np.random.default_rng(1)
    texts: list[Ids] = [rng.integers(104, model.config.vocab_size, size=n).tolist() for n in rng.integers(8, 65, 32)]
    tokens = float(sum(map(len, texts)))
    our_engines = engines(folder / "bert-regard")

    def transformers(calls: list[list[Ids]]) -> float:
        with torch.inference_mode():
            for call in calls:
                longest = max(map(len, call))
                ids = torch.tensor([[*one, *[0] * (longest - len(one))] for one in call])
                model(ids, attention_mask=(ids != 0).long())
        return tokens

    def encoder(peer: Any, calls: list[list[Ids]]) -> float:
        for call in calls:
            np.array(peer.forward_batch(call).last_hidden_state)
        return tokens

    def ours(engine: Engine, calls: list[list[Ids]]) -> float:
        for call in calls:
            encode_texts(engine, call, workers=1)
        return tokens

    encoders = {
        f"CTranslate2 {form}": ctranslate2.Encoder(str(converted), compute_type=form, intra_threads=1)
        for form in ("float32", "int8")
    }
    for batch in BATCHES:
        calls = [texts[start : start + batch] for start in range(0, len(texts), batch)]
        works: dict[str, Callable[[], float]] = {"transformers float32": lambda calls=calls: transformers(calls)}  # type: ignore[misc]
        for name, peer in encoders.items():
            works[name] = lambda peer=peer, calls=calls: encoder(peer, calls)  # type: ignore[misc]
        for name, engine in our_engines.items():
            works[name] = lambda engine=engine, calls=calls: ours(engine, calls)  # type: ignore[misc]
        figures = rates_in_turn(works, repeats)
        report.add(Comparison(f"encode, {batch} texts at a time", "tokens/s", figures, base="transformers float32"))


def main(argv: Sequence[str] | None = None) -> None:
    args = options(__doc__).parse_args(argv)
    torch.set_num_threads(1)
    report = Report()
    for package in ("ctranslate2", "transformers"):
        if reason := missing(package):
            raise SystemExit(f"{package}: {reason}")
    sizes = TOY if args.toy else GPT2
    with tempfile.TemporaryDirectory() as temporary:
        compare_gpt2(Path(temporary), sizes, args.repeats, report)
        compare_bert(Path(temporary), sizes, args.repeats, report)
    report.write(args.json)


if __name__ == "__main__":
    main()
