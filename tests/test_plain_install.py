"""The plain install, without torch: an environment with nothing but the dependencies of pyproject.toml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement

from regard.config import BertConfig, DecodeConfig, GptConfig, T5Config, WindowAttentionConfig
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.models.bert import Bert
from regard.models.gpt import Gpt
from regard.models.t5 import T5
from regard.tokenizers.characters import CharacterTokenizer
from regard.tokenizers.sentencepiece import SentencePieceTokenizer
from regard.tokenizers.training import train_vocabulary

ROOT = Path(__file__).parent.parent
DEPENDENCIES = {"numpy", "sentencepiece", "safetensors", "opencc", "click", "rich", "starlette", "uvicorn"}


def closure(names: list[str]) -> dict[str, Distribution]:
    """The distributions that pip would install for these."""
    found: dict[str, Distribution] = {}
    while names:
        requirement = Requirement(names.pop())
        if requirement.name.lower() in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        try:
            found[requirement.name.lower()] = distribution(requirement.name)
        except PackageNotFoundError:
            pytest.fail(f"{requirement.name} is not installed here")
        names += found[requirement.name.lower()].requires or []
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages that holds these and no others."""
    folder = tmp_path_factory.mktemp("site")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    assert {Requirement(one).name for one in declared} == DEPENDENCIES
    for one in closure(declared).values():
        roots = {file.parts[0] for file in one.files or [] if ".." not in file.parts}
        for file in roots - {"bin", "__pycache__"}:
            if not (folder / file).exists():
                (folder / file).symlink_to(Path(str(one.locate_file(file))))
    return folder


