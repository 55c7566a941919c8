"""Check that a refactoring changed no behaviour: compare two checkouts of Regard, before and after.

    export REGARD_DATA=/path/to/data
    python bench/compare_checkouts.py BEFORE AFTER
    python bench/compare_checkouts.py BEFORE AFTER --sentences 200 --only translations,exports
    python bench/compare_checkouts.py BEFORE AFTER --only losses --renamed train.lr=train.peak_rate

All work is done in child processes of this interpreter, with PYTHONPATH=CHECKOUT/src, so that one virtual environment
serves both. They use only the command line (`python -m regard`), `from regard import Translator`, and each checkout's
own bench/decode.py and bench/train.py. Each checkout has its own work folder, cache (data and compiled kernels) and
copy of its recipes; nothing is written to the checkouts.

translations  zh→en and en→zh, guards on and off, float32 and int8: texts, scores and tokens must be equal.
losses        the first 50 steps of the recipes in RUNS, with the settings of ALL_RUNS and RUNS (no validation): the
              logged metrics (all but times and speeds) and the final weights must be equal bit for bit.
exports       `regard export` of the bundled models: files must be equal byte for byte, JSON up to the order of keys.
speed         bench/decode.py and bench/train.py without the peers, and Translator (64 sentences at once; one by one),
              before and after in turn. The ratio is the median speed after divided by the median speed before, with
              the quartiles of the repeats' ratios; at least 0.97 passes. It needs an otherwise idle machine.
kernels       after the checks: as many compiled libraries in both caches, since Regard works without them, silently.

Prints a row per check, progress on standard error; the exit code is 1 if any check fails.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

CHECKS = ("translations", "losses", "exports", "speed")
CORPUS = "tatoeba-zh-en"  # in REGARD_DATA; gives the sentences to translate
STEPS, LEAST_RATIO = 50, 0.97
# Of every run. Small batches save time; with a time limit the learning rate may depend on the clock.
ALL_RUNS = ("train.max_minutes=0", "train.log_every=1", "train.metric=loss", "data.valid=[]", "train.batch_tokens=512")
RUNS: dict[str, tuple[str, ...]] = {  # recipes, with settings of their own
    "tatoeba-zh-en": ("train.precision=int8",),
    "multi30k-en-de": ("train.precision=float32", "train.r_drop_after=25"),  # also rotary positions and EMA
    "multi30k-en-de-bahdanau": (),
    "gpt-shakespeare": (),
    "bert-banking77": ("train.init=",),
    "vit-fashion": (),
    "deepseek-tang-poems": (),
    "t5-zh": (),
}
POEMS = "tang_forms.py"  # in recipes; writes the data of the Tang poems
EXPORTS = (("ct2",), ("ct2", "--quantization", "int8"), ("hf",))
BENCHMARKS = ("decode", "train")  # scripts of bench/
BENCHMARK_REPEATS = 3  # within a process; how many processes there are is --repeats
PEERS = ("ctranslate2", "transformers", "eole", "onmt", "joeynmt")  # hidden from the benchmarks, which leave them out
# A child that translates on request: a JSON line [precision, sentences per call, sentences] in, the seconds out.
SERVER = """
import json, os, sys, time
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # whatever else is printed must not mix with the answers
from regard import Translator
translators = {}
for line in sys.stdin:
    precision, size, texts = json.loads(line)
    if precision not in translators:
        translators[precision] = Translator(precision=precision, source="zh", to="en")
    started = time.perf_counter()
    for start in range(0, len(texts), size):
        translators[precision].translate(texts[start : start + size])
    print(time.perf_counter() - started, file=answers, flush=True)
