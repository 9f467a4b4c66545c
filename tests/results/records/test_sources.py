"""Runs are read from folders, archives and parquet files alike; whatever is none of these is named."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from augbench.bench.common.errors import UserError
from augbench.bench.common.files import write_json
from augbench.bench.experiment.protocol import Protocol
from augbench.bench.runs.run_folder import DamagedError, RunFolder, RunState
from augbench.results.model.frame import Runs, load_runs
from augbench.results.model.packing import pack

WriteRun = Callable[..., RunFolder]

FRAMES = ("runs", "scores", "learned", "probe", "recovery", "trajectories", "reliability", "environments")
TUNING = {"trials": 3, "search": "optuna", "seconds": {"cpu one": 1.0}, "image_passes": 5}
TWO_DRAWS = {2: [[(0.9, 0.1)] * 4, [(0.2, 0.8)] * 4]}


def write_many_sorts(write_run: WriteRun) -> None:
    """Runs in several states, with everything that a run may have."""
    write_run("none", gpu=True, device="H100", code={"commit": "a" * 40, "dirty": True})
    write_run("none", seed=1, gpu=False, accuracy={0: 0.8, 2: 0.85}, drawn=TWO_DRAWS)
    folder = write_run("scale", learned=[{"probability/flip": 0.5}], planted=("turn", ["turn"]), recovery={"turn": 0.1})
    write_json(folder.path / "tuning.json", TUNING)
    write_run("scale", seed=1, state=RunState.FAILED, status={"cause": "out of memory", "reason": "Too much"}, gpu=True)
    write_run("scale", seed=2, state=RunState.PLANNED)
    write_run("scale", seed=3, state=RunState.RUNNING)  # by nobody any more: killed


def same(first: Runs, second: Runs) -> None:
    """Check that everything is the same but where it was read."""
    for name in FRAMES:
        pd.testing.assert_frame_equal(without_source(getattr(first, name)), without_source(getattr(second, name)))
    for comparison, label in first.runs[["comparison", "label"]].drop_duplicates().to_numpy().tolist():
        for draws in (0, 2):
            pd.testing.assert_frame_equal(
                first.correct(comparison, label, draws), second.correct(comparison, label, draws)
            )
    assert first.warnings() == second.warnings()


def without_source(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns=["source"], errors="ignore")


@pytest.mark.parametrize("ending", ["tgz", "parquet", "TAR.GZ"])
def test_a_packed_file_gives_the_same_frames(tmp_path: Path, write_run: WriteRun, ending: str) -> None:
    write_many_sorts(write_run)
    packed = tmp_path / f"packed.{ending}"
    assert pack([tmp_path], packed) == (6, ())
    same(load_runs(tmp_path), load_runs(packed))
    assert set(load_runs(packed).runs["source"]) == {str(packed)}


def test_running_stays_running_where_it_is_packed(
    tmp_path: Path, write_run: WriteRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run("scale", state=RunState.RUNNING)
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "state", lambda folder: RunState.RUNNING)
        for name in ("packed.tar.gz", "packed.parquet"):
            pack([tmp_path], tmp_path / name)
    for name in ("packed.tar.gz", "packed.parquet"):
        assert load_runs(tmp_path / name).runs["state"].tolist() == ["running"]


def test_a_source_may_be_text(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    assert len(load_runs(str(tmp_path)).runs) == len(load_runs([str(tmp_path)]).runs) == 1
    with pytest.raises(UserError, match="nothing to read runs from"):
        load_runs([])


def test_several_sources_are_put_together(tmp_path: Path, write_run: WriteRun) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_run("none", root=first)
    write_run("none", seed=1, root=second)
    pack([second], tmp_path / "second.parquet")
    runs = load_runs([first, tmp_path / "second.parquet"])
    assert runs.runs["seed"].tolist() == [0, 1] and runs.runs["asked"].tolist() == [2, 2]
    assert runs.runs["source"].tolist() == [str(first), str(tmp_path / "second.parquet")]
    again = load_runs([first, first, second / ".." / "first"])
    assert (len(again.runs), again.problems) == (1, ())


def test_a_run_that_is_in_two_sources_counts_once(tmp_path: Path, write_run: WriteRun) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_run("none", root=first, accuracy=0.8)
    write_run("none", root=second, accuracy=0.9)
    runs = load_runs([first, second])
    (problem,) = runs.problems
    assert problem.kind == "contradiction" and "Their results differ" in problem.text and str(second) in problem.text
    assert runs.warnings() == [
        f"1 run was found twice with different results, of which the first counts: {problem.folder}."
    ]
    assert runs.scores.loc[runs.scores["metric"] == "accuracy", "value"].tolist() == [0.8]
    write_run("none", root=tmp_path / "third", state=RunState.PLANNED)
    assert load_runs([tmp_path / "third", first]).runs["state"].tolist() == ["done"], "the one with a result counts"
    pack([first], tmp_path / "first.tar.gz")
    assert load_runs([first, tmp_path / "first.tar.gz"]).warnings() == [
        f"1 run was found twice and counts once: {problem.folder}."
    ]


def test_different_runs_in_folders_of_one_name_are_kept_apart(tmp_path: Path, write_run: WriteRun) -> None:
    sources = [tmp_path / str(seed) for seed in range(3)]
    for seed, name in enumerate(("mine", "mine", "mine (2)")):
        folder = write_run("none", seed=seed, root=sources[seed], accuracy=0.5 + seed / 10)
        folder.path.rename(sources[seed] / "runs" / name)
    expected = {"mine": 0.5, "mine (3)": 0.6, "mine (2)": 0.7}
    assert pack(sources, tmp_path / "all.tar.gz") == (3, ())
    for source in (sources, tmp_path / "all.tar.gz"):
        assert load_runs(source).table().set_index("folder")["accuracy"].to_dict() == expected


def test_code_with_one_more_hyperparameter_makes_no_second_run_of_a_seed(tmp_path: Path, write_run: WriteRun) -> None:
    spec = write_run("none", root=tmp_path / "older").read_spec()
    method = spec.method.model_copy(update={"defaults": {**spec.method.defaults, "policy": None}})
    newer = spec.model_copy(update={"method": method})
    folder = write_run("none", root=tmp_path / "newer")
    write_json(folder.path / "spec.json", {"identity": newer.identity, "spec": newer.model_dump(mode="json")})
    runs = load_runs([tmp_path / "older", tmp_path / "newer"]).runs
    assert runs["label"].tolist() == ["none", "none (policy=None)"] and runs["seed"].tolist() == [0, 0]


def test_trials_of_a_tuning_are_packed_but_no_results(tmp_path: Path, write_run: WriteRun) -> None:
    write_run("none")
    write_run("none", seed=1, protocol=Protocol(evaluated_on="validation"))
    assert pack([tmp_path], tmp_path / "all.tar.gz") == (2, ())
    assert (load_runs(tmp_path / "all.tar.gz").trials, len(load_runs(tmp_path / "all.tar.gz").runs)) == (1, 1)
    assert pack([tmp_path], tmp_path / "all.parquet") == (2, ())
    again = load_runs(tmp_path / "all.parquet")
    assert (again.trials, len(again.runs), len(again.trial_records)) == (1, 1, 1)
    people = pd.read_parquet(tmp_path / "all.parquet")
    assert people["split"].tolist() == ["test", "validation"] and people["accuracy"].isna().tolist() == [False, True]
    assert pack([tmp_path / "all.parquet"], tmp_path / "again.parquet") == (2, ())


def test_example_images_come_along_in_an_archive_only(tmp_path: Path, finished: Callable[..., RunFolder]) -> None:
    folder = finished("none")
    out = folder.path.parent.parent
    for name in ("a.tar.gz", "a.parquet"):
        pack([out], tmp_path / name)
    kept = load_runs(tmp_path / "a.tar.gz").examples(folder.path.name)
    assert kept is not None and kept.originals.shape == (6, 1, 14, 14)
    assert load_runs(tmp_path / "a.parquet").examples(folder.path.name) is None
    same(load_runs(out), load_runs(tmp_path / "a.parquet"))
    folder.examples.write_bytes(b"")
    with pytest.raises(DamagedError, match="examples"):
        load_runs(out).examples(folder.path.name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere", "does not exist.*augbench demo"),
        ("nowhere.parquet", "does not exist"),
        ("runs.zip/nowhere", "does not exist"),
        ("x" * 300, "File name too long"),
        ("runs.zip", r"is no file of runs.*\.tar\.gz, \.tgz, \.parquet"),
        ("empty", "holds no runs"),
    ],
)
def test_what_holds_no_runs_is_named(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "runs.zip").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=words):
        load_runs(tmp_path / name)


def test_a_damaged_run_is_left_out_of_what_is_packed_only_if_that_is_wanted(
    tmp_path: Path, write_run: WriteRun
) -> None:
    write_run("none")
    (write_run("none", seed=1).path / "spec.json").write_text("{")
    for name in ("a.tar.gz", "a.parquet"):
        with pytest.raises(DamagedError, match="seed1"):
            pack([tmp_path], tmp_path / name)
        assert not (tmp_path / name).exists()
        count, (problem,) = pack([tmp_path], tmp_path / name, skip_damaged=True)
        assert (count, problem.kind) == (1, "damaged")
    assert "1 damaged run folder is left out" in load_runs(tmp_path / "a.parquet").warnings()[0]
    for folder in (tmp_path / "runs").iterdir():
        (folder / "spec.json").write_text("{")
    for name in ("none.tar.gz", "none.parquet"):
        with pytest.raises(UserError, match="nothing to pack"):
            pack([tmp_path], tmp_path / name, skip_damaged=True)
        assert not (tmp_path / name).exists()
