"""The command ``tpnn``: one module for each command, named after it, and what they share."""

from tpnn.cli.command import main as main
