"""`python -m thalweg`: the same as the command."""

from thalweg.cli import main

if __name__ == "__main__":
    main()
