"""`python -m labelsift`, and the command `labelsift`."""

import sys


def main() -> None:
    """Load the command line and run it; Ctrl-C is answered from the first moment on."""
    try:
        from labelsift.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
