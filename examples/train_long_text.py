"""Train a GPT on texts that are cut among processes: ring attention.

On two processes, which each hold half of every text of 1,024 characters:

    torchrun --nproc-per-node 2 examples/train_long_text.py

With `--recipe`, a GPT recipe, whose attention becomes ring attention:

    torchrun --nproc-per-node 2 examples/train_long_text.py --recipe recipes/gpt-hongloumeng.toml --folder hongloumeng
"""

import argparse
import dataclasses
import tempfile
from pathlib import Path

import torch

from regard import TextGenerator
from regard.config import GptConfig, RingAttentionConfig, RunConfig
from regard.config.recipe import load_recipe, run_from_dict
from regard.data.batches import DataPosition
from regard.data.texts import PreparedTexts
from regard.model_folder.atomic import atomic_folder, default_cache
from regard.model_folder.folder import write_model
from regard.train.language_modeling_task import LanguageModelingTask
from regard.train.sequence_parallel import backward, process_group, sharding_of, share_parameters
from regard.train.tasks import prepare_run

LINES = ("the cat sat on the mat", "the dog sat on the log", "the bird sat in the tree", "the fish swam in the sea")

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--recipe", type=Path, help="a recipe of the family gpt [a small one, with a text of its own]")
parser.add_argument("--folder", type=Path, help="where the model is written [a temporary folder]")
parser.add_argument("--steps", type=int, default=100)
args = parser.parse_args()


def small_run(folder: Path) -> RunConfig:
    """A character model of a text that is the same in every process."""
    text = folder / "lines.txt"
    text.write_text("\n".join(LINES * 300) + "\n", "utf-8")
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2, "max_positions": 1024, "dropout": 0.0}
    return run_from_dict(
        {
            "data": {
                "train": [{"text": str(text)}],
                "tokenizer": {"kind": "characters"},
                "filters": {"max_tokens": 1024},
            },
            "model": {"family": "gpt", **sizes, "attention": {"kind": "ring"}},
            "train": {"batch_tokens": 1024, "lr": 3e-3},
        }
    )


with process_group() as (rank, n_ranks), tempfile.TemporaryDirectory() as temporary:
    torch.set_num_threads(1)
    run = small_run(Path(temporary))
    if args.recipe:
        run = load_recipe(args.recipe)
        assert isinstance(run.model, GptConfig), "the recipe is not of the family gpt"
        run = dataclasses.replace(run, model=dataclasses.replace(run.model, attention=RingAttentionConfig()))
    run, prepared = prepare_run(run, default_cache(), print if rank == 0 else lambda text: None)
    assert isinstance(prepared, PreparedTexts)
    task = LanguageModelingTask(run, prepared, torch.device("cpu"))
    sharding = sharding_of(task.model, rank, n_ranks)
    share_parameters(task.model, sharding)
    torch.manual_seed(run.train.seed + rank)  # of dropout
    optimizer = torch.optim.AdamW(task.model.parameters(), lr=run.train.lr or 1e-3, weight_decay=run.train.weight_decay)
    for step, (batch, _) in zip(range(args.steps), task.batches(DataPosition()), strict=False):
        loss = backward(task.model, torch.from_numpy(batch.ids), torch.from_numpy(batch.targets), sharding)
        torch.nn.utils.clip_grad_norm_(task.model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and (step % 10 == 0 or step == args.steps - 1):
            tokens = batch.ids.shape[1]
            print(f"step {step + 1}: loss {loss:.3f}, {tokens:,} tokens on {n_ranks} rank(s)", flush=True)
    if rank == 0:
        folder = args.folder or Path(temporary) / "model"
        weights = {name: p.detach().numpy() for name, p in task.model.named_parameters()}
        with atomic_folder(folder) as path:
            write_model(path, task.describe(), weights, "# A model trained by examples/train_long_text.py\n")
        print("sampled:", repr(TextGenerator(folder)("the " if not args.recipe else "", max_tokens=40, seed=1)))