"""


class CheckError(Exception):
    """A check cannot be made; the message says why."""


FAILURES = (CheckError, OSError, LookupError, ValueError)  # the others: a file that is missing or has another format


class Row(NamedTuple):
    check: str
    result: str
    passed: bool


@dataclass(frozen=True)
class Checkout:
    name: str  # "before" or "after"
    root: Path
    work: Path
    renamed: Mapping[str, str]  # settings and recipes that have another name here

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("REGARD_MODEL", "REGARD_MODELS")}
        return kept | {
            "PYTHONPATH": str(self.root / "src"),
            "PYTHONPYCACHEPREFIX": str(self.work / "pycache"),  # no files in the checkout
            "PYTHONHASHSEED": "0",
            "REGARD_CACHE": str(self.work / "cache"),
        }

    def python(self, *arguments: str | Path, path: Sequence[Path] = ()) -> str:
        """Run this interpreter with the checkout's package, and `path` to import from; return what it printed."""
        command = [sys.executable, "-P", *map(str, arguments)]
        environment = self.environment
        environment["PYTHONPATH"] = os.pathsep.join(map(str, (*path, environment["PYTHONPATH"])))
        done = subprocess.run(command, env=environment, cwd=self.work, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["no message"]
            raise CheckError(f"{self.name}: exit code {done.returncode}: {said[-1]}")
        return done.stdout

    def prepare(self) -> None:
        """Make the work folder, and make sure that the children import this checkout's package."""
        self.work.mkdir(parents=True)
        shutil.copytree(self.root / "recipes", self.work / "recipes")  # some name data relative to their own place
        imported = Path(self.python("-c", "import regard; print(regard.__file__)").strip())
        if not imported.is_relative_to(self.root / "src"):
            raise CheckError(f"{self.name}: {imported} was imported, which is not below {self.root / 'src'}")

    def recipe(self, name: str) -> Path:
        name = self.renamed.get(name, name)
        found = sorted((self.work / "recipes").rglob(name))
        if not found:
            raise CheckError(f"{self.name}: there is no recipes/{name}; if it has a new name, use --renamed OLD=NEW")
        return found[0]

    def train(self, recipe: str, settings: Sequence[str], steps: int, run: str) -> Path:
        """Train by a recipe; return the run's folder."""
        folder = self.work / "runs" / run
        options = []
        for setting in (*ALL_RUNS, f"train.max_steps={steps}", *settings):
            key, value = setting.split("=", 1)
            options += ["--set", f"{self.renamed.get(key, key)}={value}"]
        self.python("-m", "regard", "train", self.recipe(f"{recipe}.toml"), "--run", folder, *options)
        return folder

    def models(self) -> dict[str, Path]:
        """The bundled models, by name."""
        return {path.parent.name: path.parent for path in (self.root / "src" / "regard").rglob("weights.safetensors")}


Pair = tuple[Checkout, Checkout]


def progress(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def compare(check: str, equal: str, difference: Callable[..., str | None], *arguments: Any) -> Row:
    """The row of a check; `difference` returns the first difference, or None."""
    try:
        found = difference(*arguments)
    except FAILURES as error:
        return Row(check, f"FAILED: {error!r}", False)
    return Row(check, f"equal: {equal}" if found is None else f"DIFFERENT: {found}", found is None)


def first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    """Where two texts begin to differ."""
    places = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(places, min(len(one), len(other)))


def read_sources(language: str, count: int) -> list[str]:
    """The first sentences of one side of valid, test and train."""
    sources: list[str] = []
    for split in ("valid", "test", "train"):
        path = Path(os.environ["REGARD_DATA"], CORPUS, f"{split}.{language}.gz")
        if len(sources) < count:
            sources += gzip.decompress(path.read_bytes()).decode("utf-8").removesuffix("\n").split("\n")
    if len(sources) < count:
        raise CheckError(f"--sentences {count}: {CORPUS} has only {len(sources)}")
    return sources[:count]


def check_translations(pair: Pair, sentences: int) -> Iterator[Row]:
    equal = f"{sentences} texts, scores and tokens"
    for way, precision, guards in itertools.product(("zh-en", "en-zh"), ("float32", "int8"), ("guards", "no-guards")):
        what = (way, precision, guards)
        yield compare(f"translations {' '.join(what)}", equal, translation_difference, pair, *what, sentences)


def translate(checkout: Checkout, way: str, precision: str, guards: str, sentences: int) -> list[dict[str, Any]]:
    """The rows that `regard translate --json` writes."""
    progress(f"{checkout.name}: translations {way} {precision} {guards}")
    src, tgt = way.split("-")
    source, output = checkout.work / f"source.{src}", checkout.work / f"{way}-{precision}-{guards}.jsonl"
    source.write_text("".join(f"{text}\n" for text in read_sources(src, sentences)), "utf-8")
    options = ("--from", src, "--to", tgt, "--precision", precision, f"--{guards}", "--json")
    checkout.python("-m", "regard", "translate", source, "-o", output, *options)
    return [json.loads(line) for line in output.read_text("utf-8").removesuffix("\n").split("\n")]


def translation_difference(pair: Pair, way: str, precision: str, guards: str, count: int) -> str | None:
    """The first line with another text; if there is none, the first with other scores or tokens."""
    before, after = (translate(checkout, way, precision, guards, count) for checkout in pair)
    if (len(before), len(after)) != (count, count):
        return f"{len(before)} and {len(after)} lines, not {count}"
    for field in ("translation", "alternatives"):  # not the notes: their wording may change
        lines = [line for line in range(count) if before[line][field] != after[line].get(field)]
        if lines:
            one, other = (json.dumps(rows[lines[0]].get(field), ensure_ascii=False) for rows in (before, after))
            part = slice(start := max(0, first_difference(one, other) - 30), start + 70)
            what = "texts" if field == "translation" else "scores or tokens (all texts are equal)"
            return f"{len(lines)} of {count} {what}; first in line {lines[0] + 1}: {one[part]} | {other[part]}"
    return None


def check_losses(pair: Pair) -> Iterator[Row]:
    for recipe, settings in RUNS.items():
        yield compare(f"losses {recipe}", f"{STEPS} steps, weights", run_difference, pair, recipe, settings)


def train_recipe(checkout: Checkout, recipe: str, settings: Sequence[str]) -> Path:
    progress(f"{checkout.name}: {STEPS} steps of {recipe}, {' '.join((*ALL_RUNS, *settings))}")
    if "tang-poems" in recipe:
        checkout.python(checkout.recipe(POEMS), checkout.work / "runs" / "tang")
    return checkout.train(recipe, settings, STEPS, recipe)


def read_steps(run: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
    return [row for row in rows if row["kind"] == "step"]


def run_difference(pair: Pair, recipe: str, settings: Sequence[str]) -> str | None:
    """The first logged value that differs, apart from times and speeds; then the weights."""
    before, after = (train_recipe(checkout, recipe, settings) for checkout in pair)
    one, other = read_steps(before), read_steps(after)
    if (len(one), len(other)) != (STEPS, STEPS):
        return f"{len(one)} and {len(other)} steps logged, not {STEPS}"
    for step, (was, now) in enumerate(zip(one, other, strict=True), 1):
        for name in dict.fromkeys((*was, *now)):
            values = [json.dumps(row.get(name), sort_keys=True) for row in (was, now)]  # floats in full; NaN = NaN
            if "second" not in name and values[0] != values[1]:
                return f"step {step}, {name}: {values[0]} | {values[1]}"
    return file_difference(before / "model" / "weights.safetensors", after / "model" / "weights.safetensors")


def check_exports(pair: Pair) -> Iterator[Row]:
    names = [sorted(checkout.models()) for checkout in pair]
    if names[0] != names[1] or not names[0]:
        yield Row("exports", f"DIFFERENT: bundled models {names[0]} | {names[1]}", False)
        return
    for model, options in itertools.product(names[0], EXPORTS):
        yield compare(f"export {' '.join(options)} {model}", "all files", export_difference, pair, model, options)


def export_difference(pair: Pair, model: str, options: Sequence[str]) -> str | None:
    folders = []
    for checkout in pair:
        progress(f"{checkout.name}: export {' '.join(options)} {model}")
        folders.append(checkout.work / "exports" / "-".join((model, *options)))
        checkout.python("-m", "regard", "export", *options, checkout.models()[model], "-o", folders[-1])
    one, other = ({path.relative_to(top) for path in top.rglob("*") if path.is_file()} for top in folders)
    if one != other or not one:
        return f"files {sorted(map(str, one))} | {sorted(map(str, other))}"
    return next(filter(None, (file_difference(folders[0] / name, folders[1] / name) for name in sorted(one))), None)


def file_difference(before: Path, after: Path) -> str | None:
    one, other = before.read_bytes(), after.read_bytes()
    if one == other or (before.suffix == ".json" and json.loads(one) == json.loads(other)):
        return None
    return f"{before.name}: {len(one)} | {len(other)} bytes, first difference at byte {first_difference(one, other)}"


def check_speed(pair: Pair, repeats: int, size: str) -> Iterator[Row]:
    texts = read_sources("zh", 64)
    with start_server(pair[0]) as before, start_server(pair[1]) as after:
        for precision, at_once in itertools.product(("float32", "int8"), (64, 1)):
            request = json.dumps([precision, at_once, texts if at_once > 1 else texts[:16]])
            check = f"speed Translator {precision}, {'64 at once' if at_once > 1 else 'one by one'}"
            yield from speed_rows(check, functools.partial(ask, request=request), (before, after), repeats)
    for script in BENCHMARKS:
        turn = functools.partial(run_benchmark, script=script, size=size)
        yield from speed_rows(f"speed bench/{script}.py", turn, pair, repeats)


def start_server(checkout: Checkout) -> subprocess.Popen[str]:
    """A child that translates on request; as a context manager, until the block ends."""
    command, pipe = [sys.executable, "-P", "-c", SERVER], subprocess.PIPE
    return subprocess.Popen(command, env=checkout.environment, cwd=checkout.work, stdin=pipe, stdout=pipe, text=True)


def ask(server: subprocess.Popen[str], request: str) -> dict[str, float]:
    """The requests per second of a server."""
    assert server.stdin and server.stdout  # noqa: PT018
    with contextlib.suppress(BrokenPipeError):
        server.stdin.write(f"{request}\n")
        server.stdin.flush()
    answer = server.stdout.readline()
    if not answer:
        raise CheckError("the child that translates has ended; its message is on standard error")
    return {"": 1 / float(answer)}


def run_benchmark(checkout: Checkout, script: str, size: str) -> dict[str, float]:
    """The tokens per second of every system of Regard in a benchmark, in a new process: median of its repeats."""
    hidden, output = checkout.work / "no-peers", checkout.work / f"{script}.json"
    hidden.mkdir(exist_ok=True)
    for peer in PEERS:
        (hidden / f"{peer}.py").write_text(f"raise ModuleNotFoundError('hidden', name={peer!r})\n", "utf-8")
    folder = checkout.root / "bench"
    how = ("--toy",) if size == "toy" else ("--size", size)
    words = (*how, "--repeats", str(BENCHMARK_REPEATS), "--json", output)
    checkout.python(folder / f"{script}.py", *words, path=(hidden, folder))
    found = {
        f"{comparison['what']}, {system}": statistics.median(values)
        for comparison in json.loads(output.read_text("utf-8"))["comparisons"]
        for system, values in comparison["figures"].items()
        if comparison["unit"].endswith("tokens/s") and system.startswith("regard")
    }
    if not found:
        raise CheckError(f"{checkout.name}: bench/{script}.py has no figure in tokens/s of a system of Regard")
    return found


def speed_rows(
    check: str, turn: Callable[[Any], Mapping[str, float]], sides: tuple[Any, Any], repeats: int
) -> Iterator[Row]:
    """Speeds before and after in turn, each first in every other repeat, after one turn each to warm up."""
    taken: list[list[Mapping[str, float]]] = [[], []]
    try:
        for repeat in range(-1, repeats):
            progress(f"{check}: {'warm-up' if repeat < 0 else f'repeat {repeat + 1} of {repeats}'}")
            for which in (0, 1) if repeat % 2 == 0 else (1, 0):
                time.sleep(0.05)  # the other child's threads may still be waiting actively
                speeds = turn(sides[which])
                taken[which] += [speeds] if repeat >= 0 else []
        if taken[0][0].keys() != taken[1][0].keys():
            raise CheckError(f"other figures: {sorted(taken[0][0])} | {sorted(taken[1][0])}")
    except FAILURES as error:
        yield Row(check, f"FAILED: {error!r}", False)
        return
    for name in taken[0][0]:
        yield judge_speed(f"{check} {name}".strip(), *([speeds[name] for speeds in side] for side in taken))


def judge_speed(check: str, before: list[float], after: list[float]) -> Row:
    was, now = statistics.median(before), statistics.median(after)
    ratios = [new / old for old, new in zip(before, after, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    passed = now / was >= LEAST_RATIO
    result = f"ratio {now / was:.3f} (quartiles {low:.3f} to {high:.3f}), {was:,.4g} → {now:,.4g} per second"
    return Row(check, f"{result}{'' if passed else f': SLOWER than {LEAST_RATIO}'}", passed)


def check_kernels(pair: Pair) -> Row:
    one, other = (len(list((checkout.work / "cache").rglob("*.so"))) for checkout in pair)
    return Row(
        "kernels", f"{'equal' if one == other else 'DIFFERENT'}: {one} | {other} compiled libraries", one == other
    )


def run_checks(pair: Pair, args: argparse.Namespace) -> Iterator[Row]:
    for checkout in pair:
        checkout.prepare()
    if "translations" in args.only:
        yield from check_translations(pair, args.sentences)
    if "losses" in args.only:
        yield from check_losses(pair)
    if "exports" in args.only:
        yield from check_exports(pair)
    if "speed" in args.only:
        yield from check_speed(pair, args.repeats, args.size)
    yield check_kernels(pair)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="a checkout of Regard")
    parser.add_argument("after", type=Path, help="another")
    parser.add_argument("--sentences", type=int, default=2000, help="sentences to translate in each direction [2000]")
    parser.add_argument(
        "--only", default=",".join(CHECKS), help=f"checks to make, separated by commas [{','.join(CHECKS)}]"
    )
    parser.add_argument("--repeats", type=int, default=9, help="repeats of each measurement of speed [9]")
    parser.add_argument("--size", default="small", help="of the models of bench/: small, base, both or toy [small]")
    parser.add_argument(
        "--renamed", action="append", default=[], metavar="OLD=NEW", help="new name of a setting or recipe in AFTER"
    )
    parser.add_argument(
        "--work", type=Path, help="new folder for all files, kept afterwards [a temporary one, deleted]"
    )
    args = parser.parse_args(argv)
    args.only = args.only.split(",")
    if unknown := sorted(set(args.only) - set(CHECKS)):
        parser.error(f"--only: {', '.join(unknown)} is not one of {', '.join(CHECKS)}")
    if missing := [root for root in (args.before, args.after) if not (root / "src" / "regard").is_dir()]:
        parser.error(f"{missing[0]} is not a checkout of Regard: it has no src/regard")
    data = os.environ.get("REGARD_DATA")
    if args.only != ["exports"] and not (data and Path(data, CORPUS).is_dir()):
        parser.error(f"set REGARD_DATA to the data folder, with {CORPUS}/ and the data of the recipes; it is {data}")
    if data:
        os.environ["REGARD_DATA"] = str(Path(data).resolve())  # the children run in another folder
    return args


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    renamed = dict(entry.split("=", 1) for entry in args.renamed)
    with contextlib.ExitStack() as stack:
        work = args.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-checkouts-")))
        pair = (
            Checkout("before", args.before.resolve(), work.resolve() / "before", {}),
            Checkout("after", args.after.resolve(), work.resolve() / "after", renamed),
        )
        failed = total = 0
        try:
            for row in run_checks(pair, args):
                print(f"{row.check:<56} {row.result}", flush=True)
                total, failed = total + 1, failed + (not row.passed)
        except CheckError as error:
            sys.exit(f"compare_checkouts: {error}")
    print(f"{total - failed} of {total} checks passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
