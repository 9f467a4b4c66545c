"""`augbench tune`: mistakes in one paragraph, and real searches that are killed and go on with the same command."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from augbench.bench.commands.tuned import _table
from augbench.bench.experiment.suite import load_suite
from augbench.bench.tuning.outcome import outcome_of
from augbench.bench.tuning.tuning import Tuning, base_of_suite

CommandLine = Callable[..., tuple[int, str, str]]
PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"

SUITE = """
name = "demo"
title = "Short runs"
seeds = [0]
[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }]
methods = [{ name = "scale" }, { name = "randaugment" }]
network = "tiny"
budget = { epochs = 2 }
"""
PROFILE = "resources = { gpus = 0 }\nray = { cpus = 2 }\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in an empty folder with a short suite and a profile for two trials at a time."""
    (tmp_path / "demo.toml").write_text(SUITE)
    (tmp_path / "profile.toml").write_text(PROFILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


MISTAKES: list[tuple[list[str], list[str]]] = [
    (["scael", "--dataset", "mnist5k", "--suite", "demo.toml"], ["no method 'scael'", "Did you mean 'scale'?"]),
    (["scale", "--dataset", "mnist5", "--suite", "demo.toml"], ["no data set 'mnist5'", "'mnist5k'"]),
    (["scale", "--dataset", "mnist5k"], ["no budget of the paper for the data set 'mnist5k'", "--suite"]),
    (["scale", "--dataset", "cifar10", "--network", "tyni"], ["no network 'tyni'", "Valid choices"]),
    (["scale", "--dataset", "mnist5k", "--suite", "demo.toml", "--trials", "0"], ["--trials must be at least 1"]),
    (["scale", "--dataset", "mnist5k", "--suite", "demo.toml", "--network", "tiny"], ["--network and --suite exclude"]),
    (["scale", "--dataset", "mnist5k", "--suite", "demo.toml", "--budget", "quick"], ["sets its own budget"]),
    (["scale", "--dataset", "mnist5k", "--suite", "nowhere"], ["no suite 'nowhere'"]),
    (["scale", "--dataset", "mnist5k", "--suite", "demo.toml", "--profile", "x"], ["no profile 'x'"]),
    (
        ["scale", "--dataset", "mnist5k", "--suite", "demo.toml", "--search", "asha", "--launcher", "local"],
        ["--search asha is done by Ray alone"],
    ),
    (["scale", "--dataset", "cifar10", "--budget", "smoke", "--data", "empty"], ["cifar10", "augbench data prepare"]),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=lambda value: " ".join(value[:1]))
def test_mistakes_are_explained(
    arguments: list[str], words: list[str], place: Path, augbench: CommandLine, ray_is_there: None
) -> None:
    code, _, errors = augbench("tune", *arguments)
    assert code == 2
    assert "Traceback" not in errors
    assert "\n" not in errors.strip(), "more than one paragraph"
    assert not [word for word in words if word not in errors], errors
    assert not list(place.glob("augbench-tuning/*/runs/*")), "nothing is begun"


@pytest.mark.parametrize(("module", "search"), [("optuna", "optuna"), ("ray", "asha")])
def test_what_is_not_installed_is_named(
    module: str, search: str, place: Path, augbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    code, _, errors = augbench("tune", "scale", "--dataset", "mnist5k", "--suite", "demo.toml", "--search", search)
    assert code == 2
    assert "pip install 'augbench[ray]'" in errors


@pytest.fixture
def start(place: Path, ray_is_there: None) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Start `augbench` in a process of its own, which is ended at the end if need be."""
    started: list[subprocess.Popen[str]] = []
    own = {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AUGBENCH_")} | own

    def begin(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-P", "-m", "augbench.bench.commands", *arguments]
        process = subprocess.Popen(
            command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.terminate()  # as Ctrl-C: it ends what it has started
        process.communicate()


def complete(process: "subprocess.Popen[str]") -> str:
    text, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, text + errors
    return text


def record(place: Path, out: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((place / out / "tuning.json").read_text())
    return content


def results(place: Path, out: str) -> dict[str, int]:
    """When the result of each run was written."""
    found = sorted((place / out / "runs").glob("*/result.json"))
    return {path.parent.name: path.stat().st_mtime_ns for path in found}


def tune(method: str, *options: str) -> list[str]:
    return ["tune", method, "--dataset", "mnist5k", "--suite", "demo.toml", "--profile", "profile.toml", *options]


@pytest.mark.slow
def test_a_search_by_optuna_that_is_killed_goes_on_and_computes_nothing_twice(
    start: Callable[..., "subprocess.Popen[str]"], place: Path
) -> None:
    command = tune("randaugment", "--trials", "3", "--search", "optuna", "--out", "t")
    killed = start(*command)
    assert killed.stdout is not None
    while not killed.stdout.readline().startswith("[1/3]"):  # a line for each trial that has ended
        assert killed.poll() is None, killed.communicate()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before, begun = results(place, "t"), {path.name for path in (place / "t" / "runs").glob("randaugment*")}
    assert before
    text = complete(start(*command))
    after = results(place, "t")
    assert {name: after[name] for name in before} == before
    written = record(place, "t")
    assert begun <= {name for one in written["outcomes"] for name in one["runs"]} == set(after)
    assert [one["state"] for one in written["outcomes"]] == ["done"] * 3
    assert written["outcomes"][0]["values"] == {"magnitude": 9, "operations": 2}
    accuracies = [one["validation_accuracy"] for one in written["outcomes"]]
    assert written["best"] == accuracies.index(max(accuracies))
    assert "augbench run t/best.toml" in text
    best = load_suite(str(place / "t" / "best.toml")).specs()[0].method.all_settings
    assert written["outcomes"][written["best"]]["values"].items() <= best.items()


@pytest.mark.slow
def test_trials_that_are_stopped_early_stay_so(
    start: Callable[..., "subprocess.Popen[str]"], place: Path, augbench: CommandLine
) -> None:
    command = tune("scale", "--trials", "4", "--search", "asha", "--out", "t")
    complete(start(*command))
    first, times = record(place, "t"), results(place, "t")
    states = [one["state"] for one in first["outcomes"]]
    assert states[0] == "done"
    assert set(states) <= {"done", "stopped early"}
    assert states.count("done") == len(times)
    assert all(one["seconds"] for one in first["outcomes"]), "what was stopped has cost something, too"
    code, text, errors = augbench(*command)
    assert code == 0, errors
    assert "nothing to compute" in text
    assert record(place, "t") == first
    assert results(place, "t") == times


@pytest.mark.slow
def test_the_commands_of_the_page_work(place: Path, augbench: CommandLine) -> None:
    (block,) = [block.split("```")[0] for block in PAGE.read_text("utf-8").split("```console\n")[1:]]
    first, *others = [shlex.split(line)[1:] for line in block.splitlines()]
    assert (first[0], first[first.index("--suite") + 1], len(others)) == ("tune", "demo", 2)
    short = {"demo": "demo.toml", "20": "2"}
    command = [short.get(word, word) for word in first]
    code, text, errors = augbench(*command, "--launcher", "local")
    assert code == 0, text + errors
    tuning = Tuning(base_of_suite(load_suite("demo.toml"), "scale", "mnist5k"), "random", 2)
    wanted = [tuning.trial(0, values, place).folders[0].path.name for values in tuning.random_values()]
    assert sorted(wanted) == list(results(place, "augbench-tuning/scale-mnist5k"))
    for arguments in others:
        code, text, errors = augbench(*arguments)
        assert code == 0, text + errors
    table = (place / "tuned" / "tables" / "comparison.md").read_text()
    assert "Tuning (h)" in table
    assert "scale (tuned) on mnist5k (size=14) with 2 trials (random)" in table


def test_hours_of_different_devices_are_not_added_up(tuning: Tuning, make_trial: Callable[..., Any]) -> None:
    outcome = outcome_of(make_trial(0, 0.5, values=tuning.initial, seconds={"one": 3599.0, "other": 7199.0}))
    cells = [list(column.cells) for column in _table(tuning, [outcome]).columns if column.header == "hours"]
    assert cells == [["1 + 2"]]


@pytest.mark.slow
def test_a_search_of_random_values_does_without_optuna(ray_is_there: None) -> None:
    code = "import sys; sys.modules['optuna'] = None; import augbench.bench.tuning.ray_tuning"
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
