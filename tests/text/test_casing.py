import os
import subprocess
import sys
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.normalizers import BertNormalizer

from keras_bert2d.choices import CASINGS, check_choice
from keras_bert2d.errors import InputError
from keras_bert2d.text.casing import character_at_byte, normalize, normalize_with_sources
from tests.text.strategies import raw_texts

casings = st.sampled_from(CASINGS)


@pytest.fixture(scope="module")
def graphs():
    """`normalize` and `normalize_with_sources` of each casing as one graph."""

    def graph(casing):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
        def both(texts):
            return normalize(texts, casing), *normalize_with_sources(texts, casing)

        return both

    return {casing: graph(casing) for casing in CASINGS}


def normal(text: str | bytes, casing: str) -> str:
    return normalize(tf.constant([text]), casing).numpy()[0].decode("utf-8")


@pytest.mark.parametrize(
    ("text", "cased", "uncased", "lower", "turkish"),
    [
        ("İ I ı i", "İ I ı i", "i i ı i", "i i ı i", "i ı ı i"),
        ("İSTANBUL ISPARTA", "İSTANBUL ISPARTA", "istanbul isparta", "istanbul isparta", "istanbul ısparta"),
        ("I\u0307zmir", "İzmir", "izmir", "izmir", "izmir"),  # Decomposed İ.
        # What other tools' lower case leaves of İ; after another letter the dot stays.
        ("i\u0307zmir", "i\u0307zmir", "izmir", "izmir", "izmir"),
        ("g\u0307 ı\u0307", "ġ ı\u0307", "g ı", "ġ ı\u0307", "ġ ı\u0307"),
        ("ÇĞÖŞÜ çğöşü", "ÇĞÖŞÜ çğöşü", "cgosu cgosu", "çğöşü çğöşü", "çğöşü çğöşü"),
        ("s\u0327o\u0308yle", "şöyle", "soyle", "şöyle", "şöyle"),
        ("ÂÎÛ hâlâ", "ÂÎÛ hâlâ", "aiu hala", "âîû hâlâ", "âîû hâlâ"),
        ("Istu ÄITI", "Istu ÄITI", "istu aiti", "istu äiti", "ıstu äıtı"),  # Finnish.
        ("Kór kőr KÖR", "Kór kőr KÖR", "kor kor kor", "kór kőr kör", "kór kőr kör"),  # Hungarian.
        # Uyghur: the hamza of ئ is a part of the letter.
        ("ئۇيغۇر تىلى", "ئۇيغۇر تىلى", "يۇيغۇر تىلى", "ئۇيغۇر تىلى", "ئۇيغۇر تىلى"),
        ("ΟΔΟΣ", "ΟΔΟΣ", "οδοσ", "οδοσ", "οδοσ"),  # BERT lowers letter by letter: no final sigma.
        ("ẞ ſ ﬁ ①", "ẞ ſ ﬁ ①", "ß ſ ﬁ ①", "ß ſ ﬁ ①", "ß ſ ﬁ ①"),  # NFC, not NFKC.
        ("😀 漢字 שלום", "😀 漢字 שלום", "😀 漢字 שלום", "😀 漢字 שלום", "😀 漢字 שלום"),
    ],
)
def test_the_four_casings(text, cased, uncased, lower, turkish):
    expected = dict(cased=cased, uncased=uncased, lower=lower, turkish=turkish)
    assert {casing: normal(text, casing) for casing in CASINGS} == expected


@pytest.mark.parametrize("casing", CASINGS)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \t\n", "   "),
        ("ev\u00adler\u200b", "evler"),
        ("\ufeffev\x00ler\x7f\x85", "evler"),
        ("ev\u00a0ler\u3000de\u2028.", "ev ler de ."),
        (b"ev\xff\xfeler\xc3", "evler"),
        (b"\xed\xa0\x80ev\xf4\x90\x80\x80", "ev"),  # A surrogate; a code point past the last.
        ("ev\ufffd\ue000", "ev"),
        ("e\u200b\u0301", {"uncased": "e", None: "e\u0301"}),  # NFC comes first.
        ("\u0307", {"uncased": "", None: "\u0307"}),  # A lone combining mark.
    ],
)
def test_cleaning_drops_control_characters_and_mends_spaces(text, expected, casing):
    if isinstance(expected, dict):
        expected = expected.get(casing, expected[None])
    assert normal(text, casing) == expected


def test_an_unknown_casing_is_refused_by_name():
    with pytest.raises(InputError, match="casing='upper'"):
        check_choice("casing", "upper", CASINGS)


