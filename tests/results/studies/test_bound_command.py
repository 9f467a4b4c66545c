"""`augbench bound`: what it prints, and what it says to wrong options and runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from paragraphs import fails_in_one_paragraph

from augbench.bench.runs.run_folder import RunFolder, RunState

CommandLine = Callable[..., tuple[int, str, str]]
WriteRun = Callable[..., RunFolder]


def test_the_command_prints_the_terms_and_what_they_are_worth(
    finished: Callable[..., RunFolder], augbench: CommandLine
) -> None:
    folder = finished("scale")
    arguments = ("bound", folder.path, "--lipschitz", "1", "--loss-range", "0", "5", "--device", "cpu")
    code, text, errors = augbench(*arguments)
    assert (code, errors) == (0, "")
    code, printed, _ = augbench(*arguments, "--json")
    assert code == 0
    numbers = json.loads(printed)
    names = ("empirical_risk", "distance", "augmentation", "spread", "confidence", "concentration", "smoothing")
    assert numbers["total"] == pytest.approx(sum(numbers[name] for name in names))
    for name in (*names, "total"):
        assert f"{numbers[name]:.6g}" in text
    assert numbers["vacuous"] is True
    assert "This bound is vacuous" in " ".join(text.split())
    assert " ".join(numbers["in_words"].split()) in " ".join(text.split())
    assert numbers["measured"]["images"] == 400
    assert "w₀ = the weights at the start, β = 0.01, 8 draws for each of n = 400 images" in " ".join(text.split())
    options = ("--delta", "0.01", "--prior-deviation", "2", "--prior-mean", "zero", "--prior", "0.05", "--draws", "3")
    other = json.loads(augbench(*arguments, "--json", *options)[1])
    chosen = {"lipschitz": 1, "loss_range": [0, 5], "delta": 0.01, "prior_deviation": 2}
    assert other["assumptions"] == chosen | {"prior_mean": "zero", "prior": 0.05}
    assert other["measured"]["draws"] == 3
    said = " ".join(augbench(*arguments, *options)[1].split())
    assert "δ = 0.01, s = 2, w₀ = 0, β = 0.05, 3 draws for each of n = 400 images" in said
    assert other["measured"]["squared_distance"] != numbers["measured"]["squared_distance"]


def _options(**other: tuple[str, ...]) -> tuple[str, ...]:
    """Options that are right, with others in their place."""
    given = {"lipschitz": ("1",), "loss-range": ("0", "5"), "device": ("cpu",)} | other
    return tuple(word for name, values in given.items() for word in (f"--{name}", *values))


GOOD = _options()


def _fails_in_one_paragraph(outcome: tuple[int, str, str], *words: str) -> bool:
    assert outcome[1] == ""
    return fails_in_one_paragraph(outcome, *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--delta", "0"), ["--delta 0", "between 0 and 1"]),
        (("--delta", "1.5"), ["--delta 1.5", "between 0 and 1"]),
        (("--lipschitz", "0"), ["--lipschitz 0", "positive"]),
        (("--prior-deviation", "-1"), ["--prior-deviation -1", "positive"]),
        (("--loss-range", "5", "0"), ["--loss-range 5 0", "lower one first"]),
        (("--draws", "1"), ["--draws must be at least 2"]),
        (("--prior", "1"), ["--prior 1", "between 0 and 1"]),
        (("--device", "cuda:9"), ["no device 'cuda:9'"]),
    ],
)
def test_wrong_options(options: tuple[str, ...], words: list[str], write_run: WriteRun, augbench: CommandLine) -> None:
    folder = write_run("scale")
    name, *values = options
    other = _options(**{name.removeprefix("--"): tuple(values)})
    assert _fails_in_one_paragraph(augbench("bound", folder.path, *other), *words)


@pytest.mark.parametrize("missing", ["--lipschitz", "--loss-range"])
def test_assumptions_that_flatter_have_no_default(missing: str, write_run: WriteRun, augbench: CommandLine) -> None:
    given_options = {"--lipschitz": GOOD[2:5], "--loss-range": GOOD[:2]}[missing]
    code, _, errors = augbench("bound", write_run("scale").path, *given_options)
    assert code == 2
    assert missing in errors


@pytest.mark.parametrize("name", ["nowhere", "x" * 300, "a file"])
def test_what_is_no_run_folder(name: str, tmp_path: Path, augbench: CommandLine) -> None:
    (tmp_path / "a file").write_text("mine")
    outcome = augbench("bound", tmp_path / name, *GOOD)
    assert _fails_in_one_paragraph(outcome, "is no run folder", "OUT/runs/NAME")


@pytest.mark.parametrize(
    ("method", "options", "words"),
    [
        ("scale", {"state": RunState.KILLED}, ["is killed", "then repeat this command"]),
        ("scale", {"state": RunState.FAILED}, ["is failed", "--retry-failed"]),
        ("none", {}, ["'none'", "scale, scale-norm"]),
        ("augerino", {}, ["'augerino'", "scale, scale-norm"]),
        ("scale", {"version": 77}, ["'scale' of version 77", "has 'scale' of version 1"]),
        ("scale", {}, ["'mnist5k' of version 1 (files sha256:0123456789abcdef)"]),
    ],
)
def test_runs_without_a_bound(
    method: str, options: dict[str, Any], words: list[str], write_run: WriteRun, augbench: CommandLine
) -> None:
    folder = write_run(method, **options)
    assert _fails_in_one_paragraph(augbench("bound", folder.path, *GOOD), *words)


@pytest.mark.slow
def test_a_model_that_is_missing_damaged_or_of_another_run(
    finished: Callable[..., RunFolder], augbench: CommandLine
) -> None:
    folder, other = finished("scale"), finished("scale", copies=2)
    for content, words in (
        (other.model.read_bytes(), "model.pt belongs to another run"),
        (b"", "model.pt is damaged"),
        (b"no archive", "model.pt is damaged"),
        (None, "model.pt is missing"),
    ):
        folder.model.unlink()
        if content is not None:
            folder.model.write_bytes(content)
        assert _fails_in_one_paragraph(augbench("bound", folder.path, *GOOD), words)


@pytest.mark.parametrize("file", ["spec.json", "result.json"])
def test_a_damaged_folder_has_to_be_made_again(file: str, write_run: WriteRun, augbench: CommandLine) -> None:
    folder = write_run("scale")
    (folder.path / file).write_text('{"identity": ')
    way_on = "run the suite again, then repeat this command"
    assert _fails_in_one_paragraph(augbench("bound", folder.path, *GOOD), str(folder.path), way_on)


def test_the_help_names_both_ends_of_the_loss_range(augbench: CommandLine) -> None:
    code, text, _ = augbench("bound", "--help")
    assert code == 0
    assert "--loss-range" in text
    assert "A B" in text
    assert "float,float" not in text.replace(" ", "").lower()
