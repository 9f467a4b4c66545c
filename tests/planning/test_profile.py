"""Profiles: what they say, what is wrong with them, and that the ones that come along are right."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from augbench.bench.common.errors import UserError
from augbench.bench.planning.profile import Profile, Resources, built_in_profiles, load_profile, parse_profile

FULL = """
launcher = "slurm"
[resources]
cpus = 4
gpus = 1
memory_gb = 16
time = "04:00:00"
[methods.fast-aa]
time = "1-00:00:00"
cpus = 8
[confirm]
hours = 100.0
[slurm]
partition = "gpu"
setup = ["module load cuda"]
options = { mail-type = "END" }
"""


def test_a_method_differs_only_where_it_says_so() -> None:
    profile = parse_profile(FULL, "profile")
    assert profile.resources_for("scale") == Resources(cpus=4, gpus=1, memory_gb=16, time="04:00:00")
    assert profile.resources_for("fast-aa") == Resources(cpus=8, gpus=1, memory_gb=16, time="1-00:00:00")
    assert profile.resources_for("fast-aa").time_minutes == 24 * 60
    assert Resources().time_minutes is None
    assert profile.confirm.hours == 100
    assert profile.confirm.runs == Profile().confirm.runs
    assert profile.slurm.setup == ("module load cuda",)


@given(days=st.integers(0, 30), hours=st.integers(0, 200), minutes=st.integers(0, 59), seconds=st.integers(0, 59))
def test_time_limits_in_minutes_are_rounded_up(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = Resources(time=f"{days}-{hours}:{minutes:02}:{seconds:02}").time_minutes
    assert total is not None
    exact = (days * 86400 + hours * 3600 + minutes * 60 + seconds) / 60
    assert exact <= total < exact + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lancher = 'slurm'", "There is no key 'lancher'. Did you mean 'launcher'?"),
        ("[slurm]\npartion = 'gpu'", "There is no key 'slurm.partion'"),
        ("[resources]\ntime = 'four hours'", "resources.time: must be"),
        ("[resources]\ntime = '4:99:00'", "resources.time: must be"),
        ("[resources]\ntime = '90:00'", "resources.time: must be"),  # minutes to Slurm, hours to others
        ("[resources]\ncpus = 0", "resources.cpus"),
        ("[resources]\ncpus = 1.5", "resources.cpus"),
        ("[resources]\ngpus = nan", "resources.gpus"),
        ("[methods.scal]\ncpus = 2", "There is no method 'scal'. Did you mean 'scale'?"),
        ("[methods.scale]\ncpu = 2", "[methods.scale]: There is no key 'cpu'. Did you mean 'cpus'?"),
        ("[ray]\nfailures = -1", "ray.failures"),
        ("[slurm.options]\njob_name = 'mine'", "job_name cannot be given"),
        ("launcher = ", "is not valid TOML"),
    ],
)
def test_what_is_wrong_is_said_in_one_paragraph(text: str, message: str) -> None:
    with pytest.raises(UserError) as error:
        parse_profile(text, "profile mine.toml")
    assert message in str(error.value)
    assert "mine.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_profile_is_found_by_name_or_path(tmp_path: Path) -> None:
    assert load_profile(None) == Profile()
    assert load_profile("example").launcher == "slurm"
    (tmp_path / "mine.toml").write_text('launcher = "ray"')
    assert load_profile(str(tmp_path / "mine.toml")).launcher == "ray"
    with pytest.raises(UserError, match=r"no profile 'exampel'\. Did you mean 'example'.*toml file is valid too"):
        load_profile("exampel")
    with pytest.raises(UserError, match=r"gone\.toml cannot be read"):
        load_profile(str(tmp_path / "gone.toml"))


@pytest.mark.parametrize("name", sorted(built_in_profiles()))
def test_profiles_that_come_along_are_valid_and_begin_with_what_they_are_for(name: str) -> None:
    text = built_in_profiles()[name]
    assert text.startswith("# ")
    assert parse_profile(text, name).launcher in {"local", "slurm", "ray"}


def test_a_share_of_a_core_is_for_ray(tmp_path: Path) -> None:
    shared = parse_profile('launcher = "ray"\n[resources]\ncpus = 0.5\n[methods.scale]\ncpus = 3', "mine.toml")
    assert [shared.resources_for(name).cpus for name in ("none", "scale")] == [0.5, 3]
    assert [shared.resources_for(name).threads for name in ("none", "scale")] == [1, 3]
    for launcher in ("local", "slurm"):
        with pytest.raises(UserError, match=r"cpus = 0\.5: only the launcher ray gives out a fraction of a core"):
            parse_profile(f'launcher = "{launcher}"\n[resources]\ncpus = 0.5', "mine.toml")


OLD = "[slurm]\nat_a_time = 3\nrestarts = 2\nwarning_seconds = 60\n"


def test_keys_of_old_profiles_still_work_and_say_their_new_names() -> None:
    slurm = parse_profile(OLD, "profile").slurm
    assert (slurm.max_parallel, slurm.max_requeues, slurm.signal_delay_s) == (3, 2, 60)
    assert [note.partition("[slurm] ")[2] for note in slurm.notes()] == [
        "at_a_time is now called max_parallel.",
        "restarts is now called max_requeues.",
        "warning_seconds is now called signal_delay_s.",
    ]
    assert parse_profile(FULL, "profile").slurm.notes() == []
    with pytest.raises(UserError, match="at_a_time is the old name of max_parallel, which is also given"):
        parse_profile(OLD + "max_parallel = 4\n", "profile")
    with pytest.raises(UserError, match=r"slurm: at_a_time: Input should be greater .* \(given: 0\)\."):
        parse_profile(OLD.replace("at_a_time = 3", "at_a_time = 0"), "profile")
    with pytest.raises(UserError, match=r"There is no key 'slurm\.partion'"):
        parse_profile(OLD + "partion = 'gpu'\n", "profile")
