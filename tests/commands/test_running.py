"""`augbench run` before anything runs: questions, rehearsals, refusals; and failures that stop the others."""

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.commands.placing import stopped_by_signals
from augbench.bench.experiment.suite import load_suite
from augbench.bench.launchers.launcher import Activity, LaunchRequest
from augbench.bench.launchers.local import Local
from augbench.bench.planning.plan import PlannedRun
from augbench.bench.runs import run_states
from augbench.bench.runs.output_folder import run_folders
from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.runs.slurm_client import SlurmError
from augbench.bench.runs.submissions import new_submission

CommandLine = Callable[..., tuple[int, str, str]]
SetRoom = Callable[..., None]

SUITE = """
name = "small"
title = "Small"
seeds = [0, 1]
[[comparisons]]
datasets = [{ name = "mnist5k", options = { size = 14 } }]
methods = [{ name = "none" }]
network = "tiny"
budget = { epochs = 1, batch_size = 64 }
"""

FAILING = """
from augbench.bench.contract.method import Method
from augbench.bench.registry.registry import register

@register("failing")
class Failing(Method):
    def augment(self, images, generator):
        raise ValueError("no idea")
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SUITE)
    return path


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have runs counted instead of executed: the names of those that were placed."""
    names: list[str] = []

    def launch(
        self: Local, runs: Sequence[PlannedRun], request: LaunchRequest, poll: Callable[[Activity], None]
    ) -> None:
        names.extend(run.folder.path.name for run in runs)

    monkeypatch.setattr(Local, "launch", launch)
    return names


def profile_with(text: str, tmp_path: Path) -> Path:
    path = tmp_path / "profile.toml"
    path.write_text(text)
    return path


def test_above_the_limit_somebody_has_to_say_yes(
    suite: Path, placed: list[str], augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["run", suite, "--out", tmp_path / "out", "--profile", profile_with("[confirm]\nruns = 1", tmp_path)]
    code, _, errors = augbench(*arguments)
    assert code == 2
    assert "2 runs are to be placed: about 0.0 device hours, and 2 of unknown cost" in errors
    assert "--yes" in errors
    assert not placed
    assert not (tmp_path / "out").exists()

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda question: False)
    assert augbench(*arguments)[0] == 1
    assert not placed
    monkeypatch.setattr("typer.confirm", lambda question: True)
    augbench(*arguments)
    assert len(placed) == 2
    augbench(*arguments, "--yes")
    assert len(placed) == 4


def test_below_the_limit_nobody_is_asked(suite: Path, placed: list[str], augbench: CommandLine, tmp_path: Path) -> None:
    augbench("run", suite, "--out", tmp_path / "out", "--profile", profile_with("[confirm]\nruns = 2", tmp_path))
    assert len(placed) == 2


