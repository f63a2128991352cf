"""The group of all commands: order in the help, hints, error messages and exit codes."""

from __future__ import annotations

from typing import Any

import click

from sim.cli.suggestions import did_you_mean
from sim.escaping import visible

_ARGUMENTS = "lppm_sim.arguments"
AFTER_INTERRUPT = {
    "new": "the file may be incomplete: remove it before you repeat the command",
    "traces": "the file may be incomplete: repeat the command with --overwrite",
    "summarize": "the event log is unchanged; repeat the command to write all tables",
    "answers": "the event log is unchanged; repeat the command to write the tables and the figures",
    "services": "the event log is unchanged; repeat the command to write the table",
    "adaptation": "the event log is unchanged; repeat the command to write the table and the figure",
    "plot": "the event log is unchanged; repeat the command to draw all figures",
    "report": "the event log and the last complete report are unchanged",
    "protect": "every answer that was written is in the state; repeat the command with the lines without an answer",
    "paper": "finished studies and chunks are kept; repeat the command to resume",
}
"""State after Ctrl-C or SIGTERM of commands that may have written files.

The others write one file, atomically, at the end.
"""


class Group(click.Group):
    """Group of commands in the order of registration, with suggestions for mistyped commands."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the commands in the order of registration."""
        return list(self.commands)

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        """Suggest the nearest command for an unknown one."""
        if args and self.get_command(context, args[0]) is None:
            names = [name for name, command in self.commands.items() if not command.hidden]
            context.fail(f"No such command {args[0]!r}.{did_you_mean(args[0], names)} Commands: {', '.join(names)}.")
        return super().resolve_command(context, args)

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Store the arguments: the message of an interrupted run shows the command that resumes it."""
        context.meta[_ARGUMENTS] = list(args)
        return super().parse_args(context, args)

    def invoke(self, context: click.Context) -> Any:
        """Show a user error as a message with its code, without a traceback, and exit with its exit code."""
        from sim.errors import UserError
        from sim.simulation import interrupts

        try:
            with interrupts.recorded(), interrupts.contained("a component"):
                return super().invoke(context)
        except UserError as error:
            click.echo(visible(error.with_code()), err=True)
            context.exit(error.exit_code)
        except click.ClickException as error:
            error.message = visible(error.message)  # type: ignore[misc]
            raise
        except KeyboardInterrupt as error:
            click.echo(f"\n{visible(_interrupted(context, error))}", err=True)
            context.exit(interrupts.exit_code())


def _interrupted(context: click.Context, error: KeyboardInterrupt) -> str:
    """Return the message after Ctrl-C or SIGTERM: the state of the files, and the command that resumes the work."""
    import shlex

    from sim.components.wording import one_line
    from sim.simulation.interrupts import Interrupted

    if not isinstance(error, Interrupted):
        return f"interrupted; {AFTER_INTERRUPT.get(context.invoked_subcommand or '', 'nothing was written')}"
    if context.invoked_subcommand not in ("run", "watch", "paper"):
        return str(error)
    return f"{error}\nresume with: {one_line(shlex.join(['lppm-sim', *context.meta[_ARGUMENTS]]))}"
