"""Standard input, output and error, made so that every command can use them, whatever they are connected to."""

import codecs
import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

ASCII = "plain-ascii"
"""Another name for ASCII: to a stream that is said to have `ascii`, typer writes UTF-8 and rich does not."""
REPLACING = "augbench.replacing"
LABELS = {"stdout": "Standard output", "stderr": "Standard error"}
REPLACEMENTS = {
    **{"±": "+-", "×": "x", "·": ".", "•": "*", "−": "-", "–": "-", "—": "--", "─": "-", "°": " deg", "½": "1/2"},
    **{"≤": "<=", "≥": ">=", "≈": "~", "∞": "inf", "√": "sqrt ", "∘": "o", "‖": "||", "∇": "grad ", "λ": "lambda"},
    **{"‘": "'", "’": "'", "“": '"', "”": '"', "ß": "ss", "ø": "o", "Ø": "O", "æ": "ae", "Æ": "AE", "µ": "u"},
}
"""What commands print, and what else is frequent in names, in the characters that every stream has."""


class OutputError(OSError):
    """Standard output or standard error cannot be written to; the text says which and why."""


class Output(TextIOWrapper):
    """Standard output or standard error: writes a replacement for each character it lacks, and says when it fails."""

    def __init__(self, stream: TextIOWrapper, label: str) -> None:
        is_ascii = codecs.lookup(stream.encoding).name == "ascii"
        encoding = ASCII if is_ascii else stream.encoding
        super().__init__(stream.buffer, encoding, REPLACING, line_buffering=stream.line_buffering)
        self.label = label
        self.goes_on = False  # though nobody reads it
        self._stream = stream  # would close the buffer if it were let go

    def write(self, text: str, /) -> int:
        """Write as any stream does.

        Raises:
            OutputError: If it cannot be written to.
            BrokenPipeError: If whoever reads it has read enough.
        """
        with self._named():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Write out what is left, with the same errors as `write`."""
        with self._named():
            super().flush()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            if not self.goes_on:
                raise
            silence(self)
            with suppress(OSError):
                sys.stderr.write(f"{self.label} was closed by its reader; the command continues without it.\n")
        except OSError as error:
            silence(self)
            raise OutputError(
                f"{self.label} cannot be written to: {error.strerror or error}. Redirect it, or free some space there, "
                "then give the same command again; everything computed so far is kept."
            ) from None


def silence(stream: TextIO) -> None:
    """Throw away what could not be written to a stream and whatever follows, also when the process ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)


@contextmanager
def kept_going() -> Iterator[None]:
    """Have the block go on to its end where whoever reads the output has read enough; it is said on standard error."""
    streams = [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, Output)]
    for stream in streams:
        stream.goes_on = True
    try:
        yield
    finally:
        for stream in streams:
            stream.goes_on = False


def prepare_streams() -> None:
    """Open streams that are closed, as a scheduler may start a process, and have the others write all they can."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # gets the closed stream's number, the lowest that is free, so that no other file can be taken for it
            nothing = Path(os.devnull).open("r" if name == "stdin" else "w")
            os.set_inheritable(nothing.fileno(), True)
            setattr(sys, name, nothing)
    codecs.register(_find_codec)
    codecs.register_error(REPLACING, _replace)
    for name, label in LABELS.items():
        if isinstance(stream := getattr(sys, name), TextIOWrapper):
            setattr(sys, name, Output(stream, label))


def _find_codec(name: str) -> codecs.CodecInfo | None:
    if name != ASCII.replace("-", "_"):
        return None
    ascii_ = codecs.lookup("ascii")
    return codecs.CodecInfo(
        *(ascii_.encode, ascii_.decode, ascii_.streamreader, ascii_.streamwriter),
        *(ascii_.incrementalencoder, ascii_.incrementaldecoder),
        name=ASCII,
    )


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(readable, error.object[error.start : error.end])), error.end


def readable(character: str) -> str:
    """Write a character in ASCII: as it is read, without its accents, or as `?`."""
    if character in REPLACEMENTS:
        return REPLACEMENTS[character]
    name = unicodedata.name(character, "")
    if name.startswith(("GREEK SMALL LETTER ", "GREEK CAPITAL LETTER ")):
        word = name.split()[3].lower()
        return word if character.islower() else word.capitalize()
    return unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?"
