"""The model card that goes into every model folder: what it is, what it was trained on, how well it does."""

from __future__ import annotations

from typing import assert_never

from regard.config import (
    BertConfig,
    CorpusConfig,
    DeepSeekConfig,
    FamilyConfig,
    GptConfig,
    RecurrentConfig,
    RunConfig,
    T5Config,
    TransformerConfig,
    TranslationConfig,
    ViTConfig,
)
from regard.data.corpus import corpus_name
from regard.model_folder.model_card import CardHead


def model_card(run: RunConfig, n_parameters: int, step: int, scores: dict[str, float], n_averaged: int = 1) -> str:
    data, model = run.data, run.model
    licences = dict.fromkeys(corpus.licence for corpus in data.train if corpus.licence)
    lines = [
        f"# {purpose_of(run)}",
        "",
        f"{kind_of(model)} trained with Regard: {layers_of(model)} layers, "
        f"d_model {model.d_model}, {sizes_of(model)}, {n_parameters:,} parameters.",
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
        *([f"- {name}: {value:.4g}" for name, value in scores.items()] or ["- none yet"]),
    ]
    return str(CardHead("; ".join(licences), scores)) + "\n".join(lines) + "\n"


def purpose_of(run: RunConfig) -> str:
    data, model = run.data, run.model
    language = f", {data.src_lang}" if data.src_lang else ""
    match model:
        case TransformerConfig() | T5Config() | RecurrentConfig():
            return f"{data.src_lang or 'source'} → {data.tgt_lang or 'target'} translation"
        case GptConfig() | DeepSeekConfig():
            return f"Going on with a text{language}"
        case BertConfig():
            return ("What a text is" if "classes" in model.heads else "Hidden words") + language
        case ViTConfig():
            return "What is in a picture"
        case _:
            assert_never(model)


def kind_of(model: FamilyConfig) -> str:
    match model:
        case TransformerConfig():
            return "A Transformer"
        case T5Config():
            return "A T5"
        case RecurrentConfig():
            cells = {"rnn": "A plain recurrent network", "gru": "A GRU network", "lstm": "An LSTM network"}
            return cells[model.cell]
        case GptConfig():
            return "A GPT"
        case DeepSeekConfig():
            return "A DeepSeek model"
        case BertConfig():
            return "A BERT"
        case ViTConfig():
            return "A Vision Transformer"
        case _:
            assert_never(model)


def layers_of(model: FamilyConfig) -> str:
    if isinstance(model, TranslationConfig):
        return f"{model.n_encoder_layers}+{model.n_decoder_layers}"
    return str(model.n_layers)


def sizes_of(model: FamilyConfig) -> str:
    match model:
        case TransformerConfig():
            return f"{model.n_heads} heads, d_ff {model.d_ff}"
        case T5Config():
            return f"{model.n_heads} heads of {model.head_size}, d_ff {model.d_ff}"
        case RecurrentConfig():
            return "without attention" if model.attention == "none" else f"{model.attention} attention"
        case GptConfig() | DeepSeekConfig() | BertConfig() | ViTConfig():
            return f"{model.n_heads} heads, d_ff {model.d_ff}"
        case _:
            assert_never(model)


def corpus_line(corpus: CorpusConfig) -> str:
    if corpus.toy:
        return f"toy task '{corpus.toy}', {corpus.size:,} pairs"
    where = f" ({corpus.published})" if corpus.published else ""
    return (corpus.about or corpus_name(corpus)) + where
