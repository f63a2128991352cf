"""The command `audit`: identification of a mechanism from pairs of true and sent positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sim.cli.options import column_names
from sim.escaping import visible


@click.command()
@click.argument("true", type=click.Path(path_type=Path))
@click.argument("sent", type=click.Path(path_type=Path), required=False)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("audit.html"), show_default=True, metavar="FILE",
    help="HTML page to write; the JSON file has the same name with the suffix .json.",
)  # fmt: skip
@click.option(
    "--match",
    type=click.Choice(["time", "row"]),
    default="time",
    show_default=True,
    help="Pair rows by user and time (or order), or by their number in the file.",
)
@click.option(
    "--columns", multiple=True, metavar="NAME=COLUMN", help="Name of the column of user, time, lat, lon, sent_lat, ..."
)
@click.option("--columns-true", multiple=True, metavar="NAME=COLUMN", help="The same for TRUE alone; takes precedence.")
@click.option("--columns-sent", multiple=True, metavar="NAME=COLUMN", help="The same for SENT alone; takes precedence.")
@click.option(
    "--night",
    type=(click.FloatRange(0, 24), click.FloatRange(0, 24)),
    default=(22.0, 6.0),
    show_default=True,
    metavar="FROM UNTIL",
    help="Hours of the day at which users are at home.",
)
@click.option(
    "--utc-offset",
    "utc_offset_h",
    type=click.FloatRange(-14, 14),
    default=0.0,
    show_default=True,
    metavar="HOURS",
    help="Local time minus the time in the files.",
)
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
def audit(
    true: Path,
    sent: Path | None,
    out: Path,
    match: Any,
    columns: tuple[str, ...],
    columns_true: tuple[str, ...],
    columns_sent: tuple[str, ...],
    night: tuple[float, float],
    utc_offset_h: float,
    overwrite: bool,
) -> None:
    """Identify the mechanism between the positions of TRUE and SENT, and attack it.

    Both are traces of the same users: CSV, Parquet, GPX or GeoJSON. With TRUE alone, the file has the sent positions in
    the columns sent_lat and sent_lon. The page and the JSON file contain positions of the users.
    """
    import json

    from sim.analysis.answers.home_exposure import Night
    from sim.audit.page import page, result_sentences
    from sim.audit.pairs import read_pairs
    from sim.audit.record import as_json, audit
    from sim.audit.wording import conclusion, interval, parameter_in_words, value
    from sim.errors import InputError, input_errors
    from sim.storage.atomic import atomic_file

    if out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"-o: found {str(out)!r}, expected a name that ends with .html", code="unsupported-file-type")
    files = (out, out.with_suffix(".json"))
    for file in files:
        if file.exists() and not overwrite:
            raise InputError(f"{file} exists: choose another name with -o, or use --overwrite", code="file-exists")
    own = {"true": column_names(columns_true, "--columns-true"), "sent": column_names(columns_sent, "--columns-sent")}
    pairs = read_pairs(
        true, sent, match=match, columns=column_names(columns), columns_true=own["true"], columns_sent=own["sent"]
    )
    names = [path.name for path in (true, sent) if path is not None]
    result = audit(pairs, names, night=Night(*night, utc_offset_h))
    notes = result.notes
    if pairs.time_shift_s:
        click.echo(visible(f"WARNING: {notes[0]}"))
        notes = notes[1:]
    click.echo(visible(conclusion(result.finding)))
    for one in result.finding.estimates:
        click.echo(visible(f"  {parameter_in_words(one.name)}: {value(one)}  [{interval(one)}]"))
    for sentence in result_sentences(result):
        click.echo(visible(sentence))
    for note in notes:
        click.echo(visible(f"note: {note}"))
    contents = (page(result), json.dumps(as_json(result), indent=1, allow_nan=False) + "\n")
    with input_errors("cannot write the audit"):
        for file, content in zip(files, contents, strict=True):
            with atomic_file(file) as opened:
                opened.write(content.encode())
    click.echo(visible(f"wrote {files[0]} and {files[1]}"))
