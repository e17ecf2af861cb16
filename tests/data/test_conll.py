import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert2d.data.conll import NO_LABEL, Sentence, read_tagged, write_tagged
from keras_bert2d.errors import InputError, InputWarning

CONLLU = """\
# sent_id = 1
# text = Evdeki kediler uyudu.
1-2\tEvdeki\t_\t_\t_\t_\t_\t_\t_\t_
1\tEvde\tev\tNOUN\t_\t_\t3\tnmod\t_\t_
2\tki\tki\tADP\t_\t_\t1\tcase\t_\t_
3\tkediler\tkedi\tNOUN\t_\t_\t4\tnsubj\t_\t_
3.1\t_\t_\tVERB\t_\t_\t_\t_\t_\t_
4\tuyudu\tuyu\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No
5\t.\t.\tPUNCT\t_\t_\t4\tpunct\t_\t_

# sent_id = 2
1\t10 000\t10000\tNUM\t_\t_\t0\troot\t_\t_

"""
CONLL = "Ankara'da\tB-LOC\nkar\tO\n\nAli\tB-PER\nVeli\tI-PER\n\n"


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def written(sentences, predictions):
    file = io.StringIO()
    write_tagged(file, sentences, predictions)
    return file.getvalue()


def test_conllu_words_are_the_syntactic_words(tmp_path):
    first, second = read_tagged(write(tmp_path / "a.conllu", CONLLU))
    assert first.words == ["Evde", "ki", "kediler", "uyudu", "."]
    assert first.labels == ["NOUN", "ADP", "NOUN", "VERB", "PUNCT"]
    assert first.line_numbers == [4, 5, 6, 8, 9]
    assert first.text == "Evdeki kediler uyudu."
    assert (second.words, second.labels, second.text) == (["10 000"], ["NUM"], "10 000")


def test_conll_columns_are_word_and_label(tmp_path):
    first, second = read_tagged(write(tmp_path / "a.conll", CONLL))
    assert (first.words, first.labels) == (["Ankara'da", "kar"], ["B-LOC", "O"])
    assert (second.words, second.labels) == (["Ali", "Veli"], ["B-PER", "I-PER"])
    assert second.line_numbers == [4, 5]
    assert second.text == "Ali Veli"


@pytest.mark.parametrize("text", [CONLL.replace("\n", "\r\n"), CONLL[:-1], CONLL[:-2]])
def test_line_ends_and_a_missing_last_blank_line_do_not_matter(tmp_path, text):
    expected = read_tagged(write(tmp_path / "a.conll", CONLL))
    assert read_tagged(write(tmp_path / "b.conll", text)) == expected
    text = CONLLU.replace("\n", "\r\n").rstrip()
    assert len(read_tagged(write(tmp_path / "c.conllu", text))) == 2


def test_four_columns_document_marks_and_runs_of_spaces(tmp_path):
    text = (
        "-DOCSTART- -X- -X- O\n\nAli  NNP B-NP B-PER\n. . O O \n\n\n"
        "-DOCSTART- -X- -X- O\n\nVeli NNP B-NP B-PER"
    )
    sentences = read_tagged(write(tmp_path / "a.txt", text))
    assert [sentence.words for sentence in sentences] == [["Ali", "."], ["Veli"]]
    assert [sentence.labels for sentence in sentences] == [["B-PER", "O"], ["B-PER"]]
    assert written(sentences, [["X", "Y"], ["Z"]]) == (
        "-DOCSTART- -X- -X- O\n\nAli  NNP B-NP X\n. . O Y\n\n-DOCSTART- -X- -X- O\n\nVeli NNP B-NP Z\n\n"
    )


@pytest.mark.parametrize("gap", ["\t", " "])
def test_only_ascii_white_space_parts_columns(tmp_path, gap):
    words = ["a\u00a0b", "\u200b", "c\u2028d", "e\x85", "\u3000", "#1", "\x00"]
    text = "".join(f"{word}{gap}O\n" for word in words)
    assert read_tagged(write(tmp_path / "a.conll", text))[0].words == words


def test_a_word_may_hold_spaces_where_tabs_part_the_columns(tmp_path):
    assert read_tagged(write(tmp_path / "a.conll", "10 000\tO\n"))[0].words == ["10 000"]


def test_invalid_utf8_is_replaced_and_a_byte_order_mark_dropped(tmp_path):
    path = write(tmp_path / "a.conll", b"\xef\xbb\xbf\xc3\xb6\tO\n\xc3\xb6\tO\nev\xff\tO\n")
    with pytest.warns(InputWarning, match=r"a\.conll:3: this line cannot be decoded"):
        assert read_tagged(path)[0].words == ["ö", "ö", "ev\ufffd"]


def test_a_file_in_a_legacy_encoding_is_refused_or_read_with_its_name(tmp_path):
    path = write(tmp_path / "a.conll", "öğrenci\tNOUN\nışık\tNOUN\n".encode("iso-8859-9"))
    with pytest.raises(InputError, match=r"a\.conll:1: the first line that is not UTF-8"):
        read_tagged(path)
    assert read_tagged(path, encoding="iso-8859-9")[0].words == ["öğrenci", "ışık"]


