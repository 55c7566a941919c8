"""The model card of a trained model: purpose, data, training, scores."""

from __future__ import annotations

from typing import assert_never

from regard.config import CorpusConfig, RunConfig
from regard.data.corpus import corpus_name
from regard.model_folder.model_card import CardHead


def model_card(run: RunConfig, n_parameters: int, step: int, scores: dict[str, float], n_averaged: int = 1) -> str:
    data, model = run.data, run.model
    licences = dict.fromkeys(corpus.licence for corpus in data.train if corpus.licence)
    lines = [
        f"# {purpose_of(run)}",
        "",
        f"{model.title} trained with Regard: {model.layers} layers, "
        f"d_model {model.d_model}, {model.sizes}, {n_parameters:,} parameters.",
        "",
        "## Data",
        "",
        *[f"- {corpus_line(corpus)}" for corpus in data.train],
        "",
        "The licence of the data governs what may be done with this model.",
        "",
        "## Training",
        "",
        f"{step:,} steps of about {run.train.batch_tokens * run.train.gradient_accumulation_steps:,} tokens, "
        f"seed {run.train.seed}."
        + (f" The weights are the mean of the last {n_averaged} checkpoints." if n_averaged > 1 else ""),
        "",
        "## Scores on the validation set",
        "",
        *([f"- {name}: {value:.4g}" for name, value in scores.items()] or ["- none"]),
    ]
    return str(CardHead("; ".join(licences), scores)) + "\n".join(lines) + "\n"


def purpose_of(run: RunConfig) -> str:
    data = run.data
    language = f", {data.src_lang}" if data.src_lang else ""
    match run.task:
        case "translation" | "span_corruption":
            return f"{data.src_lang or 'source'} → {data.tgt_lang or 'target'} translation"
        case "language_modelling":
            return f"Text generation{language}"
        case "masked_language_modelling":
            return f"Masked language model{language}"
        case "text_classification":
            return f"Text classification{language}"
        case "image_classification":
            return "Image classification"
        case None:
            return f"Text embeddings{language}"
        case _:
            assert_never(run.task)


def corpus_line(corpus: CorpusConfig) -> str:
    if corpus.toy:
        return f"toy task '{corpus.toy}', {corpus.size:,} examples"
    where = f" ({corpus.published})" if corpus.published else ""
    return (corpus.about or corpus_name(corpus)) + where
