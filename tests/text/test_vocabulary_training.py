"""Vocabulary training against a plain-Python statement of the algorithm and another library."""

import gzip
import itertools
import json
from collections import Counter

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers, pre_tokenizers

from keras_bert2d.errors import InputError
from keras_bert2d.text.casing import normalize
from keras_bert2d.text.tokenizer import Bert2DTokenizer
from keras_bert2d.text.vocabulary import check_vocabulary, read_rules, read_vocabulary
from keras_bert2d.text.vocabulary_training import split_words, train_vocabulary

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SUFFIXES = [
    "ler",
    "lar",
    "im",
    "imiz",
    "de",
    "da",
    "den",
    "dan",
    "e",
    "i",
    "in",
    "siz",
    "lik",
    "ci",
]
STEMS = ["ev", "kitap", "göz", "yol", "deniz", "şehir", "ağaç", "gün", "ısı", "İzmir", "Işık", "su"]


@pytest.fixture
def turkish(tmp_path):
    """Every stem with every two suffixes: many pairs are equally frequent, so ties abound."""
    words = ["".join(parts) for parts in itertools.product(STEMS, SUFFIXES, SUFFIXES)]
    return write(tmp_path, "\n".join(words))


def write(tmp_path, text: str, name: str = "text.txt"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def merge_by_the_book(words: Counter, size: int, min_frequency: int) -> list[str]:
    """WordPiece training as the library defines it: byte-pair merges, ties to the smaller ids."""
    splits = {word: [word[0], *(f"##{letter}" for letter in word[1:])] for word in words}
    letters = sorted({letter for word in words for letter in word})
    continuing = sorted({piece for split in splits.values() for piece in split[1:]})
    pieces = [*SPECIAL, *letters, *continuing]
    while len(pieces) < size:
        pairs = Counter()
        for word, split in splits.items():
            for pair in itertools.pairwise(split):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], pieces.index(p[0]), pieces.index(p[1])))
        if pairs[best] < min_frequency:
            break
        merged = best[0] + best[1].removeprefix("##")
        if merged not in pieces:
            pieces.append(merged)
        for word, split in splits.items():
            result, rest = [], list(split)
            while rest:
                if tuple(rest[:2]) == best:
                    result, rest = [*result, merged], rest[2:]
                else:
                    result, rest = [*result, rest[0]], rest[1:]
            splits[word] = result
    return pieces


def test_pieces_are_those_of_the_merges_done_by_hand(tmp_path):
    text = "ev evler evlerde kitap kitaplar kitaplarda\nev ev kitap evlerde\n"
    expected = merge_by_the_book(Counter(text.split()), 26, 2)
    assert train_vocabulary([write(tmp_path, text)], 26) == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text("abcç", min_size=1, max_size=6), min_size=1, max_size=20), st.integers(1, 3))
def test_any_small_text_gives_the_pieces_of_merges_done_by_hand(tmp_path_factory, words, frequency):
    path = write(tmp_path_factory.mktemp("text"), " ".join(words))
    expected = merge_by_the_book(Counter(words), 30, frequency)
    assert train_vocabulary([path], 30, min_frequency=frequency) == expected


def test_the_same_text_gives_the_same_vocabulary_each_time(turkish):
    first = train_vocabulary([turkish], 300)
    assert all(train_vocabulary([turkish], 300) == first for _ in range(5))


def test_files_are_read_together_and_their_order_does_not_matter(tmp_path, turkish):
    other = write(tmp_path, "gözlükçü gözlükçüler gözlükçülük\n" * 20, "other.txt")
    together = train_vocabulary([turkish, other], 300)
    assert together == train_vocabulary([other, turkish], 300)
    assert together != train_vocabulary([turkish], 300)


def test_special_pieces_come_first_and_the_size_is_the_one_asked_for(turkish):
    pieces = train_vocabulary([turkish], 200)
    assert pieces[:5] == SPECIAL
    assert len(pieces) == 200
    check_vocabulary(pieces, "trained")


def test_a_small_text_gives_fewer_pieces(tmp_path):
    assert train_vocabulary([write(tmp_path, "ev ev")], 1000) == [*SPECIAL, "e", "v", "##v", "ev"]


def test_turkish_casing_keeps_dotless_i_apart_and_accents(tmp_path):
    path = write(tmp_path, "IŞIK İZMİR Şişli\n" * 3)
    pieces = train_vocabulary([path], 60, casing="turkish")
    assert {"ışık", "izmir", "şişli"} <= set(pieces)
    assert "".join(pieces[5:]) == "".join(pieces[5:]).lower()
    assert not any("\u0307" in piece for piece in pieces)


def test_uncased_strips_accents_and_cased_keeps_case(tmp_path):
    path = write(tmp_path, "Şişli Çağ\n" * 3)
    assert {"sisli", "cag"} <= set(train_vocabulary([path], 40, casing="uncased"))
    assert {"Şişli", "Çağ"} <= set(train_vocabulary([path], 40, casing="cased"))


def test_decomposed_letters_count_as_composed_ones(tmp_path):
    composed = write(tmp_path, "şüğ şüğ", "composed.txt")
    decomposed = write(tmp_path, "s\u0327u\u0308g\u0306 şüğ", "decomposed.txt")
    assert train_vocabulary([decomposed], 30) == train_vocabulary([composed], 30)


def test_punctuation_and_ideographs_never_continue_a_word(tmp_path):
    pieces = train_vocabulary([write(tmp_path, "ev'de ev'de ev。ev 漢字漢字 漢字\n" * 3)], 40)
    assert {"'", "。", "漢", "字"} <= set(pieces)
    assert not {"##'", "##。", "##漢", "##字", "漢字"} & set(pieces)