def test_lower_case_does_not_hang_on_the_locale_of_the_process():
    program = (
        "import tensorflow as tf; from keras_bert2d.text.casing import normalize;"
        "texts = tf.constant(['I İ ı i']);"
        "print(*[normalize(texts, c).numpy()[0].decode() for c in ('uncased', 'turkish')], sep='|')"
    )
    environment = {**os.environ, "LC_ALL": "tr_TR.UTF-8", "PYTHONIOENCODING": "utf-8"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert result.stdout.splitlines()[-1] == "i i ı i|ı i ı i"


@pytest.mark.parametrize("casing", ["cased", "uncased"])
def test_every_letter_is_normalised_as_the_rust_library_does(casing):
    # The whole basic plane, every seventh code point beyond it.
    points = [*range(0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x110000, 7)]
    texts = [f"a{chr(point)}b" for point in points]
    rust = BertNormalizer(
        clean_text=True,
        handle_chinese_chars=False,
        strip_accents=casing == "uncased",
        lowercase=casing == "uncased",
    )
    ours = normalize(tf.constant(texts), casing).numpy()
    different = {
        point
        for point, text, got in zip(points, texts, ours, strict=True)
        if got.decode("utf-8") != rust.normalize_str(unicodedata.normalize("NFC", text))
    }
    # Format characters and marks of Unicode 9 and later, which the Rust library's tables lack, and
    # capitals of Unicode 14 (Vithkuqi and a few Latin ones), which TensorFlow's lower case lacks.
    assert {unicodedata.category(chr(point)) for point in different} <= {"Cf", "Mn", "Mc", "Cn", "Lu"}
    assert not any(point < 0x2C2F and chr(point).isalpha() for point in different)


def test_lower_is_pythons_lower_case_letter_by_letter_but_for_the_dotted_capital():
    letters = [chr(c) for c in range(0x250) if chr(c).isalpha() and chr(c) != "İ"]
    assert normal("".join(letters), "lower") == "".join(letter.lower() for letter in letters)
    turkish = "".join({"I": "ı"}.get(letter, letter.lower()) for letter in letters)
    assert normal("".join(letters), "turkish") == turkish


@settings(max_examples=80, deadline=None)
@given(raws=st.lists(raw_texts, max_size=6), casing=casings)
def test_texts_with_sources_are_the_normalised_texts(graphs, raws, casing):
    texts = tf.constant(raws, tf.string, shape=[len(raws)])
    plain, with_sources, starts, ends = graphs[casing](texts)
    assert with_sources.numpy().tolist() == plain.numpy().tolist()
    slices, characters = [], []
    for raw, result, first, after in zip(raws, plain.numpy(), starts.to_list(), ends.to_list(), strict=True):
        source = raw.decode("utf-8", "replace")
        assert first == sorted(first)
        assert after == sorted(after)
        assert all(0 <= start < end <= len(source) for start, end in zip(first, after, strict=True))
        slices += [source[start:end] for start, end in zip(first, after, strict=True)]
        characters += result.decode("utf-8")
    # A character comes from a letter, whole or decomposed, or is a part of one.
    normal_slices = graphs[casing](tf.constant(slices, tf.string, shape=[len(slices)]))[0].numpy()
    for character, normal_slice in zip(characters, normal_slices, strict=True):
        assert character in normal_slice.decode("utf-8")


@settings(max_examples=60, deadline=None)
@given(raws=st.lists(raw_texts, min_size=1, max_size=4), casing=casings)
def test_normalised_texts_hold_no_character_that_cleaning_drops(raws, casing):
    for result in normalize(tf.constant(raws), casing).numpy():
        text = result.decode("utf-8")
        assert not any(c == "\ufffd" or unicodedata.category(c) in ("Cc", "Cf", "Co") for c in text)
        assert not any(c != " " and c.isspace() for c in text)


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.text(max_size=10), max_size=5))
def test_every_byte_knows_its_character(texts):
    expected = [[i for i, c in enumerate(text) for _ in c.encode("utf-8")] + [len(text)] for text in texts]
    got = character_at_byte(tf.constant(texts, tf.string, shape=[len(texts)]))
    assert got.to_list() == expected


@pytest.mark.parametrize("casing", CASINGS)
@pytest.mark.parametrize("raws", [["İ I\u0307 Àe\u0301\u0323 ev\u00adler", "temiz", b"\xff.", ""], [""], []])
def test_eager_mode_normalises_as_a_graph_does(graphs, casing, raws):
    texts = tf.constant(raws, tf.string, shape=[len(raws)])
    plain, with_sources, starts, ends = graphs[casing](texts)
    assert normalize(texts, casing).numpy().tolist() == plain.numpy().tolist()
    eager = normalize_with_sources(texts, casing)
    assert eager[0].numpy().tolist() == with_sources.numpy().tolist()
    assert [x.to_list() for x in eager[1:]] == [starts.to_list(), ends.to_list()]
