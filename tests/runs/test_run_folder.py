"""Run folders: what is in them is whole or said to be damaged."""

import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_json
from augbench.bench.experiment.spec import RunSpec
from augbench.bench.experiment.suite import Comparison, DatasetEntry, MethodEntry, Suite
from augbench.bench.planning.plan import make_plan
from augbench.bench.runs.causes import Cause
from augbench.bench.runs.output_folder import mark_output_folder, run_folders
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState

MakeSpec = Callable[..., RunSpec]
MakeFolder = Callable[[RunSpec], RunFolder]


def suite_of(spec: RunSpec) -> Suite:
    comparison = Comparison(
        datasets=(DatasetEntry(name=spec.dataset.name, options=spec.dataset.settings),),
        methods=(MethodEntry(name=spec.method.name, hyperparameters=spec.method.settings),),
        network=spec.network.name,
        budget=spec.budget,
    )
    return Suite(name="a", title="a", seeds=(spec.seed,), protocol=spec.protocol, comparisons=(comparison,))


def test_a_truncated_specification_is_damaged_wherever_it_ends(make_spec: MakeSpec, make_folder: MakeFolder) -> None:
    folder = make_folder(make_spec())
    path = folder.path / "spec.json"
    whole = path.read_bytes()
    for end in range(0, len(whole) - 2, 7):
        path.write_bytes(whole[:end])
        with pytest.raises(DamagedError, match="no complete run folder"):
            folder.read_spec()


@pytest.mark.parametrize(
    ("old", "new", "words"),  # of a text; without an old one the whole is another
    [
        ("", "[]", "no complete run folder"),
        ("", "{}", "no complete run folder"),
        ("", '{"spec": 3, "identity": ""}', "no complete run folder"),
        ("", '{"spec": {"protocol_version": "x"}, "identity": ""}', "protocol version is no whole number"),
        ('"seed": 0', '"seed": 7', "identity does not belong"),
        ('"protocol_version": 1', '"protocol_version": 99', r"protocol version 99.*newer augbench"),
    ],
)
def test_a_specification_that_is_foreign_changed_or_newer_is_explained(
    old: str, new: str, words: str, make_spec: MakeSpec, make_folder: MakeFolder
) -> None:
    folder = make_folder(make_spec())
    path = folder.path / "spec.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else new)
    with pytest.raises(DamagedError, match=words):
        folder.read_spec()


def test_an_output_folder_of_a_newer_version_is_explained(make_spec: MakeSpec, tmp_path: Path) -> None:
    mark_output_folder(tmp_path)
    write_json(tmp_path / "runs" / "protocol.json", {"protocol_version": 99})
    for use in (lambda: run_folders(tmp_path), lambda: make_plan(suite_of(make_spec()), tmp_path)):
        with pytest.raises(UserError, match="protocol version 99"):
            use()


@pytest.mark.parametrize(
    ("file", "content"),
    [("result.json", b'{"identity": "'), ("result.json", b'{"identity": "other"}'), ("predictions.npz", None)],
)
def test_a_damaged_result_is_explained_and_can_be_made_again(file: str, content: bytes | None, plant: Any) -> None:
    folder = plant.done()
    spec, path = folder.read_spec(), folder.path / file
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"Move the folder away or delete it"):
        folder.state()
    assert "damaged" in folder.record_death(Cause.KILLED, "Its worker died."), "a launcher says so and goes on"
    shutil.rmtree(folder.path)
    folder.write_spec(spec)
    assert folder.state() is RunState.PLANNED


def test_a_plan_sees_what_is_there(make_spec: MakeSpec, tmp_path: Path) -> None:
    spec = make_spec()
    assert [run.state for run in make_plan(suite_of(spec), tmp_path).runs] == [RunState.PLANNED]
    folder = RunFolder(tmp_path / "runs" / spec.folder_name)
    folder.write_spec(spec)
    for state in (RunState.NEVER_STARTED, RunState.FAILED, RunState.CANCELLED):
        folder.write_status(state)
        plan = make_plan(suite_of(spec), tmp_path)
        assert plan.counts() == {state: 1}
        assert len(plan.to_do(retry_failed=False)) == (state is not RunState.FAILED)
        assert len(plan.to_do(retry_failed=True)) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prior": 0.5}, r"method\.defaults\.prior was 0\.5, is 0\.01 now.*Write the old values"),
        ({"momentum": 0.5}, r"method\.defaults\.momentum was 0\.5, is 'gone' now"),
        ({"prior": None}, None),  # a hyperparameter that did not exist yet
    ],
)
def test_a_run_that_was_planned_with_other_defaults_is_told_apart(
    changes: dict[str, float | None], words: str | None, make_spec: MakeSpec, tmp_path: Path
) -> None:
    spec = make_spec("scale")
    defaults = {key: value for key, value in (spec.method.defaults | changes).items() if value is not None}
    old = spec.model_copy(update={"method": spec.method.model_copy(update={"defaults": defaults})})
    RunFolder(tmp_path / "runs" / old.folder_name).write_spec(old)
    with pytest.raises(UserError, match=words) if words else nullcontext():
        assert make_plan(suite_of(spec), tmp_path).counts() == {RunState.PLANNED: 1}


