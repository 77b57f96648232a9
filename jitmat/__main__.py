"""The command line: which subcommands there are, and how a mistake is told (one line, non-zero exit)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import ModuleType

import jax

from . import __version__, _bench, _demo, _info, _verify

COMMANDS: dict[str, ModuleType] = {"demo": _demo, "verify": _verify, "bench": _bench, "info": _info}
"""A subcommand is a module with SUMMARY and DESCRIPTION, `add_arguments(parser)` and `run(args)`, the exit code."""

EPILOG = """\
examples:
  jitmat                                    simulate the balanced network
  jitmat demo --scale 10 --plot raster.png  ten times as many neurons
  jitmat verify --shape 1000 2000 --prob 0.1 --seed 42
  jitmat bench                              how fast, beside scipy
  jitmat info

`python -m jitmat` is the same program."""


class _Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message):
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="jitmat",
        description="Sparse random matrices that live in their seed. Without a subcommand, runs `jitmat demo`.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"jitmat {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    for name, module in COMMANDS.items():
        subparser = subparsers.add_parser(
            name,
            help=module.SUMMARY,
            description=module.DESCRIPTION,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run, prog=subparser.prog)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line on `argv` (default: the process's arguments); gives the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        args = _parser().parse_args(argv or ["demo"])
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        return args.run(args)
    except (ValueError, TypeError, NotImplementedError, OSError) as error:
        message = str(error)
    except (MemoryError, jax.errors.JaxRuntimeError) as error:
        message = f"{type(error).__name__}: {error}"
    except KeyboardInterrupt:
        message = "interrupted"
    print(f"{args.prog}: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
