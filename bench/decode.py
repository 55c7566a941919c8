"""Translation speed, compared with CTranslate2 (same weights) and Hugging Face Marian (same sizes).

    python bench/decode.py                     # small and base, batches of 1 and 64, greedy and beam 4
    python bench/decode.py --size small --repeats 7 --json decode.json
    python bench/decode.py --size opus-mt      # d 512, 6+6 layers, vocabulary 65,001
    python bench/decode.py --model runs/multi30k-en-de/model
    python bench/decode.py --model zh-en/model --src valid.zh --ref valid.en

The sources are Multi30k's test set if REGARD_DATA has it, else random sentences. The weights are random and never
generate EOS, so that every system generates the same number of tokens, the mean length of the references. A batch of 1
is one sentence per call, a batch of 64 is 128 sentences in one call. CTranslate2 runs in float32 and in its fastest
other format on this machine (chosen in a short trial), each with the best of one or two threads and one or two workers.
With --model, a trained model is used, and each system is credited with the tokens that it generates. The result is
output tokens per second and, with references, the BLEU of each precision of Regard.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from interleaved import Work, rates_in_turn, seconds_in_turn
from peers import build_marian, missing
from report import Comparison, Report, options
from workloads import OPUS_MT, config_of, make_tokenizer, multi30k, write_random_model

from regard.config import DecodeConfig, Precision
from regard.core.precision import choose_dtype
from regard.data.lines import read_lines
from regard.decode.engine import Engine, NumberFormat
from regard.decode.model_engine import build_engine
from regard.decode.protocols import SearchModel
from regard.decode.search import pad_sources, search
from regard.errors import ConfigError
from regard.evaluation.scores import measure
from regard.interop.ctranslate2 import export_ctranslate2
from regard.model_folder.folder import read_description
from regard.models.load import read_model
from regard.models.transformer import Transformer
from regard.pipelines.model_translator import ModelTranslator
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.special_ids import PAD

CPU = torch.device("cpu")
COUNTS = {1: 8, 64: 128}  # sentences, by the size of a batch
TOY_COUNTS = {1: 2, 4: 8}
LONGEST = 256
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16", "int8")
Ids = list[int]
Searched = Engine | SearchModel[Any]


@dataclass(frozen=True)
class Task:
    """Sentences to translate, shortest first, in batches of this size."""

    tokenizer: TokenizerPair
    sources: list[Ids]
    length: int | None  # tokens per sentence; None: until EOS
    batch: int
    beam: int

    def batches(self) -> Iterator[list[Ids]]:
        for start in range(0, len(self.sources), self.batch):
            yield self.sources[start : start + self.batch]


def ours(model: Searched, task: Task) -> Work:
    """A batch of 1 is one call per sentence; otherwise one call for all, which the search divides into batches."""
    tokens = max(1, round(task.batch * statistics.mean(len(ids) + 1 for ids in task.sources)))
    how = DecodeConfig(beam=task.beam, batch_tokens=tokens)
    if task.length is not None:
        how = dataclasses.replace(how, max_length_ratio=0.0, max_length_extra=task.length)
    calls = [[one] for one in task.sources] if task.batch == 1 else [task.sources]

    def work() -> float:
        found = [best for sources in calls for (best,) in search(model, sources, how, CPU)]
        return float(sum(len(best.ids) + best.finished for best in found))

    return work


def our_decoders(model: Transformer, report: Report) -> dict[str, Searched]:
    """The engine in each of its number formats; without an engine, the model itself."""
    forms: dict[str, NumberFormat] = {"float32": "float32", "int8": "int8"}
    if choose_dtype("auto", CPU) == torch.bfloat16:
        forms["bf16"] = "bfloat16"
    engines = {f"regard {name}": build_engine(model, form) for name, form in forms.items()}
    found: dict[str, Engine | SearchModel[Any]] = {
        name: engine for name, engine in engines.items() if engine is not None
    }
    if not found:
        report.leave_out("regard's engine", "this machine or this model has none; the model decodes itself")
    return found or {"regard float32": model}


def theirs(translator: Any, task: Task) -> Work:
    """CTranslate2: a batch of 1 is one call per sentence; otherwise one call for all."""
    limits: dict[str, Any] = {"min_decoding_length": task.length, "max_decoding_length": task.length}
    if task.length is None:
        limits = {"max_decoding_length": LONGEST, "length_penalty": 0.6}
    sentences = [task.tokenizer.src.pieces(ids) for ids in task.sources]
    calls = [[one] for one in sentences] if task.batch == 1 else [sentences]

    def work() -> float:
        written = 0
        for tokens in calls:
            found = translator.translate_batch(tokens, beam_size=task.beam, max_batch_size=task.batch, **limits)
            written += sum(len(result.hypotheses[0]) + (task.length is None) for result in found)
        return float(written)

    return work


def load_ctranslate2(model: Path, folder: Path, form: str, threads: int = 1, workers: int = 2) -> Any:
    import ctranslate2

    output = folder / f"{model.name}-{form}"
    if not output.exists():
        export_ctranslate2(model, output, form)
    return ctranslate2.Translator(str(output), intra_threads=threads, inter_threads=workers, compute_type=form)


def arrange(model: Path, folder: Path, form: str) -> dict[str, Any]:
    """A translator for each arrangement of threads and workers."""
    return {
        f"{threads} threads, {workers} workers": load_ctranslate2(model, folder, form, threads, workers)
        for threads, workers in itertools.product((1, 2), (1, 2))
    }


def choose_forms(subject: Subject, task: Task, folder: Path, report: Report) -> list[str]:
    """float32, and the fastest other compute type of CTranslate2 on this machine."""
    import ctranslate2

    others = sorted(ctranslate2.get_supported_compute_types("cpu") - {"float32"})
    if not others:
        return ["float32"]
    best = fastest({form: theirs(load_ctranslate2(subject.path, folder, form), task) for form in others})
    report.note(f"decode {subject.name}: of CTranslate2's {', '.join(others)} the fastest is {best}")
    return ["float32", best]


def fastest(works: dict[str, Work]) -> str:
    """The one with the shortest of two turns."""
    seconds = {name: min(values) for name, values in seconds_in_turn(works, repeats=2).items()}
    return min(seconds, key=seconds.__getitem__)


def marian(model: Any, task: Task) -> Work:
    batches = [pad_sources(sources, CPU) for sources in task.batches()]
    limits = {"min_new_tokens": task.length, "max_new_tokens": task.length}

    @torch.inference_mode()
    def work() -> float:
        written = 0
        for src_BM in batches:
            mask = (src_BM != PAD).long()
            found = model.generate(src_BM, attention_mask=mask, num_beams=task.beam, do_sample=False, **limits)
            written += found[:, 1:].numel()
        return float(written)

    return work


@dataclass(frozen=True)
class Subject:
    """A model, the same as a folder, and sentences for it."""

    name: str
    model: Transformer
    path: Path
    tokenizer: TokenizerPair
    sources: list[Ids]
    length: int | None

    def task(self, batch: int, count: int, beam: int) -> Task:
        return Task(self.tokenizer, sorted(self.sources[:count], key=len), self.length, batch, beam)


def random_subjects(sizes: Sequence[str], folder: Path, real: bool, report: Report) -> Iterator[Subject]:
    """Models with random weights, with sentences of Multi30k if `real` and available."""
    for size in sizes:
        path, config = folder / size, config_of(size)
        tokenizer, sources, length = sentences_of(size, config.tgt_vocab_size, real, report)
        yield Subject(size, write_random_model(path, config, tokenizer), path, tokenizer, sources, length)


def sentences_of(size: str, vocabulary: int, real: bool, report: Report) -> tuple[TokenizerPair, list[Ids], int]:
    """A tokenizer, sources, and the tokens that each is translated to."""
    files = ("train.en", "train.de", "test_2016_flickr.en", "test_2016_flickr.de")
    # Multi30k has too few words for a vocabulary like OPUS-MT's.
    texts = [multi30k(name) if real and size != OPUS_MT else None for name in files]
    if None in texts:
        tokenizer, length = make_tokenizer(None, vocabulary), 20 if real else 3
        count = max(COUNTS.values())
        sources = np.random.default_rng(1).integers(4, vocabulary, size=(count, length)).tolist()
    else:
        train_en, train_de, test_en, test_de = (text or [] for text in texts)
        tokenizer = make_tokenizer(train_en + train_de, vocabulary)
        sources = tokenizer.encode_src(test_en)
        length = round(np.mean([len(ids) + 1 for ids in tokenizer.encode_tgt(test_de)]))
    report.note(f"{size}: {'random' if None in texts else 'Multi30k'} sentences, {length} tokens written for each")
    return tokenizer, sources, length


def trained_subject(path: Path, sentences: Sequence[str]) -> Subject:
    """A trained model, which generates EOS."""
    description = read_description(path)
    model = read_model(path, description.model, Transformer, "run in this benchmark")
    tokenizer = TokenizerPair.from_files(description.tokenizer, description.lowercase)
    return Subject(path.parent.name, model, path, tokenizer, tokenizer.encode_src(sentences), None)


def sentences_for(path: Path, src: Path | None, ref: Path | None) -> tuple[list[str], list[str] | None]:
    """The sentences to translate and their references, if any: from files or from Multi30k."""
    description = read_description(path)
    name = f"test_2016_flickr.{description.src_lang}"
    sentences = multi30k(name) if src is None else list(read_lines(src))
    if sentences is None:
        raise SystemExit(f"REGARD_DATA has no multi30k/{name}.gz to translate; give a file with --src")
    if ref is not None:
        references: list[str] | None = list(read_lines(ref))
    else:
        references = multi30k(f"test_2016_flickr.{description.tgt_lang}") if src is None else None
    if references is not None and len(references) != len(sentences):
        raise SystemExit(f"{len(sentences)} sentences but {len(references)} references: one each is needed")
    return sentences, references


def note_quality(path: Path, sentences: Sequence[str], references: Sequence[str], report: Report) -> None:
    """What each precision of ours costs in BLEU, with the model's own search."""
    for precision in PRECISIONS:
        try:
            way = ModelTranslator(path, precision)
            outputs = [one.text for one in way.translate(sentences)]
        except ConfigError as error:
            report.leave_out(f"BLEU of regard {precision}", str(error))
            continue
        bleu = measure(outputs, references, way.tgt_lang, way.tokenizer.lowercase)[0]
        report.note(f"BLEU of regard {precision}: {bleu.score:.2f} ({len(outputs):,} sentences, {bleu.signature})")