def test_the_size_on_disk() -> None:
    """At most 130 MB beside the bundled models. Bytecode, which pip writes, is counted as large as its source."""
    package = ROOT / "src" / "regard"
    files = {path for path in package.rglob("*") if "bundled" not in path.relative_to(package).parts}
    for one in closure(sorted(DEPENDENCIES)).values():
        files |= {Path(str(one.locate_file(file))) for file in one.files or [] if ".." not in file.parts}
    sizes = [
        path.stat().st_size * (2 if path.suffix == ".py" else 1)
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert sum(sizes) < 130e6, f"{sum(sizes) / 1e6:.1f} MB"
    assert sum(sizes) > 50e6, "numpy alone is larger"


def run(site: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT / 'src'}", "PYTHONSAFEPATH": "1", **variables}
    python = [sys.executable, "-S", "-X", "utf8"]
    return subprocess.run([*python, *command], env=environment, capture_output=True, text=True, timeout=300)


def regard(site: Path, *words: str, **variables: str) -> str:
    done = run(site, "-m", "regard", *words, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_no_torch(site: Path) -> None:
    done = run(site, "-c", "import torch")
    assert "No module named 'torch'" in done.stderr


def test_translate(site: Path) -> None:
    assert regard(site, "translate", "我爱你。").strip() == "I love you."
    lines = regard(site, "translate", "他昨天买了3本书。\nI love you.", "--n-best", "2", "--json").splitlines()
    assert len(lines) == 2


def test_translate_in_numpy(site: Path) -> None:
    done = run(site, "-m", "regard", "translate", "我爱你。", REGARD_NATIVE="0")
    assert (done.returncode, done.stdout.strip()) == (0, "I love you.")
    assert "Regard is slower without them: the environment variable REGARD_NATIVE is 0" in done.stderr


def test_score_tokenize_and_evaluate(site: Path, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("我爱你。\n你好。\n", "utf-8")
    (tmp_path / "ref").write_text("I love you.\nHello.\n", "utf-8")
    assert len(regard(site, "score", str(tmp_path / "src"), str(tmp_path / "ref")).splitlines()) == 2
    assert "▁" in regard(site, "tokenize", "I love you.", "--model", "en-zh")
    evaluated = regard(site, "evaluate", "--src", str(tmp_path / "src"), "--ref", str(tmp_path / "ref"))
    assert "BLEU" in evaluated
    assert "perplexity" in evaluated


@pytest.mark.parametrize("words", [("models",), ("data", "list"), ("doctor",)])
def test_commands_without_a_model(site: Path, words: tuple[str, ...]) -> None:
    assert regard(site, *words)


NEED_TORCH = {
    "train": (str(ROOT / "recipes" / "reverse.toml"),),
    "explore": ("--no-browser",),
    "explain": ("我爱你。", "-o", "explain.html"),
    "attention": ("我爱你。",),
    "params": ("base",),
    "import": ("somewhere", "-o", "out"),
}


@pytest.mark.parametrize("name", NEED_TORCH)
def test_what_needs_torch_says_so(site: Path, name: str, tmp_path: Path) -> None:
    done = run(site, "-m", "regard", name, *NEED_TORCH[name])
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("regard: ")
    assert line.endswith(' needs torch, which is not installed: pip install "regard[torch]"')


def test_the_api(site: Path) -> None:
    script = """
import sys
from regard import Translator
translator = Translator()
assert translator("我爱你。") == "I love you."
assert translator.score(["我爱你。"], ["I love you."])[0].log_prob < 0
long = translator("我爱你。" * 30)
assert translator.translate(["I love you."], prefix="我")[0].text.startswith("我")
trace, align = (lambda: translator.trace("我爱你。")), (lambda: translator.align("我爱你。"))
for action in (trace, align, lambda: __import__("regard").ImageClassifier):
    try:
        action()
    except Exception as error:
        print(type(error).__name__, error)
assert "torch" not in sys.modules
"""
    done = run(site, "-c", script)
    assert done.returncode == 0, done.stderr
    assert [line.partition(" needs torch")[0] for line in done.stdout.splitlines()] == [
        "MissingPackageError a trace",
        "MissingPackageError word alignment",
        "MissingPackageError ImageClassifier",
    ]


def write_text_model(path: Path, model: Gpt | Bert, **others: Any) -> Path:
    letters = CharacterTokenizer.of(["今天天气很好"])
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    description = ModelDescription(model.config, DecodeConfig(), "", "", False, letters.files(), **others)
    with atomic_folder(path) as folder:
        write_model(folder, description, weights, "")
    return path


SIZES: dict[str, Any] = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_layers": 1, "max_positions": 20, "vocab_size": 10}


def test_generate(site: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    folder = write_text_model(tmp_path / "gpt", Gpt(GptConfig(**SIZES)))
    words = ("--n", "2", "--json", "--precision", "int8", "--max-tokens", "30")
    assert len(regard(site, "generate", "今天", "--model", str(folder), *words).splitlines()) == 2
    sparse = GptConfig(**SIZES, attention=WindowAttentionConfig())
    folder = write_text_model(tmp_path / "window", Gpt(sparse))
    done = run(site, "-m", "regard", "generate", "今天", "--model", str(folder))
    [line] = done.stderr.splitlines()
    assert "the engine does not support model.attention.kind = 'window'" in line
    assert line.endswith(', so it needs torch, which is not installed: pip install "regard[torch]"')
    folder = write_text_model(tmp_path / "slow", Gpt(GptConfig(**SIZES)))
    done = run(site, "-m", "regard", "generate", "今天", "--model", str(folder), REGARD_NATIVE="0")
    assert "its C++ library cannot be loaded here (`regard doctor` says why)), so it needs torch" in done.stderr


def test_encode(site: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    config = BertConfig(**SIZES, heads=("masked", "classes"), n_labels=2)
    folder = str(write_text_model(tmp_path / "bert", Bert(config), labels=("good", "bad")))
    assert regard(site, "fill", "今[MASK]", "--model", folder).startswith("今")
    assert json.loads(regard(site, "classify", "今天", "--model", folder, "--json"))["label"] in ("good", "bad")
    script = f"""
import sys
from regard import TextEncoder
print(TextEncoder({folder!r}).embed(["今天", "很好"]).shape, "torch" in sys.modules)
"""
    assert run(site, "-c", script).stdout == "(2, 16) False\n"


def test_translate_with_a_t5(site: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    sizes = {"d_model": 16, "n_heads": 2, "head_size": 8, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
    config = T5Config(**sizes, src_vocab_size=300, tgt_vocab_size=300)  # type: ignore[arg-type]
    vocabulary = train_vocabulary(["the cat sat on the mat", "two dogs run"] * 4, "bpe", 300)
    weights = {name: parameter.detach().numpy() for name, parameter in T5(config).named_parameters()}
    description = ModelDescription(
        config, DecodeConfig(), "en", "en", False, SentencePieceTokenizer(vocabulary).files()
    )
    with atomic_folder(tmp_path / "t5") as folder:
        write_model(folder, description, weights, "")
    assert regard(site, "translate", "the cat", "--model", str(tmp_path / "t5"), "--precision", "int8")
