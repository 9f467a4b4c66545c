"""Options of commands that read a data set of one's own: `augbench data prepare images`, `arrays` and `table`."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from augbench.bench.common.errors import UserError
from augbench.bench.data.own.settings import OwnSettings, option

PANEL = "Data sets of your own"


def _option(*names: str, **about: Any) -> Any:
    return typer.Option(*names, rich_help_panel=PANEL, **about)


@dataclass(frozen=True)
class OwnOptions:
    """Options of a data set of one's own; what is left out is left to the content."""

    name: Annotated[str | None, _option(help="What tables call it. Default: made from the path.")] = None
    side: Annotated[
        int | None, _option(help="Height and width of the images in pixels. Default: 32; of arrays, their own.")
    ] = None
    fit: Annotated[
        str | None, _option(help="crop: cut out the square in the middle (default); pad: keep all, with black borders.")
    ] = None
    grey: Annotated[bool, _option("--grey", help="Make images grey.")] = False
    test_share: Annotated[
        float | None, _option(help="Share of images to test on, if none are set apart already. Default: 0.2.")
    ] = None
    seed: Annotated[int | None, _option(help="Seed of the choice of test images. Default: 0.")] = None
    leave_out: Annotated[list[str] | None, _option(metavar="CLASS", help="Class to leave out. Can be repeated.")] = None
    skip_damaged: Annotated[bool, _option("--skip-damaged", help="Go on without images that cannot be used.")] = False
    groups: Annotated[
        Path | None,
        _option(help="images: CSV file with the columns image and group; no group is on both sides of the split."),
    ] = None
    array: Annotated[
        list[str] | None,
        _option(metavar="OURS=YOURS", help="arrays: what an array is called, as in train_images=x. Can be repeated."),
    ] = None
    channels: Annotated[str | None, _option(help="arrays: first or last, if shapes leave it open.")] = None
    image_column: Annotated[str | None, _option(help="table: column of the images.")] = None
    label_column: Annotated[str | None, _option(help="table: column of the labels.")] = None
    split_column: Annotated[str | None, _option(help="table: column that says train, validation or test.")] = None
    group_column: Annotated[
        str | None, _option(help="table: column whose values are never on both sides of the split.")
    ] = None

    def settings(self) -> OwnSettings:
        """Return the settings that they stand for.

        Raises:
            UserError: If --array is malformed.
        """
        given = {name: value for name, value in self._given().items() if name not in ("array", "leave_out")}
        return OwnSettings(
            **given,
            leave_out=tuple(self.leave_out or ()),
            arrays=tuple(_pair(text) for text in self.array or ()),
        )

    def refuse(self, why: str) -> None:
        """Make sure that none is given.

        Raises:
            UserError: If one is; `why` is a sentence after its name.
        """
        for name in self._given():
            raise UserError(f"{option(name)} {why}")

    def _given(self) -> dict[str, Any]:
        values = {entry.name: (getattr(self, entry.name), entry.default) for entry in fields(self)}
        return {name: value for name, (value, default) in values.items() if value != default}


def _pair(text: str) -> tuple[str, str]:
    ours, equals, yours = text.partition("=")
    if not (ours and equals and yours):
        raise UserError(f"--array {text} is no OURS=YOURS, such as --array train_images=x.")
    return ours, yours
