"""Vocabularies of OPUS-MT's kind: SentencePiece's pieces, a list's numbers, our ids."""

from __future__ import annotations

import io
import json

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import ConfigError
from regard.tokenizers.listed_sentencepiece import START_PIECE, ListedSentencePiece, listed_order, read_list
from regard.tokenizers.pair import TokenizerPair
from regard.tokenizers.segmentation import segment
from regard.tokenizers.special_ids import BOS, EOS, PAD, UNK

TEXTS = ["the cat sat on the mat", "a dog runs", "two dogs run on a mat", "the dog sat"] * 5


def pieces_model(kind: str, **options: int) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=model,
        vocab_size=36,
        model_type=kind,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


PROTOS = {kind: pieces_model(kind) for kind in ("bpe", "unigram")}


def listing(kind: str, *first: str) -> bytes:
    processor = sentencepiece.SentencePieceProcessor(model_proto=PROTOS[kind])
    pieces = [processor.id_to_piece(i) for i in range(3, processor.vocab_size())]
    names = ["</s>", "<unk>", *first, *reversed(pieces), "<pad>"]
    return json.dumps({piece: i for i, piece in enumerate(names)}).encode()


def test_our_special_ids_come_first_and_the_rest_in_the_order_of_the_list() -> None:
    vocabulary = ListedSentencePiece(PROTOS["bpe"], listing("bpe"))
    assert vocabulary.pieces([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", START_PIECE, "</s>"]
    numbers = read_list(listing("bpe"))
    order = listed_order(numbers)
    assert vocabulary.size == len(order) == len(numbers) + 1
    assert order[PAD] == order[BOS] == numbers["<pad>"]
    assert order[EOS + 1 :] == sorted(order[EOS + 1 :])
    names = {number: piece for piece, number in numbers.items()}
    assert [names[number] for number in order[EOS + 1 :]] == vocabulary.pieces(range(EOS + 1, vocabulary.size))


def test_a_list_may_have_a_begin_of_its_own() -> None:
    vocabulary = ListedSentencePiece(PROTOS["bpe"], listing("bpe", START_PIECE))
    numbers = read_list(vocabulary.listing)
    assert vocabulary.size == len(numbers)
    assert listed_order(numbers)[BOS] == numbers[START_PIECE]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@given(text=st.text(alphabet="theca dogsrunm", max_size=40))
@settings(deadline=None, max_examples=50)
def test_what_is_written_is_read_again(kind: str, text: str) -> None:
    vocabulary = ListedSentencePiece(PROTOS[kind], listing(kind))
    [ids] = vocabulary.encode([text])
    assert not {PAD, BOS, EOS} & set(ids)
    assert vocabulary.decode([BOS, *ids, EOS, PAD]) == " ".join(text.split())


def test_the_segmentation_of_a_text_has_our_ids() -> None:
    vocabulary = ListedSentencePiece(PROTOS["bpe"], listing("bpe", ">>de<<"))
    told = segment(vocabulary, ">>de<< the cat")
    assert (told.pieces[0].piece, told.pieces[0].kind) == (">>de<<", "control")
    assert [piece.id for piece in told.pieces] == vocabulary.encode([">>de<< the cat"])[0]
    assert told.merges or told.start == ()
    plain = segment(vocabulary, "the cat")
    assert plain.merges[-1].symbols == tuple(piece.piece for piece in plain.pieces)


def test_a_tokenizer_comes_back_from_its_files() -> None:
    one, other = (ListedSentencePiece(PROTOS[kind], listing(kind)) for kind in ("bpe", "unigram"))
    shared = ListedSentencePiece(PROTOS["unigram"], listing("bpe"))
    for source, target, names in (
        (one, other, {"source.spm", "target.spm", "vocab.json", "target_vocab.json"}),
        (one, shared, {"source.spm", "target.spm", "vocab.json"}),
    ):
        files = TokenizerPair(source, target).files()
        assert set(files) == names
        back = TokenizerPair.from_files(files, lowercase=True)
        assert back.encode_src(["The CAT"]) == source.encode(["the cat"])
        assert back.encode_tgt(["a dog"]) == target.encode(["a dog"])
        assert not back.joint
    assert one.sha256 != shared.sha256 != other.sha256


def test_what_it_cannot_do() -> None:
    vocabulary = ListedSentencePiece(PROTOS["bpe"], listing("bpe"))
    assert vocabulary.sample(["the cat"], 0.0, 1) == vocabulary.encode(["the cat"])
    with pytest.raises(ConfigError, match=r"data\.tokenizer\.dropout"):
        vocabulary.sample(["the cat"], 0.1, 1)
    with pytest.raises(ValueError, match="is not in this vocabulary"):
        vocabulary.pieces([vocabulary.size])
    files = {"source.spm": PROTOS["bpe"], "target.spm": b"damaged", "vocab.json": listing("bpe")}
    with pytest.raises(ConfigError, match=r"target\.spm and vocab\.json: this is not a SentencePiece model"):
        TokenizerPair.from_files(files, lowercase=False)
    others = json.dumps({piece: i for i, piece in enumerate(("</s>", "<unk>", "<pad>", "▁other"))}).encode()
    with pytest.raises(ConfigError, match=r"do not belong together: 2 of 36 pieces are listed"):
        ListedSentencePiece(PROTOS["bpe"], others)
    for content, message in ((b"{", "is not JSON"), (b"[]", "must be an object"), (b'{"a": 1}', "without a gap")):
        with pytest.raises(ConfigError, match=message):
            read_list(content)
