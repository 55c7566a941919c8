"""Sentences with numbers, units and negations, and an oracle that says whether a translation keeps them.

    python tests/faults/sentences.py --count 5000 --seed 1          the installed models, each direction

The generator knows what it wrote: the value, the unit and whether the sentence is negated. The oracle knows nothing of
the parsers in `regard.guards`: it looks in the translation for the ways to write that value and that unit. A
translation that it does not recognise must have a note. The exit code is 1 if there is one that is neither.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from renderings import (
    CURRENCIES,
    NEGATION,
    NOUNS,
    ONES,
    PREFIXED,
    SURE_NEGATION,
    TEMPLATES,
    UNITS,
    WORDS_ONLY,
    chinese_words,
    english_words,
    number_pattern,
    plain_forms,
)

SIGNS = {"$": ("美元", "美金", "dollars"), "€": ("欧元", "euros")}


@dataclass(frozen=True)
class Fact:
    """Something that a translation must contain."""

    written: str  # in the source
    accepted: str  # a regular expression of all ways to write it in the target language


@dataclass(frozen=True)
class Sentence:
    text: str
    facts: tuple[Fact, ...]
    negated: bool


class Generator:
    def __init__(self, source: str, seed: int) -> None:
        self.source, self.target = source, "en" if source == "zh" else "zh"
        self.random = random.Random(f"{source}{seed}")

    def sentences(self, count: int) -> list[Sentence]:
        return [self.sentence() for _ in range(count)]

    def sentence(self) -> Sentence:
        kind = self.random.random()
        if kind < 0.12:
            text, negated = self.random.choice(WORDS_ONLY[self.source])
            return Sentence(text, (), negated)
        template, count, negated = self.random.choice(TEMPLATES[self.source])
        quantities = [self.quantity() for _ in range(count)]
        while len({fact.accepted for _, facts in quantities for fact in facts}) < sum(
            len(facts) for _, facts in quantities
        ):
            quantities = [self.quantity() for _ in range(count)]  # each number once, so that none hides another
        return Sentence(
            template.format(*(text for text, _ in quantities)), tuple(f for _, fs in quantities for f in fs), negated
        )

    def quantity(self) -> tuple[str, list[Fact]]:
        kinds = (
            self.count,
            self.measure,
            self.measure,
            self.measure,
            self.copied,
            self.copied,
            self.money,
            self.time,
            self.interval,
        )
        return self.random.choice(kinds)()

    def value(self) -> float:
        pick = self.random.random
        if pick() < 0.25:
            return round(self.random.uniform(0.1, 100), self.random.choice([1, 2]))
        return float(
            self.random.choice(
                [self.random.randint(2, 20), self.random.randint(21, 999), self.random.randint(1000, 99999)]
            )
        )

    def write(self, value: float) -> str:
        """The number in one of its writings."""
        forms = plain_forms(value)[:2]
        number = int(value)
        if value == number:
            forms += [chinese_words(number) if self.source == "zh" else english_words(number)]
            forms += ["".join(chr(ord(one) + 0xFEE0) for one in str(number))]  # full width
            forms += [f"{number:,}".replace(",", " ")] if number >= 1000 else []
            if self.source == "zh" and number % 100 == 0 and number >= 10_000:
                forms += [f"{number / 10_000:g}万"]
        elif value == 0.5:
            forms += ["½"]
        return self.random.choice(forms)

    def count(self) -> tuple[str, list[Fact]]:
        value = float(int(self.value()) + 2)
        chinese, english = self.random.choice(NOUNS)
        text = f"{self.write(value)}{chinese}" if self.source == "zh" else f"{self.write(value)} {english}"
        return text, [Fact(text, number_pattern(value, self.target))]

    def measure(self) -> tuple[str, list[Fact]]:
        chinese, english, in_chinese, in_english = self.random.choice(UNITS)
        value, sign = self.value(), ""
        if "°" in english[0] and self.random.random() < 0.5:
            sign = self.random.choice(["-", "−", "零下" if self.source == "zh" else "minus "])
        unit = self.random.choice(chinese if self.source == "zh" else english)
        number = self.write(value)
        space = "" if self.source == "zh" or unit == "%" else " "
        text = f"{sign}{number}{space}{unit}"
        return text, [
            Fact(
                text,
                self.with_unit(
                    number_pattern(value, self.target),
                    in_chinese if self.target == "zh" else in_english,
                    bool(sign),
                    unit,
                ),
            )
        ]

    def with_unit(self, number: str, units: str, negative: bool, unit: str) -> str:
        after = r"(?![A-Za-z/²])" if self.target == "en" else r"(?![A-Za-z/²]|每小时|钱币)"
        fact = rf"{number}[ -]?(?:{units}){after}"
        if unit == "公里/小时" or unit.startswith(("km/h", "kilometers per")):
            fact = rf"(?:{fact}|(?:时速|每小时) ?{number} ?(?:公里|千米))"
        sign = next((sign for sign, names in SIGNS.items() if unit in names), None)
        if sign:  # $592 is 592 dollars
            fact = f"(?:{fact}|{re.escape(sign)}{number[number.index(')(?:') + 1 :]})"
        if unit in ("%", "percent") and self.target == "zh":
            bare = number[number.index(")(?:") + 1 :]
            fact = f"(?:{fact}|百分之{bare})"
        if not negative:
            return fact
        bare = number[number.index(")(?:") + 1 :] if ")(?:" in number else number
        below = rf"{number}[ -]?(?:{units}) below(?: zero)?"
        return rf"(?:(?:-|−|minus |negative |零下|负){bare}[ -]?(?:{units}){after}|{below})"

    def copied(self) -> tuple[str, list[Fact]]:
        """Writings that must stay as they are, or be written as a decimal."""
        pick = self.random.randint
        small = pick(2, 9)
        forms: list[tuple[str, str]] = [
            (f"{small}e-{pick(2, 9)}", ""),
            (f"{small}.{pick(1, 9)}e{pick(3, 9)}", ""),
            (f"10{self.random.choice('²³⁴⁵')}", ""),
            (f"{small}.{pick(1, 9)}×10^{pick(3, 20)}", ""),
            (f".{pick(1, 99):02}", r"0?"),
            (f"{small}‰", ""),
            (f"{pick(3, 9)}:{pick(1, 2)}", ""),
            (f"v{pick(1, 9)}.{pick(0, 9)}.{pick(0, 9)}", ""),
            (f"{pick(2, 99)}+{pick(2, 99)}={pick(2, 99)}", ""),
            (self.random.choice(["½", "¾", "⅓", f"{small}½"]), ""),
            (f"192.168.{pick(0, 255)}.{pick(0, 255)}", ""),
            (f"{pick(2010, 2030)}-{pick(10, 12)}-{pick(10, 28)}", ""),
        ]
        text, before = self.random.choice(forms)
        return text, [
            Fact(
                text,
                rf"(?<![\d.\w-]){before}{re.escape(text)}(?![\d½])(?:(?<=‰)|(?!\w))"
                if self.target == "en"
                else rf"(?<![\d.A-Za-z-]){before}{re.escape(text)}(?![\dA-Za-z½])",
            )
        ]

    def money(self) -> tuple[str, list[Fact]]:
        sign, currency = self.random.choice(PREFIXED)
        value = self.value()
        text = sign + self.random.choice(plain_forms(value)[:2])
        number, names = number_pattern(value, self.target), CURRENCIES[self.target][currency]
        bare = number[number.index(")(?:") + 1 :] if ")(?:" in number else number
        return text, [Fact(text, rf"(?:{re.escape(sign)}{bare}|{number} ?(?:{names})(?![a-z]))")]

    def time(self) -> tuple[str, list[Fact]]:
        hour, minute = self.random.randint(1, 11), self.random.choice([0, 0, 15, 20, 30, 45])
        afternoon = self.random.random() < 0.5
        day = (hour + 12) if afternoon else hour
        clock = f"{day}:{minute:02}"
        if self.source == "zh":
            digits = self.random.random() < 0.5
            written = (str(hour) if digits else "两" if hour == 2 else chinese_words(hour)) + "点"
            written += (
                "" if not minute else "半" if minute == 30 else f"{minute if digits else chinese_words(minute)}分"
            )
            text = (
                self.random.choice([clock] if afternoon else [clock, "上午" + written])
                if self.random.random() < 0.4
                else ("下午" if afternoon else "上午") + written
            )
        else:
            half = self.random.choice(["pm", "p.m."] if afternoon else ["am", "a.m."])
            text = clock if self.random.random() < 0.4 else f"{hour}{f':{minute:02}' if minute else ''} {half}"
        accepted = self.time_pattern(hour, minute, afternoon, clock.replace(":", "[:：]"))
        if text == clock and not afternoon:  # nothing says which half of the day
            accepted += "|" + self.time_pattern(hour, minute, afternoon, clock.replace(":", "[:：]"), any_half=True)
        return text, [Fact(text, accepted)]

    def time_pattern(self, hour: int, minute: int, afternoon: bool, clock: str, any_half: bool = False) -> str:
        if self.target == "en":
            hours = f"(?:{hour}|{ONES[hour]})"
            exact = rf"{hour}:{minute:02}" if minute else rf"{hours}(?::00)?(?: o'clock)?"
            halves = (
                "p\\.?m|in the (?:afternoon|evening)|(?:this|tomorrow) (?:afternoon|evening)|at night|tonight"
                if afternoon
                else "a\\.?m|in the morning|this morning"
            )
            spoken = {
                30: rf"half past {hours}",
                15: rf"(?:a )?quarter past {hours}",
                45: rf"(?:a )?quarter to (?:{hour + 1}|{ONES[hour + 1]})",
            }.get(minute, exact)
            if any_half:
                return rf"(?<![\d:.])(?:{clock}(?![\d:])|{exact}|{spoken})"
            part = "afternoon|evening|night" if afternoon else "morning"
            near = rf"(?:{exact}|{spoken})[^,;]{{0,40}}(?:{part})|(?:{part}) at (?:{exact}|{spoken})"
            return rf"(?<![\d:.])(?:{clock}(?![\d:])|(?:{exact}|{spoken}) ?(?:{halves})|{near})"
        number = f"(?:{hour}|{chinese_words(hour)}{'|两' if hour == 2 else ''})"
        day = hour + 12 if afternoon else hour
        minutes = "(?:整|钟|00分)?"
        if minute:
            quarters = {15: "|一刻", 30: "|半", 45: "|三刻"}.get(minute, "")
            minutes = f"(?:{minute}分?|{chinese_words(minute)}分?{quarters})"
        part = "下午|傍晚|晚上|夜晚|今晚|午后" if afternoon else "上午|早上|早晨|凌晨|清晨"
        part = "" if any_half else part
        forms = [rf"{clock}(?![\d:])", f"(?:{part})(?:{number}[点时]{minutes}|{hour}:{minute:02})"]
        if afternoon:
            forms.append(f"(?:{day}|{chinese_words(day)})[点时]{minutes}")
        return rf"(?<![\d:.])(?:{'|'.join(forms)})"

    def interval(self) -> tuple[str, list[Fact]]:
        chinese, english, in_chinese, in_english = self.random.choice(
            [unit for unit in UNITS if "°" not in unit[1][0] and "/" not in unit[0][0] and unit[0][0] != "%"]
        )
        low = self.random.randint(2, 9)
        high = low + self.random.randint(1, 9)
        joint = self.random.choice(["-", "–", "~", "到"] if self.source == "zh" else ["-", "–", " to "])
        unit = self.random.choice(chinese if self.source == "zh" else english)
        space = "" if self.source == "zh" else " "
        text = f"{low}{joint}{high}{space}{unit}"
        units = in_chinese if self.target == "zh" else in_english
        first, second = (
            number_pattern(float(one), self.target).replace(r"\w-]", "]").replace("(?<!-)", "") for one in (low, high)
        )
        tail = rf"[ -]?(?:{units})(?![A-Za-z/²])"
        return text, [Fact(text, rf"{first}(?:{tail})? ?(?:-|–|~|～|到|至|to|and|or|或) ?{second}{tail}")]


def oracle(sentence: Sentence, translation: str, to: str) -> list[str]:
    """What the translation does not keep, or has in addition."""
    wrong = []
    rest = translation
    for fact in sentence.facts:
        rest, count = re.subn(fact.accepted, " ", rest, count=1, flags=re.IGNORECASE if to == "en" else 0)
        if not count:
            wrong.append(fact.written)
    if re.search(r"\d", rest):
        wrong.append(f"added: {rest}")
    if sentence.negated and not re.search(NEGATION[to], translation, re.IGNORECASE):
        wrong.append("negation lost")
    if not sentence.negated and re.search(SURE_NEGATION[to], translation, re.IGNORECASE):
        wrong.append("negation added")
    return wrong


@dataclass(frozen=True)
class Violation:
    source: str
    translation: str
    wrong: tuple[str, ...]


def judge(
    sentences: Sequence[Sentence], translations: Sequence[tuple[str, str]], to: str
) -> tuple[Counter[str], list[Violation]]:
    """How many translations are kept, kept but noted, or noted; and those that are neither kept nor noted."""
    counts: Counter[str] = Counter()
    violations = []
    for sentence, (text, note) in zip(sentences, translations, strict=True):
        wrong = oracle(sentence, text, to)
        counts[("kept" if not wrong else "changed") + (", with a note" if note else "")] += 1
        if wrong and not note:
            violations.append(Violation(sentence.text, text, tuple(wrong)))
    return counts, violations


def run(count: int, seed: int) -> Iterator[tuple[str, Counter[str], list[Violation]]]:
    """Both directions, with the installed models."""
    from regard import Translator

    for source, to in (("zh", "en"), ("en", "zh")):
        sentences = Generator(source, seed).sentences(count)
        found = Translator(source=source, to=to).translate([one.text for one in sentences])
        yield f"{source} → {to}", *judge(sentences, [(one.text, one.note) for one in found], to)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000, help="sentences in each direction")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file for all violations")
    args = parser.parse_args(argv)
    failed = False
    report = {}
    for way, counts, violations in run(args.count, args.seed):
        print(f"{way}: {dict(counts)}; neither kept nor noted: {len(violations)}")
        for one in violations[:40]:
            print(f"    {one.source} | {one.translation} | {', '.join(one.wrong)}")
        failed = failed or bool(violations)
        report[way] = [vars(one) for one in violations]
    if args.json:
        args.json.write_text(json.dumps(report, ensure_ascii=False, indent=1), "utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
