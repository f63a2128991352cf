"""Codes of the rules that the parameters of a component violate."""

from __future__ import annotations

from pydantic import ValidationError

from sim.errors import code_of


def codes(error: ValidationError) -> list[str]:
    """Return the codes of all errors raised by validators of a model, without those of pydantic itself."""
    raised = (fault.get("ctx", {}).get("error") for fault in error.errors())
    return [code_of(each, "") for each in raised if isinstance(each, Exception)]
