"""Contract checks for any component, shipped or custom: what the simulator relies on, verified on a small world."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sim.checks.attack import attack_answers, attack_counts_fallbacks, attack_revises_the_past_alone
from sim.checks.belief import (
    belief_can_be_copied,
    belief_changes_by_observing_alone,
    belief_describes_itself,
    belief_is_a_distribution,
    belief_uses_its_fallback_priors,
)
from sim.checks.bench import Bench
from sim.checks.demand import demand_describes_itself, demand_is_in_order, demand_uses_visited_cells
from sim.checks.design import (
    design_describes_itself,
    design_gives_probabilities,
    design_is_one_channel,
    design_is_pure,
    design_knows_its_outputs,
    design_samples_what_it_says,
)
from sim.checks.mobility import (
    mobility_can_change,
    mobility_describes_itself,
    mobility_is_in_order,
    mobility_names_differ,
    mobility_repeats,
)
from sim.checks.requirements import ContractBroken
from sim.components.imports import (
    FAULTS_OF_CODE,
    ComponentError,
    construct,
    defined_in,
    error_text,
    load_class,
)
from sim.components.permission import CodeAccess
from sim.components.registry import CUSTOM, METHODS, registry
from sim.components.suggestions import suggestion
from sim.scenario.reading.faults import ScenarioError
from sim.scenario.reading.source import Source
from sim.scenario.reading.validation import validate
from sim.simulation.interrupts import ComponentExit, contained

Check = Callable[[Any, Bench], None]

CHECKS: dict[str, Sequence[Check]] = {
    "design": (
        design_gives_probabilities,
        design_is_one_channel,
        design_samples_what_it_says,
        design_knows_its_outputs,
        design_describes_itself,
        design_is_pure,
    ),
    "belief": (
        belief_is_a_distribution,
        belief_changes_by_observing_alone,
        belief_can_be_copied,
        belief_describes_itself,
        belief_uses_its_fallback_priors,
    ),
    "mobility": (
        mobility_names_differ,
        mobility_is_in_order,
        mobility_repeats,
        mobility_describes_itself,
        mobility_can_change,
    ),
    "demand": (demand_is_in_order, demand_uses_visited_cells, demand_describes_itself),
    "attack": (attack_answers, attack_revises_the_past_alone, attack_counts_fallbacks),
}
"""The checks of each family; the first line of a docstring is the title."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check and, if it failed, the problem."""

    check: str
    problem: str | None


def check(component: str, *, family: str | None = None, parameters: dict[str, Any] | None = None) -> list[CheckResult]:
    """Apply the checks of its family to a component: a registered kind, or ``module:Class``, whose code is run."""
    if family is not None and family not in METHODS:
        raise ComponentError(f"family must be one of {', '.join(METHODS)}, got {family!r}")
    if ":" not in component:
        return _check_registered(component, family, parameters or {})
    bench, access = Bench(), CodeAccess(allowed=True)
    family = family or family_of(load_class(component, access), component)
    given, settings = bench.given(family), parameters or {}
    title = "can be made from a scenario"
    if taken := sorted(given.keys() & settings.keys()):
        return [CheckResult(title, f"{component}: the simulator itself passes {', '.join(taken)}")]
    try:
        with contained(component):
            construct(component, family, access, **given, **settings)
    except (ComponentError, ComponentExit) as error:
        return [CheckResult(title, str(error))]
    return [
        CheckResult(title, None),
        *check_made(family, lambda: construct(component, family, access, **given, **settings), bench),
    ]


def _check_registered(kind: str, family: str | None, settings: dict[str, Any]) -> list[CheckResult]:
    families = [name for name in METHODS if kind in registry.kinds(name) and family in (None, name)]
    if len(families) != 1:
        known = sorted({known for name in METHODS for known in registry.kinds(name) if known != CUSTOM})
        where = (
            f"it is registered as {' and '.join(families)}: name one with --as" if families else "it is not registered"
        )
        hint = "" if families else f"{suggestion(kind, known)}; allowed is module:Class, or one of {', '.join(known)}"
        raise ComponentError(f"{kind!r}: {where}{hint}")
    bench, title = Bench(), "can be made from a scenario"
    try:
        data = {"kind": kind} | bench.required(families[0]) | settings
        chosen = validate(registry.kinds(families[0])[kind], Source(name=kind, data=data))
        bench.build(chosen)
    except ScenarioError as error:
        return [CheckResult(title, str(error))]
    except FAULTS_OF_CODE as error:
        return [CheckResult(title, error_text(error))]
    return [CheckResult(title, None), *check_made(families[0], lambda: bench.build(chosen), bench)]


def family_of(component: type[Any], name: str) -> str:
    """Return the first family whose methods a class defines."""
    if defined_in(component, "channel") is not None and defined_in(component, "observe") is not None:
        raise ComponentError(
            f"{name}: it defines channel and observe, so it is a whole LPPM, for which there are no checks: scenarios "
            "compose LPPMs from a belief and a design. Check these; if it is an attack, add --as attack"
        )
    for family, methods in METHODS.items():
        if all(defined_in(component, method) is not None for method in methods):
            return family
    expected = "; ".join(f"{family}: {', '.join(methods)}" for family, methods in METHODS.items())
    raise ComponentError(f"{name}: its family is not clear from its methods ({expected}); name it with --as")


def check_made(family: str, make: Callable[[], Any], bench: Bench | None = None) -> list[CheckResult]:
    """Apply the checks of a family, each to a new component from `make`."""
    bench = bench or Bench()
    return [_result(apply, make, bench) for apply in CHECKS[family]]


def _result(apply: Check, make: Callable[[], Any], bench: Bench) -> CheckResult:
    title = inspect.cleandoc(apply.__doc__ or apply.__name__).splitlines()[0].rstrip(".")
    try:
        with contained("component code"):
            apply(make(), bench)
    except (ContractBroken, ComponentExit) as broken:
        return CheckResult(title, str(broken))
    except FAULTS_OF_CODE as error:
        return CheckResult(title, f"raised {type(error).__name__}: {error}")
    return CheckResult(title, None)
