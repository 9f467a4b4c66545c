"""Pages as browsers read them, and names and colours that tests of the report share."""

from collections.abc import Iterable
from html.parser import HTMLParser

HOSTILE = "<script>alert(1)"  # a slash cannot be in the name of a folder
ROTATED = "rotmnist5k (note=</script>)"
_EMPTY = ("meta", "link", "img")
_RAW = ("script", "style")


class Page(HTMLParser):
    """Reads a page whose tags are closed in turn.

    Attributes:
        tags: Each tag with its attributes.
        texts: By tag, the texts in it; of scripts and styles one text each.
        open: Tags that are not closed.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a tag."""
        self.tags.append((tag, dict(attrs)))
        if tag not in _EMPTY:
            self.open.append(tag)
        if tag in _RAW:
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        """Close the tag that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        inside = self.open[-1] if self.open else ""
        if inside in _RAW:
            self.texts[inside][-1] += data
        elif data.strip():
            self.texts.setdefault(inside, []).append(data)

    @property
    def text(self) -> str:
        """All texts that people read, tag by tag."""
        return " ".join(text for tag, texts in self.texts.items() if tag not in _RAW for text in texts)


def luminance(channels: Iterable[int]) -> float:
    """Relative luminance of red, green and blue in [0, 255], by the formula of WCAG 2."""
    parts = [channel / 255 for channel in channels]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
