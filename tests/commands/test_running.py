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

Run = Callable[..., tuple[int, str, str]]

FAILING = """
from augbench.bench.contract.method import Method
from augbench.bench.registry.registry import register

@register("failing")
class Failing(Method):
    def augment(self, images, generator):
        raise ValueError("no idea")
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def run(augbench: Run, write_suite: Callable[..., Path], tmp_path: Path, out: Path) -> Run:
    """Run a suite of two runs, with a profile if its text is given."""
    suite = write_suite(seeds=(0, 1))

    def call(*options: str, profile: str | None = None, command: str = "run") -> tuple[int, str, str]:
        if profile is not None:
            (tmp_path / "profile.toml").write_text(profile)
            options = (*options, "--profile", str(tmp_path / "profile.toml"))
        return augbench(command, suite, "--out", out, *options)

    return call


@pytest.fixture
def folders(run: Run, tmp_path: Path, out: Path) -> list[RunFolder]:
    """Return the folders of both runs, which are not there yet."""
    specs = load_suite(str(tmp_path / "small.toml")).specs()
    return [RunFolder(out / "runs" / spec.folder_name) for spec in specs]


@pytest.fixture
def submitted(folders: list[RunFolder], tmp_path: Path, out: Path) -> list[RunFolder]:
    """Leave the record of a submission of both runs."""
    for folder, spec in zip(folders, load_suite(str(tmp_path / "small.toml")).specs(), strict=True):
        folder.write_spec(spec)
    nothing: dict[str, Any] = {"resources": {}, "arguments": {}, "code": {}}
    names = [folder.path.name for folder in folders]
    new_submission("slurm", out, names, **nothing, command="").model_copy(update={"job": "7"}).write()
    return folders


@pytest.fixture
def made(submitted: list[RunFolder], out: Path) -> RunFolder:
    """Make the folder of the first run, as if it had been placed once."""
    shutil.rmtree(out / "submissions")
    shutil.rmtree(submitted[1].path)
    return submitted[0]


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


def test_above_the_limit_somebody_has_to_say_yes(
    run: Run, placed: list[str], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = "[confirm]\nruns = 1"
    code, _, errors = run(profile=limit)
    assert code == 2
    assert "2 runs to place: about 0.0 device hours, and 2 of unknown cost" in errors
    assert "--yes" in errors
    assert not placed
    assert not out.exists()
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    for answer, count in ((False, 0), (True, 2)):
        monkeypatch.setattr("typer.confirm", lambda question, answer=answer: answer)
        assert (run(profile=limit)[0] == 1) is not answer
        assert len(placed) == count
    run("--yes", profile=limit)
    assert len(placed) == 4


def test_below_the_limit_nobody_is_asked(run: Run, placed: list[str]) -> None:
    run(profile="[confirm]\nruns = 2")
    assert len(placed) == 2


def test_a_rehearsal_places_and_writes_nothing(run: Run, placed: list[str], out: Path) -> None:
    code, text, _ = run("--device", "cpu", "--workers", "2", "--dry-run")
    assert code == 0
    assert "2 runs would be placed by local:\n  2 on this machine, at most 2 at a time, on cpu." in text
    assert not placed
    assert not out.exists()


def test_a_profile_that_the_environment_names(
    run: Run, placed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.toml").write_text("[confirm]\nruns = 0")
    monkeypatch.setenv("AUGBENCH_PROFILE", str(tmp_path / "other.toml"))
    assert run()[0] == 2
    run("--yes")
    assert len(placed) == 2


@pytest.mark.parametrize(
    ("room", "said"),
    [
        ({"free": 10**8}, "Note: There is only 100 MB left"),
        ({"free": 10**12, "files": 29}, "Note: There is only room for 29 files left"),
        ({"free": 0, "files": 0}, "Note: There is only 0 MB and room for 0 files left"),
        ({"free": 0, "of": 0}, ""),  # of a disk that does not say how large it is
        ({"free": 10**12, "files": 0, "of_files": 0}, ""),
    ],
)
def test_a_disk_that_looks_full_is_said_before_the_start_and_tried(
    room: dict[str, int], said: str, run: Run, placed: list[str], set_room: Callable[..., None]
) -> None:
    set_room(**room)
    errors = run()[2]
    assert said in errors
    assert ("left where" in errors) is bool(said)
    assert len(placed) == 2


def test_a_run_folder_of_somebody_else_is_said_before_the_start(
    run: Run, made: RunFolder, placed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != made.path and allowed(path, mode))
    code, _, errors = run()
    assert code == 2
    assert f"The run folder {made.path} belongs to {made.path.owner()}" in errors
    assert not placed


@pytest.mark.parametrize("name", ["spec.json", "result.json"])
def test_a_damaged_folder_is_named_and_the_other_runs_are_placed(
    name: str, run: Run, made: RunFolder, folders: list[RunFolder], placed: list[str], out: Path
) -> None:
    (made.path / name).write_text('{"identity": "')
    for command, *options in (("plan",), ("run", "--dry-run"), ("run",)):
        code, text, errors = run(*options, command=command)
        assert code == 2
        assert "1 run" in text
        named, *_, last = errors.splitlines()
        assert named.startswith("Left out: ") and str(made.path) in named and "Move" in named
        assert last.endswith(f"`augbench status --out {out}` shows them again.") and "1 run was left out" in last
    assert placed == [folders[1].path.name]
    assert {path.name for path in made.path.iterdir()} == {"spec.json", name}


def test_a_state_that_cannot_be_told_has_advice_that_fits(
    run: Run, made: RunFolder, folders: list[RunFolder], placed: list[str]
) -> None:
    made.write_status(RunState.RUNNING)
    (made.path / "lock").symlink_to("lock")  # which nobody can open
    code, _, errors = run()
    assert (code, placed) == (2, [folders[1].path.name])
    assert f"{made.path.name}: Its file `lock` cannot be opened" in errors
    assert "Have its owner make the folder readable for you" in errors
    assert "submissions" not in errors


@pytest.mark.usefixtures("submitted")
def test_if_slurm_does_not_answer_nothing_is_placed_a_second_time(
    run: Run, placed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(submissions: object) -> None:
        raise SlurmError("Slurm gave no answer.")

    monkeypatch.setattr(run_states, "ask_slurm", silent)
    code, _, errors = run()
    assert code == 2
    for words in ("The state of 2 runs", "might be placed twice", "Slurm gave no answer"):
        assert words in errors
    assert not placed


def test_a_run_that_nobody_but_its_owner_may_read_is_left_out_and_the_others_are_placed(
    run: Run, placed: list[str], folders: list[RunFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, other = (folder.path for folder in folders)
    closed.mkdir(parents=True)

    def refuse(path: Path, *arguments: Any, **more: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    for name in ("exists", "open"):
        allowed = getattr(Path, name)
        monkeypatch.setattr(
            Path, name, lambda path, *a, do=allowed, **k: (refuse if closed.name in path.parts else do)(path, *a, **k)
        )
    code, _, errors = run()
    assert placed == [other.name]
    assert (code, "Traceback" in errors) == (2, False)
    assert "Left out: The state of 1 run" in errors
    assert f"{closed.name} belongs to" in errors


def test_reasons_that_are_alike_are_told_once(
    run: Run, placed: list[str], submitted: list[RunFolder], out: Path
) -> None:
    shutil.rmtree(out / "submissions")
    for folder in submitted:
        folder.write_status(RunState.FAILED, reason="ValueError: no idea")
    code, _, errors = run()
    assert code == 2
    assert errors.count("ValueError: no idea") == 1
    assert "So did 1 run more." in errors
    assert f"`augbench failures --out {out}`" in errors


@pytest.mark.slow
@pytest.mark.parametrize("fail_fast", [True, False])
def test_a_failure_stops_the_others_only_if_that_is_wanted(
    fail_fast: bool, augbench: Run, write_suite: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    suite = write_suite(seeds=(0, 1), methods='{ name = "failing" }, { name = "none" }')
    arguments = ["--plugin", tmp_path / "failing.py", "run", suite, "--out", tmp_path / "out"]
    code, _, errors = augbench(*arguments, "--workers", "1", *(["--fail-fast"] if fail_fast else []))
    assert code == 2
    assert "ValueError: no idea" in errors
    states = sorted(folder.state() for folder in run_folders(tmp_path / "out"))
    ended = [RunState.FAILED] + [RunState.PLANNED] * 3 if fail_fast else [RunState.DONE] * 2 + [RunState.FAILED] * 2
    assert states == ended


def test_a_machine_that_starts_no_worker_is_named_once_and_no_run_has_failed(
    run: Run, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
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
    code, _, errors = run("--workers", "1")
    assert code == 2
    assert "No worker process can begin on this machine. The worker process ended by itself with status 1. " in errors
    assert "It last printed: ImportError: no room. Correct that" in errors
    assert "Traceback" not in errors
    assert (tmp_path / "sitecustomize.py.started").read_text() == "!"
    assert {folder.state() for folder in run_folders(out)} == {RunState.PLANNED}


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
