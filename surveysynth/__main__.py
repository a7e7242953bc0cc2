"""``python -m surveysynth``: the command line."""

from .cli.app import main

main()
