"""Train a small Transformer to reverse the words of a sentence, then use it. About a minute on one core."""

import argparse
import tempfile
from pathlib import Path

from regard import Translator
from regard.cli.display import PlainDisplay
from regard.config.recipe import load_recipe
from regard.train import launch
from regard.train.run_folder import RunFolder

RECIPE = Path(__file__).parent.parent / "recipes" / "reverse.toml"

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", nargs="?", type=Path, help="folder of the run [a temporary one]")
parser.add_argument("--steps", type=int, default=1000)
args = parser.parse_args()

with tempfile.TemporaryDirectory() as temporary:
    folder = args.folder or Path(temporary) / "run"
    config = load_recipe(RECIPE, [f"train.max_steps={args.steps}"])
    outcome = launch.start(config, RunFolder(folder), PlainDisplay())
    assert outcome.model is not None, "the run was interrupted"
    print("\nred green blue  →", Translator(outcome.model)("red green blue"))
