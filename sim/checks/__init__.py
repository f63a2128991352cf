"""Contract checks for components, shipped or custom: verify in a small world the rules that the simulator relies on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sim.checks.attack import attack_counts_fallbacks, attack_estimates_cells, attack_revises_earlier_queries_only
from sim.checks.belief import (
    belief_can_be_pickled,
    belief_capabilities_are_valid,
    belief_changes_only_by_observe,
    belief_is_a_distribution,
    belief_uses_its_fallback_priors,
)
from sim.checks.bench import Bench
from sim.checks.demand import demand_capabilities_are_valid, demand_is_in_order, demand_uses_visited_cells
from sim.checks.design import (
    design_capabilities_are_valid,
    design_gives_probabilities,
    design_is_consistent,
    design_is_pure,
    design_keeps_its_secret,
    design_outputs_are_valid,
    design_samples_match_rows,
    design_sees_time_and_releases,
)
from sim.checks.lppm import (
    lppm_can_be_pickled,
    lppm_capabilities_are_valid,
    lppm_changes_only_by_observe,
    lppm_gives_probabilities,
    lppm_samples_match_rows,
)
from sim.checks.mobility import (
    mobility_can_change,
    mobility_capabilities_are_valid,
    mobility_ids_are_unique,
    mobility_is_in_order,
    mobility_is_reproducible,
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
        design_is_consistent,
        design_samples_match_rows,
        design_outputs_are_valid,
        design_capabilities_are_valid,
        design_is_pure,
        design_sees_time_and_releases,
        design_keeps_its_secret,
    ),
    "belief": (
        belief_is_a_distribution,
        belief_changes_only_by_observe,
        belief_can_be_pickled,
        belief_capabilities_are_valid,
        belief_uses_its_fallback_priors,
    ),
    "mobility": (
        mobility_ids_are_unique,
        mobility_is_in_order,
        mobility_is_reproducible,
        mobility_capabilities_are_valid,
        mobility_can_change,
    ),
    "demand": (demand_is_in_order, demand_uses_visited_cells, demand_capabilities_are_valid),
    "lppm": (
        lppm_gives_probabilities,
        lppm_samples_match_rows,
        lppm_changes_only_by_observe,
        lppm_can_be_pickled,
        lppm_capabilities_are_valid,
    ),
    "attack": (attack_estimates_cells, attack_revises_earlier_queries_only, attack_counts_fallbacks),
}
"""The checks of each family. The first line of a check's docstring is its title."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    check: str
    """Title of the check."""
    problem: str | None
    """Reason for the failure; None if the check passed."""


def check(component: str, *, family: str | None = None, parameters: dict[str, Any] | None = None) -> list[CheckResult]:
    """Apply the checks of a family to a component.

    `component` is a registered kind, or ``module:Class``, whose code is then run. By default the family is that whose
    methods the class defines. `parameters` are the keys of the component in a scenario.
    """
    if family is not None and family not in METHODS:
        raise ComponentError(
            f"family must be one of {', '.join(METHODS)}, got {family!r}{suggestion(family, METHODS)}",
            code="unknown-family",
        )
    if ":" not in component:
        return _check_registered(component, family, parameters or {})
    bench, access = Bench(), CodeAccess(allowed=True)
    family = family or family_of(load_class(component, access), component)
    given, settings = bench.given(family), parameters or {}
    title = "can be constructed from a scenario"
    if reserved := sorted(given.keys() & settings.keys()):
        return [CheckResult(title, f"{component}: the simulator passes {', '.join(reserved)}: remove this parameter")]
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
        if families:
            message = f"{kind!r} is registered as {' and '.join(families)}: select one with --as"
            raise ComponentError(message, code="ambiguous-family")
        known = sorted({known for name in METHODS for known in registry.kinds(name) if known != CUSTOM})
        raise ComponentError(
            f"{kind!r} is not registered{suggestion(kind, known)}; allowed: module:Class, or one of {', '.join(known)}",
            code="unknown-kind",
        )
    bench, title = Bench(), "can be constructed from a scenario"
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
    for family, methods in METHODS.items():
        if all(defined_in(component, method) is not None for method in methods):
            return family
    expected = "; ".join(f"{family}: {', '.join(methods)}" for family, methods in METHODS.items())
    raise ComponentError(
        f"{name} does not define all methods of any family ({expected}); select one with --as", code="ambiguous-family"
    )


def check_made(family: str, make: Callable[[], Any], bench: Bench | None = None) -> list[CheckResult]:
    """Apply the checks of a family, each to a new component returned by `make`."""
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
