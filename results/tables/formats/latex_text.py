r"""Any text as plain text in LaTeX: letters stay, signs become commands that need no package."""

import re
import unicodedata

NEEDS_T1 = "ÐÞðþĄąĐđĘęĮįŊŋŲų"
"""Letters that LaTeX's own fonts lack and those of the encoding T1 have."""
_LETTERS = frozenset(map(chr, range(0xC0, 0x180))) - set("×÷ĦħĸĿŀŉŦŧſ") | set("ȘșȚț")
"""Letters that pdfLaTeX reads in UTF-8: of western and eastern Europe."""

_ASCII = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{"[": "{[}", "]": "{]}"},  # an optional argument where it follows \\
    **{"*": "{*}"},  # and this a part of it
    **dict.fromkeys("\n\r\t", " "),
}
_SIGNS = {
    **{"–": "--", "—": "---", "‒": "--", "―": "---", "‐": "-", "‑": "-", "…": r"\dots{}", "•": r"\textbullet{}"},
    **{"“": "``", "”": "''", "‘": "`", "’": "'", "„": ",,", "‚": ",", "′": r"$'$", "″": r"$''$"},
    **{"\xa0": "~", "\u202f": r"\,", "\u2009": r"\,", "\xad": r"\-", **dict.fromkeys("\u200b\u2060\ufeff", "{}")},
    **{"¡": r"\textexclamdown{}", "¿": r"\textquestiondown{}", "§": r"\S{}", "¶": r"\P{}", "†": r"\dag{}"},
    **{"‡": r"\ddag{}", "©": r"\copyright{}", "®": r"\textregistered{}", "™": r"\texttrademark{}"},
    **{"ª": r"\textordfeminine{}", "º": r"\textordmasculine{}"},
    **{"€": r"\texteuro{}", "£": r"\pounds{}", "¥": r"\textyen{}", "¢": r"\textcent{}", "‰": r"\textperthousand{}"},
}
_MATHS = {
    **{"±": r"\pm", "×": r"\times", "·": r"\cdot", "⋅": r"\cdot", "÷": r"\div", "−": "-", "∗": r"\ast", "∘": r"\circ"},
    **{"°": r"^\circ", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "√": r"\surd", "∞": r"\infty"},
    **{"≤": r"\leq", "≥": r"\geq", "≠": r"\neq", "≈": r"\approx", "≡": r"\equiv", "∼": r"\sim", "∝": r"\propto"},
    **{"«": r"\ll", "»": r"\gg", "‹": "<", "›": ">", "¬": r"\neg", "∧": r"\wedge", "∨": r"\vee", "µ": r"\mu"},
    **{"∑": r"\sum", "∏": r"\prod", "∫": r"\int", "∂": r"\partial", "∇": r"\nabla", "‖": r"\|", "∅": r"\emptyset"},
    **{"∈": r"\in", "∉": r"\notin", "∪": r"\cup", "∩": r"\cap", "⊂": r"\subset", "⊆": r"\subseteq"},
    **{"∀": r"\forall", "∃": r"\exists", "⊕": r"\oplus", "⊗": r"\otimes", "⟨": r"\langle", "⟩": r"\rangle"},
    **{"⌈": r"\lceil", "⌉": r"\rceil", "⌊": r"\lfloor", "⌋": r"\rfloor"},
    **{"→": r"\rightarrow", "←": r"\leftarrow", "↔": r"\leftrightarrow", "↑": r"\uparrow", "↓": r"\downarrow"},
    **{"⇒": r"\Rightarrow", "⇐": r"\Leftarrow", "⇔": r"\Leftrightarrow"},
    **{sign: f"^{{{meant}}}" for sign, meant in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True)},
    **{sign: f"_{{{meant}}}" for sign, meant in zip("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-", strict=True)},
}
_GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu "
    "nu xi pi rho sigma tau upsilon phi chi psi omega"
)
_MATHS |= {letter: f"\\{name}" for letter, name in zip("αβγδεζηθικλμνξπρστυφχψω", _GREEK.split(), strict=True)}
_CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
_MATHS |= {letter: f"\\{name}" for letter, name in zip("ΓΔΘΛΞΠΣΥΦΨΩ", _CAPITALS.split(), strict=True)}

_KNOWN = _ASCII | _SIGNS | {sign: f"${command}$" for sign, command in _MATHS.items()}
_LIGATURES = re.compile("(?<=[-'`!?,‘’‚“”„‐‑‒–—―])(?=[-'`,‘’‚“”„‐‑‒–—―])")
"""Between characters of which LaTeX would make another one, such as a dash of two hyphens."""


def escape_latex(text: str) -> str:
    """Escape any text for LaTeX.

    European letters stay as they are, in UTF-8; those of `NEEDS_T1` need the font encoding T1. Other letters become
    their plainest form, such as `e` for `ễ`, or their number, such as U+4E2D.
    """
    apart = _LIGATURES.sub("\u2060", unicodedata.normalize("NFC", text))
    return "".join(map(_known, apart))


def _known(character: str) -> str:
    if character in _KNOWN:
        return _KNOWN[character]
    if " " <= character <= "~" or character in _LETTERS:
        return character
    plain = [one for one in unicodedata.normalize("NFKD", character) if " " <= one <= "~"]
    return "".join(_KNOWN.get(one, one) for one in plain) or f"U+{ord(character):04X}"
