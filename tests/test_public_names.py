"""What `augbench` offers: names that are imported when they are first used."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import augbench


def test_every_public_name_is_there_and_documented() -> None:
    for name in augbench.__all__:
        value = getattr(augbench, name)
        assert value.__doc__ or (not inspect.isroutine(value) and not inspect.isclass(value)), name
    assert set(augbench.__all__) <= set(dir(augbench))
    with pytest.raises(AttributeError, match=r"no 'Nothing'; `augbench\.__all__` lists"):
        _ = augbench.Nothing  # type: ignore[attr-defined]


def test_type_checkers_see_the_same_names_in_the_same_modules() -> None:
    tree = ast.parse(Path(augbench.__file__).read_text())
    (checked,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    homes = {one.name: f"{node.module}" for node in imports for one in node.names}
    assert set(homes) == set(augbench.__all__)
    for name, home in homes.items():
        assert getattr(augbench, name) is getattr(sys.modules[home], name)


def test_importing_augbench_imports_no_library() -> None:
    code = "import augbench, sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "pandas", "numpy"} & set(loaded)
