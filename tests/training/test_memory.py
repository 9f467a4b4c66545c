"""How much memory there is, and counting what the kernel killed for want of it."""

from pathlib import Path

from augbench.bench.training.memory import kills_for_memory, usable_memory


def test_the_count_of_ones_own_group_is_read(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("0::/jobs/one\n")
    group = tmp_path / "groups" / "jobs" / "one"
    group.mkdir(parents=True)
    (group / "memory.events").write_text("low 0\nhigh 3\nmax 7\noom 2\noom_kill 5\noom_group_kill 0\n")
    assert kills_for_memory(tmp_path / "groups", own) == 5


def test_where_nothing_is_known_none_are_counted(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    assert kills_for_memory(tmp_path, own) == 0
    own.write_text("12:memory:/old\n")
    assert kills_for_memory(tmp_path, own) == 0
    own.write_text("0::/gone\n")
    assert kills_for_memory(tmp_path, own) == 0


def test_memory_is_what_the_smallest_group_around_allows(tmp_path: Path) -> None:
    own, groups = tmp_path / "cgroup", tmp_path / "groups"
    inside = groups / "jobs" / "one"
    inside.mkdir(parents=True)
    assert usable_memory(groups, own) == usable_memory(tmp_path / "nothing", own)
    machine = usable_memory(groups, own)
    own.write_text("0::/jobs/one\n")
    (inside / "memory.max").write_text("max\n")
    assert usable_memory(groups, own) == machine
    (inside.parent / "memory.max").write_text("2000000000\n")
    assert usable_memory(groups, own) == 2e9
    (inside / "memory.max").write_text("1000000000\n")
    assert usable_memory(groups, own) == 1e9
