"""What ``forward`` takes, and samples bound to it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from aitune.errors import SourceError

__all__ = ["Forward"]

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Forward:
    """The parameters of one module's ``forward``.

    Attributes:
        owner: Name of the module's class, for messages.
        parameters: The parameters, ``self`` excluded.
    """

    owner: str
    parameters: tuple[inspect.Parameter, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Forward:
        """The parameters of a module's ``forward``; anything goes where Python cannot tell."""
        try:
            parameters = tuple(inspect.signature(module.forward).parameters.values())
        except (TypeError, ValueError):
            parameters = (inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL),)
        return cls(type(module).__name__, parameters)

    def bind(self, sample: Any, what: str) -> dict[str, Any]:
        """One sample as a dict keyed by parameter, in the order of ``forward``.

        Args:
            sample: A mapping keyed by parameter, a tuple or list by position, or a single tensor.
            what: How to call it in messages, e.g. ``"sample 3"``.

        Raises:
            SourceError: If it does not fit.
        """
        if isinstance(sample, Mapping):
            named = dict(sample)
        elif isinstance(sample, tuple | list):
            named = self._by_position(sample, what)
        elif isinstance(sample, torch.Tensor):
            named = self._by_position((sample,), what)
        else:
            raise SourceError(
                f"{what} must be a dict keyed by parameter of forward, found {_describe(sample)}", hint=self._takes()
            )
        self._check(named, what)
        given = [name for name in self._names() if name in named]
        return {name: named[name] for name in (*given, *(key for key in named if key not in given))}

    def arguments(self, bound: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of the call that a bound sample stands for."""
        args: list[Any] = []
        kwargs = dict(bound)
        rest = next((p.name for p in self.parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), None)
        for parameter in self.parameters:
            by_position = parameter.kind is inspect.Parameter.POSITIONAL_ONLY or rest in bound
            if parameter.name not in bound:
                rest = None  # what comes after a gap can only go by name
            elif parameter.name == rest:
                args.extend(kwargs.pop(rest))
            elif parameter.kind in _BY_POSITION and by_position:
                args.append(kwargs.pop(parameter.name))
        return tuple(args), kwargs

    def defaults_kept(self, bound: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        """(parameter, default) of what a sample leaves out, ``None`` defaults apart."""
        return tuple(
            (parameter.name, parameter.default)
            for parameter in self.parameters
            if parameter.name not in bound
            and parameter.default is not None
            and parameter.default is not inspect.Parameter.empty
        )

    def _names(self) -> list[str]:
        return [p.name for p in self.parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]

    def _accepts_any(self) -> bool:
        return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in self.parameters)

    def _by_position(self, values: tuple[Any, ...] | list[Any], what: str) -> dict[str, Any]:
        slots = [parameter.name for parameter in self.parameters if parameter.kind in _BY_POSITION]
        rest = [p.name for p in self.parameters if p.kind is inspect.Parameter.VAR_POSITIONAL]
        if len(values) > len(slots) and not rest:
            raise SourceError(
                f"{what} has {len(values)} positional values, forward of {self.owner} takes {len(slots)}",
                hint=self._takes(),
            )
        named = dict(zip(slots, values, strict=False))
        if len(values) > len(slots):
            named[rest[0]] = tuple(values[len(slots) :])
        return named

    def _check(self, named: Mapping[Any, Any], what: str) -> None:
        known = self._names()
        for key in named:
            if not isinstance(key, str) or (key not in known and not self._accepts_any()):
                close = difflib.get_close_matches(str(key), known, n=1)
                raise SourceError(
                    f"{what} has {key!r}, which forward of {self.owner} does not take",
                    hint=(f"did you mean {close[0]!r}? " if close else "") + self._takes(),
                )
        for parameter in self.parameters:
            if parameter.name in named or parameter.default is not inspect.Parameter.empty:
                continue
            if parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                raise SourceError(
                    f"{what} lacks {parameter.name!r}, which forward of {self.owner} needs", hint=self._takes()
                )
        self._check_variadic(named, what)

    def _check_variadic(self, named: Mapping[Any, Any], what: str) -> None:
        for parameter in self.parameters:
            if parameter.kind is not inspect.Parameter.VAR_POSITIONAL or parameter.name not in named:
                continue
            if not isinstance(named[parameter.name], tuple | list):
                raise SourceError(
                    f"{what} must give '*{parameter.name}' a tuple, found {_describe(named[parameter.name])}"
                )

    def _takes(self) -> str:
        shown = [str(p.replace(annotation=inspect.Parameter.empty)) for p in self.parameters]
        return f"forward takes: {', '.join(shown)}" if shown else "forward takes nothing"


def _describe(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
