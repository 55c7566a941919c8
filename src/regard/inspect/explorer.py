"""Every request about a model and a sentence that the explorer's page makes.

The server, the one-file page and notebooks all use it. The answers are dataclasses (`answers`) and binary bodies
(`wire`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from regard.config import DecodeConfig
from regard.decode.beam import BeamStep
from regard.decode.checks import check_ids
from regard.decode.engine_control import SearchControl
from regard.decode.hypotheses import Hypothesis
from regard.decode.search import search
from regard.errors import ConfigError
from regard.inspect.answers import (
    Alternative,
    Beam,
    BeamAlternative,
    BeamNode,
    Effects,
    Limits,
    Model,
    PartialTranslation,
    ScoredPiece,
    Translation,
)
from regard.inspect.beam_tree import BeamTree
from regard.inspect.effects import token_log_probs
from regard.inspect.interventions import Intervention, check_cells, check_search, without_mask
from regard.inspect.model_summary import describe_model
from regard.inspect.parameter import pack_parameter
from regard.inspect.passage import ExplorableTranslator, Passage, TracedPassage, describe_pieces
from regard.inspect.patching import check_places, intervened
from regard.inspect.search_progress import SearchProgress
from regard.inspect.support import SUPPORT
from regard.text.normalise import normalise
from regard.tokenizers.segmentation import Segmentation, segment
from regard.tokenizers.sentencepiece import SentencePieceModel
from regard.tokenizers.special_ids import EOS


@dataclass(frozen=True)
class Question:
    """A text to translate, and how."""

    text: str
    options: Mapping[str, Any]
    prefix_ids: tuple[int, ...] = ()
    interventions: tuple[Intervention, ...] = ()


class Explorer:
    """Requests about one model. Not thread-safe: interventions change the model while they are in effect."""

    def __init__(self, translator: ExplorableTranslator, limits: Limits = Limits()) -> None:  # noqa: B008
        self.translator = translator
        self.limits = limits

    @property
    def src(self) -> SentencePieceModel:
        return self.translator.tokenizer.src

    @property
    def tgt(self) -> SentencePieceModel:
        return self.translator.tokenizer.tgt

    # -- text

    def check_text(self, text: str) -> str:
        if len(text) > self.limits.characters:
            raise ConfigError(
                f"the text has {len(text):,} characters; the explorer accepts up to {self.limits.characters:,}"
            )
        return normalise(text)

    def tokens(self, text: str, side: Literal["src", "tgt"]) -> Segmentation:
        """How the tokenizer segments a text, merge by merge."""
        self.check_text(text)
        vocabulary = self.src if side == "src" else self.tgt
        return segment(vocabulary, text, self.translator.tokenizer.lowercase)

    def source_ids(self, text: str) -> tuple[int, ...]:
        [ids] = self.translator.encode_src([self.check_text(text)])
        self.check_length(ids, "the text")
        return tuple(ids)

    @property
    def max_pieces(self) -> int:
        return min(self.limits.pieces, self.translator.max_sentence_tokens)

    def check_length(self, ids: Sequence[int], what: str) -> None:
        most = self.max_pieces
        if len(ids) > most:
            raise ConfigError(f"{what} has {len(ids):,} pieces; the explorer accepts up to {most:,}")

    def target_ids(self, ids: Sequence[int], what: str) -> tuple[int, ...]:
        """Ids from a request, checked."""
        check_ids(ids, what)
        wrong = next((i for i in ids if not 0 <= i < self.tgt.size), None)
        if wrong is not None:
            raise ConfigError(f"{what} has the id {wrong}; the ids of the vocabulary are 0 to {self.tgt.size - 1}")
        self.check_length(ids, what)
        return tuple(ids)

    # -- search

    def search_config(self, question: Question, n_best: int) -> DecodeConfig:
        """The decoding settings of a request, within the limits of the explorer."""
        config = self.translator.decode_config(dict(question.options))
        for name, value, most in (("beam", config.beam, self.limits.beam), ("n_best", n_best, self.limits.n_best)):
            if not 1 <= value <= most:
                raise ConfigError(f"{name} = {value} is not possible here; it may be from 1 to {most}")
        return config

    def search(
        self,
        question: Question,
        config: DecodeConfig,
        n_best: int = 1,
        observe: Callable[[BeamStep], None] | None = None,
        control: SearchControl | None = None,
    ) -> list[Hypothesis]:
        src_ids = self.source_ids(question.text)
        prefix = self.target_ids(question.prefix_ids, "the prefix")
        check_cells(question.interventions, len(src_ids) + 1)
        if not src_ids:
            return [Hypothesis((), 0.0, 0.0, (), finished=False)]
        most = self.max_pieces - len(prefix)  # so that the translation can be traced
        if most < 1:
            raise ConfigError(f"the prefix has {len(prefix)} pieces; the most is {self.max_pieces - 1}")
        if config.max_length_ratio * len(src_ids) + config.max_length_extra > most:
            config = replace(config, max_length_ratio=0.0, max_length_extra=most)
        if config.method == "beam":
            n_best = min(n_best, config.beam)  # a larger n_best must not widen the beam
        with intervened(self.translator.model, without_mask(question.interventions)):
            [found] = search(
                self.translator.searcher,  # the model itself, while interventions are in effect
                [src_ids],
                config,
                self.translator.device,
                n_best,
                [prefix],
                observe=observe,
                control=control,
            )
        return found

    def translate(
        self,
        question: Question,
        n_best: int = 1,
        on_progress: Callable[[PartialTranslation], None] | None = None,
        control: SearchControl | None = None,
    ) -> Translation:
        """`on_progress` is called with the best hypothesis at each step of a beam search; `control` can cancel it."""
        check_search(question.interventions)
        observe = None
        if on_progress is not None:

            def report(kept: int, added: Sequence[tuple[int, float]]) -> None:
                on_progress(PartialTranslation(kept, self.scored_pieces(added)))

            observe = SearchProgress(report).observe
        found = self.search(question, self.search_config(question, n_best), n_best, observe, control)
        src = describe_pieces(self.src, self.source_ids(question.text))
        return Translation(question.text, src, tuple(map(self.alternative, found)))

    def beam(self, question: Question, n_best: int | None = None, control: SearchControl | None = None) -> Beam:
        """The tree of a beam search, with the translations it found."""
        check_search(question.interventions)
        config = self.search_config(question, n_best or 1)
        if config.method != "beam":
            raise ConfigError(f"the tree of hypotheses is that of a beam search, not of method = {config.method!r}")
        tree = BeamTree(config.beam, config.length_penalty, config.beam_rule)
        found = self.search(question, config, n_best or config.beam, tree.observe, control)
        ends = tree.finish(found)
        pieces = self.tgt.pieces([node.id for node in tree.nodes])
        nodes = (BeamNode(**vars(node), piece=piece) for node, piece in zip(tree.nodes, pieces, strict=True))
        alternatives = (
            BeamAlternative(**vars(self.alternative(one)), node=end) for one, end in zip(found, ends, strict=True)
        )
        settings = config.beam, config.length_penalty, config.beam_rule
        return Beam(tuple(nodes), tree.left_out, *settings, tuple(alternatives))

    def alternative(self, found: Hypothesis) -> Alternative:
        ids = [*found.ids, EOS] if found.finished else list(found.ids)
        return Alternative(
            normalise(self.translator.tokenizer.decode_tgt(found.ids)),
            found.score,
            found.log_prob,
            found.finished,
            self.scored_pieces(list(zip(ids, found.token_log_probs, strict=True))),
        )

    def scored_pieces(self, tokens: Sequence[tuple[int, float]]) -> tuple[ScoredPiece, ...]:
        """(id, log-probability) of each token, with its piece."""
        pieces = self.tgt.pieces([i for i, _ in tokens])
        return tuple(ScoredPiece(i, piece, log_prob) for (i, log_prob), piece in zip(tokens, pieces, strict=True))

    # -- trace

    def passage(
        self, question: Question, tgt_ids: Sequence[int] | None, control: SearchControl | None = None
    ) -> Passage:
        """The passage over this translation, or over the one that a search finds."""
        SUPPORT.check(self.translator.model.config)
        check_places(self.translator.model, question.interventions)
        src_ids = self.source_ids(question.text)
        if tgt_ids is None:
            tgt_ids = self.search(question, self.search_config(question, 1), control=control)[0].ids
        else:
            whole = tgt_ids[:-1] if tgt_ids and tgt_ids[-1] == EOS else tgt_ids
            tgt_ids = self.target_ids(whole, "the translation")
        check_cells(question.interventions, len(src_ids) + 1, len(tgt_ids) + 1)
        return Passage(question.text, src_ids, tuple(tgt_ids), question.interventions)

    def trace(self, passage: Passage) -> TracedPassage:
        return TracedPassage.run(self.translator, passage)

    def effects(
        self,
        question: Question,
        tgt_ids: Sequence[int],
        variants: Sequence[tuple[Intervention, ...]],
        control: SearchControl | None = None,
    ) -> Effects:
        """How probable a translation remains under each of several sets of interventions."""
        control = control or SearchControl()
        passages = [self.passage(replace(question, interventions=one), tgt_ids) for one in ((), *variants)]
        found = []
        for one in passages:
            control.check()
            found.append(token_log_probs(self.translator.model, one.src_ids, one.tgt_ids, one.interventions))
        return Effects(found[0], tuple(found[1:]))

    # -- the model

    def parameter(self, name: str, rows: str | None = None, columns: str | None = None) -> bytes:
        return pack_parameter(self.translator.model, name, rows, columns)

    def describe(self, id: str = "0", name: str | None = None, recorded: bool = False) -> Model:
        return describe_model(self.translator, id, name, recorded)
