"""Piece strings from a tokenizer's tensors."""

QUESTION = "Göremediklerimizden misiniz?"
TEXTS = [QUESTION, "", "İ I\u0307 ev\u00adler 漢", b"\xffbir", "a" * 101, "kitap."]


def strings(tokenizer, ragged):
    """Ids, nested in lists, as piece strings."""
    if isinstance(ragged, int):
        return tokenizer.vocabulary[ragged]
    return [strings(tokenizer, item) for item in (ragged if isinstance(ragged, list) else ragged.to_list())]


def pieces_of(tokenizer, text):
    return strings(tokenizer, tokenizer.tokenize([text]))[0]


def slices(tokenizer, text, unit):
    """The piece strings of one text with the part of the text that each stands for."""
    source = text if isinstance(text, bytes) else text.encode("utf-8")
    if unit == "character":
        source = source.decode("utf-8", "replace")
    pieces, starts, ends = (x.flat_values.numpy() for x in tokenizer.tokenize_with_offsets([text], unit))
    return [
        (tokenizer.vocabulary[piece], source[start:end])
        for piece, start, end in zip(pieces, starts, ends, strict=True)
    ]
