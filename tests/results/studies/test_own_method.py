"""`augbench compare`: somebody's method beside runs of the same suite."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from augbench.bench.common.files import read_json, write_json
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.runs.run_folder import RunFolder

WriteRun = Callable[..., RunFolder]
CommandLine = Callable[..., tuple[int, str, str]]

ACCURACIES = {  # of three seeds, with about the same scatter
    "none": (0.900, 0.902, 0.901),
    "fixed": (0.905, 0.909, 0.907),
    "augerino": (0.941, 0.943, 0.945),
    "scale": (0.960, 0.963, 0.961),
    "mine": (0.941, 0.945, 0.942),
}


@pytest.fixture
def two_folders(tmp_path: Path, write_run: WriteRun, any_name: None) -> tuple[Path, Path]:
    """Write runs of four methods, and of a fifth in another folder, with one that both have."""
    for method, accuracies in ACCURACIES.items():
        for seed, accuracy in enumerate(accuracies):
            roots = ["theirs"] if method == "mine" else ["ours", "theirs"] if method == "none" else ["ours"]
            for root in roots:
                write_run(method, seed=seed, accuracy=accuracy, root=tmp_path / root, epochs=2)
    return tmp_path / "ours", tmp_path / "theirs"


def test_a_method_is_said_to_be_better_worse_or_neither_as_the_tests_of_the_tables_find(
    two_folders: tuple[Path, Path], augbench: CommandLine
) -> None:
    ours, theirs = two_folders
    code, said, errors = augbench("compare", theirs, "--with", ours)
    assert code == 0, errors
    assert "better than none and fixed; worse than scale; not told apart from augerino." in " ".join(said.split())
    code, said, _ = augbench("compare", theirs, "--with", ours, "--json")
    found = json.loads(said)
    ((sentence,),) = found["standings"]
    assert sentence.startswith("mine on ")
    (table,) = found["tables"]["differences"]
    assert table["title"] == "Differences from mine" and len(table["rows"]) == 4


def test_fewer_seeds_than_ours_are_not_tested(
    two_folders: tuple[Path, Path], write_run: WriteRun, augbench: CommandLine
) -> None:
    ours, theirs = two_folders
    write_run("scale", seed=3, accuracy=0.96, root=ours, epochs=2)
    _, said, _ = augbench("compare", theirs, "--with", ours)
    few = ", ".join(f"{method} (3 of 4 seeds)" for method in ("none", "fixed", "augerino"))
    assert f"not tested against {few} and scale (3 of 4 seeds)." in " ".join(said.split())


def test_other_budgets_data_or_nothing_new_are_refused_in_one_paragraph(
    two_folders: tuple[Path, Path], write_run: WriteRun, tmp_path: Path, augbench: CommandLine
) -> None:
    ours, _ = two_folders
    for seed in range(3):
        write_run("mine", seed=seed, root=tmp_path / "longer", epochs=3)
        write_run("mine", seed=seed, root=tmp_path / "newer", epochs=2, dataset_version=2)
        write_run("mine", seed=seed, root=tmp_path / "elsewhere", dataset="rotmnist5k")
    for name, words in {
        "longer": "budget.epochs was 2, is 3 now",
        "newer": "dataset.version was 1, is 2 now",
        "elsewhere": "rotmnist5k (size=14) is in the first only",
    }.items():
        code, _, errors = augbench("compare", tmp_path / name, "--with", ours)
        assert code == 2 and words in " ".join(errors.split())
        assert "Only runs of the same data, network, budget and protocol" in " ".join(errors.split())
    for path in (
        tmp_path / "elsewhere" / "runs"
    ).iterdir():  # as if written under an earlier protocol, on the same data
        content = (path / "spec.json").read_text().replace('"protocol_version": 1', '"protocol_version": 0')
        spec = RunSpec.model_validate(json.loads(content.replace("rotmnist5k", "mnist5k"))["spec"])
        write_json(path / "spec.json", {"identity": spec.identity, "spec": spec.model_dump(mode="json")})
        write_json(path / "result.json", read_json(path / "result.json") | {"identity": spec.identity})
    code, _, errors = augbench("compare", tmp_path / "elsewhere", "--with", ours)
    assert code == 2 and "protocol_version was 1, is 0 now" in " ".join(errors.split())
    code, _, errors = augbench("compare", ours, "--with", ours)
    assert code == 2 and "there is nothing to compare" in " ".join(errors.split())


def test_what_only_one_of_two_comparisons_shares_is_said(
    two_folders: tuple[Path, Path], write_run: WriteRun, augbench: CommandLine
) -> None:
    ours, theirs = two_folders
    for seed in range(3):
        write_run("mine", seed=seed, root=theirs, epochs=3)
    _, said, _ = augbench("compare", theirs, "--with", ours)
    assert "worse than scale; not told apart from augerino." in " ".join(said.split())
    assert f"Not compared, since {ours} has no such runs: on mnist5k (size=14), budget.epochs was 2" in said
