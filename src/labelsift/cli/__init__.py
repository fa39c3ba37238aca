"""The command line: one file per command. Printing happens here and nowhere else."""

import errno
import io
import sys
from typing import NoReturn

import typer

import labelsift
from labelsift.cli.demo import demo
from labelsift.cli.export import export
from labelsift.cli.fit import fit
from labelsift.cli.issues import issues
from labelsift.cli.methods import methods
from labelsift.cli.noise import noise
from labelsift.cli.parts import parts
from labelsift.cli.predict import predict
from labelsift.cli.report import report
from labelsift.cli.reproduce import reproduce
from labelsift.errors import InputError

STOPPED = 130

app = typer.Typer(
    help="Classification when some labels are wrong: a model to trust, and the labels that are not.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (fit, issues, report, export, predict, noise, methods, parts, reproduce, demo):
    app.command()(command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"labelsift {labelsift.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options of labelsift itself."""


def main() -> NoReturn:
    """Run the command line; whatever the user can mend is one sentence on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a name the terminal cannot show is no reason to fail
    try:
        code = app(standalone_mode=False) or 0
        if code == STOPPED:  # typer's answer to Ctrl-C
            raise KeyboardInterrupt
        sys.exit(code)
    except InputError as error:
        _refuse(str(error))
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()
            sys.exit(1)
        _refuse(_about(error))
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("labelsift: Stopped: nothing saved is lost, fit goes on with --resume.", err=True)
        sys.exit(STOPPED)
    except Exception as error:
        message = getattr(error, "format_message", None)  # what typer says about flags and arguments
        if message is None:
            raise
        _refuse(message() or "Say what to do: labelsift --help lists the commands.")


def _refuse(sentence: str) -> NoReturn:
    typer.echo(f"labelsift: {' '.join(sentence.split())}", err=True)
    sys.exit(2)


def _about(error: OSError) -> str:
    where = f" in {error.filename}" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"There is no space left to write{where}: free some and run the command again (fit: --resume)."
    return f"The system refused{where} ({error.strerror or error}): choose another place with --out."