def test_folders_without_runs_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no runs.*`augbench demo`"):
        run_folders(tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        run_folders(tmp_path / "missing")


def test_runs_are_found_from_the_output_folder_and_from_the_folder_runs_in_it(tmp_path: Path) -> None:
    for out in (tmp_path / "out", tmp_path / "runs"):  # an output folder may be called runs itself
        (out / "runs" / "a").mkdir(parents=True)
        (out / "runs" / ".ipynb_checkpoints").mkdir()
        for root in (out, out / "runs"):
            assert [folder.path for folder in run_folders(root)] == [out / "runs" / "a"]


def test_the_state_of_a_run_can_be_told_from_a_folder_that_cannot_be_written(
    make_spec: MakeSpec, make_folder: MakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(make_spec())
    folder.write_status(RunState.RUNNING)
    with folder.claim():
        pass
    opened = os.open

    def only_to_read(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise PermissionError
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", only_to_read)
    assert folder.state() is RunState.KILLED


def test_a_kill_while_a_folder_is_made_leaves_none(
    make_spec: MakeSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(self: Path, target: Path) -> None:
        raise Killed

    spec = make_spec()
    folder = RunFolder(tmp_path / "runs" / spec.folder_name)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", die)
        patch.setattr(shutil, "rmtree", lambda *arguments, **options: None)
        with pytest.raises(Killed):
            folder.write_spec(spec)
    assert list((tmp_path / "runs").iterdir()), "the kill came too early to test anything"
    assert make_plan(suite_of(spec), tmp_path).counts() == {RunState.PLANNED: 1}
    folder.write_spec(spec)
    assert folder.read_spec() == spec
    assert [found.path for found in run_folders(tmp_path)] == [folder.path]


@pytest.mark.parametrize(
    "content",
    [
        *('{"state": ["x"]}', '{"state": {}}', "[]", "", "{}", '{"state": "a state of the future"}'),
        *('{"state": "done"}', '{"state": "submitted"}', '{"state": "unknown"}', '{"state": "planned"}'),
    ],
)
def test_a_status_that_says_nothing_of_use_holds_up_no_run(
    content: str, make_spec: MakeSpec, make_folder: MakeFolder
) -> None:
    folder = make_folder(make_spec())
    (folder.path / "status.json").write_text(content)
    [run] = make_plan(suite_of(make_spec()), folder.path.parent.parent).runs
    assert run.state is RunState.PLANNED


def test_a_lock_that_cannot_be_opened_is_no_crash(make_spec: MakeSpec, make_folder: MakeFolder) -> None:
    folder = make_folder(make_spec())
    (folder.path / "lock").mkdir()
    folder.write_status(RunState.RUNNING)
    assert folder.state() in (RunState.UNKNOWN, RunState.KILLED)
    with pytest.raises(UserError, match="cannot be claimed"), folder.claim():
        pass


def test_a_failure_that_is_put_aside_by_half_is_still_a_failure(
    make_spec: MakeSpec, make_folder: MakeFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(make_spec())
    for name in ("checkpoint.pt", "metrics.jsonl", "log.txt"):
        (folder.path / name).touch()
    folder.write_status(RunState.FAILED)
    moved: list[str] = []
    replace = Path.replace

    def note(path: Path, target: Path) -> Path:
        moved.append(path.name)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", note)
    folder.set_failure_aside()
    assert {"checkpoint.pt", "log.txt", "metrics.jsonl"} <= set(moved[:-1])
    assert moved[-1] == "status.json"


def test_what_failed_is_put_aside_and_what_is_foreign_stays(make_spec: MakeSpec, make_folder: MakeFolder) -> None:
    folder = make_folder(make_spec())
    (folder.path / "notes.txt").write_text("mine")
    (folder.path / ".ipynb_checkpoints").mkdir()
    for attempt in (1, 2):
        with folder.claim():
            folder.log.write_text(f"failure {attempt}")
            folder.checkpoint.touch()
            folder.write_status(RunState.FAILED, reason="planted")
        folder.set_failure_aside()
        assert folder.state() is RunState.PLANNED
    earlier = folder.path / "earlier-attempts"
    assert [(earlier / attempt / "log.txt").read_text() for attempt in ("1", "2")] == ["failure 1", "failure 2"]
    assert [path.parent.name for path in earlier.glob("*/checkpoint.pt")] == ["2"]
    assert (folder.path / "notes.txt").read_text() == "mine"
    assert (folder.path / ".ipynb_checkpoints").is_dir()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('{"state": "killed", "owner": "x", "reason": 5}', {"state": "killed"}),
        ('{"state": "running", "step": "a", "steps": 1e400, "epoch": -1}', {"state": "running"}),
        ('{"state": ["done"], "step": 3, "phase_began": 7}', {"step": 3}),
        ('{"state": "failed", "phase_began": {"step": 1e400, "time": "x"}}', {"state": "failed"}),
    ],
)
def test_of_a_status_what_no_worker_writes_is_left_out(
    written: str, read: dict[str, Any], make_spec: MakeSpec, make_folder: MakeFolder
) -> None:
    folder = make_folder(make_spec())
    (folder.path / "status.json").write_text(written)
    assert folder.read_status() == read
