"""What a file's bytes are: a check, line by line, that they are the encoding that they should be.

A legacy encoding read as UTF-8 loses every letter beyond ASCII, and nothing else would show it: *öğrenciler*
becomes *rencileri*. So lines that are not what they should be are counted. A few in a file are
usual in texts from the web; where they are many, the file is in another encoding.
"""

import codecs
import warnings

from keras_bert2d.errors import InputError, InputWarning

# So many bad lines may pass, or one in a hundred of the lines beyond ASCII where those are more. They are
# counted after each thousand lines beyond ASCII and at the end, whatever is read at once.
_FEW = 3
_CHECKED_LINES = 1000
_LONGEST_REST = 1 << 20
_REPLACED = "\ufffd".encode()


def check_encoding(encoding: str) -> str:
    """Returns an encoding's name as Python knows it, or raises `InputError`.

    Example:

    >>> check_encoding("UTF8"), check_encoding("latin5")
    ('utf-8', 'iso8859-9')
    """
    try:
        name = codecs.lookup(encoding).name
        "a".encode(name)
    except (LookupError, ValueError, TypeError):
        raise InputError(
            "`encoding` must name a text encoding, for example utf-8, iso-8859-9, cp1254 or utf-16. "
            f"Received: encoding={encoding!r}"
        ) from None
    return "utf-8" if name == "utf-8-sig" else name


class BadLines:
    """Counts a file's lines that are not in its encoding, and refuses the file where they are many.

    Args:
        name: string. The file's name.
        encoding: string. As `check_encoding` returns it. Bytes come as UTF-8 all the same: those of
            another encoding have been decoded, with U+FFFD for what could not be.

    Attributes:
        count: int. The bad lines.
        first: int. The number of the first of them, counted from 1; 0 where there is none.
    """

    def __init__(self, name: str, encoding: str) -> None:
        self.count = self.first = 0
        self._name = name
        self._encoding = encoding
        self._line = self._beyond_ascii = 0
        self._next_check = _CHECKED_LINES
        self._rest: list[bytes] = []
        self._rest_size = 0

    def feed(self, data: bytes) -> None:
        """Takes the file's next bytes.

        Raises:
            InputError: Too many lines are bad.
        """
        end = data.rfind(b"\n") + 1
        if data and not end and self._rest_size + len(data) > _LONGEST_REST:
            end = _end_of_characters(data)
        if end:
            self._count(b"".join([*self._rest, data[:end]]))
            self._rest, self._rest_size = [], 0
        if end < len(data):
            self._rest.append(data[end:])
            self._rest_size += len(data) - end

    def close(self) -> None:
        """Tells that the file is at its end.

        Raises:
            InputError: Too many lines are bad.
        """
        self._count(b"".join(self._rest))
        self._rest = []
        self._check(2 * self.count > self._beyond_ascii)

    def _count(self, block: bytes) -> None:
        if block.isascii():
            self._line += block.count(b"\n")
            return
        lines = block.split(b"\n")
        if not self._is_bad(block):
            self._beyond_ascii += len(lines) - sum(map(bytes.isascii, lines))
            if self._beyond_ascii >= self._next_check:
                self._check()
        else:
            for number, line in enumerate(lines, self._line + 1):
                if line.isascii():
                    continue
                self._beyond_ascii += 1
                if self._is_bad(line):
                    self.count += 1
                    self.first = self.first or number
                if self._beyond_ascii == self._next_check:
                    self._check()
        self._line += len(lines) - 1

    def _is_bad(self, text: bytes) -> bool:
        if self._encoding != "utf-8":
            return _REPLACED in text
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return True
        return False

    def _check(self, are_most: bool = False) -> None:
        looked_at = min(self._beyond_ascii, self._next_check)
        if self.count and (self.count > max(_FEW, looked_at // 100) or are_most):
            if self._encoding == "utf-8":
                mend = "name its encoding, for example `--encoding iso-8859-9`, or convert it to UTF-8"
            else:
                mend = "name another encoding"
            share = self.count / self._beyond_ascii
            raise InputError(
                f"{self._name}:{self.first}: the first line that is not {self._encoding.upper()}, as are "
                f"{share:.0%} of the {self._beyond_ascii:,} lines beyond ASCII that were looked at: {mend}"
            )
        while self._next_check <= self._beyond_ascii:
            self._next_check += _CHECKED_LINES


def warn_of_bad_lines(found: list[tuple[str, BadLines]]) -> None:
    """Warns once of the few bad lines of all files, where there are any.

    Args:
        found: names of files with their `BadLines`.
    """
    found = [(name, lines) for name, lines in found if lines.count]
    if found:
        count = sum(lines.count for _, lines in found)
        name, first = found[0]
        more = f" and {count - 1:,} more" if count > 1 else ""
        files = f" in {len(found)} files" if len(found) > 1 else ""
        warnings.warn(
            f"{name}:{first.first}: this line{more}{files} cannot be decoded: bad bytes are left out",
            InputWarning,
            stacklevel=2,
        )


def _end_of_characters(data: bytes) -> int:
    """Where to cut bytes so that no character of UTF-8 is cut in two."""
    end = len(data)
    while end > len(data) - 4 and end > 1 and data[end - 1] & 0xC0 == 0x80:
        end -= 1
    return end - 1 if data[end - 1] >= 0xC0 else end
