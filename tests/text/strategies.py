"""Texts that hurt: what `hypothesis` draws for casing, tokenizer and offsets."""

from hypothesis import strategies as st

_CHARACTERS = [
    *"abçğıijşüz ABCĞIİJŞÜÂÎ.,'-#[] 09",
    "i\u0307",
    *"\u0301\u0306\u0307\u0308\u0327\u0323",  # Combining marks, alone or behind a letter.
    *"\u00ad\u200b\u200d\u200e\ufeff\ufffd\ue000\x00\x01\x7f\x85",  # Dropped by BERT's cleaning.
    *"\t\n\r\u00a0\u2009\u2028\u3000",  # Spaces.
    *"😀👩🏽שלםمرحبا漢字가ไΣσςОßſﬁ①ǅẞÅΩ",
]

texts = st.lists(st.sampled_from(_CHARACTERS), max_size=25).map("".join) | st.text(max_size=15)


@st.composite
def damaged(draw) -> bytes:
    """UTF-8 with bytes cut out and put in, and bytes of no encoding at all."""
    data = bytearray(draw(texts).encode("utf-8"))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(data)))
        if draw(st.booleans()):
            del data[place : place + draw(st.integers(1, 2))]
        else:
            data[place:place] = draw(st.binary(min_size=1, max_size=3))
    return bytes(data)


raw_texts = texts.map(str.encode) | damaged() | st.binary(max_size=12)