def compare(subject: Subject, counts: dict[int, int], repeats: int, folder: Path, report: Report) -> None:
    decoders = our_decoders(subject.model, report)
    arrangements: dict[str, dict[str, Any]] = {}
    marians: dict[str, Any] = {}
    if reason := missing("ctranslate2"):
        report.leave_out("CTranslate2", reason)
    else:
        large = max(counts)
        forms = choose_forms(subject, subject.task(large, counts[large], beam=4), folder, report)
        arrangements = {form: arrange(subject.path, folder, form) for form in forms}
    if reason := missing("transformers"):
        report.leave_out("Hugging Face Marian", reason)
    elif subject.length is None:
        report.leave_out("Hugging Face Marian", "with random weights it does not generate EOS")
    else:
        model = build_marian(subject.model.config).eval()
        marians = {"Hugging Face Marian float32": model, "Hugging Face Marian bf16": copy.deepcopy(model).bfloat16()}
    for batch, beam in itertools.product(counts, (1, 4)):
        task = subject.task(batch, counts[batch], beam)
        what = f"decode {subject.name}, batch {batch}, {'greedy' if beam == 1 else f'beam {beam}'}"
        works = {name: marian(model, task) for name, model in marians.items()}
        for form, translators in arrangements.items():
            arranged = {name: theirs(one, task) for name, one in translators.items()}
            best = fastest(arranged)
            works[f"CTranslate2 {form}"] = arranged[best]
            report.note(f"{what}: CTranslate2 {form} with {best}")
        works |= {name: ours(decoder, task) for name, decoder in decoders.items()}
        report.add(Comparison(what, "tokens/s", rates_in_turn(works, repeats), base=next(iter(works))))


def main(argv: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--size", choices=["small", "base", OPUS_MT, "both"], default="both")
    parser.add_argument("--model", type=Path, help="folder of a trained model, instead of random weights")
    parser.add_argument("--src", type=Path, help="with --model: sentences to translate, one per line [Multi30k]")
    parser.add_argument("--ref", type=Path, help="with --model: references, for BLEU [Multi30k]")
    args = parser.parse_args(argv)
    if (args.src or args.ref) and not args.model:
        parser.error("--src and --ref go with --model")
    report = Report()
    sizes = ("toy",) if args.toy else ("small", "base") if args.size == "both" else (args.size,)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if args.model:
            sentences, references = sentences_for(args.model, args.src, args.ref)
            subjects: Iterable[Subject] = [trained_subject(args.model, sentences)]
            if references is not None:
                note_quality(args.model, sentences, references, report)
        else:
            subjects = random_subjects(sizes, folder, not args.toy, report)
        for subject in subjects:
            compare(subject, TOY_COUNTS if args.toy else COUNTS, args.repeats, folder, report)
    report.write(args.json)


if __name__ == "__main__":
    main()
