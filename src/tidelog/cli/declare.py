"""Commands as functions: parameters are declared by their annotations, and click reads them from the line.

    @app.command()
    def ls(path: Annotated[Path, Argument(help="A root.")], json: Json = False) -> None: ...

A type is `str`, `int`, `float`, `bool` or `Path`, a `list` of one, or one of these or None. A parameter
without a default is required; a `list` may be given many times. The docstring is the help.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import click
from click import BadParameter, Context
from click.exceptions import Exit

__all__ = ["Argument", "BadParameter", "Command", "Context", "Exit", "Option", "make_parameters"]


@dataclass(frozen=True, init=False, slots=True)
class Option:
    """An option: its names (else that of the parameter), and what the help says about it."""

    names: tuple[str, ...]
    help: str | None
    metavar: str | None
    min: int | None
    show_default: bool | str
    hidden: bool
    callback: Callable[..., Any] | None
    is_eager: bool

    def __init__(
        self,
        *names: str,
        help: str | None = None,
        metavar: str | None = None,
        min: int | None = None,
        show_default: bool | str = True,
        hidden: bool = False,
        callback: Callable[..., Any] | None = None,
        is_eager: bool = False,
    ) -> None:
        given = (names, help, metavar, min, show_default, hidden, callback, is_eager)
        for field, value in zip(self.__slots__, given, strict=True):
            object.__setattr__(self, field, value)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument, by its place."""

    help: str | None = None
    metavar: str | None = None


class _Argument(click.Argument):
    """An argument that the help tells about."""

    def __init__(self, *args: Any, told: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.told = told

    def make_metavar(self, ctx: Context) -> str:
        """As the line of usage has it."""
        name = self.human_readable_name if self.required else f"[{self.human_readable_name}]"
        return f"{name}..." if self.nargs != 1 else name

    def get_error_hint(self, ctx: Context | None) -> str:
        """As errors name it."""
        return f"'{self.human_readable_name}'"

    def get_help_record(self, ctx: Context) -> tuple[str, str]:
        """As the list of arguments has it."""
        return self.human_readable_name, f"{self.told}  [required]" if self.required else self.told


class Command(click.Command):
    """A command made from the function that it calls; its help lists the arguments, too."""

    def __init__(self, name: str | None, callback: Callable[..., None], **settings: Any) -> None:
        settings["params"] = make_parameters(callback)
        hints = get_type_hints(callback, include_extras=True)
        wrapped = click.pass_context(callback) if Context in hints.values() else callback
        super().__init__(name, callback=wrapped, **settings)

    def format_options(self, ctx: Context, formatter: click.HelpFormatter) -> None:
        """Arguments, then options."""
        params = self.get_params(ctx)
        arguments = [param.get_help_record(ctx) for param in params if isinstance(param, _Argument)]
        options = [param.get_help_record(ctx) for param in params if not isinstance(param, _Argument)]
        for title, rows in (("Arguments", arguments), ("Options", options)):
            shown = [row for row in rows if row is not None]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)


def make_parameters(function: Callable[..., None]) -> list[click.Parameter]:
    """Click's parameters for those of the function; a `Context` is handed over by click itself."""
    hints = get_type_hints(function, include_extras=True)
    given = inspect.signature(function).parameters.values()
    return [_parameter(one, hints[one.name]) for one in given if hints[one.name] is not Context]


def _parameter(one: inspect.Parameter, hint: Any) -> click.Parameter:
    if get_origin(hint) is not Annotated:
        raise TypeError(f"parameter {one.name} is not Annotated with an Option or an Argument")
    annotation, declared = get_args(hint)
    kind, many = _kind(annotation)
    settings: dict[str, Any] = {"type": _click_type(kind, declared), "metavar": declared.metavar}
    if kind is int and declared.metavar is None:
        settings["metavar"] = "N"
    if one.default is inspect.Parameter.empty:
        settings["required"] = True
    elif not many:
        settings |= {"default": one.default, "required": False}
    else:
        settings["required"] = False
    if many:
        settings["callback"] = _as_list
    if isinstance(declared, Argument):
        return _Argument([one.name], nargs=-1 if many else 1, told=declared.help or "", **settings)
    return _option(one.name, declared, settings, flag=kind is bool, many=many)


def _option(name: str, declared: Option, settings: dict[str, Any], *, flag: bool, many: bool) -> click.Option:
    names = declared.names
    if flag:
        dashed = name.replace("_", "-")
        names = names or (f"--{dashed}/--no-{dashed}",)
        settings |= {"is_flag": True, "type": None}
    elif not names:
        names = (f"--{name.replace('_', '-')}",)
    shown = declared.show_default
    one_way = flag and not any("/" in each for each in names)  # --json has no default worth a word
    if shown is True:
        shown = not one_way and settings.get("default") is not None
    if declared.callback:
        settings["callback"] = _without_parameter(declared.callback)
    return click.Option(
        [name, *names],
        help=declared.help,
        show_default=shown,
        hidden=declared.hidden,
        is_eager=declared.is_eager,
        multiple=many,
        **settings,
    )


def _kind(annotation: Any) -> tuple[Any, bool]:
    """The type of one value, and whether there may be many."""
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (each for each in get_args(annotation) if each is not NoneType)
    if get_origin(annotation) is list:
        return get_args(annotation)[0], True
    return annotation, False


def _click_type(kind: Any, declared: Option | Argument) -> Any:
    if kind is Path or (kind is str and isinstance(declared, Argument)):  # shells complete names of files
        return click.Path(path_type=kind)
    if kind is int and isinstance(declared, Option) and declared.min is not None:
        return click.IntRange(min=declared.min)
    return kind


def _as_list(ctx: Context, param: click.Parameter, value: Any) -> list[Any] | None:
    return list(value) if value else None


def _without_parameter(callback: Callable[..., Any]) -> Callable[..., Any]:
    return lambda ctx, param, value: callback(ctx, value)
