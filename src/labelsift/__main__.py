"""`python -m labelsift`, and the command `labelsift`."""

import os
import sys

SPINS = "1000"  # of a thread that waits for the others of its team, before it sleeps; usual are 300,000


def main() -> None:
    """Load the command line and run it; Ctrl-C is answered from the first moment on."""
    if "OMP_WAIT_POLICY" not in os.environ:
        # Threads that wait awake keep those they wait for off a busy machine's cores, for minutes an epoch.
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read when torch is loaded
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
