"""`python -m labelsift`, and the command `labelsift`."""

import os
import sys


def main() -> None:
    """Load the command line and run it; Ctrl-C is answered from the first moment on."""
    try:
        from labelsift.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    try:
        run()
    except SystemExit as end:
        if "torch._inductor.async_compile" not in sys.modules or not isinstance(end.code, int):
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code)  # the compiler would spend seconds on sending its idle helpers home


if __name__ == "__main__":
    main()
