"""`augbench new`: files to start from."""

import importlib.util
import keyword
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from jinja2 import Environment, PackageLoader, StrictUndefined

import augbench.methods
from augbench.bench.common.errors import RetryableError, UserError, to_paste
from augbench.bench.common.files import write_text
from augbench.bench.experiment.catalogues import methods
from augbench.bench.registry.registry import NAME_PATTERN

LONGEST_NAME = 24  # characters: longer ones make rows of tables and lines of code too long
PACKAGE = "augbench.methods"
IMPORTED = ("AugmentedBatch", "Draw", "Field", "Hyperparameters", "RunContext", "SharedSpaceMethod", "Tensor")

app = typer.Typer(help="Write the files of something new.", no_args_is_help=True)


@dataclass(frozen=True)
class NewMethod:
    """A method to be written.

    Attributes:
        name: The name that it is registered under.
        folder: Where its file goes.
    """

    name: str
    folder: Path

    @property
    def package(self) -> str:
        """The package that its file joins: the project's own in a checkout, or none."""
        ours = [Path(place).resolve() for place in augbench.methods.__path__]
        return PACKAGE if self.folder.resolve() in ours else ""

    @property
    def module(self) -> str:
        """Name of its module: importable, and not taken."""
        module = self.name.replace("-", "_").replace("+", "_")
        usable = module.isidentifier() and not keyword.iskeyword(module) and not module.startswith("test_")
        return module if usable and not self._is_taken(module) else f"method_{module}"

    def _is_taken(self, module: str) -> bool:
        """Whether a file of that name would shadow another module for programs started in its folder."""
        if self.package or (self.folder / f"{module}.py").exists():
            return False
        return importlib.util.find_spec(module) is not None

    @property
    def class_name(self) -> str:
        """Name of its class."""
        words = "".join(word.capitalize() for word in self.name.replace("+", "-").split("-"))
        usable = words.isidentifier() and not keyword.iskeyword(words) and words not in IMPORTED
        usable = usable and not words.startswith("Test")  # pytest would take it for tests
        return words if usable else f"Method{words}"

    @property
    def file(self) -> Path:
        """The file of the method."""
        return self.folder / f"{self.module}.py"

    @property
    def test(self) -> Path:
        """The file of its test: beside it, or where the project's own tests are."""
        tests = self.folder.resolve().parent / "tests" / "methods"
        return (tests if self.package and tests.is_dir() else self.folder) / f"test_{self.module}.py"

    def texts(self) -> dict[Path, str]:
        """What is to be written, by path."""
        templates = Environment(  # noqa: S701 - it is Python that is written, and no page
            loader=PackageLoader("augbench.bench.commands"),
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            trim_blocks=True,
        )
        names = {"name": self.name, "class_name": self.class_name, "module": self.module, "package": self.package}
        files = {self.file: "method.py.jinja", self.test: "test_method.py.jinja"}
        return {path: templates.get_template(template).render(names) for path, template in files.items()}


@app.command("method")
def method(
    name: Annotated[str, typer.Argument(help="Name for suites and tables: lower-case letters, digits, '+' and '-'.")],
    folder: Annotated[
        Path, typer.Option(help="Where to write; methods/ of a checkout for a method of the project.")
    ] = Path(),
) -> None:
    """Write a small working method and its test, as a start for your own."""
    _check_name(name)
    _make(folder)
    new = NewMethod(name, folder)
    for path in (new.file, new.test):
        if path.exists():
            raise UserError(f"{path} exists already. Choose another name, or another folder with --folder.")
    for path, text in new.texts().items():
        _write(path, text)
        typer.echo(f"Wrote {path}")
    plugin = [] if new.package else ["--plugin", new.file]
    typer.echo("\nNext, now and after each change:")
    typer.echo(f"  {to_paste(*plugin, 'check', 'method', name)}")
    typer.echo(f"  python -m pytest {shlex.quote(str(new.test))}")


def _check_name(name: str) -> None:
    if not NAME_PATTERN.fullmatch(name) or len(name) > LONGEST_NAME:
        raise UserError(
            f"{name!r} is no name for a method: use at most {LONGEST_NAME} lower-case letters, digits, '+' and '-', "
            "starting with a letter or digit, as in `augbench new method my-method`."
        )
    entries = methods().entries
    if name in entries:
        raise UserError(
            f"There is a method {name!r} already: {entries[name].origin}. Choose another name; "
            "`augbench list methods` shows the names in use."
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(folder, error.strerror or str(error)) from None
    if not os.access(folder, os.W_OK):
        raise _not_writable(folder, "permission denied")


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except RetryableError as error:
        reason = error.__context__.strerror if isinstance(error.__context__, OSError) else None
        raise _not_writable(path.parent, reason or "no file can be created there") from None


def _not_writable(folder: Path, reason: str) -> UserError:
    return UserError(f"--folder {folder} cannot be written to: {reason}. Choose another folder.")
