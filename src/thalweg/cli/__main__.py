"""`python -m thalweg.cli` is the `thalweg` command."""

from thalweg.cli import main

main(prog_name="thalweg")
