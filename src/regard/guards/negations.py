"""Negations: whether a translation is negated where its source is.

An expression is a *certain* negation (not, never, without; 不, 没, 未); a *possible* one, which may translate a
negation but need not be translated as one (unless, unhappy; 不同, 没关系); or neutral although it looks like one (no
sooner; 不错, 是不是, 非常). Each certain one needs a certain or possible one on the other side.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from regard.text.cached import cached_by_text
from regard.text.patterns import lazy_pattern

_TAG_VERBS = "is|are|was|were|am|do|does|did|have|has|had|can|could|will|would|should|must|shall|wo|ca|need|might|ai"
_PRONOUNS = "I|you|he|she|it|we|they|there|this|that"
_NEUTRAL_EN = lazy_pattern(
    r"\bno (?:sooner|doubt|wonder|matter|longer than)\b|\bnot (?:only|just|merely|simply|to mention)\b|"
    r"n['’]t (?:only|just)\b|"
    r"\bno\. ?(?=\d)|\b(?:if|or|why) not\b|\bwhy don['’]t (?:you|we)\b|\bcan(?:['’]t|not) (?:help|wait|but)\b|"
    r"\bcould(?: not|n['’]t) help\b|\bnever mind\b|\bno (?:problem|thanks|thank you|choice but)\b|"
    r"(?:^|(?<=[\"“]))no[,，] (?=[^.!?]*(?:not\b|n['’]t\b))|\bnone the (?:less|worse)\b|\b(?:does|do)n['’]t matter\b|"
    rf"[,，] ?(?:(?:{_TAG_VERBS})n['’]t (?:{_PRONOUNS})|(?:{_TAG_VERBS}) (?:{_PRONOUNS}) not)\b ?(?=[?.!]|$)",
    re.IGNORECASE,
)
_QUESTION_EN = rf"(?:^|(?<=[\"“.!?,;] ))(?:{_TAG_VERBS})n['’]t (?=[^.!?]*\?)"  # Isn't that mine?
_SOFT_EN = lazy_pattern(
    rf"{_QUESTION_EN}|\bnot (?:until|as|so|long before|at all\.)|\bdon['’]t (?:forget|hesitate|mention)\b|"
    rf"\bno (?:more|less|other|better) than\b|"
    r"\bnone of\b|\bnothing but\b|\bno (?:trouble|good|way|idea)\b|\bknow nothing\b|\bnothing more\b|\b(?:not|"
    r"n['’]t) (?:be )?long (?:before|till)\b|\b(?:had|were)(?: not|n['’]t)\b|\bdon['’]t care\b|\bnor\b|\bnot to\b",
    re.IGNORECASE,
)
_CERTAIN_EN = lazy_pattern(
    r"\b(?:not|never|no|none|nobody|nothing|nowhere|neither|nor|cannot|without|noone)\b|(?<=[a-z])n['’]t\b"
    r"|\b(?:aint|dont|cant|wont|didnt|doesnt|isnt)\b",
    re.IGNORECASE,
)
# For a quick look.
_WORD_EN = lazy_pattern("[a-z]+")
_CERTAIN_WORDS = frozenset(
    ["not", "never", "no", "none", "nobody", "nothing", "nowhere", "neither", "nor", "cannot", "without", "noone"]
)
_CERTAIN_WORDS |= frozenset(["aint", "dont", "cant", "wont", "didnt", "doesnt", "isnt"])
_MARK_ZH = lazy_pattern("[不没沒未勿毋甭绝絕毫并並无無别別]")
_POSSIBLE_EN = lazy_pattern(
    r"\bun(?!der|til|ion|it|ique|iver|cle|iform|anim)[a-z]{3,}|\bdis(?:lik|agre|approv|satisf|honest|appear|"
    r"obe|order|appoint|courag|"
    r"respect|abl|belie|continu|advant|connect|trust|interest)[a-z]*|\bim(?:poss|pati|polite|perfect|matur|"
    r"moral|prop|prob)[a-z]*|"
    r"\bin(?:correct|complet|capab|conven|suffic|secur|visib|valid|san|experienc|direct|signif|depend|human|"
    r"abil|approp|differ|"
    r"accura|effic|formal|flex)[a-z]*|\bir(?:reg|relev|respons|resist|replac)[a-z]*|\bil(?:legal|litera|"
    r"logic)[a-z]*|\bnon-?[a-z]+|"
    r"[a-z]less(?:ly|ness)?\b|\b(?:hardly|barely|scarcely|seldom|rarely|few|unless|fail\w*|refus\w+|stop\w*|"
    r"quit|avoid\w*|prevent\w*|"
    r"lack\w*|wrong\w*|forg[eo]t\w*|den(?:y|ie[sd])|doubt\w*|hat(?:e|es|ed)|instead|rather\b[^.]{0,40}\bthan|"
    r"except|apart from|other than|absen\w+|"
    r"out of|less than|short of|free (?:from|of)|miss(?:ed|es|ing)? (?:the|my|his|her|a)|still (?:awake|alive|"
    r"at large)|"
    r"knows? better|can['’]t help|silent|puzzled|los[est]\w*|loss|ignor\w+|nonsense|reject\w*|declin\w+|"
    r"far from|too \w+ to|closed|beyond|"
    r"different\w*|rude|deaf|prohibit\w*|forbid\w*|forbidden|ban|banned|keep (?:from|off|out|away)|want of|"
    r"stranger|bankrupt|worthless)\b",
    re.IGNORECASE,
)
_HAN = "[\u4e00-\u9fff]"
_NEUTRAL_ZH = lazy_pattern(
    rf"(?<![现正])({_HAN})不\1|({_HAN})[没沒]\2|({_HAN}{_HAN})不\3|有[没沒]有|(?:还是|还|來|来|去)不(?=[来去])|"
    "不错(?!过)|不錯(?!過)|差不多|不但|不仅|不僅|不只|不光|不单|(?<!错)不[過过](?!来|去|是)|不管|不论|不論|不"
    "得不|不能不|不可不|不会不|不久|"
    "不少|不断|不斷|不然|对不起|對不起|不好意思|不客气|了不起|不得了|忍不住|禁不住|不由|说不定|(?<![需想就快还])要不是?|不止|"
    "怪不得|恨不得|不禁|不愧|不知不觉|"
    "不料|不例外|不知道怎么回事|不妨|不惜|不谢|不用谢|不用客气|不是[吗么嗎]|[没沒]有[吗么嗎](?=[？?])|不"
    "时(?!髦)|更不用说|不锈钢|不外乎|不倒翁|不已|不一会|不可思议|迫不及待|"
    "非常|非洲|是非|非得|非要|南非|除非|莫非|特别|特別|分别|分別|告别|区别|级别|性别|个别|离别|别人|別人|"
    "别的|别墅|别处|辨别|鉴别|识别|"
    "无论|無論|无数|无非|未来|未來|未婚|是否|能否|可否|否则|否則|无所谓|没准(?!备)|淹没|出没|沉没|没收|吞没|"
    "埋没|没落|必不可少|玩世不恭|"
    "与其|不如(?=去|我|我们|咱)|不等(?=的)|差点[没儿]?不?"
)
_SOFT_ZH = lazy_pattern(
    "没关系|沒關係|没事|沒事|没问题|沒問題|没错|沒錯|没想到|没料到|来不及|等不及|不耐烦|不满|不幸|不安|"
    "不舒服|不太|不够|不夠|不到|无聊|無聊|"
    "不同(?!意)|不一样|不一樣|不一(?=$|[，。！])|不用了|为什么不|為什麼不|何不|怎么不|不如|不是.{1,14}[吗嗎]|"
    "[没沒].{1,10}[吗嗎么](?=[？?])|"
    "不.{1,12}[吗嗎](?=[？?])|不在(?=乎)|不公|不小心|不平凡|不自在|好久不|好久没|很久没|很久没有|不仅仅|不免|"
    "不怎么样|瞧不起|看不起|不得|不见(?=了|得)|不要|不准"
)
_CERTAIN_ZH = lazy_pattern(
    "不(?:必|用|需|要|准|许|得)?|没有?|沒有?|未(?:曾|能)?|勿|毋|甭|绝无|毫无|毫無|并非|絕非|绝非|无法|無法|无人|無人|"
    "(?:(?<=^)|(?<=[，。！？、；：“”,.!?;: ])|(?<=[请你您们千万都也就可先再]))[别別](?![人的墅处])|[别別](?=[。！!]|$)"
)
_POSSIBLE_ZH = lazy_pattern(
    "无|無|非|否|拒绝|拒絕|停止|忘|错|錯|难以|难道|很少|除了|除非|禁止|避免|讨厌|討厭|失败|缺|反对|"
    "戒|莫|休想|怎么可能|怎么会|哪[有能会]|"
    "谁[会能]|何必|几乎|[别別]|记得|宁[死可愿]|單身|单身|欠|文盲|盲|聋|拒|未|防止|免得|以免|停|不管|不论|無"
    "論|无论|要不是|(?<=[记看听吃受])不|不到"
)


@dataclass(frozen=True)
class Negations:
    """The negations of a text."""

    certain: tuple[str, ...]  # as written
    soft: int = 0  # how many expressions are possible ones in certain words
    rest: str = ""  # the text in which other possible ones are
    others: re.Pattern[str] | None = None

    @functools.cached_property
    def possible(self) -> int:
        """How many others may stand for one; counted when it is first asked for, which is rarely."""
        return self.soft + (len(self.others.findall(self.rest)) if self.others else 0)


@cached_by_text
def may_have_english_negations(text: str) -> bool:
    """A quick look: False only if no negation is certain."""
    text = text.lower()
    return "n't" in text or "n’t" in text or not _CERTAIN_WORDS.isdisjoint(_WORD_EN.findall(text))


def may_have_chinese_negations(text: str) -> bool:
    """A quick look: False only if no negation is certain."""
    return _MARK_ZH.search(text) is not None


@cached_by_text
def find_english_negations(text: str) -> Negations:
    text = _NEUTRAL_EN.sub(_hide, text)
    soft = len(_SOFT_EN.findall(text))
    text = _SOFT_EN.sub(_hide, text)
    return Negations(tuple(match[0] for match in _CERTAIN_EN.finditer(text)), soft, text, _POSSIBLE_EN)


@cached_by_text
def find_chinese_negations(text: str) -> Negations:
    text = _NEUTRAL_ZH.sub(_hide, text)
    soft = len(_SOFT_ZH.findall(text))
    certain = tuple(match[0] for match in _CERTAIN_ZH.finditer(_SOFT_ZH.sub(_hide, text)))
    return Negations(certain, soft, text, _POSSIBLE_ZH)


def _hide(match: re.Match[str]) -> str:
    return "#" * len(match[0])
