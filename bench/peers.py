"""Models of other libraries at the same sizes, with random weights: each maps source and target ids to logits.

They come with `pip install 'regard[bench]'`, except PyTorch's own. Eole and OpenNMT-py are pre-norm, which costs the
same. The newest OpenNMT-py that installs with PyTorch 2.13 is 3.0.0. JoeyNMT 2.3.0 must be installed by hand: its
protobuf (older than 3.21) is not Eole's (7.36), and it needs importlib_metadata without requiring it.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import TransformerConfig
from regard.core.positions import sinusoids
from regard.tokenizers.special_ids import BOS, EOS, PAD

INSTALL = "not installed; pip install 'regard[bench]' brings it"
BY_HAND = {"joeynmt": "not installed; 2.3.0 asks for a protobuf that is not Eole's, and needs importlib_metadata too"}
Build = Callable[[TransformerConfig], nn.Module]


def missing(module: str) -> str | None:
    """Why a peer cannot be imported, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing CUDA parts
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        return BY_HAND.get(package, INSTALL) if error.name == package else f"it does not import: {error}"
    except Exception as error:  # any error of a package with an unsupported torch
        return f"it does not import: {error}"
    return None


class TorchTransformer(nn.Module):
    """nn.Transformer with embeddings, positions and tied output, which it leaves to the user."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.scale = math.sqrt(config.d_model)
        self.embedding = nn.Embedding(config.tgt_vocab_size, config.d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=1 / self.scale)
        self.register_buffer("positions", sinusoids(config.max_positions, config.d_model).float())
        self.dropout = nn.Dropout(config.dropout)
        self.body = nn.Transformer(
            config.d_model,
            config.n_heads,
            config.n_encoder_layers,
            config.n_decoder_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
        )
        for part in self.body.modules():  # it takes a single rate; set the others
            if isinstance(part, nn.MultiheadAttention):
                part.dropout = config.attention_dropout
            elif isinstance(part, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                part.dropout.p = config.activation_dropout

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.shape[1]])

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.project(self.decode(self.encode(src), src, tgt))

    def encode(self, src: Tensor) -> Tensor:
        return self.body.encoder(self.embed(src), src_key_padding_mask=src == PAD)  # type: ignore[no-any-return]

    def decode(self, memory: Tensor, src: Tensor, tgt: Tensor) -> Tensor:
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        return self.body.decoder(  # type: ignore[no-any-return]
            self.embed(tgt), memory, tgt_mask=causal, memory_key_padding_mask=src == PAD, tgt_is_causal=False
        )

    def project(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embedding.weight)


def build_marian(config: TransformerConfig) -> Any:
    """Hugging Face's Marian itself, which also generates."""
    from transformers import MarianConfig, MarianMTModel

    return MarianMTModel(
        MarianConfig(
            vocab_size=config.tgt_vocab_size,
            d_model=config.d_model,
            encoder_layers=config.n_encoder_layers,
            decoder_layers=config.n_decoder_layers,
            encoder_attention_heads=config.n_heads,
            decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            activation_dropout=config.activation_dropout,
            activation_function="relu",
            max_position_embeddings=config.max_positions,
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
        )
    )