def test_the_argument_wins_over_the_name(tmp_path):
    path = write(tmp_path / "a.conll", CONLLU)
    assert len(read_tagged(path, "conllu")[0].words) == 5
    path = write(tmp_path / "b.conllu", CONLL)
    assert len(read_tagged(path, format="conll")) == 2
    with pytest.raises(InputError, match="Received: format='xml'"):
        read_tagged(path, "xml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ev\tO\nkar\n", r"a\.conll:2: no label.*'kar'"),
        ("ev O\n\nkar\n", r"a\.conll:3: no label.*'kar'"),
        ("ev N O\nkar O\n", r"a\.conll:2: 3 columns are due.*'kar O'"),
        ("ev\tO\nkar\t \n", r"a\.conll:2: the label is empty. The word is 'kar'"),
        ("ev\tO\n\tO\n", r"a\.conll:2: the word is empty"),
        ("ev\tO\n\t\n", r"a\.conll:2: the word is empty"),
        ("\n \n", r"a\.conll holds no sentence"),
        ("", r"a\.conll holds no sentence"),
    ],
)
def test_a_bad_conll_line_is_named(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read_tagged(write(tmp_path / "a.conll", text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\t_\tSpaceAfter=No", "\t_", r"a\.conllu:8: a word needs 10 columns.*Received: 9"),
        ("\tSpaceAfter=No", "\t_\t_", r"a\.conllu:8: a word needs 10 columns.*Received: 11"),
        ("3\tkediler\t", "3 kediler\t", r"a\.conllu:6: a word needs 10 columns.*Received: 9"),
        ("\tVERB\t_\t_\t0", "\t\t_\t_\t0", r"a\.conllu:8: the label is empty.*'uyudu'"),
        ("\tuyudu\t", "\t\t", r"a\.conllu:8: the word is empty.*'VERB'"),
        ("4\tuyudu", "dört\tuyudu", r"a\.conllu:8: word id 4 is due\. Received: 'dört'"),
        ("4\tuyudu", "5\tuyudu", r"a\.conllu:8: word id 4 is due\. Received: '5'"),
        ("3.1\t", "3.\t", r"a\.conllu:7: word id 4 is due\. Received: '3\.'"),
    ],
)
def test_a_bad_conllu_line_is_named(tmp_path, old, new, message):
    assert CONLLU.count(old) == 1
    with pytest.raises(InputError, match=message):
        read_tagged(write(tmp_path / "a.conllu", CONLLU.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1-2\t", "1-6\t", r"a\.conllu:3: .* ends with word 6, but the sentence has 5 words"),
        ("1-2\t", "2-1\t", r"a\.conllu:3: .* must not run backwards\. Received: 2-1"),
        ("1-2\t", "2-3\t", r"a\.conllu:3: .* right before its first word; word 1 is due\. Received: 2-3"),
        ("3\tkediler", "1-2{}3\tkediler", r"a\.conllu:6: .* overlap .* ends with word 2\. Received: 1-2"),
        ("2\tki\t", "2-3{}2\tki\t", r"a\.conllu:5: .* overlap .* ends with word 2\. Received: 2-3"),
        ("1\tEvde\t", "1-3{}1\tEvde\t", r"a\.conllu:4: .* overlap .* Received: 1-3"),
        ("4\tuyudu", "3-4{}4\tuyudu", r"a\.conllu:8: .* word 4 is due\. Received: 3-4"),
        ("1\t10 000", "1-2{}1\t10 000", r"a\.conllu:12: .* ends with word 2, but the sentence has 1 words"),
    ],
)
def test_a_multiword_token_that_is_not_of_the_words_behind_it_is_named(tmp_path, old, new, message):
    assert CONLLU.count(old) == 1
    text = CONLLU.replace(old, new.replace("{}", "\tx" + "\t_" * 8 + "\n"))
    with pytest.raises(InputError, match=message):
        read_tagged(write(tmp_path / "a.conllu", text))


def test_multiword_tokens_that_follow_one_another_and_one_at_the_end_are_read(tmp_path):
    text = CONLLU.replace("3\tkediler", "3-3\tx" + "\t_" * 8 + "\n3\tkediler")
    text = text.replace("4\tuyudu", "4-5\tx" + "\t_" * 8 + "\n4\tuyudu")
    sentences = read_tagged(write(tmp_path / "a.conllu", text))
    assert sentences[0].words == ["Evde", "ki", "kediler", "uyudu", "."]
    assert written(sentences, [s.labels for s in sentences]) == text


@pytest.mark.parametrize("mark", ["_", NO_LABEL])
def test_a_word_that_is_not_annotated_has_no_label(tmp_path, mark):
    text = CONLLU.replace("\tADP\t", f"\t{mark}\t")
    first = read_tagged(write(tmp_path / "a.conllu", text))[0]
    assert first.labels == ["NOUN", None, "NOUN", "VERB", "PUNCT"]
    second = read_tagged(write(tmp_path / "a.conll", CONLL.replace("B-PER", mark)))[1]
    assert second.labels == [None, "I-PER"]
    assert written([second], [second.labels]) == "Ali\t_\nVeli\tI-PER\n\n"


def test_a_missing_file_and_a_conllu_of_comments_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"yok\.conllu cannot be read: No such file"):
        read_tagged(tmp_path / "yok.conllu")
    with pytest.raises(InputError, match=r"a\.conllu holds no sentence"):
        read_tagged(write(tmp_path / "a.conllu", "# yalnız\n\n# yorum\n"))