def test_only_the_most_frequent_letters_stay_and_words_with_others_teach_nothing(tmp_path):
    path = write(tmp_path, "aab aab aab bbb zzaab zzaab qaab qaab\n")
    pieces = train_vocabulary([path], 30, limit_alphabet=2)
    assert pieces == merge_by_the_book(Counter("aab aab aab bbb".split()), 30, 2)


def test_of_equally_frequent_letters_the_smaller_code_point_stays(tmp_path):
    path = write(tmp_path, "ş a ç b")
    assert train_vocabulary([path], 20, limit_alphabet=3)[5:] == ["a", "b", "ç"]


def test_words_over_100_characters_teach_nothing(tmp_path):
    path = write(tmp_path, "ev ev\n" + ("x" * 10_000 + " ") * 3 + "ş" * 101)
    assert train_vocabulary([path], 30) == [*SPECIAL, "e", "v", "##v", "ev"]
    hundred = write(tmp_path, ("ş" * 100 + " ") * 2, "hundred.txt")
    assert "ş" * 100 in train_vocabulary([hundred], 300)


@pytest.mark.filterwarnings("ignore::keras_bert2d.errors.InputWarning")
def test_invalid_utf8_control_characters_and_blank_lines_pass(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"ev\x00 e\xc2\xadv\n\n \n\xff\xfeev ev\xff\n")
    assert train_vocabulary([path], 30) == [*SPECIAL, "e", "v", "##v", "ev"]


def test_gzip_and_json_lines_give_the_vocabulary_of_their_text(tmp_path):
    lines = ["ev evler", "evlerde ev"]
    plain = write(tmp_path, "\n".join(lines))
    packed = tmp_path / "text.txt.gz"
    packed.write_bytes(gzip.compress("\n".join(lines).encode()))
    rows = write(tmp_path, "\n".join(json.dumps({"body": line}) for line in lines), "text.jsonl")
    expected = train_vocabulary([plain], 30)
    assert train_vocabulary([packed], 30) == expected
    assert train_vocabulary([rows], 30, field="body") == expected


def test_the_output_file_holds_the_pieces_and_the_one_beside_it_the_rules(tmp_path, turkish):
    output = tmp_path / "new" / "vocab.txt"
    rules = {"casing": "turkish", "max_intermediate_subwords": 5}
    pieces = train_vocabulary(
        [turkish], 200, "turkish", output=output, id_rules={"max_intermediate_subwords": 5}
    )
    assert pieces == read_vocabulary(output)
    assert read_rules(output, pieces) == rules
    assert {path.name for path in output.parent.iterdir()} == {"vocab.txt", "vocab.txt.json"}


@pytest.mark.parametrize("size", [-1, 0, 5, 5 + 2 + 1])
def test_a_size_without_room_for_the_letters_is_refused_and_nothing_written(tmp_path, size):
    output = tmp_path / "vocab.txt"
    with pytest.raises(InputError, match=rf"over 8, .*Received: vocabulary_size={size},"):
        train_vocabulary([write(tmp_path, "ev ev")], size, output=output)
    assert not output.exists()


def test_impossible_settings_are_refused_by_name(tmp_path):
    path = write(tmp_path, "ev")
    with pytest.raises(InputError, match="min_frequency must be at least 1. Received: min_frequency=0"):
        train_vocabulary([path], 100, min_frequency=0)
    with pytest.raises(InputError, match="limit_alphabet must be at least 1"):
        train_vocabulary([path], 100, limit_alphabet=0)
    with pytest.raises(InputError, match="casing"):
        train_vocabulary([path], 100, casing="upper")
    with pytest.raises(InputError, match="overflow='up'"):
        train_vocabulary([path], 100, id_rules={"overflow": "up"})


def test_text_without_a_word_is_refused(tmp_path):
    with pytest.raises(InputError, match="the text has no word"):
        train_vocabulary([write(tmp_path, "\u00ad\u200b\n")], 100)
    with pytest.raises(InputError, match="holds no line of text"):
        train_vocabulary([write(tmp_path, "\n\n")], 100)
    with pytest.raises(InputError, match="no.txt"):
        train_vocabulary([tmp_path / "no.txt"], 100)


@pytest.mark.parametrize("corpus", ["tr", "zh"])
def test_words_are_those_of_the_tokenizer_and_of_the_tokenizers_library(shared_data, corpus):
    lines = (shared_data / "corpus" / f"{corpus}.txt").read_bytes().split(b"\n")[:-1]
    lines = lines[:: len(lines) // 3000]
    normal = normalize(tf.constant(lines), "cased")
    words = split_words(normal)
    tokenizer = Bert2DTokenizer(SPECIAL)
    assert words.row_lengths().numpy().tolist() == (tokenizer.tokenize(lines).row_lengths().numpy().tolist())
    clean = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.BertNormalizer(lowercase=False, strip_accents=False),
        ]
    )
    split = pre_tokenizers.BertPreTokenizer()
    expected = [
        [word for word, _ in split.pre_tokenize_str(clean.normalize_str(line.decode()))] for line in lines
    ]
    assert [[word.decode() for word in row] for row in words.to_list()] == expected


def test_a_vocabulary_of_real_turkish_spells_its_own_text(shared_data, tmp_path):
    lines = (shared_data / "corpus" / "tr.txt").read_bytes().split(b"\n")[:20_000]
    path = tmp_path / "text.txt"
    path.write_bytes(b"\n".join(lines))
    pieces = train_vocabulary([path], 8000, casing="turkish")
    assert len(pieces) == 8000
    tokenizer = Bert2DTokenizer(pieces, casing="turkish")
    ids = tokenizer.tokenize(lines).flat_values.numpy()
    assert not (ids == pieces.index("[UNK]")).any()
