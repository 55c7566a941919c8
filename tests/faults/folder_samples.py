"""Small whole folders of every family: ours, and Hugging Face folders as transformers writes them. Random weights."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import transformers

from regard import config as settings
from regard.config import DecodeConfig, FamilyConfig
from regard.interop.huggingface.imports import import_folder
from regard.model_folder.atomic import atomic_folder
from regard.model_folder.folder import ModelDescription, write_model
from regard.model_folder.weights import StoredAs
from regard.models.build import build_model
from regard.tokenizers.byte_level_bpe import END_PIECE, VISIBLE
from regard.tokenizers.training import train_vocabulary
from regard.tokenizers.wordpiece import SPECIAL_PIECES

WORDS = ("red", "green", "house", "tree", "river", "small", "old", "sees", "the", "a", "under", "two", "dogs", "1", ".")
SMALL = {"d_model": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
ATTENTIONS: dict[str, dict[str, Any]] = {
    "window": {"window": [3], "n_global_tokens": 1},
    "sparse": {"stride": 4},
    "adaptive_span": {"max_span": 20, "ramp": 4},
    "lsh": {"n_buckets": 2, "chunk": 4, "n_rounds": 2},
    "blockwise": {"block": 8},
}
STACK = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}


def sentences() -> list[str]:
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=6)) for _ in range(200)]


def our_folders(place: Path) -> dict[str, Path]:
    """Model folders that Regard trains; those of imported models come from `import_all`."""
    vocabulary = train_vocabulary(sentences(), "bpe", 300)
    joint, size = {"tokenizer.model": vocabulary.proto}, vocabulary.size
    sizes = {"src_vocab_size": size, "tgt_vocab_size": size}
    characters = {"characters.txt": "".join(sorted(set(" ".join(WORDS)))).encode()}
    n_characters = 5 + len(characters["characters.txt"])
    stack = {"d_model": 8, "n_heads": 2, "d_ff": 12, "n_layers": 1}
    gpt = {**stack, "family": "gpt", "max_positions": 40, "vocab_size": n_characters}
    pieces = [*SPECIAL_PIECES, *WORDS]
    bert = {**stack, "family": "bert", "max_positions": 40}
    models: dict[str, tuple[dict[str, Any], dict[str, bytes]]] = {
        "transformer": ({**SMALL, "n_heads": 2, "d_ff": 12, **sizes}, joint),
        "recurrent": ({**SMALL, **sizes, "family": "recurrent"}, joint),
        "gpt": (gpt, characters),
        "int8": ({**SMALL, "n_heads": 2, "d_ff": 12, **sizes}, joint),
        **{
            kind: ({**gpt, "attention": {"kind": kind, **attention}}, characters)
            for kind, attention in ATTENTIONS.items()
        },
        "linformer": (
            {
                **bert,
                "vocab_size": len(pieces),
                "attention": {"kind": "linformer", "length": 40, "projected_length": 4},
            },
            {"vocab.txt": "".join(f"{piece}\n" for piece in pieces).encode()},
        ),
        "moe": ({**SMALL, "n_heads": 2, "ffn": "moe", "d_ff": 6, **sizes, "position": "learned"}, joint),
    }
    found = {}
    for name, (tree, tokenizer) in models.items():
        config: FamilyConfig = settings.convert(FamilyConfig, tree, "model")
        torch.manual_seed(3)
        weights = {key: parameter.detach().numpy() for key, parameter in build_model(config).named_parameters()}
        description = ModelDescription(config, DecodeConfig(max_length_extra=8), "en", "xx", False, tokenizer)
        with atomic_folder(place / name) as folder:
            stored_as: StoredAs = "int8" if name == "int8" else "float32"
            write_model(folder, description, weights, "---\nlicence: CC0\nbleu: 1\n---\n", stored_as=stored_as)
        found[name] = place / name
    return found


def huggingface_folders(place: Path) -> dict[str, Path]:
    torch.manual_seed(4)
    makers = {"marian": marian, "t5": t5, "bert": bert, "gpt2": gpt2, "vit": vit, "deepseek": deepseek}
    for name, make in makers.items():
        (place / name).mkdir(parents=True)
        make(place / name)
    return {name: place / name for name in makers}


def import_all(folders: dict[str, Path], place: Path) -> dict[str, Path]:
    for name, folder in folders.items():
        import_folder(folder, place / f"imported-{name}")
    return {f"imported-{name}": place / f"imported-{name}" for name in folders}


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content), "utf-8")


def train_pieces(**options: Any) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_writer=model,
        vocab_size=50,
        hard_vocab_limit=False,
        minloglevel=3,
        normalization_rule_name="identity",
        **options,
    )
    return model.getvalue()


def marian(folder: Path) -> None:
    proto = train_pieces()
    processor = sentencepiece.SentencePieceProcessor(model_proto=proto)
    pieces = [processor.id_to_piece(i) for i in range(processor.vocab_size())]
    numbers = {piece: i for i, piece in enumerate(dict.fromkeys(["</s>", "<unk>", *pieces[3:], "<pad>"]))}
    (folder / "source.spm").write_bytes(proto)
    (folder / "target.spm").write_bytes(proto)
    write_json(folder / "vocab.json", numbers)
    write_json(folder / "tokenizer_config.json", {"source_lang": "en", "target_lang": "de"})
    config = transformers.MarianConfig(
        vocab_size=len(numbers),
        pad_token_id=numbers["<pad>"],
        eos_token_id=numbers["</s>"],
        decoder_start_token_id=numbers["<pad>"],
        **{"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12},
        **{"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 32},
        **{"activation_function": "swish", "scale_embedding": True},
    )
    transformers.MarianMTModel(config).save_pretrained(folder)


def t5(folder: Path) -> None:
    proto = train_pieces(pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>")
    (folder / "spiece.model").write_bytes(proto)
    write_json(folder / "tokenizer_config.json", {"extra_ids": 5})
    sizes = {"d_model": 8, "d_kv": 4, "num_heads": 2, "d_ff": 12, "num_layers": 1, "vocab_size": 64}
    config = transformers.T5Config(
        **sizes, relative_attention_num_buckets=8, relative_attention_max_distance=12, decoder_start_token_id=0
    )
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)


def bert(folder: Path) -> None:
    pieces = [*SPECIAL_PIECES, *WORDS]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    config = transformers.BertConfig(**STACK, vocab_size=len(pieces), max_position_embeddings=40)
    transformers.BertForMaskedLM(config).save_pretrained(folder)


def gpt2(folder: Path) -> None:
    merges = [("t", "h"), ("th", "e")]
    pieces = [*VISIBLE, *("".join(pair) for pair in merges), END_PIECE]
    model = {"type": "BPE", "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": [list(m) for m in merges]}
    write_json(folder / "tokenizer.json", {"model": model, "pre_tokenizer": {"type": "ByteLevel"}, "added_tokens": []})
    config = transformers.GPT2Config(n_embd=8, n_head=2, n_layer=1, n_positions=40, vocab_size=len(pieces))
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def vit(folder: Path) -> None:
    config = transformers.ViTConfig(**STACK, image_size=8, patch_size=4, num_labels=3)
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    write_json(folder / "preprocessor_config.json", {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2})


def deepseek(folder: Path) -> None:
    config = transformers.DeepseekV3Config(
        **{**STACK, "num_hidden_layers": 2, "vocab_size": 40, "moe_intermediate_size": 4, "first_k_dense_replace": 1},
        **{"num_key_value_heads": 2, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1},
        **{"kv_lora_rank": 4, "q_lora_rank": 4, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 4},
    )
    transformers.DeepseekV3ForCausalLM(config).save_pretrained(folder)