def test_a_rehearsal_places_and_writes_nothing(
    suite: Path, placed: list[str], augbench: CommandLine, tmp_path: Path
) -> None:
    arguments = ["run", suite, "--out", tmp_path / "out", "--device", "cpu", "--workers", "2"]
    code, text, _ = augbench(*arguments, "--dry-run")
    assert code == 0
    assert "2 runs would be placed by local:\n  2 on this machine, at most 2 at a time, on cpu." in text
    assert not placed
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lancher = 'slurm'", "Did you mean 'launcher'?"),
        ("launcher = 'slrm'", "no launcher 'slrm'. Did you mean 'slurm'?"),
        ("[slurm]\nparttion = 'gpu'", "'slurm.parttion'"),
        ("[methods.scal]\ncpus = 1", "no method 'scal'"),
        ("launcher =", "is not valid TOML"),
    ],
)
def test_a_wrong_profile_is_one_paragraph(
    text: str, words: str, suite: Path, augbench: CommandLine, tmp_path: Path
) -> None:
    code, _, errors = augbench("run", suite, "--out", tmp_path / "out", "--profile", profile_with(text, tmp_path))
    assert code == 2
    assert words in errors
    assert errors.startswith("Error: ")
    assert len(errors.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_profile_that_the_environment_names(
    suite: Path, placed: list[str], augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUGBENCH_PROFILE", str(profile_with("[confirm]\nruns = 0", tmp_path)))
    assert augbench("run", suite, "--out", tmp_path / "out")[0] == 2
    augbench("run", suite, "--out", tmp_path / "out", "--yes")
    assert len(placed) == 2


@pytest.mark.parametrize(
    ("room", "said"),
    [
        ({"free": 10**8}, "only 100 MB left"),
        ({"free": 0}, "only 0 MB left"),
        ({"free": 10**12, "files": 29}, "only room for 29 files left"),
        ({"free": 10**8, "files": 0}, "only 100 MB and room for 0 files left"),
    ],
)
def test_a_disk_that_looks_full_is_said_before_the_start_and_tried(
    room: dict[str, int],
    said: str,
    suite: Path,
    placed: list[str],
    augbench: CommandLine,
    tmp_path: Path,
    set_room: SetRoom,
) -> None:
    set_room(**room)
    errors = augbench("run", suite, "--out", tmp_path / "out")[2]
    assert f"Note: There is {said}" in errors
    assert len(placed) == 2


@pytest.mark.parametrize("room", [{"free": 0, "of": 0}, {"free": 10**12, "files": 0, "of_files": 0}])
def test_a_disk_that_does_not_say_how_large_it_is_is_not_spoken_of(
    room: dict[str, int], suite: Path, placed: list[str], augbench: CommandLine, tmp_path: Path, set_room: SetRoom
) -> None:
    set_room(**room)
    assert "left where" not in augbench("run", suite, "--out", tmp_path / "out")[2]
    assert len(placed) == 2


def test_a_run_folder_of_somebody_else_is_said_before_the_start(
    suite: Path, placed: list[str], augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load_suite(str(suite)).specs()[1]
    folder = RunFolder(tmp_path / "out" / "runs" / spec.folder_name)
    folder.write_spec(spec)
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != folder.path and allowed(path, mode))
    code, _, errors = augbench("run", suite, "--out", tmp_path / "out")
    assert code == 2
    assert f"The run folder {folder.path} belongs to {folder.path.owner()}" in errors
    assert not placed


@pytest.mark.parametrize("name", ["spec.json", "result.json"])
def test_a_damaged_folder_is_named_and_the_other_runs_are_placed(
    name: str, suite: Path, placed: list[str], augbench: CommandLine, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    spec, other = load_suite(str(suite)).specs()
    folder = RunFolder(out / "runs" / spec.folder_name)
    folder.write_spec(spec)
    (folder.path / name).write_text('{"identity": "')
    for command, *options in (("plan",), ("run", "--dry-run"), ("run",)):
        code, text, errors = augbench(command, suite, "--out", out, *options)
        assert code == 2
        assert "1 run" in text
        named, *_, last = errors.splitlines()
        assert named.startswith("Left out: ") and str(folder.path) in named and "Move" in named
        assert last.endswith(f"`augbench status --out {out}` says it again.") and "1 run was left out" in last
    assert placed == [other.folder_name]
    assert {path.name for path in folder.path.iterdir()} == {"spec.json", name}


def test_a_state_that_cannot_be_told_has_advice_that_fits(
    suite: Path, placed: list[str], augbench: CommandLine, tmp_path: Path
) -> None:
    spec, other = load_suite(str(suite)).specs()
    folder = RunFolder(tmp_path / "out" / "runs" / spec.folder_name)
    folder.write_spec(spec)
    folder.write_status(RunState.RUNNING)
    (folder.path / "lock").symlink_to("lock")  # which nobody can open
    code, _, errors = augbench("run", suite, "--out", tmp_path / "out")
    assert (code, placed) == (2, [other.folder_name])
    assert f"{spec.folder_name}: Whether a process executes it cannot be told" in errors
    assert "Have its owner make the folder readable for you" in errors
    assert "submissions" not in errors


@pytest.fixture
def submitted(suite: Path, tmp_path: Path) -> list[RunFolder]:
    """Leave the record of a submission of both runs."""
    folders = []
    for spec in load_suite(str(suite)).specs():
        folder = RunFolder(tmp_path / "out" / "runs" / spec.folder_name)
        folder.write_spec(spec)
        folders.append(folder)
    nothing: dict[str, Any] = {"resources": {}, "arguments": {}, "code": {}}
    names = [folder.path.name for folder in folders]
    new_submission("slurm", tmp_path / "out", names, **nothing, command="").model_copy(update={"job": "7"}).write()
    return folders


@pytest.mark.usefixtures("submitted")
def test_if_slurm_does_not_answer_nothing_is_placed_a_second_time(
    suite: Path, placed: list[str], augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(submissions: object) -> None:
        raise SlurmError("Slurm gave no answer.")

    monkeypatch.setattr(run_states, "ask_slurm", silent)
    code, _, errors = augbench("run", suite, "--out", tmp_path / "out")
    assert code == 2
    assert "The state of 2 runs" in errors
    assert "might be placed twice" in errors
    assert "Slurm gave no answer" in errors
    assert not placed


def test_a_run_that_nobody_but_its_owner_may_read_is_left_out_and_the_others_are_placed(
    suite: Path, placed: list[str], augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, other = [spec.folder_name for spec in load_suite(str(suite)).specs()]
    (tmp_path / "out" / "runs" / closed).mkdir(parents=True)

    def refuse(path: Path, *arguments: Any, **more: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    for name in ("exists", "open"):
        allowed = getattr(Path, name)
        monkeypatch.setattr(
            Path, name, lambda path, *a, do=allowed, **k: (refuse if closed in path.parts else do)(path, *a, **k)
        )
    code, _, errors = augbench("run", suite, "--out", tmp_path / "out")
    assert placed == [other]
    assert (code, "Traceback" in errors) == (2, False)
    assert "Left out: The state of 1 run" in errors
    assert f"{closed} belongs to" in errors


def test_reasons_that_are_alike_are_told_once(
    suite: Path, placed: list[str], submitted: list[RunFolder], augbench: CommandLine, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "out" / "submissions")
    for folder in submitted:
        folder.write_status(RunState.FAILED, reason="ValueError: no idea")
    code, _, errors = augbench("run", suite, "--out", tmp_path / "out")
    assert code == 2
    assert errors.count("ValueError: no idea") == 1
    assert "So did 1 run more." in errors
    assert f"`augbench failures --out {tmp_path / 'out'}`" in errors


@pytest.mark.slow
@pytest.mark.parametrize("fail_fast", [True, False])
def test_a_failure_stops_the_others_only_if_that_is_wanted(
    fail_fast: bool, augbench: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    (tmp_path / "small.toml").write_text(SUITE.replace('{ name = "none" }', '{ name = "failing" }, { name = "none" }'))
    arguments = ["--plugin", tmp_path / "failing.py", "run", tmp_path / "small.toml", "--out", tmp_path / "out"]
    code, _, errors = augbench(*arguments, "--workers", "1", *(["--fail-fast"] if fail_fast else []))
    assert code == 2
    assert "ValueError: no idea" in errors
    states = sorted(folder.state() for folder in run_folders(tmp_path / "out"))
    if fail_fast:
        assert states == [RunState.FAILED, RunState.PLANNED, RunState.PLANNED, RunState.PLANNED]
    else:
        assert states == [RunState.DONE, RunState.DONE, RunState.FAILED, RunState.FAILED]


def test_a_machine_that_starts_no_worker_is_named_once_and_no_run_has_failed(
    suite: Path, augbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if any('augbench.bench.training.worker' in word for word in sys.orig_argv):\n"
        "    open(__file__ + '.started', 'a').write('!')\n"
        "    sys.stderr.write('Traceback:\\n  import torch\\nImportError: no room')\n"
        "    sys.stderr.flush()\n"
        "    os._exit(1)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code, _, errors = augbench("run", suite, "--out", tmp_path / "out", "--workers", "1")
    assert code == 2
    assert "No worker process can begin on this machine. The worker process ended by itself with status 1. " in errors
    assert "Its last words: ImportError: no room. Correct that" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "sitecustomize.py.started").read_text() == "!"
    assert {folder.state() for folder in run_folders(tmp_path / "out")} == {RunState.PLANNED}


def test_a_command_that_was_given_with_nohup_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopped_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with pytest.raises(KeyboardInterrupt), stopped_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
