"""`python -m labelsift`."""

from labelsift.cli import main

if __name__ == "__main__":
    main()
