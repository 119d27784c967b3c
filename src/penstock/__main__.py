"""The program: `penstock`, and `python -m penstock`.

Signals are kept, and standard error has its thread, before anything else is imported.
"""

import sys

from penstock import early_signals, queued_output


def main() -> int:
    """Run the command line of this process; return its exit code."""
    early_signals.keep()
    queued_output.open_standard_streams()
    queued_output.queue_standard_error()
    from penstock import cli  # noqa: PLC0415

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
