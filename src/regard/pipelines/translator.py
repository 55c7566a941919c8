"""The façade: texts in; translations, scores and traces out.

from regard import Translator

translate = Translator()                               # the models that are installed, whichever a text needs
translate(["我爱你。", "I love you."])                    # both ways
Translator(to="zh")("I love you.")
Translator("runs/multi30k-en-de/model")("Two dogs run.")  # a model of one's own
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import Precision, convert
from regard.errors import ConfigError
from regard.model_folder.registry import InstalledModel, find_folder, models_for, nothing_for
from regard.pipelines.guarded_translator import GuardedTranslator
from regard.pipelines.translation import (
    NOTHING,
    Alternative,
    Link,
    Translation,
    TranslatorBase,
    as_it_is,
    check_n_best,
    check_pairs,
)
from regard.text.chinese_script import ChineseScript, script_of, simplify, traditionalise
from regard.text.entities import change_between, find_kept, fixed, is_all_kept
from regard.text.language import Guess, base_language, guess_language, same_language
from regard.text.normalise import normalise

if TYPE_CHECKING:
    from regard.inspect.trace import Trace
    from regard.pipelines.model_translator import ModelTranslator

__all__ = ["Alternative", "Link", "Translation", "Translator"]


AS_IT_IS = "left as it is: "


class Translator(TranslatorBase):
    """One model, or all that are installed; they are loaded when a text needs them."""

    def __init__(
        self,
        folder: str | Path | None = None,
        precision: Precision = "float32",
        *,
        source: str | None = None,
        to: str | None = None,
        script: ChineseScript | None = None,
        guards: bool | None = None,
        shortlist: bool = False,
    ) -> None:
        """Without a folder (or the name of an installed model), each text goes to a model that reads its language.

        `source` and `to` are languages, "zh" or "en": what texts are in, where that is not to be guessed, and what is
        wanted. `script` is that of Chinese translations: traditional where `to` is "zh-TW" or the like; else, of
        installed models, simplified. `guards` look at every answer before it is given; they are on where no folder is
        named. `precision` of the search: "float32" is exact; "auto" is the fastest here.
        `shortlist`: search only among words that the model's shortlist has for a text (`regard shortlist`), faster and
        not exact: a translation may then depend on what else is translated with it.
        """
        self.precision: Precision = convert(Precision, precision, "precision")
        self.shortlist = shortlist
        self.source, self.to = source, to
        self.script: ChineseScript | None = script or script_of(to or "") or ("simplified" if folder is None else None)
        self.ways: dict[Path, ModelTranslator] = {}
        self.guards = folder is None if guards is None else guards
        self.models: list[InstalledModel] = []
        self.folder: Path | None = None
        if folder is None:
            self.models = models_for(source, to)
        else:
            self.folder = find_folder(folder)
            self.check_languages(self.load(self.folder))

    # -- translating

    def translate(
        self,
        texts: Sequence[str],
        *,
        n_best: int = 1,
        prefix: str = "",
        task: str | None = None,
        done: Callable[[int], None] = lambda count: None,
        **options: Any,
    ) -> list[Translation]:
        """A translation per text, in order; an empty text gives an empty translation.

        `options` are those of decoding: beam=4, length_penalty=0.6, method="sample", temperature=0.8, seed=1, …
        `prefix` is how every translation must begin. `task` is for a model with several: one of its `tasks`, or a word
        of it. `done` hears how many texts are finished.
        """
        if isinstance(texts, str):
            raise ConfigError("translate() takes a list of texts; for a single text call the translator itself")
        check_n_best(n_best)
        texts = list(texts)
        found: dict[int, Translation] = {}
        sorted_texts = self.sort(texts, found)
        done(len(found))
        for folder, chosen in sorted_texts.items():
            asked = [texts[at] for at in chosen]
            answers = self.guard(folder, task).translate(asked, n_best=n_best, prefix=prefix, done=done, **options)
            found.update(zip(chosen, map(self.write, answers), strict=True))
        return [found[at] for at in range(len(texts))]

    def sort(self, texts: Sequence[str], found: dict[int, Translation]) -> dict[Path, list[int]]:
        """Which texts each model is to translate; for those that none is to, `found` has an answer already."""
        if self.folder is not None:
            return {self.folder: list(range(len(texts)))}
        chosen: dict[Path, list[int]] = {}
        for at, text in enumerate(texts):
            text = normalise(text)
            if is_all_kept(text):
                found[at] = as_it_is(texts[at], text) if text else Translation(texts[at], (NOTHING,))
                continue
            model, why_not = self.choose(text)
            if model is not None:
                chosen.setdefault(model.folder, []).append(at)
            else:
                found[at] = as_it_is(texts[at], text, why_not)
        notes = [translation.note for translation in found.values() if translation.note]
        if notes and not chosen:
            why = notes[0].removeprefix(AS_IT_IS)
            hint = "name another language, or none" if why.endswith("already") else nothing_for(None, None, self.models)
            raise ConfigError(f"{why}: {hint}")
        return chosen

    def choose(self, text: str) -> tuple[InstalledModel | None, str]:
        """The model for a text, or why there is none."""
        guess = self.guess(text)
        for model in self.models:
            if guess.language and same_language(model.src_lang, guess.language):
                return model, ""
        if self.to is not None and guess.language and same_language(guess.language, self.to):
            return None, f"{AS_IT_IS}it is in {self.to} already"
        written = f"{guess.script} ({guess.language})" if guess.language else guess.script or "no script"
        return None, f"{AS_IT_IS}it is written in {written}, which no installed model reads"

    def guess(self, text: str) -> Guess:
        """The language that was named, or that of the text's script."""
        return guess_language(text) if self.source is None else Guess(self.source)

    def has_script(self, text: str) -> bool:
        guess = self.guess(normalise(text))
        return bool(guess.language or guess.script)

    # -- models

    def one_way(self, text: str = "") -> ModelTranslator:
        """The one model, or the one that a text needs: with everything that can be asked of it."""
        if self.folder is not None:
            return self.load(self.folder)
        model, why_not = self.choose(text)
        if model is None:
            raise ConfigError(f"which model? {why_not.removeprefix(AS_IT_IS)}; name a model's folder")
        return self.load(model.folder)

    def load(self, folder: Path) -> ModelTranslator:
        from regard.pipelines.model_translator import ModelTranslator

        if folder not in self.ways:
            self.ways[folder] = ModelTranslator(folder, self.precision, shortlist=self.shortlist)
        return self.ways[folder]

    def guard(self, folder: Path, task: str | None = None) -> ModelTranslator | GuardedTranslator:
        """What translates for a model: with guards, or bare."""
        way = self.load(folder) if task is None else self.load(folder).for_task(task)
        return GuardedTranslator(way, lambda text: self.read(way, text)) if self.guards else way

    def read(self, way: ModelTranslator, text: str) -> str:
        """The text as a model gets it: installed models for Chinese, unless they say otherwise, know one script; and
        those for English know words in small letters, and sentences with a capital."""
        if not self.guards:
            return text
        language = base_language(way.src_lang)
        if language == "zh" and "hant" not in way.src_lang.lower():
            return simplify(text)
        return text[:1].upper() + text[1:] if language == "en" and " " in text.strip() else text

    def write(self, translation: Translation) -> Translation:
        """In the script that was asked for."""
        if self.script is None or base_language(translation.tgt_lang) != "zh":
            return translation
        change = traditionalise if self.script == "traditional" else simplify
        alternatives = []
        for one in translation.alternatives:
            kept = fixed(find_kept(one.text, chinese=True))
            alternatives.append(dataclasses.replace(one, text=change_between(one.text, kept, change)))
        return dataclasses.replace(translation, alternatives=tuple(alternatives))

    def check_languages(self, way: ModelTranslator) -> None:
        """What was asked for must be the model's."""
        for what, wanted, has in (("from", self.source, way.src_lang), ("to", self.to, way.tgt_lang)):
            if wanted is not None and not same_language(wanted, has):
                one, other = (lang or "an unnamed language" for lang in (way.src_lang, way.tgt_lang))
                raise ConfigError(
                    f"{way.folder} translates from {one} to {other}, not {what} {wanted}; "
                    "choose another model with --model"
                )

    # -- looking closer

    def score(
        self, sources: Sequence[str], translations: Sequence[str], done: Callable[[int], None] = lambda count: None
    ) -> list[Alternative]:
        """What the model thinks of given translations: their log-probabilities, whole and by token."""
        check_pairs(sources, translations)
        # A line without a word, such as an empty one, goes to the model of the others.
        telling = next(filter(self.has_script, sources), "")
        ways = [self.one_way(source if self.has_script(source) else telling) for source in sources]
        found: dict[int, Alternative] = {}
        for way in dict.fromkeys(ways):
            chosen = [at for at, its in enumerate(ways) if its is way]
            read = [self.read(way, sources[at]) for at in chosen]
            scored = way.score(read, [translations[at] for at in chosen], done)
            found.update(zip(chosen, scored, strict=True))
        return [found[at] for at in range(len(sources))]

    def trace(self, text: str, translation: str | None = None, taps: Sequence[str] = ("*",), **options: Any) -> Trace:
        """Every number on the way from `text` to its translation, or to the one that is given."""
        way = self.one_way(text)
        return way.trace(self.read(way, text), translation, taps, **options)

    def align(self, text: str, translation: str | None = None) -> list[Link]:
        """Which word goes with which, read off the cross-attention. Without a translation, the model's own."""
        if translation is not None or not self.guards:
            way = self.one_way(text)
            return way.align(self.read(way, text), translation)
        return self.align_parts(self.translate([text])[0])

    def align_parts(self, translation: Translation) -> list[Link]:
        """The same for a translation that this translator gave."""
        if not translation.alternatives[0].parts:
            return []
        return self.one_way(translation.source).align_parts(translation.alternatives[0].parts)
