"""Progress with rate and time left, on stderr, for every long step."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO

from tqdm import tqdm


def progress(total: int | None, description: str, unit: str, initial: int = 0, shown: bool = True) -> tqdm:
    """Makes a progress bar on stderr.

    Where stderr is no terminal (a log file, a notebook's output, CI) it writes one line every ten
    seconds instead of redrawing.

    Args:
        total: int or `None`. The number of units to come; `None` where it is not known.
        description: string. What is being done.
        unit: string. What is counted, for example `"lines"`.
        initial: int. Units done before this process started.
        shown: bool. Whether to show anything; not where results go to the same terminal meanwhile.

    Returns:
        A `tqdm.tqdm`; call `update(n)` and `close()`, or use it as a context manager.

    Example:

    >>> with progress(2, "reading", "lines") as bar:
    ...     _ = bar.update(2)
    """
    terminal = sys.stderr.isatty()
    return tqdm(
        total=total,
        desc=description,
        unit=f" {unit}",
        unit_scale=True,
        initial=initial,
        file=sys.stderr if terminal else _Lines(),
        dynamic_ncols=terminal,
        mininterval=0.2 if terminal else 10.0,
        maxinterval=10.0,
        ascii=not terminal,
        disable=not shown,
    )


def say(text: str, file: IO[str] | None = None) -> None:
    r"""Prints lines without tearing a progress bar: it is taken off before and drawn again after.

    Args:
        text: string. What to print.
        file: Open text file; `None` for stderr.

    Example:

    >>> import io
    >>> lines = io.StringIO()
    >>> say("read as IOB2", lines)
    >>> lines.getvalue()
    'read as IOB2\n'
    """
    tqdm.write(text, file=sys.stderr if file is None else file)


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Sends what a library of another language writes to stdout, which is for results, to stderr."""
    sys.stdout.flush()
    saved = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


class _Lines:
    """Stderr with whole lines where a terminal would redraw one."""

    def write(self, text: str) -> None:
        text = text.strip("\r\n ")
        if text:
            sys.stderr.write(f"{text}\n")

    def flush(self) -> None:
        sys.stderr.flush()