class Marian(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.body = build_marian(config)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.body(input_ids=src, attention_mask=src != PAD, decoder_input_ids=tgt, use_cache=False).logits


def with_end(tgt: Tensor) -> Tensor:
    """Eole and OpenNMT-py take the whole target and leave its last token out themselves."""
    return torch.cat([tgt, tgt[:, :1]], dim=1)


class Eole(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        from eole.config.models import TransformerModelConfig
        from eole.models.model import get_model_class

        settings = TransformerModelConfig(
            hidden_size=config.d_model,
            heads=config.n_heads,
            transformer_ff=config.d_ff,
            encoder={"layers": config.n_encoder_layers},
            decoder={"layers": config.n_decoder_layers},
            embeddings={"word_vec_size": config.d_model, "position_encoding_type": "SinusoidalInterleaved"},
            share_embeddings=True,
            share_decoder_embeddings=True,
            add_qkvbias=True,
            add_final_linear_bias=True,
            add_ffnbias=True,
        )
        rates = {"dropout": [config.dropout], "attention_dropout": [config.attention_dropout]}
        running = SimpleNamespace(**rates, param_init_method="xavier_uniform")
        tokens = {"<blank>" if i == PAD else str(i): i for i in range(config.tgt_vocab_size)}
        vocabularies = {"src": tokens, "tgt": tokens, "specials": {}}
        self.body = get_model_class(settings).build(settings, vocabularies, running)
        self.body.init_weights(running)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.body.generator(self.body(src, with_end(tgt), None).dec_out)


class OpenNMT(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        from onmt.decoders.transformer import TransformerDecoder
        from onmt.encoders.transformer import TransformerEncoder
        from onmt.models import NMTModel
        from onmt.modules import Embeddings

        embeddings = Embeddings(
            config.d_model, config.tgt_vocab_size, PAD, position_encoding=True, dropout=config.dropout
        )
        sizes = {"d_model": config.d_model, "heads": config.n_heads, "d_ff": config.d_ff}
        rates = {"dropout": config.dropout, "attention_dropout": config.attention_dropout}
        common = {**sizes, **rates, "embeddings": embeddings, "max_relative_positions": 0, "add_qkvbias": True}
        decoder = TransformerDecoder(
            config.n_decoder_layers,
            **common,
            copy_attn=False,
            self_attn_type="scaled-dot",
            aan_useffn=False,
            full_context_alignment=False,
            alignment_layer=0,
            alignment_heads=0,
        )
        self.body = NMTModel(TransformerEncoder(config.n_encoder_layers, **common), decoder)
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size)
        self.output.weight = embeddings.word_lut.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        hidden, _ = self.body(src[..., None], with_end(tgt)[..., None], (src != PAD).sum(dim=1))
        return self.output(hidden)


class TokenCount(SimpleNamespace):
    """The parts of a vocabulary that JoeyNMT's model uses."""

    def __len__(self) -> int:
        return int(self.size)


class JoeyNMT(nn.Module):
    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        from joeynmt.model import build_model

        sizes = {"hidden_size": config.d_model, "ff_size": config.d_ff, "num_heads": config.n_heads}
        embeddings = {"embedding_dim": config.d_model, "scale": True}
        side = {
            **sizes,
            "type": "transformer",
            "layer_norm": "post",
            "dropout": config.dropout,
            "embeddings": embeddings,
        }
        settings = {
            "encoder": {**side, "num_layers": config.n_encoder_layers},
            "decoder": {**side, "num_layers": config.n_decoder_layers},
            "tied_embeddings": True,
            "tied_softmax": True,
        }
        special = {"pad_index": PAD, "bos_index": BOS, "eos_index": EOS, "unk_index": None, "sep_index": None}
        vocabulary = TokenCount(size=config.tgt_vocab_size, **special, specials=(), lang_tags=())
        self.body = build_model(settings, vocabulary, vocabulary)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        mask = {"src_mask": (src != PAD)[:, None]}
        hidden, *_ = self.body(return_type="encode", src=src, src_length=(src != PAD).sum(dim=1), **mask)
        target = {"trg_input": tgt, "trg_mask": (tgt != PAD)[:, None], "unroll_steps": tgt.shape[1]}
        return self.body(return_type="decode", encoder_output=hidden, encoder_hidden=None, **target, **mask)[0]


# name: (the module that is needed, how to build it)
TRAINERS: dict[str, tuple[str, Build]] = {
    "nn.Transformer": ("torch", TorchTransformer),
    "Hugging Face Marian": ("transformers", Marian),
    "Eole": ("eole.models.model", Eole),
    "OpenNMT-py": ("onmt.models", OpenNMT),
    "JoeyNMT": ("joeynmt.model", JoeyNMT),
}
