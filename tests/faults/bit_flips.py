"""Single flipped bits in the files of a run, of the data cache, of model folders and of a downloaded corpus.

    python tests/faults/bit_flips.py --flips 2000 --seed 1

Each case copies a small whole folder, flips one bit of one of its files, and uses it: resumes the run for a step, opens
the prepared data, translates a sentence, gets the corpus. Right is: a RegardError that names the file; a message that
names it and the result of the whole folder; or that result without a word, where the bit decides nothing. Wrong is:
another result, any other exception, or more than 30 seconds of processor time.

For other tools in this folder: `draw_flips` chooses the bits, `flip` flips one, `judge` uses a damaged folder.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from regard.config import CorpusConfig, DataConfig, RunConfig, TokenizerConfig
from regard.config.recipe import run_from_dict
from regard.data.fetch import fetch_corpus
from regard.data.prepare import prepare
from regard.data.published import PublishedCorpus, PublishedFile
from regard.data.texts import prepare_texts
from regard.errors import RegardError
from regard.model_folder.folder import SUMS
from regard.pipelines.model_translator import ModelTranslator
from regard.train.average import write_average
from regard.train.launch import resume, start
from regard.train.reports import StepReport, ValidationReport
from regard.train.run_folder import RunFolder

PROCESSOR_SECONDS = 30
STEPS = 3  # of the run before it is resumed for one more
# "refused" and "reported" name the file; "unnoticed" decides nothing.
Verdict = Literal["refused", "reported", "unnoticed", "wrong"]
Use = Callable[[Path, Callable[[str], None]], Any]  # of a folder, with a listener: its result


@dataclass(frozen=True)
class Flip:
    file: str  # relative to the folder
    bit: int


def draw_flips(folder: Path, count: int, seed: int) -> Iterator[Flip]:
    """Every file equally often, however small, and every bit of a file equally likely."""
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    names = sorted(name for name, size in sizes.items() if size)
    draw = random.Random(seed)
    draw.shuffle(names)
    for number in range(count):
        name = names[number % len(names)]
        yield Flip(name, draw.randrange(8 * sizes[name]))


def flip(path: Path, bit: int) -> None:
    """Flip one bit of a file that nobody has mapped."""
    with path.open("r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))


def judge(folder: Path, flipped: Path, use: Use, expected: Any) -> tuple[Verdict, str]:
    """Use a damaged folder; the verdict, and what was said."""
    # A file of checksums vouches for the folder that it is in, so that is what a message is about.
    names = [str(flipped.parent if flipped.name == SUMS else flipped)]
    said: list[str] = []

    def named(text: str) -> bool:
        return any(name in text for name in names)

    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
    try:
        result = use(folder, said.append)
    except RegardError as error:
        return ("refused" if named(str(error)) else "wrong"), str(error)
    except Exception:
        return "wrong", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    if result != expected:
        return "wrong", "another result; it said: " + " | ".join(said)
    return ("reported" if any(map(named, said)) else "unnoticed"), ""


@dataclass
class Listener:
    say: Callable[[str], None]
    reports: list[StepReport | ValidationReport] = field(default_factory=list)

    def message(self, text: str) -> None:
        self.say(text)

    def step(self, report: StepReport) -> None:
        self.reports.append(report)

    def validation(self, report: ValidationReport) -> None:
        self.reports.append(report)


def small_run(steps: int) -> RunConfig:
    """With everything on that has a file of its own."""
    train: dict[str, Any] = {"threads": 1, "precision": "float32", "batch_tokens": 256, "lr": 3e-3, "ema": 0.9}
    train |= {"checkpoint_every": 1, "keep_checkpoints": 3, "average_checkpoints": 3, "log_every": 1}
    train |= {"max_steps": steps, "probes": ["a b"], "valid_translations": 0, "validate_every": 2}
    corpora = {"train": [{"toy": "copy", "size": 60}], "valid": [{"toy": "copy", "size": 4, "seed": 2}]}
    model = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 1, "n_decoder_layers": 1}
    data = {**corpora, "tokenizer": {"vocab_size": 300, "dropout": 0.1}}
    return run_from_dict({"data": data, "model": model, "train": train})


def use_run(folder: Path, say: Callable[[str], None]) -> dict[str, str]:
    """Everything that one more step, and the model made after it, consist of."""
    run = RunFolder(folder)
    resume(small_run(STEPS + 1), run, Listener(say))
    whole = [*run.model.iterdir(), *run.checkpoint(STEPS + 1).rglob("*.safetensors")]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in whole}


def use_cache(folder: Path, say: Callable[[str], None]) -> list[Any]:
    """Every id and every text, of pairs and of running text."""
    text = str(folder.parent / "text.txt")
    pairs = DataConfig(
        train=(CorpusConfig(toy="reverse", size=80),), tokenizer=TokenizerConfig(vocab_size=300, dropout=0.1)
    )
    running = DataConfig(train=(CorpusConfig(text=text),), tokenizer=TokenizerConfig(vocab_size=300))
    one, other = prepare(pairs, folder, say), prepare_texts(running, folder, say)
    [store] = one.train
    rows = [
        (store.src[i].tolist(), store.tgt[i].tolist(), store.src_text(i), store.tgt_text(i)) for i in range(len(store))
    ]
    return [one.tokenizer.files(), rows, other.tokenizer.files(), [tokens.tolist() for tokens in other.train]]


def use_model(folder: Path, say: Callable[[str], None]) -> Any:
    return ModelTranslator(folder).translate(["a b c"])


TEXTS = {f"{name}.gz": f"{name}\n".encode() * 20 for name in ("train", "valid")}


def use_corpus(folder: Path, say: Callable[[str], None]) -> Any:
    """What `regard data get` says of a corpus that is there, and its texts."""
    files = tuple(
        PublishedFile(name, "http://127.0.0.1:9/", len(text), hashlib.sha256(text).hexdigest())
        for name, text in TEXTS.items()
    )
    fetch_corpus(PublishedCorpus(folder.name, "a toy", "here", "none", files), folder.parent)
    return [gzip.decompress((folder / name).read_bytes()) for name in TEXTS]


def make_folders(where: Path) -> dict[str, tuple[Path, Use]]:
    """A run, a cache, two model folders and a corpus, all whole."""
    (where / "text.txt").write_text("".join(f"{a} {b} {c}.\n" for a in "uvw" for b in "xyz" for c in "rst"), "utf-8")
    start(small_run(STEPS), RunFolder(where / "run"), Listener(lambda text: None))
    use_cache(where / "data", lambda text: None)
    shutil.copytree(where / "run/model", where / "model")
    write_average([where / "model"], where / "int8", "int8")
    (where / "corpus").mkdir()
    for name, text in TEXTS.items():
        (where / "corpus" / name).write_bytes(gzip.compress(text))
    return {
        "run": (where / "run", use_run),
        "cache": (where / "data", use_cache),
        "model": (where / "model", use_model),
        "int8 model": (where / "int8", use_model),
        "corpus": (where / "corpus", use_corpus),
    }


def try_flips(where: Path, count: int, seed: int) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Verdicts by folder, and what was wrong."""
    counts: dict[str, dict[str, int]] = {}
    faults: list[str] = []
    copy = where / "copy"
    folders = make_folders(where)
    for number, (name, (whole, use)) in enumerate(folders.items()):
        shutil.copytree(whole, copy)
        expected = use(copy, lambda text: None)
        shutil.rmtree(copy)
        verdicts: collections.Counter[str] = collections.Counter()
        for case in draw_flips(whole, (count + number) // len(folders), seed + number):
            shutil.copytree(whole, copy)
            flip(copy / case.file, case.bit)
            verdict, said = judge(copy, copy / case.file, use, expected)
            verdicts[verdict] += 1
            if verdict == "wrong":
                faults.append(f"{name}: {case}: {said}")
            shutil.rmtree(copy)
        counts[name] = dict(verdicts)
    return counts, faults


def out_of_time(number: int, frame: object) -> None:
    raise TimeoutError(f"more than {PROCESSOR_SECONDS} seconds of processor time")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--flips", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    signal.signal(signal.SIGPROF, out_of_time)
    torch.set_num_threads(1)
    memory = Path("/dev/shm")  # no disk to wait for, where there is one
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        where = Path(name)
        os.environ |= {"REGARD_CACHE": str(where / "cache"), "REGARD_NATIVE": "0"}
        counts, faults = try_flips(where, arguments.flips, arguments.seed)
    print(*faults, sep="\n", file=sys.stderr)
    print(json.dumps(counts))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
