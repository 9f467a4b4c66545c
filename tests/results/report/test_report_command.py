"""`augbench report`."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from paragraphs import fails_in_one_paragraph

from augbench.bench.runs.run_folder import RunFolder, RunState
from augbench.bench.training.examples import Examples, write_examples

CommandLine = Callable[..., tuple[int, str, str]]
WriteRun = Callable[..., RunFolder]


def test_the_command_writes_a_page_and_says_where(augbench: CommandLine, write_run: WriteRun, tmp_path: Path) -> None:
    write_run("scale")
    write_run("none", state=RunState.FAILED, status={"cause": "exception", "reason": "broken"})
    out = tmp_path / "pages" / "report.html"
    status, written, said = augbench("report", "--from", tmp_path, "--out", out, "--title", "Mine & yours")
    assert (status, written) == (0, f"{out}\n"), said
    assert "1 failed" in said
    text = out.read_text("utf-8")
    assert "<h1>Mine &amp; yours</h1>" in text
    assert "broken" in text


def test_several_sources_stand_in_one_page(augbench: CommandLine, write_run_below: WriteRun, tmp_path: Path) -> None:
    for name, seed in (("first", 0), ("second", 1)):
        write_run_below(tmp_path / name, "scale", seed=seed)
    out = tmp_path / "report.html"
    given = [word for name in ("first", "second") for word in ("--from", tmp_path / name)]
    assert augbench("report", *given, "--out", out)[0] == 0
    text = out.read_text("utf-8")
    assert f"from {tmp_path / 'first'}, {tmp_path / 'second'}." in text
    assert "scale_mnist5k_tiny_seed1_" in text


def test_a_wrong_name_is_said_before_anything_is_read(augbench: CommandLine, tmp_path: Path) -> None:
    status, _, said = augbench("report", "--from", tmp_path / "nowhere", "--out", tmp_path / "report.pdf")
    assert status == 2
    assert f"such as {tmp_path / 'report.pdf.html'}." in said
    assert "nowhere" not in said


def test_a_damaged_folder_stops_it_unless_it_is_left_out(
    augbench: CommandLine, write_run: WriteRun, tmp_path: Path
) -> None:
    write_run("scale", seed=0)
    (write_run("scale", seed=1).path / "result.json").write_text("{")
    out = tmp_path / "report.html"
    status, _, said = augbench("report", "--from", tmp_path, "--out", out)
    assert status == 2
    assert "--skip-damaged" in said
    assert not out.exists()
    assert augbench("report", "--from", tmp_path, "--out", out, "--skip-damaged")[0] == 0
    assert "scale_mnist5k_tiny_seed1_" in out.read_text("utf-8")  # among the warnings, since no table has it


def test_archives_and_campaign_files_make_the_same_report(
    augbench: CommandLine, write_run: WriteRun, tmp_path: Path
) -> None:
    folder = write_run("scale", learned=[{"probability/flip": 0.25}])
    write_examples(folder, Examples(np.zeros((1, 1, 4, 4), np.uint8), np.ones((1, 2, 1, 4, 4), np.uint8)))
    write_run("none", state=RunState.FAILED, status={"cause": "killed", "reason": "gone"})
    texts = {}
    for name in ("runs.tar.gz", "runs.parquet"):
        assert augbench("archive", "--from", tmp_path, "--out", tmp_path / name)[0] == 0
        assert augbench("report", "--from", tmp_path / name, "--out", tmp_path / "page.html")[0] == 0
        texts[name] = (tmp_path / "page.html").read_text("utf-8").replace(name, "runs")
        assert "augbench retry --out OUT --cause killed" in texts[name]
        assert "probability/flip" in texts[name]
    assert "data:image/png" in texts["runs.tar.gz"]
    assert "data:image/png" not in texts["runs.parquet"]  # such files hold no images


def test_ensembles_need_kept_probabilities(augbench: CommandLine, write_run: WriteRun, tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run("scale", seed=seed, root=tmp_path / "out")
    assert augbench("archive", "--from", tmp_path / "out", "--out", tmp_path / "runs.parquet")[0] == 0
    out = tmp_path / "page.html"
    outcome = augbench("report", "--from", tmp_path / "runs.parquet", "--out", out, "--calibrate")
    assert fails_in_one_paragraph(outcome, "probabilities were not kept, as in parquet files", "NAME.tar.gz")
    assert not out.exists()
    assert augbench("report", "--from", tmp_path / "out", "--out", out, "--calibrate")[0] == 0
    assert "Ensembles of seeds and temperature" in out.read_text("utf-8")
