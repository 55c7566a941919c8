"""Train a character-level GPT on a few lines of text and sample from it. A few seconds on one core."""

import argparse
import tempfile
from pathlib import Path

from regard import TextGenerator
from regard.cli.display import PlainDisplay
from regard.config.recipe import run_from_dict
from regard.train import launch
from regard.train.run_folder import RunFolder

LINES = ("the cat sat on the mat", "the dog sat on the log", "the bird sat in the tree", "the fish swam in the sea")

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", nargs="?", type=Path, help="folder of the run [a temporary one]")
parser.add_argument("--steps", type=int, default=150)
args = parser.parse_args()

with tempfile.TemporaryDirectory() as temporary:
    text = Path(temporary) / "lines.txt"
    text.write_text("\n".join(LINES * 100) + "\n", "utf-8")
    config = run_from_dict(
        {
            "data": {
                "train": [{"text": str(text)}],
                "valid": [{"text": str(text), "stop": 0.1}],
                "tokenizer": {"kind": "characters"},
            },
            "model": {"family": "gpt", "d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2, "max_positions": 64},
            "train": {
                "max_steps": args.steps,
                "batch_tokens": 512,
                "lr": 3e-3,
                "warmup_steps": 20,
                "label_smoothing": 0.0,
                "threads": 1,
                "log_every": 50,
                "validate_every": 150,
                "average_checkpoints": 1,
            },
        }
    )
    outcome = launch.start(config, RunFolder(args.folder or Path(temporary) / "run"), PlainDisplay())
    assert outcome.model is not None, "the run was interrupted"
    generator = TextGenerator(outcome.model)
    print("\nsampled:")
    for seed in (1, 2, 3):
        print(f"  the {generator('the ', max_tokens=24, temperature=0.7, seed=seed)!r}")