def test_predictions_take_the_place_of_the_labels_alone(tmp_path):
    text = CONLLU + "# son\n\n"
    sentences = read_tagged(write(tmp_path / "a.conllu", text))
    predictions = [["A", "B", "C", "D", "E"], ["F"]]
    expected = text
    for old, new in (
        ("ev\tNOUN", "ev\tA"),
        ("ki\tADP", "ki\tB"),
        ("kedi\tNOUN", "kedi\tC"),
        ("uyu\tVERB", "uyu\tD"),
        ("PUNCT", "E"),
        ("NUM", "F"),
    ):
        expected = expected.replace(old, new)
    assert written(sentences, predictions) == expected
    write_tagged(tmp_path / "b.conllu", sentences, predictions)
    assert (tmp_path / "b.conllu").read_text("utf-8") == expected
    assert sentences[0].labels[0] == "NOUN"


def test_sentences_made_by_hand_are_written_as_two_columns():
    assert written([Sentence(["Ali", "geldi"], ["O", "O"])], [["B-PER", "O"]]) == ("Ali\tB-PER\ngeldi\tO\n\n")


def test_a_wrong_number_of_predictions_is_refused_and_writes_nothing(tmp_path):
    sentences = read_tagged(write(tmp_path / "a.conll", CONLL))
    for predictions in ([["O", "O"]], [["O", "O"], ["O"]], [["O", "O"]] * 3):
        with pytest.raises(ValueError):
            write_tagged(tmp_path / "b.conll", sentences, predictions)
    assert [path.name for path in tmp_path.iterdir()] == ["a.conll"]


# A file's first character may be a byte order mark, one of many zero bytes is no text, and -DOCSTART- is no
# word.
words = st.text(
    st.characters(exclude_characters="\t\n\r \ufeff\x00", exclude_categories=["Cs"]), min_size=1
).filter(lambda word: word != "-DOCSTART-")
labels = st.sampled_from(["O", "B-PER", "I-PER"])


@settings(deadline=None)
@given(
    rows=st.lists(st.lists(st.tuples(words, labels), min_size=1), min_size=1),
    gap=st.sampled_from(["\t", " "]),
)
def test_any_words_come_back(tmp_path_factory, rows, gap):
    lines = ["".join(f"{word}{gap}{label}\n" for word, label in row) for row in rows]
    path = write(tmp_path_factory.mktemp("words") / "a.conll", "\n".join(lines))
    sentences = read_tagged(path)
    assert [list(zip(s.words, s.labels, strict=True)) for s in sentences] == rows
    assert written(sentences, [s.labels for s in sentences]) == "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("pos/tr_imst-train.conllu", 3435),
        ("pos/tr_imst-dev.conllu", 1100),
        ("pos/tr_imst-test.conllu", 1100),
        ("pos/tr_boun-dev.conllu", 979),
        ("pos/tr_boun-test.conllu", 979),
        ("pos/tr_penn-dev.conllu", 622),
        ("pos/tr_penn-test.conllu", 924),
        ("pos/hu_szeged-train.conllu", 910),
        ("pos/hu_szeged-dev.conllu", 441),
        ("pos/hu_szeged-test.conllu", 449),
        ("pos/ug_udt-train.conllu", 1656),
        ("pos/ug_udt-dev.conllu", 900),
        ("pos/ug_udt-test.conllu", 900),
        ("ner/tr_wikiner-train.conll", 17967),
        ("ner/tr_wikiner-dev.conll", 1000),
        ("ner/tr_wikiner-test.conll", 1000),
    ],
)
def test_real_files_are_read_whole_and_written_back_unchanged(shared_data, name, sentences):
    found = read_tagged(shared_data / name)
    assert len(found) == sentences
    assert written(found, [s.labels for s in found]).encode() == (shared_data / name).read_bytes()


def test_wikiner_has_nineteen_kinds_of_names(shared_data):
    found = read_tagged(shared_data / "ner" / "tr_wikiner-train.conll")
    labels = {label for sentence in found for label in sentence.labels}
    kinds = {label[2:] for label in labels - {"O"}}
    assert len(kinds) == 19
    assert labels == {"O"} | {prefix + kind for prefix in ("B-", "I-") for kind in kinds}
